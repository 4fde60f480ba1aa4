include_bytes!("790b3998425273fa.wasm")
