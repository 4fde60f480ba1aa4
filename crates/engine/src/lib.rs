//! The only user of wasmtime: instances of `engine.wasm`, their pages, restore and delta.
//!
//! A session's whole state is its linear memory, a few globals and [`HostState`]; between two turns the wasm stack is empty. This crate turns
//! cells and answers into turns, and memory into pages. It must not know storage, network, Kubernetes, or what a commit is.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

mod blank;
mod blobs;
mod compiled;
mod cpu_clock;
mod engine;
mod engines;
mod error;
mod growth;
mod host;
mod imports;
mod instance;
mod message;
mod pages;
mod settings;
pub mod slice;
mod tracking;
mod turn;
mod vault;

pub use blank::Blank;
pub use blobs::{BlobError, Blobs};
pub use engine::{Engine, EngineDigest, EngineOptions};
pub use engines::Engines;
pub use error::EngineError;
pub use growth::Growth;
pub use host::{InterruptHandle, Outlet, Output};
pub use instance::Instance;
pub use pages::{Delta, Globals, HostState, Image, PAGE_BYTES, Page, give_back_freed};
pub use settings::{Determinism, Settings};
pub use turn::{Budget, CellEnd, CellError, CellSource, ConsoleLine, Display, EngineErrorCode, Op, OpKind, OpResult, Progress, Turn};
