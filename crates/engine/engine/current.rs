include_bytes!("e018d02635d562c4.wasm")
