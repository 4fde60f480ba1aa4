//! The pod's own copies of sleeping sessions: what makes a wake in place need no storage read.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use dormouse_engine::Image;
use dormouse_lifecycle::Owned;

use crate::session::state::SessionState;

/// What an entry costs beyond its pages, in bytes.
const ENTRY_OVERHEAD_BYTES: u64 = 4096;

/// A sleeping session: exactly what its head in the store says.
#[derive(Debug)]
pub(crate) struct Copy {
    /// Its memory.
    pub image: Image,
    /// The head that it is the memory of.
    pub owned: Owned,
    /// The record beside the memory.
    pub state: SessionState,
    /// Entries of the journal for the next commit.
    pub journal: Vec<serde_json::Value>,
}

/// All copies, at most a number of bytes; the least recently used go first.
#[derive(Debug)]
pub(crate) struct Cache {
    bytes_max: u64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    copies: HashMap<String, (u64, u64, Box<Copy>)>,
    /// Uids by the time they came in; the map is the order of eviction.
    order: std::collections::BTreeMap<u64, String>,
    clock: u64,
    bytes: u64,
}

impl Cache {
    /// A cache of `bytes_max` bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, inner: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a copy, at the cost of the oldest ones. One that is larger than the whole cache is not kept.
    pub(crate) fn put(&self, uid: &str, copy: Copy) {
        let bytes = copy.image.page_bytes() + ENTRY_OVERHEAD_BYTES;
        let mut inner = self.lock();
        inner.remove(uid);
        if bytes > self.bytes_max {
            return;
        }
        while inner.bytes + bytes > self.bytes_max {
            let Some(oldest) = inner.order.values().next().cloned() else { break };
            inner.remove(&oldest);
        }
        inner.clock += 1;
        let clock = inner.clock;
        inner.bytes += bytes;
        inner.order.insert(clock, uid.to_owned());
        inner.copies.insert(uid.to_owned(), (clock, bytes, Box::new(copy)));
    }

    /// Takes a copy out.
    pub(crate) fn take(&self, uid: &str) -> Option<Box<Copy>> {
        self.lock().remove(uid)
    }
}

impl Inner {
    fn remove(&mut self, uid: &str) -> Option<Box<Copy>> {
        let (clock, bytes, copy) = self.copies.remove(uid)?;
        self.order.remove(&clock);
        self.bytes -= bytes;
        Some(copy)
    }
}
