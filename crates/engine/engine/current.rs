include_bytes!("2effc7f3f2f9d213.wasm")
