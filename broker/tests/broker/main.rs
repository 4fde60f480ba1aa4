//! The broker against a real HTTP service and real mTLS peers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

mod approvals;
mod calls;
mod fetch;
mod inside;
mod jobs;
mod journal;
mod kills;
mod kills_waiting;
mod knowledge;
mod large;
mod mcp;
mod models;
mod modules;
mod oauth;
#[path = "../../../cli/tests/support/oidc_provider.rs"]
mod oidc_provider;
mod openapi;
#[path = "../../../cli/tests/support/packages.rs"]
mod packages;
mod pools;
mod process;
mod reference;
mod services;
mod webhooks;
mod world;
