//! Packages of npm in sessions: a real broker, a registry on loopback, and pods that lose both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod kept;
mod place;
mod refused;
mod rules;
