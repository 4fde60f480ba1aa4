include_bytes!("7bf26d5b13b86a7f.wasm")
