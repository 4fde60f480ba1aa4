//! What the control plane decides: values in, values out.
//!
//! Operator, gateway and the folder directory of `dormouse dev` are shells around this: they watch and ask, hand over what they know, and write what
//! comes back where it differs. So a condition has one vocabulary, and a session one state, whoever writes or reads it.
//!
//! It must never talk to an API server, do I/O, read a clock or draw randomness.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")
)]

pub mod archive;
pub mod condition;
pub mod lifetime;
pub mod placement;
pub mod pool;
pub mod precedence;
pub mod quota;
pub mod reason;
pub mod rotation;
pub mod session;
pub mod wakes;
pub mod writes;
