include_bytes!("a0a9cbf075251394.wasm")
