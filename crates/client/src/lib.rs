//! Rust client of the gateway.
