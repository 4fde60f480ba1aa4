//! A report as tests of sessions begin with it.

use dormouse_crds::session::{KernelSessionSpec, SnapshotStatus};
use dormouse_protocol::{kernel::SessionReport, session::State};

use super::{Key, Record};

/// A session that has just been made.
pub(crate) fn record() -> Record {
    Record {
        key: Key::new("team", "a"),
        object_uid: "u".to_owned(),
        uid: "u".to_owned(),
        resource_version: "1".to_owned(),
        generation: 1,
        labels: Default::default(),
        created_at: String::new(),
        spec: KernelSessionSpec::default(),
        status: Default::default(),
        finalizer: true,
        deleting: false,
        left_out: false,
    }
}

/// A stored state of this sequence.
pub(crate) fn snapshot(sequence: u64) -> SnapshotStatus {
    SnapshotStatus { epoch: 1, encrypted: false, sequence, bytes: 10, engine_digest: "e".to_owned(), time: "t".to_owned() }
}

/// What a pod says of a session that it has.
pub(crate) fn report(state: State) -> SessionReport {
    SessionReport {
        namespace: "team".to_owned(),
        name: "a".to_owned(),
        uid: "u".to_owned(),
        epoch: 1,
        state,
        holds_slot: !matches!(state, State::Hibernated | State::Failed),
        failure: None,
        generation: 4,
        heap_bytes: 1_500_000,
        snapshot: Some(snapshot(7)),
        last_active_time: Some("2026-01-01T00:00:00Z".to_owned()),
        next_wake_time: None,
        cells: 3,
        tool_calls: 1,
        approvals: 0,
        jobs: 0,
        hostcalls: 0,
        mcp_tools: 0,
    }
}
