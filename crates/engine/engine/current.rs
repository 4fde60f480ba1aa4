include_bytes!("bac309ded1e163ee.wasm")
