//! Every test of what all processes share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod documented;
mod door;
mod mtls;
mod public;
