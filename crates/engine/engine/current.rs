include_bytes!("6e95dc2b0c2eb707.wasm")
