include_bytes!("f080f0aec8de25fe.wasm")
