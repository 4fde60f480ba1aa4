include_bytes!("3c6e82872df84b3d.wasm")
