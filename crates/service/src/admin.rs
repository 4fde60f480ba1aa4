//! Probes and metrics over plain HTTP: `/livez`, `/readyz`, `/metrics`.

use std::net::SocketAddr;

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{AdminArgs, Metrics, Readiness, readiness::Reason};

/// The admin listener; it serves until it is dropped, so also while the process drains.
#[derive(Debug)]
pub struct AdminServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// The body of `/readyz`.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct ReadyBody {
    /// Whether the process can do its work.
    pub ready: bool,
    /// Why not.
    #[serde(default)]
    pub reasons: Vec<Reason>,
}

impl AdminServer {
    /// Listens on the address of the flags and serves.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start(args: &AdminArgs, readiness: Readiness, metrics: Metrics) -> std::io::Result<Self> {
        let listener = TcpListener::bind(args.admin_listen).await?;
        let address = listener.local_addr()?;
        let router = router(readiness, metrics);
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the admin listener ended");
            }
        });
        Ok(Self { address, task })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The three routes, for a process that serves them on a port it has anyway.
pub fn router(readiness: Readiness, metrics: Metrics) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(readyz).with_state(readiness))
        .route("/metrics", get(render).with_state(metrics))
}

async fn readyz(State(readiness): State<Readiness>) -> Response {
    let reasons = readiness.reasons();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(ReadyBody { ready: reasons.is_empty(), reasons })).into_response()
}

async fn render(State(metrics): State<Metrics>) -> Response {
    match metrics.render() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
