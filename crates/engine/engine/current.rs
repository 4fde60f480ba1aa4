include_bytes!("a1bd585449b02a7b.wasm")
