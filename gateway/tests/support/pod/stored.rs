//! What it says is stored of a session.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use dormouse_protocol::{
    ErrorCode,
    history::{Checkpoint, CheckpointList, Difference, JournalBody, JournalEntry, JournalPage},
    kernel::{DifferenceCall, JournalCall, McpCatalog, StoredCall},
};

use super::{FakePod, refuse};

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
