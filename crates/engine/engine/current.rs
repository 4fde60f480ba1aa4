include_bytes!("a03807dd0d26640e.wasm")
