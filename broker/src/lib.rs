//! The broker: holds a ToolBroker's secrets and does what the sandbox may ask of the world.
//!
//! A kernel pod sends a tool's name and arguments; the broker checks them against the tool's schema, makes the one HTTP request that the
//! tool stands for, adds the service's credential, and takes that credential out of whatever comes back. It journals every call by
//! (session, call number), so that a repeated call gets the first answer and the world sees it once. The journal of calls that are not safe
//! to repeat is in an object store, where replicas and later processes find it; without one, it lives in memory as long as this process, and a
//! repeated call that it does not know is refused: its outcome is unknown. Services see an `idempotency-key` header that names the call.
//!
//! What a cell fetches by itself goes out here too, within rules, to addresses that were checked, and without any credential. Packages of npm
//! that a session imports come from the registry that the spec names, resolved and verified here.
//!
//! From the top: `process` runs a broker; `broker` is what may be asked of it; `catalog` is what its spec was compiled to, and `callee` what a call
//! names; `sources`, `knowledge`, `models`, `jobs`, `modules`, `webhooks` and `egress` are what it does that with. Below them is one request to a
//! service (`tool`, `exchange`, `service`, `credential`), what is kept (`ledger`, `audit`, `documents`), and the way out (`net`).
//!
//! It must not run a tenant's code, talk to the Kubernetes API, follow a redirect that its rules do not allow, or write an argument or a credential into a log line.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

mod approval;
mod audit;
mod breaker;
mod broker;
mod callee;
mod catalog;
mod config;
mod credential;
mod declarations;
mod documents;
mod egress;
mod exchange;
mod jobs;
mod knowledge;
mod ledger;
mod limits;
mod meters;
mod models;
mod modules;
mod net;
mod path;
mod pools;
mod process;
mod recent;
mod redact;
mod room;
mod rpc;
mod schema;
mod secrets;
mod service;
mod sources;
mod sse;
mod tls_client;
mod tool;
mod uploads;
mod webhooks;

pub use broker::{Broker, Surroundings};
pub use config::{ConfigError, Problem, ProblemKind};
pub use knowledge::read_pdf_if_asked;
pub use ledger::BrokerStore;
pub use net::FetchClients;
pub use pools::LivingPools;
pub use process::{Args, run};
pub use secrets::{ReadValues, SecretError, Secrets};
