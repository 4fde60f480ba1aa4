&[
    Wasm { prefix: "e78d8cb40181cabf", bytes: include_bytes!("e78d8cb40181cabf.wasm") },
]
