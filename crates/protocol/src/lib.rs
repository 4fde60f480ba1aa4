//! Wire types of Dormouse: what clients, gateway, kernel pods, brokers and operator say to each other.
//!
//! Two surfaces live here. The public one ([`eval`], [`session`], [`history`], [`file`], [`event`], [`error`]) is what `docs/` and the OpenAPI document
//! describe. The internal one ([`kernel`], [`broker`]) crosses only mTLS hops between our own processes.
//! Nothing in this crate does I/O, reads a clock or draws a random number.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

pub mod approval;
pub mod broker;
pub mod error;
pub mod eval;
pub mod event;
pub mod file;
pub mod history;
pub mod job;
pub mod kernel;
pub mod key;
pub mod reference;
pub mod run;
pub mod session;
pub mod usage;
pub mod webhook;

pub use error::{ApiError, ErrorBody, ErrorCode};
