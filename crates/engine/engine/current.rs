include_bytes!("4bba55d3e3af427a.wasm")
