include_bytes!("d9fc056a58ddb80b.wasm")
