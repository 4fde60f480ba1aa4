include_bytes!("9e8cb65a3103cfab.wasm")
