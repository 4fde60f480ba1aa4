include_bytes!("d47d19a0294b0092.wasm")
