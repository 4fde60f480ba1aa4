//! The HTTP API: thin handlers that parse, check rights, call [`crate::service`] or [`crate::stream`], and shape the answer.

use std::{sync::Arc, time::Instant};

use axum::{
    Router as AxumRouter,
    extract::{DefaultBodyLimit, FromRequestParts, MatchedPath, Request, State},
    http::{header, request::Parts},
    middleware::{Next, from_fn, from_fn_with_state},
    response::Response,
    routing::{any, get, post},
};
use dormouse_protocol::{ApiError, ErrorCode};
use tokio_util::sync::CancellationToken;

use crate::{
    auth::{Access, Authenticator, Caller, Verb},
    directory::Key,
    local,
    metrics::GatewayMetrics,
    problem::{Problem, RequestId, with_request_id},
    router::Router,
};

mod body;
mod eval;
mod events;
mod files;
mod history;
mod keyed;
mod openapi;
mod reads;
mod sessions;

pub use body::BODY_BYTES_MAX;
pub use openapi::openapi;

/// What every handler has.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) router: Router,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) metrics: GatewayMetrics,
    /// Ends the streams that would never end.
    pub(crate) shutdown: CancellationToken,
    /// Only what comes from this machine and from no web page is answered.
    pub(crate) is_local: bool,
}

impl App {
    /// Whether the caller may do `verb` to the session, or to all of a namespace.
    async fn allow(&self, caller: &Caller, verb: Verb, namespace: &str, name: Option<&str>, eval: bool) -> Result<(), Problem> {
        let access = Access { namespace: namespace.to_owned(), name: name.map(str::to_owned), verb, eval };
        self.authenticator.authorize(caller, &access).await.map_err(|error| Problem(error.into()))
    }

    async fn allow_session(&self, caller: &Caller, verb: Verb, key: &Key) -> Result<(), Problem> {
        self.allow(caller, verb, &key.namespace, Some(&key.name), false).await
    }

    async fn allow_eval(&self, caller: &Caller, verb: Verb, key: &Key) -> Result<(), Problem> {
        self.allow(caller, verb, &key.namespace, Some(&key.name), true).await
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = header.and_then(|value| {
            let (scheme, credential) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| credential.trim())
        });
        app.authenticator.authenticate(bearer).await.map_err(|error| Problem(error.into()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestId {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(|| Self(String::new())))
    }
}

const SESSIONS: &str = "/v1/namespaces/{namespace}/sessions";
const SESSION: &str = "/v1/namespaces/{namespace}/sessions/{name}";

/// Documented paths below a session that are not built.
const SESSION_NOT_BUILT: &[&str] = &["/ws", "/approvals", "/approvals/{id}"];
/// Documented paths elsewhere that are not built.
const NOT_BUILT: &[&str] = &["/v1/namespaces/{namespace}/usage", "/sessions", "/sessions/{id}", "/sessions/{id}/stream", "/ws", "/mcp"];

/// All routes.
pub(crate) fn routes(app: App) -> AxumRouter {
    let below = |path: &str| format!("{SESSION}{path}");
    let mut routes = AxumRouter::new()
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
        .route(&below("/migrate"), post(history::migrate))
        .route(&below("/fork"), post(history::fork))
        .route(&below("/journal"), get(history::journal))
        .route(&below("/files"), get(files::list))
        .route(&below("/files/{*path}"), get(files::read).put(files::write).delete(files::remove))
        .route("/openapi.json", get(openapi::serve));
    for path in SESSION_NOT_BUILT {
        routes = routes.route(&below(path), any(not_built));
    }
    for path in NOT_BUILT {
        routes = routes.route(path, any(not_built));
    }
    if app.is_local {
        routes = routes.layer(from_fn(local::only));
    }
    routes
        .layer(from_fn_with_state(app.metrics.clone(), counted))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(with_request_id))
        .with_state(app)
}

async fn not_built(_caller: Caller) -> Problem {
    Problem(ApiError::new(
        ErrorCode::NotSupported,
        "this is documented but not built yet: there is nothing to do but to wait for a later version",
    ))
}

async fn counted(State(metrics): State<GatewayMetrics>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let started = Instant::now();
    let response = next.run(request).await;
    metrics.request(&route, response.status().as_u16(), started.elapsed().as_secs_f64());
    response
}
