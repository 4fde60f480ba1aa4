include_bytes!("76672a7fa2c6c375.wasm")
