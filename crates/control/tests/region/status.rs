//! What the core says of each change of a session's status, asked once.

use dormouse_control::session::{Facts, Process, Urgency, status, urgency};
use dormouse_crds::session::{KernelSessionStatus, SnapshotStatus};
use dormouse_protocol::{kernel::SessionReport, session::State};
use jiff::Timestamp;

/// What is told of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    awake: bool,
    /// Cells that it has run.
    cells: u32,
}

impl Told {
    pub const ASLEEP: Self = Self { awake: false, cells: 0 };

    /// It runs another cell.
    pub fn woken(self) -> Self {
        Self { awake: true, cells: self.cells + 1 }
    }

    pub fn asleep(self) -> Self {
        Self { awake: false, ..self }
    }
}

/// How urgent each change is: from asleep or awake, to the same, with another cell or without.
pub struct Urgencies([[[Urgency; 2]; 2]; 2]);

impl Urgencies {
    pub fn new() -> Self {
        let told = |awake: usize, cells: usize| of(Told { awake: awake == 1, cells: cells as u32 });
        let each = |old, new, more| urgency(&told(old, 0), &told(new, more), Some(1));
        Self(std::array::from_fn(|old| std::array::from_fn(|new| std::array::from_fn(|more| each(old, new, more)))))
    }

    pub fn of(&self, old: Told, new: Told) -> Urgency {
        self.0[usize::from(old.awake)][usize::from(new.awake)][usize::from(old.cells != new.cells)]
    }
}

fn of(told: Told) -> KernelSessionStatus {
    let previous = KernelSessionStatus::default();
    let report = SessionReport {
        namespace: "team".to_owned(),
        name: "a".to_owned(),
        uid: "u".to_owned(),
        epoch: 1,
        state: if told.awake { State::Running } else { State::Hibernated },
        holds_slot: told.awake,
        failure: None,
        generation: 1,
        heap_bytes: 1_500_000,
        snapshot: Some(SnapshotStatus {
            epoch: 1,
            encrypted: false,
            sequence: told.cells.into(),
            bytes: 10,
            engine_digest: "e".to_owned(),
            time: "t".to_owned(),
        }),
        last_active_time: Some("2026-01-01T00:00:00Z".to_owned()),
        next_wake_time: None,
        cells: told.cells.into(),
        tool_calls: 0,
        approvals: 0,
        jobs: 0,
        hostcalls: 0,
        mcp_tools: 0,
    };
    let now = Timestamp::UNIX_EPOCH;
    let facts = Facts {
        generation: Some(1),
        previous: &previous,
        process: Process::Alive,
        report: Some(&report),
        stored: None,
        pool_trouble: None,
        now,
    };
    status(&facts).unwrap()
}
