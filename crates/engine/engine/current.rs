include_bytes!("904a0de678ed43db.wasm")
