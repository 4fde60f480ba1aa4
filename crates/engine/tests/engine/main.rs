//! The engine with the real `engine.wasm`: what survives a restore, what stops a cell, what a cell shows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod cache;
mod cells;
mod earlier;
mod exits;
mod fetch;
mod limits;
mod modules;
mod preview;
mod snapshots;
mod support;
mod tracking;
