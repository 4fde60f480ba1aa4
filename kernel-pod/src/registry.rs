//! Which sessions have a task here.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

use crate::session::Handle;

/// Sessions by uid.
#[derive(Default)]
pub(crate) struct Registry {
    sessions: Mutex<HashMap<String, Handle>>,
}

impl Registry {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Handle>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session's task, if there is one.
    pub(crate) fn get(&self, uid: &str) -> Option<Handle> {
        self.lock().get(uid).cloned()
    }

    /// The session's task; what `start` starts if there is none.
    pub(crate) fn get_or_start(&self, uid: &str, start: impl FnOnce() -> Handle) -> Handle {
        self.lock().entry(uid.to_owned()).or_insert_with(start).clone()
    }

    /// What `start` starts. `None` when there is a task already.
    pub(crate) fn start(&self, uid: &str, start: impl FnOnce() -> Handle) -> Option<Handle> {
        match self.lock().entry(uid.to_owned()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(free) => Some(free.insert(start()).clone()),
        }
    }

    /// Takes a task out, unless another has come in its place.
    pub(crate) fn remove(&self, uid: &str, handle: &Handle) {
        let mut sessions = self.lock();
        if sessions.get(uid).is_some_and(|known| known.is(handle)) {
            sessions.remove(uid);
        }
    }

    /// Every task.
    pub(crate) fn all(&self) -> Vec<Handle> {
        self.lock().values().cloned().collect()
    }
}
