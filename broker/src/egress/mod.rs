//! `fetch`: requests that cells make for themselves, within the rules of their session and of the broker.
//!
//! A request is judged, each of its redirects anew, and goes only to an address that was checked (`net`). It carries what the cell
//! wrote and nothing of a service: no credential is known here. What it answers is decoded and handed over with its head, or, when it is
//! long or slow, kept open and handed over part by part ([`streams`]).

mod request;
mod rules;
mod streams;

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::Engine as _;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{BodyAnswer, BodyCall, CloseCall, FetchOutcome, FetchResponse, NetworkFailure, ToolCall},
};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

pub(crate) use request::{Parsed, parse};
pub(crate) use rules::{BrokerRules, Judge};

use self::streams::Streams;
use crate::{
    limits::Shares,
    meters::EgressMeters,
    net::{self, Fault, FetchClients, Reach, Reader},
    room::{self, SMALL_BYTES_MAX},
};

/// Fetches of a broker that are being made at one time; further ones wait.
const FETCHES_IN_FLIGHT_MAX: usize = 256;
/// Fetches of one session that are being made at one time; further ones wait.
const SESSION_FETCHES_IN_FLIGHT_MAX: usize = 32;
/// How long a request may take until the head of its answer is there, waiting and redirects included.
pub(crate) const HEAD_WAIT_MAX: Duration = Duration::from_secs(240);
/// How long the head waits for its body, so that a short body needs no stream.
const INLINE_WAIT: Duration = Duration::from_millis(100);
/// The longest body, in bytes, that comes with its head.
const INLINE_BYTES_MAX: usize = 1 << 20;

/// What fetches share.
#[derive(Debug)]
pub(crate) struct Egress {
    clients: FetchClients,
    slots: Semaphore,
    shares: Shares,
    running: Mutex<HashMap<(String, u64), CancellationToken>>,
    streams: Streams,
    meters: EgressMeters,
}

impl Egress {
    pub(crate) fn new(clients: FetchClients, meters: EgressMeters) -> Self {
        Self {
            clients,
            slots: Semaphore::new(FETCHES_IN_FLIGHT_MAX),
            shares: Shares::new(SESSION_FETCHES_IN_FLIGHT_MAX),
            running: Mutex::default(),
            streams: Streams::new(meters.open_bodies.clone()),
            meters,
        }
    }

    /// What reaches addresses of a reach and no other.
    pub(crate) fn client(&self, reach: Reach) -> &reqwest::Client {
        self.clients.of(reach)
    }

    /// Makes the request, to the head of its answer and as much of the body as comes at once.
    async fn make(&self, call: &ToolCall, request: Parsed, judge: &Judge) -> Result<FetchOutcome, ApiError> {
        let share = self.shares.of(&call.session_uid);
        let exchange = async {
            let _turn = share.acquire().await;
            let _slot = self.slots.acquire().await;
            self.meters.sent.inc_by(request.bytes());
            request.send(&self.clients, judge).await
        };
        let sent = match tokio::time::timeout(HEAD_WAIT_MAX, exchange).await {
            Ok(Ok(sent)) => sent,
            Ok(Err(Fault::Refused(error))) => return Err(error),
            Ok(Err(Fault::Network(failure))) => return Ok(FetchOutcome::Failed(failure)),
            Err(_) => return Ok(FetchOutcome::Failed(net::no_head(HEAD_WAIT_MAX))),
        };
        let mut response = FetchResponse {
            status: sent.response.status().as_u16(),
            status_text: request::status_text(&sent.response),
            url: sent.url.to_string(),
            redirected: sent.redirected,
            headers: request::headers_of(&sent.response),
            body: String::new(),
            stream: None,
        };
        let mut reader = Reader::new(sent.response, self.meters.received.clone());
        reader.fill(SMALL_BYTES_MAX, Instant::now() + INLINE_WAIT).await;
        if reader.has_more_than(SMALL_BYTES_MAX - 1) {
            room::current().wait_for(INLINE_BYTES_MAX).await;
        }
        reader.fill(INLINE_BYTES_MAX + 1, Instant::now() + INLINE_WAIT).await;
        let first = reader.take(INLINE_BYTES_MAX);
        response.body = base64::engine::general_purpose::STANDARD.encode(first);
        if !reader.is_over() {
            self.streams.open(call, reader)?;
            response.stream = Some(call.call);
        }
        Ok(FetchOutcome::Response(response))
    }
}

impl Egress {
    /// Makes a request within `judge`, unless it is given up meanwhile. Answers what came of it, and what it is counted as.
    pub(crate) async fn fetch(
        &self,
        call: &ToolCall,
        request: Result<Parsed, Fault>,
        judge: impl FnOnce() -> Result<Judge, ApiError>,
    ) -> (Result<FetchOutcome, ApiError>, String) {
        let key = (call.session_uid.clone(), call.call);
        let given_up = CancellationToken::new();
        lock(&self.running).insert(key.clone(), given_up.clone());
        let outcome = match request {
            Ok(request) => match judge() {
                Ok(judge) => tokio::select! {
                    () = given_up.cancelled() => Err(ApiError::new(ErrorCode::Interrupted, "the fetch was aborted")),
                    outcome = self.make(call, request, &judge) => outcome,
                },
                Err(error) => Err(error),
            },
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Network(failure)) => Ok(FetchOutcome::Failed(failure)),
        };
        lock(&self.running).remove(&key);
        let said = match &outcome {
            Ok(FetchOutcome::Response(_)) => "ok".to_owned(),
            Ok(FetchOutcome::Failed(NetworkFailure { .. })) => "failed".to_owned(),
            Err(error) => error.code.to_string(),
        };
        self.meters.fetches.with_label_values(&[said.as_str()]).inc();
        (outcome, said)
    }

    /// The next part of an open body.
    ///
    /// # Errors
    /// `SessionGone` for an epoch that is over.
    pub(crate) async fn body(&self, call: &BodyCall) -> Result<BodyAnswer, ApiError> {
        self.streams.read(call).await
    }

    /// Gives a fetch up, or closes its body. There may be neither any more.
    pub(crate) fn close(&self, call: &CloseCall) {
        let key = (call.session_uid.clone(), call.call);
        if let Some(running) = lock(&self.running).get(&key) {
            running.cancel();
        }
        self.streams.close(call);
    }

    /// What is read of an answer, counted.
    pub(crate) fn received(&self) -> prometheus::IntCounter {
        self.meters.received.clone()
    }

    /// Keeps the answer of a call open.
    ///
    /// # Errors
    /// `QuotaExceeded` when too many are.
    pub(crate) fn open(&self, call: &ToolCall, reader: Reader) -> Result<(), ApiError> {
        self.streams.open(call, reader)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
