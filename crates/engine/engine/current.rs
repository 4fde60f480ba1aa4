include_bytes!("17f9b39ea56a385e.wasm")
