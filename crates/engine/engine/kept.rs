&[
    Wasm { prefix: "7f6a2b5c3a146dcc", bytes: include_bytes!("7f6a2b5c3a146dcc.wasm") },
]
