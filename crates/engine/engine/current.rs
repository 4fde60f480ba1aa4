include_bytes!("8c3d26471e27b0fb.wasm")
