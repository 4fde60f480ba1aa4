//! Which sessions have a task here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use dormouse_protocol::kernel::Assignment;

use crate::claim::Claim;
use crate::pod::Shared;
use crate::session::Handle;

/// Sessions by uid.
#[derive(Default)]
pub(crate) struct Registry {
    sessions: Mutex<BTreeMap<String, Handle>>,
}

impl Registry {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Handle>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session's task, if there is one.
    pub(crate) fn get(&self, uid: &str) -> Option<Handle> {
        self.lock().get(uid).cloned()
    }

    /// The session's task; started under `assignment` if there is none.
    pub(crate) fn get_or_start(&self, pod: &Arc<Shared>, assignment: &Assignment) -> Handle {
        let mut sessions = self.lock();
        if let Some(handle) = sessions.get(&assignment.uid) {
            return handle.clone();
        }
        let handle = Handle::spawn(Arc::clone(pod), assignment.clone(), None);
        sessions.insert(assignment.uid.clone(), handle.clone());
        handle
    }

    /// Starts the session's task under an assignment that is only claimed. `None` when there is a task already: it must not hear of a claim.
    pub(crate) fn start_claimed(&self, pod: &Arc<Shared>, assignment: &Assignment, claim: Claim) -> Option<Handle> {
        let mut sessions = self.lock();
        if sessions.contains_key(&assignment.uid) {
            return None;
        }
        let handle = Handle::spawn(Arc::clone(pod), assignment.clone(), Some(claim));
        sessions.insert(assignment.uid.clone(), handle.clone());
        Some(handle)
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
