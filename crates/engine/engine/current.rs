include_bytes!("16c50066855e4e01.wasm")
