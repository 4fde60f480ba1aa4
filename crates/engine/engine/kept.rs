&[
    Wasm { prefix: "e78d8cb40181cabf", bytes: include_bytes!("e78d8cb40181cabf.wasm") },
    Wasm { prefix: "a2d0bba08f20a716", bytes: include_bytes!("a2d0bba08f20a716.wasm") },
]
