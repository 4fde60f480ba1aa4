//! The operator: KernelSession, ToolBroker and KernelPool objects to pods, policies, certificates and status.
//!
//! Each kind has a reconciler of the same shape: dereference what it names, validate it, build what it becomes, apply that, write status.
//! Validate and build are pure; only the others hold a client. A session becomes no other object: what is done about it is decided in between, as
//! purely (`dormouse_control::session::decide`). What is wrong with an object becomes its condition and never stalls others.
//!
//! It must not know how a session runs, and is never on the path of an eval or a wake: with the operator gone, sessions go on. But for a wake in a
//! dedicated pod, which has nothing that a session needs before the operator gives it (`session::grant`).
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")
)]

pub mod account;
mod admission;
pub mod apply;
pub mod broker;
pub mod ca;
mod certificates;
pub mod checked;
pub mod config;
pub mod context;
pub mod controller;
pub mod credentials;
pub mod error;
pub mod fair;
pub mod grants;
pub mod hub;
pub mod issued;
pub mod leader;
pub mod leaf;
mod leaves;
pub mod orphans;
pub mod owned;
pub mod peers;
pub mod pods;
pub mod pool;
pub mod refusal;
pub mod reports;
pub mod restricted;
pub mod revision;
mod run;
pub mod session;
pub mod shelf;
pub mod storage;
mod storage_secret;
pub mod triggers;
pub mod trim;
pub mod unread;

pub use config::Config;
pub use run::run;
