//! Encryption at rest: an object's bytes in, sealed bytes out, and back, under the keys of a namespace. And of what travels: [`channel`].
//!
//! The only user of AES. What a key encrypts is a *data key*, and the data key encrypts objects; an object carries its encrypted data key in its
//! header, so that it can be opened alone: checkpoints and journals are read when the head is lost. [`envelope`] has the form and what it binds.
//! The key is one of a Secret ([`keys`]) or a service's ([`service`]), which encrypts and decrypts data keys and is reached by somebody else.
//! This crate must not know what an object means, nor the store or the network: it is told an object's name and compares nothing else.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")
)]

pub mod channel;
pub mod envelope;
pub mod keys;
mod seal;
pub mod service;

pub use envelope::{Name, SealError};
pub use keys::{KeyError, KeyServiceError, Keyring, Keys};
pub use seal::{Opened, Seal, Sealed, Writer};
pub use service::KeyService;
