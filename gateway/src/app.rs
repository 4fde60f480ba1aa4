//! What every handler has, and who asks it.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use axum::{
    extract::{FromRef, FromRequestParts},
    http::{HeaderMap, header, request::Parts},
};
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::{
    access::Who,
    auth::{Access, Authenticator, Caller, Part, Verb, keys::KeyStore},
    directory::{Key, selects},
    links::Links,
    metrics::GatewayMetrics,
    origins::Origins,
    problem::{Problem, RequestId},
    resource::Resource,
    rooms::{self, Rooms},
    router::Router,
    sockets::Sockets,
};

/// Kernels that were shut down while a notebook's cell ran, and are told of when it has ended.
const SHUT_KERNELS_MAX: usize = 256;

/// What every handler has. It is copied for every layer that a request goes through, so it is one pointer.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) router: Router,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) metrics: GatewayMetrics,
    /// Ends the streams that would never end.
    pub(crate) shutdown: CancellationToken,
    /// Only what comes from this machine and from no web page is answered.
    pub(crate) is_local: bool,
    /// Where API keys are kept, if anywhere.
    pub(crate) keys: Option<Arc<dyn KeyStore>>,
    pub(crate) sockets: Sockets,
    /// Tells the queues of notebooks which kernels are shut down.
    pub(crate) shut_kernels: broadcast::Sender<Key>,
    /// Room for what is large and read whole.
    pub(crate) rooms: Rooms,
    /// Web pages that may call.
    pub(crate) origins: Origins,
    /// Links to calls that wait, if they can be made.
    pub(crate) links: Option<Links>,
    /// What clients are told that have no good token.
    pub(crate) resource: Resource,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    /// A way to tell which kernels are shut down.
    pub(crate) fn shut_kernels() -> broadcast::Sender<Key> {
        broadcast::Sender::new(SHUT_KERNELS_MAX)
    }

    pub(crate) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// Whether the caller may do `verb` to the session, or to all of a namespace.
    pub(crate) async fn allow(&self, caller: &Caller, verb: Verb, namespace: &str, name: Option<&str>, part: Part) -> Result<(), Problem> {
        let access = Access { namespace: namespace.to_owned(), name: name.map(str::to_owned), verb, part };
        self.authenticator.authorize(caller, &access).await.map_err(|error| Problem(error.into()))
    }

    /// Whether the caller may make a session with these labels. The holder of a selective key makes only what the key fits.
    pub(crate) async fn allow_create(&self, caller: &Caller, namespace: &str, labels: &BTreeMap<String, String>) -> Result<(), Problem> {
        self.allow(caller, Verb::Create, namespace, None, Part::Session).await?;
        match &caller.grant {
            Some(grant) if !selects(&grant.selector, labels) => {
                let message = format!("this API key makes sessions with the labels `{}` only: send them", grant.selector);
                Err(ApiError::new(ErrorCode::Forbidden, message).into())
            }
            _ => Ok(()),
        }
    }

    /// Whether the caller may have a session call this ToolBroker.
    pub(crate) async fn allow_broker(&self, caller: &Caller, namespace: &str, broker: Option<&str>) -> Result<(), Problem> {
        match broker {
            Some(broker) => self.allow(caller, Verb::Use, namespace, Some(broker), Part::Broker).await,
            None => Ok(()),
        }
    }

    /// The same of the ToolBroker that a session has: a fork has it, too.
    pub(crate) async fn allow_broker_of(&self, caller: &Caller, key: &Key) -> Result<(), Problem> {
        let record = match self.router.directory().get(key) {
            Some(record) => Some(record),
            None => self.router.directory().look(key).await.ok().map(|seen| seen.record),
        };
        let broker = record.as_ref().and_then(|record| record.spec.tool_broker_ref.as_ref()).map(|broker| broker.name.as_str());
        self.allow_broker(caller, &key.namespace, broker).await
    }

    pub(crate) async fn allow_session(&self, caller: &Caller, verb: Verb, key: &Key) -> Result<(), Problem> {
        self.allow(caller, verb, &key.namespace, Some(&key.name), Part::Session).await
    }

    pub(crate) async fn allow_eval(&self, caller: &Caller, verb: Verb, key: &Key) -> Result<(), Problem> {
        self.allow(caller, verb, &key.namespace, Some(&key.name), Part::Eval).await
    }
}

impl FromRef<App> for Resource {
    fn from_ref(app: &App) -> Self {
        app.resource.clone()
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let caller = app.authenticator.authenticate(bearer(&parts.headers)).await.map_err(|error| Problem(error.into()))?;
        if let Some(who) = parts.extensions.get::<Who>() {
            let _ = who.0.set(caller.user.clone());
        }
        rooms::count_for(parts, &caller.user);
        Ok(caller)
    }
}

/// The credential of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let Some(said) = headers.get(header::AUTHORIZATION) else { return bearer_of_socket(headers) };
    let (scheme, credential) = said.to_str().ok()?.split_once(' ')?;
    // Jupyter's clients call it a token.
    (scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token")).then(|| credential.trim())
}

/// The credential of a WebSocket that a browser opens: it lets a page set nothing but subprotocols.
fn bearer_of_socket(headers: &HeaderMap) -> Option<&str> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    offered.flat_map(|value| value.split(',')).find_map(|protocol| protocol.trim().strip_prefix(BEARER_PROTOCOL))
}

/// Before a credential among a WebSocket's subprotocols.
const BEARER_PROTOCOL: &str = "dormouse.bearer.";

/// The namespace of a request whose path names none: what its header says, else its key's, else the usual one.
pub(crate) fn namespace_of(headers: &HeaderMap, caller: &Caller) -> String {
    let said = headers.get(NAMESPACE_HEADER).and_then(|value| value.to_str().ok()).map(str::to_owned);
    said.or_else(|| caller.grant.as_ref().map(|grant| grant.namespace.clone())).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

/// Header that names the namespace where the path does not.
const NAMESPACE_HEADER: &str = "dormouse-namespace";
/// The namespace where nothing else says one.
const DEFAULT_NAMESPACE: &str = "default";

impl<S: Send + Sync> FromRequestParts<S> for RequestId {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(|| Self(String::new())))
    }
}
