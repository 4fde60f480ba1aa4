include_bytes!("46afcccb08235b6a.wasm")
