//! Which sessions have a task here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use dormouse_protocol::kernel::Assignment;

use crate::pod::Shared;
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

    /// The session's task; started under `assignment` if there is none.
    pub(crate) fn get_or_start(&self, pod: &Arc<Shared>, assignment: &Assignment) -> Handle {
        let mut sessions = self.lock();
        if let Some(handle) = sessions.get(&assignment.uid) {
            return handle.clone();
        }
        let handle = Handle::spawn(Arc::clone(pod), assignment.clone());
        sessions.insert(assignment.uid.clone(), handle.clone());
        handle
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
