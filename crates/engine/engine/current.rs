include_bytes!("b2b5298b9f66a33d.wasm")
