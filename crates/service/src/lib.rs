//! What every process needs: [`telemetry`], [`metrics`], probes ([`admin`], [`readiness`]), mTLS identities ([`tls`], [`ca`]),
//! [`shutdown`], whose request is worked for ([`origin`]) and its [`traces`], the [`clock`], new names ([`ids`]), what carries requests ([`wire`], [`in_process`]), [`memory`] and the [`room`] in it, a listener for anybody ([`public`]), where clouds
//! keep their [`metadata`], the common flags ([`args`]), the URLs that administrators write ([`url`]), patterns of names and paths ([`wildcard`]) and the shape of an HTTP error ([`error`]).
//!
//! It must not know sessions, tools, storage or Kubernetes: a process brings those and hangs them on what is here.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking"))]

pub mod admin;
mod allocator;
pub mod answer;
pub mod args;
pub mod ca;
pub mod clock;
pub mod error;
pub mod ids;
pub mod in_process;
pub mod memory;
pub mod metadata;
pub mod metrics;
pub mod origin;
pub mod public;
pub mod readiness;
pub mod room;
pub mod shutdown;
pub mod telemetry;
pub mod tls;
pub mod traces;
pub mod url;
pub mod wildcard;
pub mod wire;

pub use allocator::Allocator;
pub use args::{AdminArgs, TlsArgs};
pub use clock::Clock;
pub use error::{ApiErrorResponse, ApiJson};
pub use ids::Ids;
pub use metrics::Metrics;
pub use readiness::{Gate, Readiness};
