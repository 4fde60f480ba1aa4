//! `fetch`: requests that cells make for themselves, within the rules of their session and of the broker.
//!
//! A request is judged, each of its redirects anew, and goes only to an address that was checked ([`address`]). It carries what the cell
//! wrote and nothing of a service: no credential is known here. What it answers is decoded and handed over with its head, or, when it is
//! long or slow, kept open and handed over part by part ([`streams`]).

mod request;
mod rules;
mod serve;
mod streams;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::Engine as _;
use dormouse_crds::egress::EgressRule;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{BodyAnswer, BodyCall, CloseCall, FetchCall, FetchOutcome, FetchRequest, FetchResponse, NetworkFailure, ToolAnswer, ToolCall},
};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

pub(crate) use rules::BrokerRules;
pub(crate) use serve::routes;

use self::{request::Parsed, rules::Judge, streams::Streams};
use crate::{
    Broker,
    approval::{Approval, Gate},
    audit::{Line, is_idle_look},
    broker::OUTCOME_SLACK,
    ledger::NonIdempotent,
    limits::Shares,
    meters::EgressMeters,
    models,
    net::{self, Fault, FetchClients, Reach, Reader},
    room::{self, SMALL_BYTES_MAX},
};

/// Fetches of a broker that are being made at one time; further ones wait.
const FETCHES_IN_FLIGHT_MAX: usize = 256;
/// Fetches of one session that are being made at one time; further ones wait.
const SESSION_FETCHES_IN_FLIGHT_MAX: usize = 32;
/// How long a request may take until the head of its answer is there, waiting and redirects included.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(240);
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

impl Broker {
    /// Makes a request, or joins one that is being made, or answers from the journal: as [`Broker::call`] does.
    ///
    /// # Errors
    /// As those of a call. That the rules refuse it, and that nobody answers, are answers.
    pub async fn fetch(&self, call: FetchCall) -> Result<Arc<ToolAnswer>, ApiError> {
        let FetchCall { call, allow } = call;
        let written = Arc::new(call);
        let answered = self.answer_fetch(Arc::clone(&written), allow).await;
        self.note_refusal("fetch", &written, &answered);
        answered
    }

    async fn answer_fetch(&self, written: Arc<ToolCall>, allow: Vec<EgressRule>) -> Result<Arc<ToolAnswer>, ApiError> {
        let request = request_in(&written.args)?;
        if models::is_question(&request) {
            // To ask a model twice does no harm but to what may be spent on it.
            return self.once(written, None, |broker, call| async move { broker.stream_model(&call, &request).await }).await;
        }
        let mut parsed = request::parse(request);
        // What is refused is so before anybody is asked.
        let rules = self.broker_rules();
        let allowed = match &parsed {
            Ok(parsed) => Judge::new(&allow, Arc::clone(&rules)).and_then(|judge| judge.judge(parsed.url(), &parsed.method)).is_ok(),
            Err(_) => false,
        };
        let asked = parsed.as_ref().ok().filter(|_| allowed).map(|parsed| (parsed, parsed.described()));
        let wanted = asked.and_then(|(parsed, described)| {
            rules.approvals(parsed.url(), &parsed.method).into_iter().find(|approval| approval.wants(&described))
        });
        let (call, agreed) = match self.gate_of(wanted, &written).await? {
            Gate::Open => (written, false),
            Gate::Approved(args) => {
                // Whoever agreed may have changed it.
                parsed = request::parse(request_in(&args)?);
                (Arc::new(ToolCall { args, ..(*written).clone() }), true)
            }
            Gate::Answer(answer) => {
                if !is_idle_look(&written, &answer) {
                    self.note(&Line::call("fetch", &written, &answer, Duration::ZERO));
                }
                return Ok(Arc::new(answer));
            }
        };
        // What cannot be sent has no effect either. What somebody agreed to is made once, whatever its method.
        let safe = !agreed && parsed.as_ref().map_or(true, |parsed| parsed.method.is_safe());
        let non_idempotent = (!safe).then_some(NonIdempotent { wait: HEAD_WAIT_MAX + OUTCOME_SLACK, honours_key: false });
        self.once(call, non_idempotent, |broker, call| async move { broker.make_fetch(&call, &allow, parsed).await }).await
    }

    /// Whether a request may be changed to this one by whoever agrees, and whether it is one.
    pub(crate) fn change_of_fetch(&self, args: &serde_json::Value) -> (bool, Result<(), ApiError>) {
        let parsed = match request_in(args).map(request::parse) {
            Ok(Ok(parsed)) => parsed,
            Err(error) | Ok(Err(Fault::Refused(error))) => return (true, Err(error)),
            Ok(Err(Fault::Network(_))) => return (true, Err(ApiError::new(ErrorCode::InvalidRequest, "not a request"))),
        };
        let rules = self.broker_rules();
        (rules.approvals(parsed.url(), &parsed.method).into_iter().any(Approval::is_editable), Ok(()))
    }

    async fn make_fetch(&self, call: &ToolCall, allow: &[EgressRule], request: Result<Parsed, Fault>) -> ToolAnswer {
        let egress = self.egress();
        let started = Instant::now();
        let key = (call.session_uid.clone(), call.call);
        let given_up = CancellationToken::new();
        lock(&egress.running).insert(key.clone(), given_up.clone());
        let outcome = match request {
            Ok(request) => match Judge::new(allow, self.broker_rules()) {
                Ok(judge) => tokio::select! {
                    () = given_up.cancelled() => Err(ApiError::new(ErrorCode::Interrupted, "the fetch was aborted")),
                    outcome = egress.make(call, request, &judge) => outcome,
                },
                Err(error) => Err(error),
            },
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Network(failure)) => Ok(FetchOutcome::Failed(failure)),
        };
        lock(&egress.running).remove(&key);
        let said = match &outcome {
            Ok(FetchOutcome::Response(_)) => "ok".to_owned(),
            Ok(FetchOutcome::Failed(NetworkFailure { .. })) => "failed".to_owned(),
            Err(error) => error.code.to_string(),
        };
        egress.meters.fetches.with_label_values(&[said.as_str()]).inc();
        // The address is the cell's own matter, and may hold what is secret to it.
        tracing::info!(
            session = call.session,
            session_uid = call.session_uid,
            epoch = call.epoch,
            call = call.call,
            outcome = said,
            milliseconds = started.elapsed().as_millis(),
            "fetch",
        );
        let value = outcome.and_then(|outcome| {
            serde_json::to_value(outcome)
                .map_err(|error| ApiError::new(ErrorCode::Internal, format!("the answer cannot be written: {error}")))
        });
        let answer = match value {
            Ok(value) => ToolAnswer::Ok { value },
            Err(error) => ToolAnswer::Err { error },
        };
        self.note(&Line::call("fetch", call, &answer, started.elapsed()));
        answer
    }

    /// The next part of an open body.
    ///
    /// # Errors
    /// `SessionGone` for an epoch that is over.
    pub async fn body(&self, call: BodyCall) -> Result<BodyAnswer, ApiError> {
        self.egress().streams.read(&call).await
    }

    /// Gives a fetch up, or closes its body. There may be neither any more.
    pub fn close(&self, call: &CloseCall) {
        let key = (call.session_uid.clone(), call.call);
        if let Some(running) = lock(&self.egress().running).get(&key) {
            running.cancel();
        }
        self.egress().streams.close(call);
    }
}

fn request_in(args: &serde_json::Value) -> Result<FetchRequest, ApiError> {
    serde_json::from_value(args.clone()).map_err(|error| ApiError::new(ErrorCode::InvalidRequest, format!("not a request: {error}")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
