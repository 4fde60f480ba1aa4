//! What gateways answer each other, over mutual TLS.

use std::sync::Arc;

use axum::{Json, Router, extract::State, routing::post};
use dormouse_service::{
    ApiJson, Clock,
    tls::{Process, Server, TlsFiles, require},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    Tally,
    asking::Counted,
    cells::{BEGIN_PATH, BeginCells},
    sessions::{MAKE_PATH, Others, Said, UNMADE_PATH},
};
use crate::{
    directory::{Directory, Key},
    quotas::Quotas,
};

/// What answers.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) tally: Tally,
    pub(crate) quotas: Quotas,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) clock: Clock,
    pub(crate) others: Others,
}

/// Answers the other gateways, until `shutdown`.
pub(crate) async fn serve(app: App, tls: TlsFiles, listener: TcpListener, shutdown: CancellationToken) {
    let routes = Router::new().route(BEGIN_PATH, post(begin)).route(MAKE_PATH, post(make)).route(UNMADE_PATH, post(unmade)).with_state(app);
    Server::new(tls).serve(listener, require(routes, &[Process::Gateway]), shutdown).await;
}

async fn begin(State(app): State<App>, ApiJson(call): ApiJson<BeginCells>) -> Json<Counted<u64>> {
    let limit = app.directory.limits(&call.namespace).evals_per_second;
    Json(Counted { counted: app.tally.begin_cells(&call, limit, &app.quotas, app.clock).await })
}

async fn make(State(app): State<App>, ApiJson(key): ApiJson<Key>) -> Json<Counted<Said>> {
    let App { tally, quotas, directory, clock, others } = app;
    Json(Counted { counted: others.make(key, &tally, &quotas, directory, clock).await })
}

async fn unmade(State(app): State<App>, ApiJson(key): ApiJson<Key>) -> Json<Counted<Said>> {
    app.others.unmade(&key);
    Json(Counted { counted: Some(Said { used: None }) })
}
