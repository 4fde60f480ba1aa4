//! The only user of wasmtime: instances of engine.wasm, their pages, restore and delta.
