//! A key service outside of Dormouse that encrypts data keys ([`transit`]), what it is told about us ([`credentials`]), and the flags of every
//! process that encrypts ([`args`]).
//!
//! The only one who knows the service's wire contract. It must not know what a data key encrypts, nor sessions or storage.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

pub mod args;
pub mod credentials;
pub mod transit;

pub use args::{KmsArgs, seal};
pub use credentials::{CredentialError, Credentials};
pub use transit::{KeyLocation, KeyLocationError, Transit};
