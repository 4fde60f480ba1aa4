//! Every test of a pod that needs no process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod anchor;
mod broker;
mod claims;
mod collect;
mod common;
mod contents;
mod damage;
mod dedicated;
mod determinism;
mod difference;
mod durability;
mod encryption;
mod ends;
mod engines;
mod events;
mod fetch;
mod files;
mod forks;
mod history;
mod kms;
mod lifetimes;
mod memory;
mod migrate;
mod modules;
mod moves;
mod processes;
mod reference;
mod runs;
mod server;
mod sessions;
mod storage_faults;
mod tiers;
mod usage;
