//! What pods that are gone had told of all their sessions, as the last.

use std::{collections::HashMap, time::Duration};

use dormouse_crds::session::Placement;
use dormouse_protocol::kernel::SessionReport;
use tokio::time::Instant;

use super::room::weight;

/// How long it is kept. Placements on the pod are cleared by then, or what it has stored is read.
const KEPT: Duration = Duration::from_secs(600);

/// By the pod's uid.
#[derive(Debug, Default)]
pub(super) struct LastWords(HashMap<String, Words>);

/// What one of them told.
#[derive(Debug)]
pub(super) struct Words {
    namespace: String,
    boot: String,
    sessions: HashMap<String, SessionReport>,
    bytes: usize,
    until: Instant,
}

impl Words {
    /// The process `boot` has told everything, which holds so many bytes, and is gone.
    pub(super) fn new(namespace: &str, boot: &str, sessions: HashMap<String, SessionReport>, bytes: usize, now: Instant) -> Self {
        Self { namespace: namespace.to_owned(), boot: boot.to_owned(), sessions, bytes, until: now + KEPT }
    }
}

impl LastWords {
    /// Keeps what a pod has told.
    pub(super) fn keep(&mut self, pod_uid: &str, words: Words) {
        self.0.insert(pod_uid.to_owned(), words);
    }

    /// Drops what has been kept for long enough. Answers of which namespaces it was, and how many bytes.
    pub(super) fn over(&mut self, now: Instant) -> Vec<(String, usize)> {
        self.0.extract_if(|_, words| words.until <= now).map(|(_, words)| (words.namespace, words.bytes)).collect()
    }

    /// What the process of `placement` told last of a session. `None`: it is not known to have told everything.
    pub(super) fn of(&self, placement: &Placement, session_uid: &str) -> Option<Option<SessionReport>> {
        let words = self.0.get(&placement.pod_uid).filter(|words| words.boot == placement.boot)?;
        Some(words.sessions.get(session_uid).filter(|report| report.epoch == placement.epoch).cloned())
    }

    /// Drops what it told of a session. Answers of which namespace it was, and how many bytes.
    pub(super) fn forget(&mut self, pod_uid: &str, session_uid: &str) -> Option<(String, usize)> {
        let words = self.0.get_mut(pod_uid)?;
        let bytes = weight(&words.sessions.remove(session_uid)?);
        words.bytes = words.bytes.saturating_sub(bytes);
        Some((words.namespace.clone(), bytes))
    }
}
