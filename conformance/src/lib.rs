//! What a cell does, shown against others: programs beside Node, test262 beside native QuickJS-NG, hostile scripts against their budgets,
//! and restored sessions against sessions that went on.
//!
//! Only tests live here: no product crate depends on this one. It drives `dormouse-cells` and `dormouse-engine` as a kernel pod does, and
//! must not know storage, network or Kubernetes.

pub mod differential;
pub mod hostile;
pub mod known;
pub mod node;
pub mod session;
pub mod test262;
pub mod watchdog;
