//! What pods that are gone had told of all their sessions, as the last.

use std::{collections::HashMap, time::Duration};

use dormouse_crds::session::Placement;
use dormouse_protocol::kernel::SessionReport;
use tokio::time::Instant;

/// How long it is kept. Placements on the pod are cleared by then, or what it has stored is read.
const KEPT: Duration = Duration::from_secs(600);

/// By the pod's uid.
#[derive(Debug, Default)]
pub(super) struct LastWords(HashMap<String, Words>);

#[derive(Debug)]
struct Words {
    boot: String,
    sessions: HashMap<String, SessionReport>,
    until: Instant,
}

impl LastWords {
    /// The process `boot` has told everything, and is gone.
    pub(super) fn keep(&mut self, pod_uid: &str, boot: String, sessions: HashMap<String, SessionReport>, now: Instant) {
        self.0.retain(|_, words| words.until > now);
        self.0.insert(pod_uid.to_owned(), Words { boot, sessions, until: now + KEPT });
    }

    /// What the process of `placement` told last of a session. `None`: it is not known to have told everything.
    pub(super) fn of(&self, placement: &Placement, session_uid: &str) -> Option<Option<SessionReport>> {
        let words = self.0.get(&placement.pod_uid).filter(|words| words.boot == placement.boot)?;
        Some(words.sessions.get(session_uid).filter(|report| report.epoch == placement.epoch).cloned())
    }

    /// Drops what it told of a session.
    pub(super) fn forget(&mut self, pod_uid: &str, session_uid: &str) {
        self.0.get_mut(pod_uid).and_then(|words| words.sessions.remove(session_uid));
    }
}
