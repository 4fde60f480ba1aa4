include_bytes!("f9ef37f78fb8f812.wasm")
