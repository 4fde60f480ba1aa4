include_bytes!("d9db5bc7bf7b5609.wasm")
