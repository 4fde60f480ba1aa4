include_bytes!("143d905a3b147f39.wasm")
