include_bytes!("a5218381a69b8661.wasm")
