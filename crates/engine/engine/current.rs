include_bytes!("1318542032ee6d24.wasm")
