//! What a cell does, shown against others: programs beside Node, test262 beside native QuickJS-NG, hostile scripts against their budgets,
//! restored sessions against sessions that went on, and whatever reads foreign bytes against a fuzzer.
//!
//! Only tests live here: no product crate depends on this one. It drives `dormouse-cells` and `dormouse-engine` as a kernel pod does, and
//! `dormouse-lifecycle` and `dormouse-protocol` with foreign bytes; it must not know storage, network or Kubernetes.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")
)]

pub mod differential;
pub mod fuzzed;
pub mod hostile;
pub mod known;
pub mod node;
pub mod peers;
pub mod session;
pub mod suites;
pub mod test262;
pub mod watchdog;
