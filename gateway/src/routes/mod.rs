//! The HTTP API: thin handlers that parse, check rights, call [`crate::service`] or [`crate::stream`], and shape the answer.

use std::{collections::BTreeMap, ops::Deref, sync::Arc, time::Instant};

use axum::{
    Router as AxumRouter,
    extract::{DefaultBodyLimit, FromRequestParts, MatchedPath, Request, State},
    http::{HeaderMap, header, request::Parts},
    middleware::{Next, from_fn, from_fn_with_state},
    response::Response,
    routing::{MethodRouter, delete, get, post},
};
use dormouse_protocol::{ApiError, ErrorCode};
use tokio_util::sync::CancellationToken;

use crate::{
    access::{self, Who},
    auth::{Access, Authenticator, Caller, Part, Verb, keys::KeyStore},
    directory::{Key, selects},
    doors::{
        jupyter, mcp, streaming,
        ws::{self, Sockets},
    },
    links::Links,
    local,
    metrics::GatewayMetrics,
    origins::{self, Origins},
    problem::{Problem, RequestId, with_request_id},
    resource::{self, Resource},
    rooms::{self, Rooms},
    router::Router,
};

mod approvals;
mod body;
mod eval;
mod events;
mod files;
mod history;
mod jobs;
mod keyed;
mod keys;
mod links;
mod openapi;
mod reads;
mod runs;
mod sessions;
mod usage;
mod webhooks;

pub use body::BODY_BYTES_MAX;
pub(crate) use body::{Body, Params, SessionPath, Whole};
pub use openapi::openapi;

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

const SESSIONS: &str = "/v1/namespaces/{namespace}/sessions";
/// The page behind a link.
const APPROVE: &str = "/approve";
const SESSION: &str = "/v1/namespaces/{namespace}/sessions/{name}";

/// Routes, and what they are called.
#[derive(Default)]
struct Table {
    routes: AxumRouter<App>,
    paths: Vec<String>,
}

impl Table {
    fn route(mut self, path: &str, methods: MethodRouter<App>) -> Self {
        self.paths.push(path.to_owned());
        Self { routes: self.routes.route(path, methods), ..self }
    }
}

/// The paths of all routes, as templates: for whoever checks that none is forgotten.
#[must_use]
pub fn paths() -> Vec<String> {
    let mut paths = table().paths;
    paths.push(APPROVE.to_owned());
    paths
}

fn table() -> Table {
    let below = |path: &str| format!("{SESSION}{path}");
    Table::default()
        .route(SESSIONS, get(sessions::list).post(sessions::create))
        .route(SESSION, get(sessions::get).patch(sessions::patch).delete(sessions::delete))
        .route(&below("/eval"), post(eval::eval))
        .route(&below("/interrupt"), post(sessions::interrupt))
        .route(&below("/hibernate"), post(sessions::hibernate))
        .route(&below("/wake"), post(sessions::wake))
        .route(&below("/events"), get(events::events))
        .route(&below("/checkpoints"), get(history::checkpoints).post(history::make_checkpoint))
        .route(&below("/checkpoints/diff"), get(history::difference))
        .route(&below("/restore"), post(history::restore))
        .route(&below("/reset"), post(history::reset))
        .route(&below("/migrate"), post(history::migrate))
        .route(&below("/fork"), post(history::fork))
        .route(&below("/journal"), get(history::journal))
        .route(&below("/runs"), get(runs::list))
        .route(&below("/runs/{id}"), get(runs::get))
        .route(&below("/runs/{id}/cancel"), post(runs::cancel))
        .route(&below("/approvals"), get(approvals::list))
        .route(&below("/approvals/{id}"), post(approvals::decide))
        .route(&below("/approvals/{id}/link"), post(links::make))
        .route("/v1/namespaces/{namespace}/approvals", get(approvals::list_all))
        .route(&below("/files"), get(files::list))
        .route(&below("/files/{*path}"), get(files::read).put(files::write).delete(files::remove))
        .route("/v1/namespaces/{namespace}/webhooks/deliveries", get(webhooks::list))
        .route("/v1/namespaces/{namespace}/webhooks/deliveries/{id}/redeliver", post(webhooks::redeliver))
        .route("/v1/namespaces/{namespace}/jobs/claim", post(jobs::claim))
        .route("/v1/namespaces/{namespace}/jobs/{id}/heartbeat", post(jobs::heartbeat))
        .route("/v1/namespaces/{namespace}/jobs/{id}/answer", post(jobs::answer))
        .route("/v1/namespaces/{namespace}/usage", get(usage::usage))
        .route("/v1/namespaces/{namespace}/keys", get(keys::list).post(keys::create))
        .route("/v1/namespaces/{namespace}/keys/{name}", delete(keys::revoke))
        .route(&below("/ws"), get(ws::session))
        .route("/ws", get(ws::named))
        .route("/api", get(jupyter::version))
        .route("/api/kernelspecs", get(jupyter::specs))
        .route("/api/kernelspecs/{name}", get(jupyter::one_spec))
        .route("/api/kernels", get(jupyter::list).post(jupyter::start))
        .route("/api/kernels/{id}", get(jupyter::get).delete(jupyter::stop))
        .route("/api/kernels/{id}/interrupt", post(jupyter::interrupt))
        .route("/api/kernels/{id}/restart", post(jupyter::restart))
        .route("/api/kernels/{id}/channels", get(jupyter::channels::connect))
        .route(resource::MCP, get(mcp::listen).post(mcp::serve))
        .route(&below("/mcp"), get(mcp::listen_session).post(mcp::serve_session))
        .route("/sessions", get(streaming::list).post(streaming::start))
        .route("/sessions/{id}", get(streaming::get).delete(streaming::delete))
        .route("/sessions/{id}/stream", get(streaming::stream))
        .route("/sessions/{id}/cancel", post(streaming::cancel))
        .route("/sessions/{id}/tool-results", post(streaming::tool_result))
        .route(resource::WELL_KNOWN, get(resource::metadata))
        .route(&format!("{}{}", resource::WELL_KNOWN, resource::MCP), get(resource::metadata))
        .route("/openapi.json", get(openapi::serve))
}

/// All routes.
pub(crate) fn routes(app: App) -> AxumRouter {
    let mut routes = table().routes;
    routes = routes.layer(from_fn_with_state(app.resource.clone(), resource::challenged));
    routes = routes.layer(from_fn_with_state(app.origins.clone(), origins::allowed));
    if app.is_local {
        routes = routes.layer(from_fn(local::only));
    }
    // A page of our own, which its token protects: wherever somebody comes from.
    routes = routes.route(APPROVE, get(links::show).post(links::decide));
    routes
        .layer(from_fn_with_state(app.rooms.clone(), rooms::held))
        .layer(from_fn(access::logged))
        .layer(from_fn_with_state(app.metrics.clone(), counted))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(with_request_id))
        .with_state(app)
}

async fn counted(State(metrics): State<GatewayMetrics>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let started = Instant::now();
    let response = next.run(request).await;
    metrics.request(&route, response.status().as_u16(), started.elapsed().as_secs_f64());
    response
}
