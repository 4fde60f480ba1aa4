//! What gateways ask each other, over mutual TLS.

use std::sync::Arc;

use axum::{Json, Router, extract::State, routing::post};
use dormouse_service::{
    ApiJson, Clock,
    tls::{Process, Server, TlsFiles, require},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{BEGIN_PATH, BeginCells, CellsBegun, Tally};
use crate::{directory::Directory, quotas::Quotas};

/// What answers.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) tally: Tally,
    pub(crate) quotas: Quotas,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) clock: Clock,
}

/// Answers the other gateways, until `shutdown`.
pub(crate) async fn serve(app: App, tls: TlsFiles, listener: TcpListener, shutdown: CancellationToken) {
    let routes = Router::new().route(BEGIN_PATH, post(begin)).with_state(app);
    Server::new(tls).serve(listener, require(routes, &[Process::Gateway]), shutdown).await;
}

async fn begin(State(app): State<App>, ApiJson(call): ApiJson<BeginCells>) -> Json<CellsBegun> {
    let limit = app.directory.limits(&call.namespace).evals_per_second;
    Json(CellsBegun { begun: app.tally.begin_cells(&call, limit, &app.quotas, app.clock).await })
}
