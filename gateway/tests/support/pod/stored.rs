//! What it says is stored of a session.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use axum::{
    Json,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use dormouse_protocol::{
    ErrorCode,
    approval::ApprovalList,
    history::{Checkpoint, CheckpointList, Difference, JournalBody, JournalEntry, JournalPage},
    kernel::{DifferenceCall, JournalCall, LiveUsage, McpCatalog, StoredCall, StoredUsage},
};

use super::{FakePod, refuse};

/// Whether somebody who asks there is told what is stored.
pub(super) fn is_read(path: &str) -> bool {
    path.starts_with("/v1/stored/") || matches!(path, "/v1/usage/stored" | "/v1/runs/look")
}

/// Notes where the pod was asked.
pub(super) async fn note(State(pod): State<Arc<FakePod>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let refused = is_read(&path) && pod.reads_nothing.load(Ordering::SeqCst);
    pod.paths.lock().unwrap().push(path);
    if refused { refuse(ErrorCode::SessionGone) } else { next.run(request).await }
}

pub(super) async fn approvals() -> Json<ApprovalList> {
    Json(ApprovalList::default())
}

pub(super) async fn live_usage(State(pod): State<Arc<FakePod>>) -> Json<LiveUsage<()>> {
    Json(LiveUsage { boot: pod.boot.clone(), number: 1, days: BTreeMap::new(), heap_bytes: 0 })
}

pub(super) async fn stored_usage() -> Json<StoredUsage<()>> {
    Json(StoredUsage { days: BTreeMap::new() })
}

pub(super) async fn catalog() -> Json<McpCatalog> {
    Json(McpCatalog::default())
}

pub(super) async fn checkpoints(Json(call): Json<StoredCall>) -> Json<CheckpointList> {
    let one = Checkpoint { id: "7".to_owned(), label: Some(call.name), sequence: 7, time: "t".to_owned(), bytes: 1 };
    Json(CheckpointList { items: vec![one], damage: None })
}

pub(super) async fn stored_status(State(pod): State<Arc<FakePod>>) -> Response {
    match pod.stored.lock().unwrap().clone() {
        Some(stored) => Json(stored).into_response(),
        None => refuse(ErrorCode::StorageUnavailable),
    }
}

pub(super) async fn journal(Json(call): Json<JournalCall>) -> Json<JournalPage> {
    let entry =
        JournalEntry { seq: call.after.saturating_add(1), time: "t".to_owned(), epoch: call.limit as u64, body: JournalBody::Hibernated };
    Json(JournalPage { entries: vec![entry], next: None, last: 0, damage: None })
}

pub(super) async fn difference(Json(call): Json<DifferenceCall>) -> Json<Difference> {
    let state = |id: &str| Checkpoint { id: id.to_owned(), label: None, sequence: 7, time: call.session.name.clone(), bytes: 1 };
    let (from, to) = (state(&call.from), state(call.to.as_deref().unwrap_or("last")));
    Json(Difference { from, to, globals: Vec::new(), files: Vec::new(), unsure: Vec::new(), partial: false })
}
