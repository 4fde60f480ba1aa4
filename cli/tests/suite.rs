//! Every test of the command that needs no process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod approvals;
mod bodies;
mod browser;
mod canaries;
mod canary;
mod checkpoints;
mod continuity;
mod dev;
mod docs;
mod doors;
mod fetch;
mod files;
mod knowledge;
mod lifetimes;
mod mcp;
mod mcp_tasks;
mod models;
mod modules;
mod notebooks;
mod others;
mod outside;
mod pdf;
mod reference;
mod references;
mod sealed;
mod sockets;
mod streaming;
mod support;
mod together;
mod traces;
mod trust;
mod webhooks;
