include_bytes!("2307a52f6b856537.wasm")
