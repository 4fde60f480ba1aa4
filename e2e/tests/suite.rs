//! Every test of the four processes on an API server without nodes: one at a time, each with the machine to itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod archive;
mod canaries;
mod doors;
mod filled;
mod kills;
mod live;
mod neighbours;
mod parked;
mod quotas;
mod scale;
mod support;
mod writes;
