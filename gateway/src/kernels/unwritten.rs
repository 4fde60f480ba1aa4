//! A call that leaves while its assignment is being written: the body of its request ends when status has it.
//!
//! The pod restores and runs meanwhile, and holds its answer back until that end (`dormouse_protocol::kernel`). Who drops a [`Writing`] without
//! a word cuts the body off, and so does the end of this process: the pod then drops what it has begun.

use bytes::Bytes;
use dormouse_protocol::kernel::CLAIM_HEADER;
use futures::{StreamExt as _, stream};
use reqwest::{Body, RequestBuilder, header::CONTENT_TYPE};
use serde::Serialize;
use tokio::sync::oneshot;

/// The write that a call does not wait for.
#[derive(Debug)]
pub struct Writing(oneshot::Sender<()>);

/// What a call carries while the write is under way.
#[derive(Debug)]
pub struct Unwritten(oneshot::Receiver<()>);

/// The assignment is not what status says.
#[derive(Debug, thiserror::Error)]
#[error("the assignment was not written")]
struct Withdrawn;

/// Both ends.
#[must_use]
pub fn writing() -> (Writing, Unwritten) {
    let (sender, receiver) = oneshot::channel();
    (Writing(sender), Unwritten(receiver))
}

impl Writing {
    /// Status has the assignment.
    pub fn done(self) {
        // A call that has ended needs no word.
        let _ = self.0.send(());
    }
}

/// `request` with `call` as its body, which ends when its assignment is written.
pub fn send_with(request: RequestBuilder, call: &impl Serialize, unwritten: Option<Unwritten>) -> RequestBuilder {
    let Some(Unwritten(written)) = unwritten else { return request.json(call) };
    let Ok(mut json) = serde_json::to_vec(call) else { return request.json(call) };
    json.push(b'\n');
    let end = stream::once(written).filter_map(|written| async move { written.is_err().then_some(Err(Withdrawn)) });
    let body = stream::iter([Ok::<_, Withdrawn>(Bytes::from(json))]).chain(end);
    request.header(CLAIM_HEADER, "1").header(CONTENT_TYPE, "application/json").body(Body::wrap_stream(body))
}
