//! What a pod is for.

use std::fmt;
use std::sync::Arc;

use crate::dedicated::Grants;

/// What a pod is for.
#[derive(Clone)]
pub enum Role {
    /// It runs sessions, which share its process.
    Shared,
    /// It runs one session in its life, with what it is given for that one.
    Dedicated(Arc<dyn Grants>),
    /// It tells what is stored of sessions, and runs none.
    Reader,
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "Shared",
            Self::Dedicated(_) => "Dedicated",
            Self::Reader => "Reader",
        })
    }
}
