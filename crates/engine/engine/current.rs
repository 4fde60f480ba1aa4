include_bytes!("4cc32a3787cb3697.wasm")
