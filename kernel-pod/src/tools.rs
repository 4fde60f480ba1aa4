//! Calls to the session's broker.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dormouse_crds::broker::Offload;
use dormouse_crds::egress::EgressRule;
use dormouse_crds::webhooks::EventKind;
use dormouse_protocol::broker::{
    BodyAnswer, BodyCall, CloseCall, EVENTS_HEADER, FetchCall, ModulesAnswer, ModulesCall, Notice, OFFLOAD_HEADER, PAGE_HEADER, ToolAnswer,
    ToolCall, events_of, offload_of,
};
use dormouse_protocol::{ApiError, ErrorBody, ErrorCode};
use dormouse_service::origin::Origin;
use dormouse_service::tls::{Identity, PeerClient, Process};
use dormouse_service::wire::SendError;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

/// Wait before the first repetition of a call that met no broker.
const RETRY_FIRST: Duration = Duration::from_millis(100);

/// The longest wait between two repetitions.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(5);

/// Repetitions of a call that meets no broker: about ten minutes, longer than a broker's rollout.
const RETRIES_MAX: u32 = 120;

/// How long one attempt may take; a tool's own timeout is the broker's matter and is shorter.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(300);

/// How long it is believed of which events a ToolBroker tells nobody: it may name somebody at any time.
const EVENTS_BELIEVED: Duration = Duration::from_secs(60);

/// Sessions whose page of calls is remembered.
const PAGES_MAX: usize = 10_000;

/// Bytes of what names a page: it rides in every head.
const PAGE_BYTES_MAX: usize = 256;

/// What a session can ask of the world.
#[async_trait]
pub trait Tools: Send + Sync {
    /// Makes the call at the ToolBroker named `broker`. The same call may be made again, with the same number, after a lost pod or answer;
    /// whoever implements this answers a repetition from its journal.
    ///
    /// # Errors
    /// The broker refuses the call, or cannot be reached for a long while. `SessionGone`: a later epoch has been seen.
    async fn call(&self, broker: &str, call: ToolCall) -> Result<ToolAnswer, ApiError>;

    /// Makes a request of `fetch`, as [`Tools::call`] makes a call.
    ///
    /// # Errors
    /// As those of a call.
    async fn fetch(&self, _broker: &str, _call: FetchCall) -> Result<ToolAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::NotSupported, "this process makes no requests"))
    }

    /// The next part of a response's body.
    ///
    /// # Errors
    /// As those of a call.
    async fn body(&self, _broker: &str, _call: BodyCall) -> Result<BodyAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::NotSupported, "this process makes no requests"))
    }

    /// Tells the broker something that happened. It may be told twice.
    ///
    /// # Errors
    /// It does not take it now: it is told again later.
    async fn notify(&self, _broker: &str, _notice: Notice) -> Result<(), ApiError> {
        Ok(())
    }

    /// The session's page of calls that brokers have told of last.
    fn page(&self, _session_uid: &str) -> Option<String> {
        None
    }

    /// Forgets it: the session asks for no call of before any more, so none of its pages is relied on.
    fn forget_page(&self, _session_uid: &str) {}

    /// Which answers of this ToolBroker's tools stay outside the heap, as it has told last.
    fn offload(&self, _namespace: &str, _broker: &str) -> Offload {
        Offload::default()
    }

    /// Whether this ToolBroker may tell somebody of this event, as far as it has said within a minute.
    fn wants(&self, _namespace: &str, _broker: &str, _event: EventKind) -> bool {
        true
    }

    /// Gives a fetch up, or closes its body. A broker that does not hear of it finds out by itself.
    async fn close(&self, _broker: &str, _call: CloseCall) {}

    /// A package of npm and all that it needs.
    ///
    /// # Errors
    /// The broker has no registry, finds no such package, or cannot be reached for a long while.
    async fn modules(&self, _broker: &str, _call: ModulesCall) -> Result<ModulesAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::NotSupported, "this process loads no packages"))
    }
}

/// Who calls, for every call of a session.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The pod's tools.
    pub tools: Arc<dyn Tools>,
    /// Name of the ToolBroker.
    pub broker: String,
    /// Namespace of the session.
    pub namespace: String,
    /// Name of the session.
    pub session: String,
    /// Uid of the session.
    pub uid: String,
    /// Epoch of the assignment.
    pub epoch: u64,
    /// What the session may fetch.
    pub allow: Vec<EgressRule>,
    /// The Secrets that the session names, by service.
    pub service_secrets: BTreeMap<String, String>,
    /// The bases of documents that the session names; without it, all.
    pub knowledge: Option<Vec<String>>,
    /// Whose request makes the session call.
    pub origin: Origin,
    /// Who sent the cell that runs.
    pub by: Option<String>,
}

impl Caller {
    /// Which answers stay outside the heap.
    pub(crate) fn offload(&self) -> Offload {
        self.tools.offload(&self.namespace, &self.broker)
    }

    /// Whether somebody may be told of this event.
    pub(crate) fn wants(&self, event: EventKind) -> bool {
        self.tools.wants(&self.namespace, &self.broker, event)
    }
}

/// Brokers behind mTLS.
#[derive(Debug, Clone)]
pub struct BrokerTools {
    client: PeerClient,
    address: String,
    pages: Arc<Mutex<HashMap<String, String>>>,
    /// By namespace and name.
    offloads: Arc<Mutex<HashMap<(String, String), Offload>>>,
    /// The same: of which events somebody is told, and when that was said.
    events: Arc<Mutex<HashMap<(String, String), Told>>>,
    /// See [`RETRIES_MAX`].
    retries_max: u32,
}

impl BrokerTools {
    /// Brokers at `address`, in which `{name}` and `{namespace}` are replaced.
    #[must_use]
    pub fn new(client: PeerClient, address: impl Into<String>) -> Self {
        Self {
            client,
            address: address.into(),
            pages: Arc::default(),
            offloads: Arc::default(),
            events: Arc::default(),
            retries_max: RETRIES_MAX,
        }
    }

    /// What was told of more sessions than that is in their records, or is told again.
    fn note_page(&self, session_uid: &str, page: String) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.len() >= PAGES_MAX && !pages.contains_key(session_uid) {
            pages.clear();
        }
        pages.insert(session_uid.to_owned(), page);
    }

    /// One sending.
    async fn attempt<A: DeserializeOwned>(&self, way: Way<'_>, call: &impl Serialize) -> Result<A, Attempt> {
        let Way { broker, namespace, path, .. } = way;
        let address = self.address.replace("{name}", broker).replace("{namespace}", namespace);
        let peer = Identity::new(Process::Broker, namespace, broker);
        let request = self.client.request(http::Method::POST, &peer, &address, path);
        let response = self.client.send(request.timeout(ATTEMPT_TIMEOUT).json(call)).await.map_err(|error| match error {
            SendError::Unreachable(cause) => Attempt::Again(cause.to_string()),
            SendError::Lost(cause) => Attempt::Lost(cause.to_string()),
        })?;
        let status = response.status();
        if let (Some(uid), Some(page)) = (way.session_uid, told_page(&response)) {
            self.note_page(uid, page);
        }
        if let Some(offload) = told_offload(&response) {
            let name = (namespace.to_owned(), broker.to_owned());
            self.offloads.lock().unwrap_or_else(PoisonError::into_inner).insert(name, offload);
        }
        if let Some(events) = told_events(&response) {
            let name = (namespace.to_owned(), broker.to_owned());
            self.events.lock().unwrap_or_else(PoisonError::into_inner).insert(name, (events, Instant::now()));
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
    async fn send<C: Serialize, A: DeserializeOwned>(&self, way: Way<'_>, mut call: C, repeated: impl Fn(&mut C)) -> Result<A, ApiError> {
        let mut wait = RETRY_FIRST;
        let (mut last, mut lost) = (String::new(), false);
        for attempt in 0..self.retries_max {
            match self.attempt(way, &call).await {
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

fn told_page(response: &reqwest::Response) -> Option<String> {
    let page = response.headers().get(PAGE_HEADER)?.to_str().ok()?;
    (page.len() <= PAGE_BYTES_MAX).then(|| page.to_owned())
}

/// Of which events a ToolBroker tells somebody, and when it said so.
type Told = (Vec<EventKind>, Instant);

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
        let offloads = self.offloads.lock().unwrap_or_else(PoisonError::into_inner);
        offloads.get(&(namespace.to_owned(), broker.to_owned())).copied().unwrap_or_default()
    }

    fn wants(&self, namespace: &str, broker: &str, event: EventKind) -> bool {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let told = events.get(&(namespace.to_owned(), broker.to_owned())).filter(|(_, at)| at.elapsed() < EVENTS_BELIEVED);
        told.is_none_or(|(events, _)| events.contains(&event))
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
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use dormouse_service::wire::Wire;
    use futures::future::BoxFuture;

    use super::*;

    /// Loses the first answers, and reaches nobody from then on.
    #[derive(Debug)]
    struct Losing(AtomicU32);

    impl Wire for Losing {
        fn carry(&self, _: reqwest::Request) -> BoxFuture<'static, Result<reqwest::Response, SendError>> {
            let lost = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            let error = if lost { SendError::Lost("lost".into()) } else { SendError::Unreachable("nobody".into()) };
            Box::pin(async move { Err(error) })
        }
    }

    async fn called(lost: u32) -> ErrorCode {
        dormouse_service::telemetry::install_tls_provider();
        let former = reqwest::Client::builder().build().unwrap();
        let client = PeerClient::over(former, Arc::new(Losing(AtomicU32::new(lost))));
        let call = ToolCall {
            namespace: "team".to_owned(),
            session: "a".to_owned(),
            session_uid: "u".to_owned(),
            epoch: 1,
            call: 1,
            tool: "pay".to_owned(),
            args: serde_json::Value::Null,
            references: std::collections::BTreeMap::new(),
            repeated: false,
            settled_below: 1,
            page: None,
            waits: Default::default(),
            service_secrets: Default::default(),
            knowledge: None,
            stream_above: None,
            by: None,
        };
        let tools = BrokerTools { retries_max: 2, ..BrokerTools::new(client, "broker:7444") };
        tools.call("broker", call).await.unwrap_err().code
    }

    /// A broker that tells of failures only.
    #[derive(Debug)]
    struct Telling;

    impl Wire for Telling {
        fn carry(&self, _: reqwest::Request) -> BoxFuture<'static, Result<reqwest::Response, SendError>> {
            let answer = http::Response::builder().header(EVENTS_HEADER, events_of_failures()).body("null").unwrap();
            Box::pin(async move { Ok(answer.into()) })
        }
    }

    fn events_of_failures() -> String {
        dormouse_protocol::broker::events_text(&[EventKind::Failed])
    }

    #[tokio::test(start_paused = true)]
    async fn a_broker_that_has_said_that_it_tells_nobody_of_an_event_is_not_asked_for_a_minute() {
        dormouse_service::telemetry::install_tls_provider();
        let client = PeerClient::over(reqwest::Client::builder().build().unwrap(), Arc::new(Telling));
        let tools = BrokerTools::new(client, "broker:7444");
        let wants = || EventKind::ALL.map(|event| tools.wants("team", "broker", event));
        assert_eq!(wants(), [true; 3], "nothing is known");
        let notice = Notice {
            namespace: "team".to_owned(),
            session: "a".to_owned(),
            session_uid: "u".to_owned(),
            number: 1,
            event: EventKind::Completed,
            time: String::new(),
            data: serde_json::Map::new(),
            webhook: None,
        };
        tools.notify("broker", notice).await.unwrap();
        assert_eq!(wants(), [false, true, false]);
        assert!(tools.wants("team", "another", EventKind::Completed));
        tokio::time::advance(EVENTS_BELIEVED).await;
        assert_eq!(wants(), [true; 3], "it may name somebody by now");
    }

    #[tokio::test]
    async fn a_call_that_may_have_arrived_and_is_never_answered_is_unknown_and_not_failed() {
        assert_eq!(called(0).await, ErrorCode::ToolResultInvalid, "it never arrived anywhere");
        assert_eq!(called(1).await, ErrorCode::OutcomeUnknown);
    }
}
