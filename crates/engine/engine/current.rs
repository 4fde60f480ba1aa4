include_bytes!("a51ac6a730a69ece.wasm")
