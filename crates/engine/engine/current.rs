include_bytes!("37555afc2c452aa7.wasm")
