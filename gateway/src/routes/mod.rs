//! The HTTP API: thin handlers that parse, check rights, call [`crate::service`] or [`crate::stream`], and shape the answer.

use std::time::Instant;

use axum::{
    Router as AxumRouter,
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, delete, get, post},
};

use dormouse_service::memory::Memory;

use crate::{
    access,
    app::App,
    body::BODY_BYTES_MAX,
    doors::{jupyter, mcp, streaming, ws},
    local,
    metrics::GatewayMetrics,
    origins,
    problem::{Problem, with_request_id},
    resource, rooms,
};

mod approvals;
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

pub use openapi::openapi;

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

/// All routes, and some that are no part of the API, as long as there is room in this memory.
pub(crate) fn routes(app: App, memory: Memory, beside: AxumRouter) -> AxumRouter {
    let mut routes = table().routes.merge(beside.with_state::<App>(()));
    routes = routes.layer(from_fn_with_state(app.resource.clone(), resource::challenged));
    routes = routes.layer(from_fn_with_state(app.origins.clone(), origins::allowed));
    if app.is_local {
        routes = routes.layer(from_fn(local::only));
    }
    // A page of our own, which its token protects: wherever somebody comes from.
    routes = routes.route(APPROVE, get(links::show).post(links::decide));
    routes
        .layer(from_fn_with_state(app.rooms.clone(), rooms::held))
        .layer(from_fn_with_state(memory, admitted))
        .layer(from_fn(access::logged))
        .layer(from_fn_with_state(app.metrics.clone(), counted))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(with_request_id))
        .with_state(app)
}

/// Before anything of the request's body is read.
async fn admitted(State(memory): State<Memory>, request: Request, next: Next) -> Response {
    if memory.has_room() { next.run(request).await } else { Problem(memory.exhausted()).into_response() }
}

async fn counted(State(metrics): State<GatewayMetrics>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let started = Instant::now();
    let response = next.run(request).await;
    metrics.request(&route, response.status().as_u16(), started.elapsed().as_secs_f64());
    response
}
