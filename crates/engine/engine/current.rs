include_bytes!("08d9a86100b1ae06.wasm")
