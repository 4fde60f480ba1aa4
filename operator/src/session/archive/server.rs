//! What gateways ask of the archive, over mutual TLS. Only the operator that leads answers: it alone listens.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Json, Router, extract::State, routing::post};
use dormouse_control::archive::{Archived, ArchivedPage, FindCall, PAGE_MAX, PageCall};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::{
    ApiErrorResponse, ApiJson,
    error::ApiResult,
    tls::{Process, Server, require},
};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    context::Context,
    shelf::{Shelf, ShelfError},
};

/// Questions that are answered at the same time: each may hold some groups in memory. Others wait.
const QUESTIONS_MAX: usize = 16;
/// How long to wait before the address is tried again, when somebody else has it.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);
/// How long questions may go on when the certificate is replaced.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
struct App {
    context: Arc<Context>,
    turns: Arc<Semaphore>,
}

/// Answers until `shutdown`, if there is an address to do so.
pub async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let Some(address) = context.config.archive_listen else { return };
    let app = App { context: Arc::clone(&context), turns: Arc::new(Semaphore::new(QUESTIONS_MAX)) };
    let routes = Router::new().route("/v1/archive/find", post(find)).route("/v1/archive/list", post(list)).with_state(app);
    let routes = require(routes, &[Process::Gateway]);
    let mut certificates = context.tls.subscribe();
    while !shutdown.is_cancelled() {
        let tls = certificates.borrow_and_update().clone();
        let Some(listener) = shutdown.run_until_cancelled(listen(address)).await else { return };
        let until = shutdown.child_token();
        let served = Server::new(tls).drain_timeout(DRAIN_TIMEOUT).serve(listener, routes.clone(), until.clone());
        let replaced = async {
            // The sender lives as long as the context.
            let _ = certificates.changed().await;
            until.cancel();
        };
        futures::future::join(served, shutdown.run_until_cancelled(replaced)).await;
    }
}

async fn listen(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => tracing::warn!(%address, %error, "nobody can ask for archived sessions: the address is not to be had"),
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

impl App {
    async fn shelf(&self, namespace: &str) -> ApiResult<Option<Shelf>> {
        if !self.context.scope.contains(namespace) {
            let message = format!("namespace `{namespace}` is not among the watchNamespaces of this installation");
            return Err(ApiErrorResponse(ApiError::new(ErrorCode::Forbidden, message)));
        }
        self.context.shelf(namespace).await.map_err(|error| failed(&error))
    }
}

fn failed(error: &ShelfError) -> ApiErrorResponse {
    tracing::warn!(%error, "the archive");
    ApiErrorResponse(ApiError::new(ErrorCode::StorageUnavailable, error.to_string()))
}

async fn find(State(app): State<App>, ApiJson(FindCall { key }): ApiJson<FindCall>) -> ApiResult<Json<Option<Archived>>> {
    let _turn = app.turns.acquire().await;
    let Some(shelf) = app.shelf(&key.namespace).await? else { return Ok(Json(None)) };
    Ok(Json(shelf.find(&key.name).await.map_err(|error| failed(&error))?))
}

async fn list(State(app): State<App>, ApiJson(call): ApiJson<PageCall>) -> ApiResult<Json<ArchivedPage>> {
    let _turn = app.turns.acquire().await;
    let Some(shelf) = app.shelf(&call.namespace).await? else { return Ok(Json(ArchivedPage::default())) };
    let page = shelf.page(call.after.as_deref(), call.limit.clamp(1, PAGE_MAX)).await;
    Ok(Json(page.map_err(|error| failed(&error))?))
}
