include_bytes!("ca73ba05b9b9645a.wasm")
