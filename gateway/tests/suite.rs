//! Every test of a gateway that needs no process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod access;
mod adversary;
#[cfg(feature = "kubernetes")]
mod apiserver;
mod archived;
mod claims;
mod desires;
mod events;
mod foreign_issuer;
mod forgeries;
mod frames;
mod history;
mod http;
mod oidc;
#[path = "../../cli/tests/support/oidc_provider.rs"]
mod oidc_provider;
mod openapi;
#[path = "../../cli/tests/support/packages.rs"]
mod packages;
mod protocols;
mod reference;
mod revocation;
mod routing;
#[cfg(feature = "kubernetes")]
mod scope;
mod smuggling;
mod support;
mod tally;
mod uses;
