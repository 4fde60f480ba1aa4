//! The way out: which addresses may be connected to, by which clients, and how what comes back is read.
//!
//! A name is resolved once for a connection, and only addresses that were checked are connected to ([`address`]). It must not know what a request is for,
//! nor any credential.

mod address;
mod clients;
mod decode;
mod failure;
mod host;
mod reader;
mod whole;

pub(crate) use address::{Names, Reach, literal};
pub use clients::FetchClients;
pub(crate) use clients::{client, service_client};
pub(crate) use failure::{Fault, denied, network, no_head, of_request, silence, unreachable_address};
pub(crate) use host::Host;
pub(crate) use reader::{Reader, TOO_LARGE};
pub(crate) use whole::read_up_to;
