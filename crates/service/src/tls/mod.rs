//! Mutual TLS between our own processes. A connection is between two [`Identity`]s; addresses prove nothing.
//!
//! [`TlsFiles`] holds a process's certificate and follows its rotation, [`Server`] gives every request the verified [`PeerIdentity`] of
//! its sender, [`PeerClient`] connects to an address and demands an identity there.

mod client;
mod door;
mod files;
mod identity;
mod server;

pub use client::PeerClient;
pub use door::DoorCertificate;
pub use files::{TlsError, TlsFiles};
pub use identity::{Identity, IdentityError, Incarnation, PeerIdentity, Process, session_name};
pub use server::{Server, require};
