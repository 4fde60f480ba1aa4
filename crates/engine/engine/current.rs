include_bytes!("952c433c2804f403.wasm")
