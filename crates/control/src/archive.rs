//! Sessions that leave etcd: which may, when, and what is kept of them.

use std::collections::BTreeMap;

use dormouse_crds::{
    condition::HIBERNATED,
    session::{KernelSessionSpec, KernelSessionStatus, OperatingMode},
};
use dormouse_protocol::session::State;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    condition::is_true,
    session::{Key, Record, state_of},
};

/// Sessions that the archive tells of at once, at most.
pub const PAGE_MAX: usize = 500;
/// Bytes of their records after which a page ends early.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// What is kept of a session in the archive: all of its API object that its user or its life has made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Archived {
    /// Namespace and name.
    #[serde(flatten)]
    pub key: Key,
    /// Its identity, under which it is stored.
    pub uid: String,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// When its first object was made, RFC 3339; absent where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<String>,
    /// When it left etcd, RFC 3339.
    pub archived_time: String,
    /// What it should be.
    pub spec: KernelSessionSpec,
    /// What it was.
    pub status: KernelSessionStatus,
}

impl Archived {
    /// The session as if its object were there, which nobody may place.
    #[must_use]
    pub fn record(self) -> Record {
        Record {
            key: self.key,
            object_uid: String::new(),
            uid: self.uid,
            resource_version: String::new(),
            generation: 0,
            labels: self.labels,
            created_at: self.created_time.unwrap_or_default(),
            spec: self.spec,
            status: self.status,
            finalizer: false,
            deleting: false,
            left_out: false,
        }
    }
}

/// The operator is asked for a session in the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FindCall {
    /// Namespace and name.
    #[serde(flatten)]
    pub key: Key,
}

/// The operator is asked for a page of the sessions of a namespace in the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PageCall {
    /// Namespace.
    pub namespace: String,
    /// What the page before said; absent for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Sessions at most: 1 to [`PAGE_MAX`].
    pub limit: usize,
}

/// A page of the sessions of a namespace in the archive, in the archive's own order. It may have fewer than were asked for, and more may follow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedPage {
    /// The sessions.
    pub sessions: Vec<Archived>,
    /// Names the next page; absent after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// When a session may leave etcd, as far as its object says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Not as it is now.
    Never,
    /// Not before this time.
    At(Timestamp),
    /// Now.
    Now,
}

/// When a session may leave etcd. One that something waits for stays: a timer, a call, an end of its life; and one that was never stored.
#[must_use]
pub fn due(spec: &KernelSessionSpec, status: &KernelSessionStatus, now: Timestamp) -> Due {
    let waits = [status.pending_approvals, status.pending_jobs, status.pending_hostcalls, status.mcp_tools];
    let stays = spec.archive_after_seconds == 0
        || spec.operating_mode == OperatingMode::Running
        || !spec.ttl.is_never()
        || status.next_wake_time.is_some()
        || waits.into_iter().flatten().any(|waiting| waiting > 0)
        || !is_true(&status.conditions, HIBERNATED)
        || state_of(status) != State::Hibernated;
    let Some(snapshot) = status.snapshot.as_ref().filter(|_| !stays) else { return Due::Never };
    let returned = status.stored_as.as_ref().map(|stored| &stored.returned_time);
    let used = [status.last_active_time.as_ref(), status.wake_requested_time.as_ref(), returned, Some(&snapshot.time)];
    let last = used.into_iter().flatten().filter_map(|time| time.parse::<Timestamp>().ok()).max();
    let after = i64::try_from(spec.archive_after_seconds).ok().map(SignedDuration::from_secs);
    match last.zip(after).and_then(|(last, after)| last.checked_add(after).ok()) {
        Some(at) if at <= now => Due::Now,
        Some(at) => Due::At(at),
        None => Due::Never,
    }
}

#[cfg(test)]
mod tests {
    use dormouse_crds::session::{StoredAs, Ttl};

    use super::*;
    use crate::session::{Facts, Process, fixtures, status};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn asleep() -> (KernelSessionSpec, KernelSessionStatus) {
        let mut report = fixtures::report(State::Hibernated);
        report.last_active_time = Some(at(100).to_string());
        let facts = Facts {
            generation: Some(1),
            previous: &KernelSessionStatus::default(),
            process: Process::Alive,
            report: Some(&report),
            stored: None,
            pool_trouble: None,
            now: at(100),
        };
        (KernelSessionSpec { archive_after_seconds: 10, ..KernelSessionSpec::default() }, status(&facts).unwrap())
    }

    #[test]
    fn a_session_leaves_when_it_has_slept_for_so_long() {
        let (spec, mut status) = asleep();
        assert_eq!(due(&spec, &status, at(109)), Due::At(at(110)));
        assert_eq!(due(&spec, &status, at(110)), Due::Now);
        let returned_time = at(200).to_string();
        status.stored_as = Some(StoredAs { uid: "u".to_owned(), created_time: None, returned_time });
        assert_eq!(due(&spec, &status, at(110)), Due::At(at(210)), "it has just come back");
        status.wake_requested_time = Some(at(300).to_string());
        assert_eq!(due(&spec, &status, at(310)), Due::Now);
        let never = KernelSessionSpec { archive_after_seconds: u64::MAX, ..spec };
        assert_eq!(due(&never, &status, at(310)), Due::Never);
    }

    #[test]
    fn a_session_that_something_waits_for_stays() {
        type Change = fn(&mut KernelSessionSpec, &mut KernelSessionStatus);
        let changes: [(&str, Change); 11] = [
            ("it may not", |spec, _| spec.archive_after_seconds = 0),
            ("it is to run", |spec, _| spec.operating_mode = OperatingMode::Running),
            ("its life ends", |spec, _| spec.ttl = Ttl { active_seconds: 1, retained_seconds: 0 }),
            ("a timer", |_, status| status.next_wake_time = Some(at(1_000).to_string())),
            ("a person", |_, status| status.pending_approvals = Some(1)),
            ("a runner", |_, status| status.pending_jobs = Some(1)),
            ("a client", |_, status| status.pending_hostcalls = Some(1)),
            ("tools that it has registered", |_, status| status.mcp_tools = Some(1)),
            ("nothing is stored", |_, status| status.snapshot = None),
            ("it does not sleep", |_, status| status.conditions.clear()),
            ("nobody knows since when", |_, status| {
                status.last_active_time = None;
                status.snapshot.as_mut().unwrap().time = "?".to_owned();
            }),
        ];
        for (why, change) in changes {
            let (mut spec, mut status) = asleep();
            change(&mut spec, &mut status);
            assert_eq!(due(&spec, &status, at(10_000)), Due::Never, "{why}");
        }
    }
}
