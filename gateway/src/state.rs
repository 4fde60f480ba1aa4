//! A session as a client sees it.

use dormouse_control::session::state_of;
use dormouse_protocol::{
    kernel::SessionReport,
    session::{Session, State, session_id},
};
use jiff::Timestamp;

use crate::directory::Record;

/// The session as a client sees it.
#[must_use]
pub fn view(record: &Record) -> Session {
    Session {
        name: record.key.name.clone(),
        namespace: record.key.namespace.clone(),
        id: session_id(&record.uid),
        labels: record.labels.clone(),
        spec: record.spec.clone(),
        state: match state_of(&record.status) {
            // It sleeps as long as nobody decides.
            State::Hibernated if record.status.pending_approvals.is_some_and(|waiting| waiting > 0) => State::WaitingForApproval,
            // Or nobody makes the call that it waits for.
            State::Hibernated if record.status.pending_jobs.or(record.status.pending_hostcalls).is_some_and(|waiting| waiting > 0) => {
                State::WaitingForTool
            }
            state => state,
        },
        status: record.status.clone(),
        url: format!("/v1/namespaces/{}/sessions/{}", record.key.namespace, record.key.name),
    }
}

/// A session in the archive as a client sees it.
#[must_use]
pub fn view_archived(record: &Record) -> Session {
    Session { state: State::Archived, ..view(record) }
}

/// The session as a client sees it right after its pod answered `report`: status in the directory may still be behind.
#[must_use]
pub fn view_with(record: &Record, report: &SessionReport, now: Timestamp) -> Session {
    let mut record = record.clone();
    record.reported(report, now);
    view(&record)
}
