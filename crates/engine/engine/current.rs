include_bytes!("41d40fec98de363e.wasm")
