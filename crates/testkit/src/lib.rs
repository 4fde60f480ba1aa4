//! Real processes for tests: S3 server, API server; temp folders, fault injection.
//!
//! A product crate uses this only as a dev-dependency. Programs come from `cargo xtask tools`; a test that needs one which is
//! not there fails and says so.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

pub mod again;
pub mod apiserver;
pub mod careless;
pub mod distance;
pub mod generated;
pub mod minio;
pub mod power;
pub mod process;
pub mod proxy;
pub mod random;
pub mod reference;
pub mod registry;
pub mod soak;
pub mod store;
pub mod tools;
pub mod transit;
pub mod versitygw;
pub mod wait;
pub mod web;
