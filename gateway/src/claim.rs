//! A call that leaves while its assignment is being written: the body of its request ends when status has it.
//!
//! The pod restores and runs meanwhile, and holds its answer back until that end (`dormouse_protocol::kernel`). Who drops a [`Writing`] without
//! a word cuts the body off, and so does the end of this process: the pod then drops what it has begun.

use std::sync::Arc;

use bytes::Bytes;
use dormouse_protocol::{
    ApiError,
    kernel::{Assignment, CLAIM_HEADER, SessionReport},
};
use futures::{
    StreamExt as _,
    future::{Either, select},
    stream,
};
use reqwest::{Body, RequestBuilder, header::CONTENT_TYPE};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::{
    directory::{KernelPod, Key, Record},
    in_flight::{Asleep, InFlight},
    kernels::KernelError,
    lifetimes::refuse_expired,
    metrics::Source,
    quota::admit_wake,
    router::{Located, Route, Router},
    single_flight::Flight,
};

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

impl Router {
    /// Sends a call that makes the session live. When it has to be placed first, the call leaves with the assignment that is being written. What it is told
    /// last is whether the request is only to be ended ([`dormouse_lifecycle::attempts::Attempts::is_to_end`]).
    pub async fn send_claiming<T, F>(
        &self,
        in_flight: &mut InFlight,
        key: &Key,
        call: impl Fn(KernelPod, Assignment, Option<Unwritten>, bool) -> F,
    ) -> Result<(T, Route), ApiError>
    where
        F: Future<Output = Result<T, KernelError>>,
    {
        refuse_expired(self, key).await?;
        admit_wake(self, key).await?;
        loop {
            let (route, called) = match self.locate(key, in_flight).await? {
                Located::Found(route) => {
                    let called = call(route.pod.clone(), route.assignment(), None, in_flight.attempts.is_to_end()).await;
                    (route, called)
                }
                Located::Free(route, flight) => match self.send_beside(in_flight, route, flight, &call).await? {
                    Some(sent) => sent,
                    None => continue,
                },
            };
            match called {
                Ok(answer) => {
                    self.answered();
                    return Ok((answer, route));
                }
                Err(error) => self.failed(in_flight, &route, error).await?,
            }
        }
    }

    /// Sends a call beside the write of its assignment. `None` when that is not what was written: then the call never was.
    async fn send_beside<T, F>(
        &self,
        in_flight: &InFlight,
        mut route: Route,
        flight: Flight<String>,
        call: &impl Fn(KernelPod, Assignment, Option<Unwritten>, bool) -> F,
    ) -> Result<Option<(Route, Result<T, KernelError>)>, ApiError>
    where
        F: Future<Output = Result<T, KernelError>>,
    {
        let (writing, unwritten) = writing();
        let calling = Box::pin(call(route.pod.clone(), route.assignment(), Some(unwritten), in_flight.attempts.is_to_end()));
        let write = Box::pin(self.write(&route, in_flight));
        // The call first: it has the longer way.
        let (written, called) = match select(calling, write).await {
            // Only a failure comes before the write is done: what it says of the pod counts if the pod is the one that status has.
            Either::Left((called, write)) => (write.await?, Either::Right(called)),
            Either::Right((written, calling)) => (written?, Either::Left(calling)),
        };
        drop(flight);
        let Some(record) = written else { return Ok(None) };
        // The same spec: what was written was compared with what was read.
        route.record = Arc::new(Record { spec: route.record.spec.clone(), left_out: false, ..Record::clone(&record) });
        writing.done();
        let called = match called {
            Either::Left(calling) => calling.await,
            Either::Right(called) => called,
        };
        Ok(Some((route, called)))
    }

    /// Makes a session live.
    pub async fn wake(&self, key: &Key, source: Source) -> Result<(SessionReport, Route), ApiError> {
        let mut in_flight = InFlight::new(Asleep::Refuse, source);
        let woken = self.send_claiming(&mut in_flight, key, |pod, assignment, unwritten, _| async move {
            self.kernels().wake(&pod, &assignment, unwritten).await
        });
        woken.await
    }
}
