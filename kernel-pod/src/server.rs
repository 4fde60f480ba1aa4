//! The pod's HTTP API, behind mTLS: the table in `dormouse_protocol::kernel`.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRef, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use dormouse_lifecycle::usage::Sheet;
use dormouse_protocol::approval::ApprovalList;
use dormouse_protocol::eval::{EvalResult, WOKE_HEADER};
use dormouse_protocol::event::{Event, EventBody, PROTOCOL_VERSION};
use dormouse_protocol::history::{Checkpoint, CheckpointList, Difference, JournalPage, Migration};
use dormouse_protocol::kernel::{
    AnswerCall, Assignment, CancelRunCall, CheckpointCall, DecidedCall, DifferenceCall, EvalCall, EventsCall, Grant, JournalCall,
    LiveUsage, McpCatalog, MigrateCall, PodInfo, ResetCall, RestoreCall, RunsCall, SessionCall, SessionReport, StoredCall, StoredStatus,
    StoredUsage, UsageCall, WaitingCall,
};
use dormouse_protocol::run::{Run, RunList};
use dormouse_protocol::session::session_id;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::error::ApiResult;
use dormouse_service::tls::{PeerIdentity, Process, Server, TlsFiles, require};
use dormouse_service::{ApiErrorResponse, ApiJson};
use futures::{Stream, StreamExt as _};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::claimed::{BODY_BYTES_MAX, Claimed};
use crate::files;
use crate::pod::{Pod, Running, task_ended};

/// How long answers may take to leave after every session is stored.
const LAST_ANSWERS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);

/// Largest answer of a client, in bytes, with what comes with it.
const ANSWER_BYTES_MAX: usize = 8 << 20;

const NDJSON: &str = "application/x-ndjson";

/// Serves `pod` until `shutdown`; then drains it, while the listener still tells callers where not to go, and ends.
pub(crate) async fn serve(pod: Pod, listener: TcpListener, tls: TlsFiles, shutdown: CancellationToken) {
    let stop = CancellationToken::new();
    let server = Server::new(tls).drain_timeout(LAST_ANSWERS_TIMEOUT);
    let serving = tokio::spawn(server.serve(listener, router(pod.clone(), stop.clone()), stop.clone()));
    shutdown.cancelled().await;
    pod.drain().await;
    stop.cancel();
    if let Err(error) = serving.await {
        tracing::error!(%error, "the server ended badly");
    }
}

#[derive(Clone)]
struct App {
    pod: Pod,
    stop: CancellationToken,
}

impl FromRef<App> for Pod {
    fn from_ref(app: &App) -> Self {
        app.pod.clone()
    }
}

pub(crate) fn router(pod: Pod, stop: CancellationToken) -> Router {
    let app = App { pod, stop };
    let gateway = Router::new()
        .route("/v1/session", post(session))
        .route("/v1/waiting", post(waiting))
        .route("/v1/eval", post(eval))
        .route("/v1/wake", post(wake))
        .route("/v1/hibernate", post(hibernate))
        .route("/v1/interrupt", post(interrupt))
        .route("/v1/events", post(events))
        .route("/v1/decided", post(decided))
        .route("/v1/answer", post(answer).layer(DefaultBodyLimit::max(ANSWER_BYTES_MAX)))
        .route("/v1/stored/approvals", post(stored_approvals))
        .route("/v1/stored/hostcalls", post(stored_hostcalls))
        .route("/v1/stored/mcp", post(stored_mcp))
        .route("/v1/checkpoint", post(checkpoint))
        .route("/v1/restore", post(restore))
        .route("/v1/reset", post(reset))
        .route("/v1/migrate", post(migrate))
        .route("/v1/runs/accept", post(accept_run))
        .route("/v1/runs/cancel", post(cancel_run))
        .route("/v1/runs/look", post(runs))
        .route("/v1/files/list", post(files::list))
        .route("/v1/files/read", post(files::read))
        .route("/v1/files/write", post(files::write))
        .route("/v1/files/remove", post(files::remove))
        .route("/v1/stored/checkpoints", post(stored_checkpoints))
        .route("/v1/stored/journal", post(stored_journal))
        .route("/v1/stored/difference", post(stored_difference))
        .route("/v1/usage/live", post(live_usage))
        .route("/v1/usage/stored", post(stored_usage))
        .with_state(app.clone());
    let operator = Router::new()
        .route("/v1/forget", post(forget))
        .route("/v1/leave", post(leave))
        .route("/v1/grant", post(grant))
        .route("/v1/report", get(report))
        .with_state(app.clone());
    let both = Router::new().route("/v1/info", get(info)).route("/v1/stored/status", post(stored_status)).with_state(app);
    require(gateway, &[Process::Gateway])
        .merge(require(operator, &[Process::Operator]))
        .merge(require(both, &[Process::Gateway, Process::Operator]))
        .fallback(not_found)
        .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES_MAX))
}

async fn not_found(_: PeerIdentity) -> ApiErrorResponse {
    ApiError::new(ErrorCode::InvalidRequest, "a kernel pod has no such path").into()
}

async fn info(State(app): State<App>) -> Json<PodInfo> {
    Json(app.pod.info())
}

async fn session(State(app): State<App>, ApiJson(call): ApiJson<SessionCall>) -> ApiResult<Json<SessionReport>> {
    Ok(Json(app.pod.session(&call)?))
}

async fn waiting(State(app): State<App>, ApiJson(call): ApiJson<WaitingCall>) -> ApiResult<StatusCode> {
    app.pod.waiting(&call)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn eval(State(app): State<App>, headers: HeaderMap, Claimed(call, claim): Claimed<EvalCall>) -> ApiResult<Response> {
    let wants_events = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|accept| accept.contains(NDJSON));
    tracing::debug!(request_id = %call.request_id, session = %call.assignment.name, "eval");
    if !wants_events {
        let result = app.pod.eval_claimed(call, claim).await?;
        return Ok(([(WOKE_HEADER, result.stats.served.to_string())], Json(result)).into_response());
    }
    let id = session_id(&call.assignment.uid);
    let mut running = app.pod.eval_streaming(call, claim).await?;
    // Before the first event the answer can still be an HTTP error.
    match running.events.recv().await {
        Some(first) => Ok(lines(app.stop, cell_events(id, first, running))),
        None => {
            let result = running.answer.await.unwrap_or_else(|_| Err(task_ended()))?;
            Ok(lines(app.stop, futures::stream::iter([final_event(id, 0, result)])))
        }
    }
}

/// The events of a cell, ending in `final` or `error`.
fn cell_events(id: String, first: Event, running: Running) -> impl Stream<Item = Event> + Send {
    let begin = (Some(first), Some(running), 0, false);
    futures::stream::unfold((id, begin), |(id, (first, running, seq, ended))| async move {
        let mut running = running?;
        let next = match first {
            Some(first) => Some(first),
            None => running.events.recv().await,
        };
        if let Some(event) = next {
            let ended = ended || matches!(event.body, EventBody::Final { .. });
            let seq = event.seq;
            return Some((event, (id, (None, Some(running), seq, ended))));
        }
        if ended {
            return None;
        }
        let event = match running.answer.await.unwrap_or_else(|_| Err(task_ended())) {
            Ok(result) => final_event(id.clone(), seq, result),
            Err(error) => event(id.clone(), seq, EventBody::Error { code: error.code, message: error.message }),
        };
        Some((event, (id, (None, None, seq, true))))
    })
}

/// The answer of a cell that ran for somebody else before.
fn final_event(id: String, seq: u64, result: EvalResult) -> Event {
    event(id, seq, EventBody::Final { result: Box::new(result) })
}

fn event(session_id: String, seq: u64, body: EventBody) -> Event {
    Event { protocol_version: PROTOCOL_VERSION, session_id, seq, body }
}

async fn wake(State(app): State<App>, Claimed(assignment, claim): Claimed<Assignment>) -> ApiResult<Json<SessionReport>> {
    Ok(Json(app.pod.wake_claimed(assignment, claim).await?))
}

async fn hibernate(State(app): State<App>, ApiJson(assignment): ApiJson<Assignment>) -> ApiResult<Json<SessionReport>> {
    Ok(Json(app.pod.hibernate(assignment).await?))
}

async fn checkpoint(State(app): State<App>, ApiJson(call): ApiJson<CheckpointCall>) -> ApiResult<Json<Checkpoint>> {
    Ok(Json(app.pod.make_checkpoint(call).await?))
}

async fn restore(State(app): State<App>, ApiJson(call): ApiJson<RestoreCall>) -> ApiResult<Json<SessionReport>> {
    Ok(Json(app.pod.go_back(call).await?))
}

async fn reset(State(app): State<App>, ApiJson(call): ApiJson<ResetCall>) -> ApiResult<Json<SessionReport>> {
    Ok(Json(app.pod.reset(call).await?))
}

async fn migrate(State(app): State<App>, ApiJson(call): ApiJson<MigrateCall>) -> ApiResult<Json<Migration>> {
    Ok(Json(app.pod.migrate(call.assignment, call.dry_run).await?))
}

async fn accept_run(State(app): State<App>, ApiJson(call): ApiJson<EvalCall>) -> ApiResult<Json<Run>> {
    Ok(Json(app.pod.accept_run(call).await?))
}

async fn cancel_run(State(app): State<App>, ApiJson(call): ApiJson<CancelRunCall>) -> ApiResult<Json<Run>> {
    Ok(Json(app.pod.cancel_run(call).await?))
}

async fn runs(State(app): State<App>, ApiJson(call): ApiJson<RunsCall>) -> ApiResult<Json<RunList>> {
    Ok(Json(app.pod.runs(&call).await?))
}

async fn stored_checkpoints(State(app): State<App>, ApiJson(call): ApiJson<StoredCall>) -> ApiResult<Json<CheckpointList>> {
    Ok(Json(app.pod.stored_checkpoints(&call).await?))
}

async fn decided(State(app): State<App>, ApiJson(call): ApiJson<DecidedCall>) -> ApiResult<Json<()>> {
    Ok(Json(app.pod.decided(call).await?))
}

async fn answer(State(app): State<App>, ApiJson(call): ApiJson<AnswerCall>) -> ApiResult<Json<()>> {
    Ok(Json(app.pod.answer(call).await?))
}

async fn stored_hostcalls(State(app): State<App>, ApiJson(call): ApiJson<StoredCall>) -> ApiResult<Json<ApprovalList>> {
    Ok(Json(app.pod.stored_hostcalls(&call).await?))
}

async fn stored_mcp(State(app): State<App>, ApiJson(call): ApiJson<StoredCall>) -> ApiResult<Json<McpCatalog>> {
    Ok(Json(app.pod.stored_mcp(&call).await?))
}

async fn stored_approvals(State(app): State<App>, ApiJson(call): ApiJson<StoredCall>) -> ApiResult<Json<ApprovalList>> {
    Ok(Json(app.pod.stored_approvals(&call).await?))
}

async fn stored_journal(State(app): State<App>, ApiJson(call): ApiJson<JournalCall>) -> ApiResult<Json<JournalPage>> {
    Ok(Json(app.pod.stored_journal(&call).await?))
}

async fn stored_status(State(app): State<App>, ApiJson(call): ApiJson<StoredCall>) -> ApiResult<Json<StoredStatus>> {
    Ok(Json(app.pod.stored_status(&call).await?))
}

async fn stored_difference(State(app): State<App>, ApiJson(call): ApiJson<DifferenceCall>) -> ApiResult<Json<Difference>> {
    Ok(Json(app.pod.stored_difference(&call).await?))
}

async fn live_usage(State(app): State<App>, ApiJson(call): ApiJson<UsageCall>) -> ApiResult<Json<LiveUsage<Sheet>>> {
    Ok(Json(app.pod.live_usage(&call)?))
}

async fn stored_usage(State(app): State<App>, ApiJson(call): ApiJson<UsageCall>) -> ApiResult<Json<StoredUsage<Sheet>>> {
    Ok(Json(app.pod.stored_usage(&call).await?))
}

async fn interrupt(State(app): State<App>, ApiJson(assignment): ApiJson<Assignment>) -> ApiResult<StatusCode> {
    app.pod.interrupt(assignment).await?;
    Ok(StatusCode::ACCEPTED)
}

async fn leave(State(app): State<App>, ApiJson(assignment): ApiJson<Assignment>) -> ApiResult<StatusCode> {
    app.pod.leave(assignment).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn forget(State(app): State<App>, ApiJson(assignment): ApiJson<Assignment>) -> ApiResult<StatusCode> {
    app.pod.forget(assignment).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn grant(State(app): State<App>, ApiJson(grant): ApiJson<Grant>) -> ApiResult<StatusCode> {
    app.pod.grant(&grant)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn events(State(app): State<App>, ApiJson(call): ApiJson<EventsCall>) -> ApiResult<Response> {
    let events = app.pod.events(&call).await?;
    Ok(lines(app.stop, events))
}

async fn report(State(app): State<App>) -> Response {
    let report = app.pod.report();
    lines(app.stop, report)
}

/// One JSON object a line, until the stream ends, or the process does and nothing more is ready.
fn lines<T: Serialize + Send + 'static>(stop: CancellationToken, items: impl Stream<Item = T> + Send + 'static) -> Response {
    let lines = futures::stream::unfold((Box::pin(items), stop), |(mut items, stop)| async move {
        let item = tokio::select! {
            // What happened before the end is told before it.
            biased;
            item = items.next() => item?,
            () = stop.cancelled() => return None,
        };
        let mut line = serde_json::to_vec(&item).ok()?;
        line.push(b'\n');
        Some((Ok::<_, Infallible>(Bytes::from(line)), (items, stop)))
    });
    ([(header::CONTENT_TYPE, NDJSON)], Body::from_stream(lines)).into_response()
}
