include_bytes!("a6bfe19ae0462377.wasm")
