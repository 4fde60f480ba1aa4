include_bytes!("866842aad1585eba.wasm")
