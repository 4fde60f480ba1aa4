//! Packages of npm in sessions: a real broker, a registry on loopback or the machine's own, and pods that lose both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod kept;
mod npm;
mod place;
mod refused;
mod rules;
