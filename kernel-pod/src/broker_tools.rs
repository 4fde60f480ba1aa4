//! Calls to brokers over mTLS: sent until they are answered or refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use dormouse_crds::broker::Offload;
use dormouse_crds::webhooks::EventKind;
use dormouse_protocol::broker::{
    BodyAnswer, BodyCall, CloseCall, EVENTS_HEADER, EventsCall, FetchCall, ModulesAnswer, ModulesCall, Notice, OFFLOAD_HEADER, PAGE_HEADER,
    ToolAnswer, ToolCall, events_of, offload_of,
};
use dormouse_protocol::{ApiError, ErrorBody, ErrorCode};
use dormouse_service::tls::{Identity, PeerClient, Process};
use dormouse_service::wire::SendError;
use futures::StreamExt as _;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use crate::tools::{BodyParts, Tools};

/// Wait before the first repetition of a call that met no broker.
const RETRY_FIRST: Duration = Duration::from_millis(100);

/// The longest wait between two repetitions.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(5);

/// Repetitions of a call that meets no broker: about ten minutes, longer than a broker's rollout.
const RETRIES_MAX: u32 = 120;

/// How long one attempt may take; a tool's own timeout is the broker's matter and is shorter.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(300);

/// The same of a call with its large body: longer than any tool may take.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(11 * 60);

/// How long it is believed of which events a ToolBroker tells nobody: it may name somebody at any time.
const EVENTS_BELIEVED: Duration = Duration::from_secs(60);

/// How long a ToolBroker may take to say so.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(5);

/// Sessions whose page of calls is remembered.
const PAGES_MAX: usize = 10_000;

/// Bytes of what names a page: it rides in every head.
const PAGE_BYTES_MAX: usize = 256;

/// Brokers behind mTLS.
#[derive(Debug, Clone)]
pub struct BrokerTools {
    client: PeerClient,
    address: String,
    pages: Arc<Mutex<HashMap<String, String>>>,
    /// What ToolBrokers have said of themselves, by namespace and name.
    said: Arc<Mutex<HashMap<(String, String), Said>>>,
    /// See [`RETRIES_MAX`].
    retries_max: u32,
}

impl BrokerTools {
    /// Brokers at `address`, in which `{name}` and `{namespace}` are replaced.
    #[must_use]
    pub fn new(client: PeerClient, address: impl Into<String>) -> Self {
        Self { client, address: address.into(), pages: Arc::default(), said: Arc::default(), retries_max: RETRIES_MAX }
    }

    /// What was told of more sessions than that is in their records, or is told again.
    fn note_page(&self, session_uid: &str, page: String) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.len() >= PAGES_MAX && !pages.contains_key(session_uid) {
            pages.clear();
        }
        pages.insert(session_uid.to_owned(), page);
    }

    /// What a ToolBroker has said of itself so far.
    fn said<T>(&self, namespace: &str, broker: &str, look: impl FnOnce(&mut Said) -> T) -> T {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        look(said.entry((namespace.to_owned(), broker.to_owned())).or_default())
    }

    /// One sending.
    async fn attempt<A: DeserializeOwned>(&self, way: Way<'_>, call: &impl Serialize) -> Result<A, Attempt> {
        self.attempt_with(way, |request| request.timeout(ATTEMPT_TIMEOUT).json(call)).await
    }

    /// The same with what `shape` makes of the request.
    async fn attempt_with<A: DeserializeOwned>(
        &self,
        way: Way<'_>,
        shape: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> Result<A, Attempt> {
        let Way { broker, namespace, path, .. } = way;
        let address = self.address.replace("{name}", broker).replace("{namespace}", namespace);
        let peer = Identity::new(Process::Broker, namespace, broker);
        let request = self.client.request(http::Method::POST, &peer, &address, path);
        let response = self.client.send(shape(request)).await.map_err(|error| match error {
            SendError::Unreachable(cause) => Attempt::Again(cause.to_string()),
            SendError::Lost(cause) => Attempt::Lost(cause.to_string()),
        })?;
        let status = response.status();
        if let (Some(uid), Some(page)) = (way.session_uid, told_page(&response)) {
            self.note_page(uid, page);
        }
        let (offload, events) = (told_offload(&response), told_events(&response));
        if offload.is_some() || events.is_some() {
            self.said(namespace, broker, |said| {
                said.offload = offload.or(said.offload);
                said.events = events.map(|events| (events, Instant::now())).or(said.events.take());
            });
        }
        let body = response.bytes().await.map_err(|error| Attempt::Lost(error.to_string()))?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| {
                Attempt::Refused(ApiError::new(ErrorCode::Internal, format!("the answer of broker {broker} does not parse: {error}")))
            });
        }
        match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(ErrorBody { error }) if error.code == ErrorCode::SessionGone => Err(Attempt::Refused(error)),
            Ok(ErrorBody { error }) if error.retryable => Err(Attempt::Again(error.to_string())),
            Ok(ErrorBody { error }) => Err(Attempt::Refused(error)),
            Err(_) => Err(Attempt::Lost(format!("broker {broker} answered {status}"))),
        }
    }

    /// Sends a call until it is answered or refused. `repeated` marks one that may have arrived before.
    async fn send<C: Serialize, A: DeserializeOwned>(&self, way: Way<'_>, call: C, repeated: impl Fn(&mut C)) -> Result<A, ApiError> {
        self.send_with(way, call, repeated, |request, call| request.timeout(ATTEMPT_TIMEOUT).json(call)).await
    }

    /// The same with what `shape` makes of each request.
    async fn send_with<C, A: DeserializeOwned>(
        &self,
        way: Way<'_>,
        mut call: C,
        repeated: impl Fn(&mut C),
        shape: impl Fn(reqwest::RequestBuilder, &C) -> reqwest::RequestBuilder,
    ) -> Result<A, ApiError> {
        let mut wait = RETRY_FIRST;
        let (mut last, mut lost) = (String::new(), false);
        for attempt in 0..self.retries_max {
            match self.attempt_with(way, |request| shape(request, &call)).await {
                Ok(answer) => return Ok(answer),
                Err(Attempt::Refused(error)) => return Err(error),
                Err(Attempt::Again(reason)) => last = reason,
                Err(Attempt::Lost(reason)) => {
                    repeated(&mut call);
                    (last, lost) = (reason, true);
                }
            }
            if attempt == 0 {
                tracing::warn!(broker = way.broker, path = way.path, reason = last, "the broker did not answer; trying again");
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY_WAIT_MAX);
        }
        let broker = way.broker;
        Err(match lost {
            true => {
                let message = format!("broker {broker} may have made the call, and could not be reached again: {last}");
                ApiError::new(ErrorCode::OutcomeUnknown, message)
            }
            false => ApiError::new(ErrorCode::ToolResultInvalid, format!("broker {broker} could not be reached: {last}")),
        })
    }
}

/// A call, and its body behind it.
fn framed(call: &ToolCall, body: &BodyParts) -> reqwest::Body {
    // What was read from JSON can be written as that.
    let text = serde_json::to_vec(call).unwrap_or_default();
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
    let before = Bytes::from([&length[..], &text].concat());
    let parts = futures::stream::once(std::future::ready(Ok(before))).chain(body());
    reqwest::Body::wrap_stream(parts)
}

fn told_page(response: &reqwest::Response) -> Option<String> {
    let page = response.headers().get(PAGE_HEADER)?.to_str().ok()?;
    (page.len() <= PAGE_BYTES_MAX).then(|| page.to_owned())
}

/// What a ToolBroker has said of itself.
#[derive(Debug, Default)]
struct Said {
    /// Which answers stay outside a heap.
    offload: Option<Offload>,
    /// Of which events it tells somebody, and when it said so.
    events: Option<(Vec<EventKind>, Instant)>,
    /// When it was asked that last.
    asked: Option<Instant>,
}

fn told_events(response: &reqwest::Response) -> Option<Vec<EventKind>> {
    Some(events_of(response.headers().get(EVENTS_HEADER)?.to_str().ok()?))
}

fn told_offload(response: &reqwest::Response) -> Option<Offload> {
    offload_of(response.headers().get(OFFLOAD_HEADER)?.to_str().ok()?)
}

/// Where a message to a broker goes.
#[derive(Debug, Clone, Copy)]
struct Way<'a> {
    broker: &'a str,
    namespace: &'a str,
    path: &'a str,
    /// The session whose page of calls the answer tells of.
    session_uid: Option<&'a str>,
}

enum Attempt {
    /// It did not arrive; it may the next time.
    Again(String),
    /// It may have arrived, and the answer did not.
    Lost(String),
    /// It will not.
    Refused(ApiError),
}

#[async_trait]
impl Tools for BrokerTools {
    async fn call(&self, broker: &str, call: ToolCall) -> Result<ToolAnswer, ApiError> {
        let (namespace, uid) = (call.namespace.clone(), call.session_uid.clone());
        let way = Way { broker, namespace: &namespace, path: "/v1/call", session_uid: Some(&uid) };
        self.send(way, call, |call| call.repeated = true).await
    }

    async fn upload(&self, broker: &str, call: ToolCall, body: BodyParts) -> Result<ToolAnswer, ApiError> {
        let (namespace, uid) = (call.namespace.clone(), call.session_uid.clone());
        let way = Way { broker, namespace: &namespace, path: "/v1/upload", session_uid: Some(&uid) };
        let repeated = |call: &mut ToolCall| call.repeated = true;
        self.send_with(way, call, repeated, |request, call| request.timeout(UPLOAD_TIMEOUT).body(framed(call, &body))).await
    }

    async fn fetch(&self, broker: &str, call: FetchCall) -> Result<ToolAnswer, ApiError> {
        let (namespace, uid) = (call.call.namespace.clone(), call.call.session_uid.clone());
        let way = Way { broker, namespace: &namespace, path: "/v1/fetch", session_uid: Some(&uid) };
        self.send(way, call, |call| call.call.repeated = true).await
    }

    async fn body(&self, broker: &str, call: BodyCall) -> Result<BodyAnswer, ApiError> {
        let namespace = call.namespace.clone();
        self.send(Way { broker, namespace: &namespace, path: "/v1/body", session_uid: None }, call, |_| {}).await
    }

    async fn modules(&self, broker: &str, call: ModulesCall) -> Result<ModulesAnswer, ApiError> {
        let namespace = call.namespace.clone();
        self.send(Way { broker, namespace: &namespace, path: "/v1/modules", session_uid: None }, call, |_| {}).await
    }

    async fn notify(&self, broker: &str, notice: Notice) -> Result<(), ApiError> {
        let namespace = notice.namespace.clone();
        let way = Way { broker, namespace: &namespace, path: "/v1/notices", session_uid: None };
        self.attempt(way, &notice).await.map_err(|attempt| match attempt {
            Attempt::Refused(error) => error,
            Attempt::Again(reason) | Attempt::Lost(reason) => ApiError::new(ErrorCode::StorageUnavailable, reason),
        })
    }

    fn page(&self, session_uid: &str) -> Option<String> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).get(session_uid).cloned()
    }

    fn offload(&self, namespace: &str, broker: &str) -> Offload {
        self.said(namespace, broker, |said| said.offload).unwrap_or_default()
    }

    fn wants(&self, namespace: &str, broker: &str, event: EventKind) -> bool {
        self.said(namespace, broker, |said| {
            let told = said.events.as_ref().filter(|(_, at)| at.elapsed() < EVENTS_BELIEVED);
            told.is_none_or(|(events, _)| events.contains(&event))
        })
    }

    fn tells(&self, namespace: &str, broker: &str, event: EventKind) -> Option<bool> {
        self.said(namespace, broker, |said| said.events.as_ref().map(|(events, _)| events.contains(&event)))
    }

    async fn learn_events(&self, namespace: &str, broker: &str) -> bool {
        let is_new = |at: Instant| at.elapsed() < EVENTS_BELIEVED;
        let asks = self.said(namespace, broker, |said| {
            let asks = !said.events.as_ref().is_some_and(|(_, at)| is_new(*at)) && !said.asked.is_some_and(is_new);
            said.asked = if asks { Some(Instant::now()) } else { said.asked };
            asks
        });
        if !asks {
            return false;
        }
        let way = Way { broker, namespace, path: "/v1/events", session_uid: None };
        let call = EventsCall { namespace: namespace.to_owned() };
        let answer = tokio::time::timeout(EVENTS_TIMEOUT, self.attempt::<()>(way, &call)).await;
        if !matches!(answer, Ok(Ok(()))) {
            tracing::debug!(broker, "the ToolBroker does not say now of which events it tells anybody");
        }
        true
    }

    fn forget_page(&self, session_uid: &str) {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).remove(session_uid);
    }

    async fn close(&self, broker: &str, call: CloseCall) {
        let namespace = call.namespace.clone();
        let way = Way { broker, namespace: &namespace, path: "/v1/close", session_uid: None };
        if let Err(Attempt::Again(reason) | Attempt::Lost(reason)) = self.attempt::<()>(way, &call).await {
            tracing::debug!(broker, reason, "the broker does not know that a fetch is given up");
        }
    }
}

#[cfg(test)]
#[path = "broker_tools_tests.rs"]
mod tests;
