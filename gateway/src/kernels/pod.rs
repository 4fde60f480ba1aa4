//! A kernel pod, as whoever reaches it knows it.

use std::net::SocketAddr;

/// A kernel pod that may be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelPod {
    /// Pod name.
    pub pod: String,
    /// Pod uid.
    pub uid: String,
    /// The pod's own namespace, which is in its certificate.
    pub namespace: String,
    /// Its pool, which is there, too.
    pub pool: String,
    /// Where its mTLS server listens.
    pub address: SocketAddr,
    /// Whether it answers, and stays.
    pub ready: bool,
    /// What it is for.
    pub role: Role,
    /// The session that it was given to for its life, by uid, as the operator says: no other comes there, whatever the process says of itself.
    pub given_to: Option<String>,
}

impl KernelPod {
    /// Whether the session of this uid may be there.
    #[must_use]
    pub fn may_have(&self, uid: &str) -> bool {
        self.given_to.as_deref().is_none_or(|given_to| given_to == uid)
    }

    /// Whether it tells what is stored of the session of this uid, if it runs it.
    #[must_use]
    pub fn tells_of(&self, uid: &str) -> bool {
        self.role.reads() || self.given_to.as_deref() == Some(uid)
    }
}

/// What a kernel pod is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It runs sessions, and tells what is stored of any.
    Both,
    /// It runs one session in its life, and tells what is stored of that one.
    Session,
    /// It tells what is stored of any session, and runs none.
    Reader,
    /// Something that this build does not know: it is given no session, and asked for nothing of others.
    Unknown,
}

impl Role {
    /// Whether sessions are placed there.
    #[must_use]
    pub fn runs(self) -> bool {
        matches!(self, Self::Both | Self::Session)
    }

    /// Whether it tells what is stored of any session of its pool.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::Both | Self::Reader)
    }
}
