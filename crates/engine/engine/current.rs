include_bytes!("a2d0bba08f20a716.wasm")
