include_bytes!("0265116de35fccf1.wasm")
