//! What a session asks of its broker, and who asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use dormouse_crds::broker::Offload;
use dormouse_crds::egress::EgressRule;
use dormouse_crds::webhooks::EventKind;
use dormouse_protocol::broker::{BodyAnswer, BodyCall, CloseCall, FetchCall, ModulesAnswer, ModulesCall, Notice, ToolAnswer, ToolCall};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::origin::Origin;
use futures::stream::BoxStream;

/// The parts of a large body, from its beginning each time.
pub type BodyParts = Arc<dyn Fn() -> BoxStream<'static, Result<Bytes, ApiError>> + Send + Sync>;

/// What a session can ask of the world.
#[async_trait]
pub trait Tools: Send + Sync {
    /// Makes the call at the ToolBroker named `broker`. The same call may be made again, with the same number, after a lost pod or answer;
    /// whoever implements this answers a repetition from its journal.
    ///
    /// # Errors
    /// The broker refuses the call, or cannot be reached for a long while. `SessionGone`: a later epoch has been seen.
    async fn call(&self, broker: &str, call: ToolCall) -> Result<ToolAnswer, ApiError>;

    /// Sends a call with its large body, after [`ToolAnswer::Send`].
    ///
    /// # Errors
    /// As those of a call.
    async fn upload(&self, _broker: &str, _call: ToolCall, _body: BodyParts) -> Result<ToolAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::NotSupported, "this process sends no bodies by themselves"))
    }

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

    /// Whether this ToolBroker tells somebody of this event, as it has said last, however long ago; `None`: it has said nothing.
    fn tells(&self, _namespace: &str, _broker: &str, _event: EventKind) -> Option<bool> {
        None
    }

    /// Asks it, unless it has said so within a minute or was asked. False: nothing is to be learnt.
    async fn learn_events(&self, _namespace: &str, _broker: &str) -> bool {
        false
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

    /// Whether somebody is told of this event, if that is known.
    pub(crate) fn tells(&self, event: EventKind) -> Option<bool> {
        self.tools.tells(&self.namespace, &self.broker, event)
    }

    /// Whether somebody may be told of this event.
    pub(crate) fn wants(&self, event: EventKind) -> bool {
        self.tools.wants(&self.namespace, &self.broker, event)
    }
}
