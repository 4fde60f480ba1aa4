include_bytes!("acae4941820afb95.wasm")
