//! Every test of the stores.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod careless;
mod disk;
mod faults;
mod folder;
mod full_disk;
mod minio;
