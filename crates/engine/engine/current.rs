include_bytes!("41705195aa211e67.wasm")
