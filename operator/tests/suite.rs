//! Every test of the operator that needs no process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod admission;
mod archive;
mod chart;
mod dedicated;
mod deletion;
mod fleet;
mod identities;
mod orphans;
mod reference;
mod scope;
mod shards;
mod shrink;
mod sieve;
mod support;
mod trust;
mod upgrade;
mod versions;
mod web_identity;
mod zero;
