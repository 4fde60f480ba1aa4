//! Doors: ways in for clients of other protocols, over the same sessions.
//!
//! Each door translates. What it does, it does at a [`desk`]: with its caller's rights, by the verbs that the HTTP routes call. A door never reaches
//! past the desk, and keeps nothing that a crash would lose but the cells that wait in the queue of a socket.

mod audited;
mod config;
pub(crate) mod desk;
pub(crate) mod hostcalls;
pub(crate) mod jupyter;
mod lines;
pub(crate) mod mcp;
mod sealed;
mod socket;
pub(crate) mod streaming;
pub(crate) mod ws;
mod ws_config;
