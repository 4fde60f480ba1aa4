include_bytes!("40bf44001f470ad6.wasm")
