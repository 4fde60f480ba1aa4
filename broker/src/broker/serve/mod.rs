//! The broker's routes: who may call, what is admitted, and how an answer leaves.

mod fetch;
mod jobs;
mod modules;
mod webhooks;

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{DefaultBodyLimit, State},
    http::{HeaderValue, header::CONTENT_TYPE},
    middleware::from_fn_with_state,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use dormouse_crds::webhooks::EventKind;
use dormouse_lifecycle::{json, keys::broker_name};
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{
        CALL_BYTES_MAX, DecideCall, EVENTS_HEADER, OFFLOAD_HEADER, PAGE_HEADER, ToolAnswer, ToolCall, ToolDescription, events_text,
        offload_text,
    },
};
use dormouse_service::{
    ApiJson,
    error::ApiResult,
    memory::{self, Memory},
    tls::{PeerIdentity, Process, Server, TlsFiles, require},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Broker;
use crate::{
    pools::LivingPools,
    room::{self, Holding, SMALL_BYTES_MAX},
    uploads::{Asked, Upload},
};

/// How long the end waits for the last lines of the audit.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(5);

impl Broker {
    /// The routes, for kernel pods of `namespace` only.
    pub fn router(&self, namespace: impl Into<String>) -> Router {
        self.router_for(namespace, LivingPools::default())
    }

    fn router_for(&self, namespace: impl Into<String>, pools: LivingPools) -> Router {
        let state = Served { broker: self.clone(), namespace: namespace.into(), pools };
        let routes = Router::new()
            .route("/v1/call", post(call).layer(DefaultBodyLimit::max(CALL_BYTES_MAX)))
            .route("/v1/upload", post(upload))
            .route("/v1/tools", get(tools))
            .merge(fetch::routes())
            .merge(modules::routes())
            .merge(webhooks::notices())
            .with_state(state.clone());
        let orders =
            Router::new().route("/v1/decide", post(decide)).merge(webhooks::orders()).merge(jobs::routes()).with_state(state.clone());
        let sessions = webhooks::sessions().with_state(state);
        let told = require(sessions, &[Process::Gateway, Process::Operator]);
        require(routes, &[Process::Kernel]).merge(require(orders, &[Process::Gateway])).merge(told)
    }

    /// Serves kernel pods of the namespace that this process's certificate names, until `shutdown`; then finishes what is in flight.
    pub async fn serve(self, listener: TcpListener, tls: TlsFiles, shutdown: CancellationToken) {
        self.serve_within(Memory::unlimited(), LivingPools::default(), listener, tls, shutdown).await;
    }

    /// The same, taking calls of `pools` as long as there is room for them in `memory`.
    pub async fn serve_within(self, memory: Memory, pools: LivingPools, listener: TcpListener, tls: TlsFiles, shutdown: CancellationToken) {
        let namespace = tls.identity().namespace;
        let routes = self.router_for(namespace, pools).layer(from_fn_with_state(memory, memory::admit_whole));
        self.work_beside(Server::new(tls).serve(listener, routes, shutdown)).await;
    }

    /// Does what a broker does beside answering, as long as its routes are served: delivers events, and keeps jobs clean. Then stores the last lines of the
    /// audit.
    pub async fn work_beside(self, serving: impl Future<Output = ()>) {
        let delivering = tokio::spawn(self.clone().keep_delivering());
        let sweeping = tokio::spawn(self.clone().keep_jobs_clean());
        serving.await;
        delivering.abort();
        sweeping.abort();
        let _ = tokio::time::timeout(LAST_LINES_TIMEOUT, self.store_audit()).await;
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) broker: Broker,
    namespace: String,
    pools: LivingPools,
}

impl Served {
    /// The answer to a call. A large one that is known already waits for room, too, for as long as its caller does.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) async fn answer_within(&self, room: Holding, session_uid: &str, answer: &ToolAnswer) -> Result<Response, ApiError> {
        let bytes = json::bytes(answer);
        if bytes > SMALL_BYTES_MAX {
            room.wait_for(bytes).await;
        }
        let mut text = Vec::with_capacity(bytes);
        serde_json::to_writer(&mut text, answer)
            .map_err(|error| ApiError::new(ErrorCode::Internal, format!("the answer cannot be written: {error}")))?;
        Ok(room.until_sent(self.answer(session_uid, text)))
    }

    /// The answer to a call of a session, which tells of its page too, and of which answers stay outside the heap.
    fn answer(&self, session_uid: &str, text: Vec<u8>) -> Response {
        let mut response = ([(CONTENT_TYPE, "application/json")], text).into_response();
        if let Some(page) = self.broker.page(session_uid).and_then(|page| HeaderValue::try_from(page).ok()) {
            response.headers_mut().insert(PAGE_HEADER, page);
        }
        if let Ok(offload) = HeaderValue::try_from(offload_text(self.broker.catalog().offload)) {
            response.headers_mut().insert(OFFLOAD_HEADER, offload);
        }
        self.tell_events(&mut response);
        response
    }

    /// Tells of which events anybody is told: a kernel pod need not ask about others.
    pub(crate) fn tell_events(&self, response: &mut Response) {
        if let Ok(events) = HeaderValue::try_from(events_text(&self.wanted_events())) {
            response.headers_mut().insert(EVENTS_HEADER, events);
        }
    }

    /// Of which events anybody is told.
    pub(crate) fn wanted_events(&self) -> Vec<EventKind> {
        let hooks = self.broker.hooks();
        EventKind::ALL.into_iter().filter(|event| hooks.iter().any(|hook| hook.wants(*event))).collect()
    }

    /// Lets a kernel pod of the namespace in that asks for the session `uid`: one whose certificate names a session, for that one only. From here on the
    /// session's name has the pod's pool in it: what a pod says of sessions is about sessions of its own pool, whatever uid it names.
    pub(crate) fn admit(&self, peer: &PeerIdentity, uid: &mut String) -> Result<(), ApiError> {
        let pool = self.pool_of(peer)?;
        if peer.session.as_ref().is_some_and(|own| own != uid) {
            return Err(ApiError::new(
                ErrorCode::Forbidden,
                "the pod of one session asks for that session only, and this is another one's uid",
            ));
        }
        *uid = broker_name(pool, uid);
        Ok(())
    }

    /// Lets a kernel pod of the namespace in that asks for no session.
    pub(crate) fn admit_peer(&self, peer: &PeerIdentity) -> Result<(), ApiError> {
        self.pool_of(peer).map(drop)
    }

    /// The pool of a kernel pod of the namespace.
    fn pool_of<'peer>(&self, peer: &'peer PeerIdentity) -> Result<&'peer str, ApiError> {
        let refuse = |message: &str| Err(ApiError::new(ErrorCode::Forbidden, message));
        let Some(pool) = peer.pool.as_deref().filter(|_| peer.is(Process::Kernel, &self.namespace)) else {
            return refuse("a broker serves the kernel pods of its own namespace only");
        };
        if !self.pools.has(peer) {
            return refuse("the KernelPool of this pod's certificate is deleted");
        }
        Ok(pool)
    }

    pub(crate) fn admit_session(&self, namespace: &str) -> Result<(), ApiError> {
        if namespace == self.namespace {
            return Ok(());
        }
        Err(ApiError::new(ErrorCode::Forbidden, "the session belongs to another namespace"))
    }
}

async fn call(State(served): State<Served>, peer: PeerIdentity, ApiJson(mut call): ApiJson<ToolCall>) -> ApiResult<Response> {
    served.admit(&peer, &mut call.session_uid)?;
    served.admit_session(&call.namespace)?;
    let uid = call.session_uid.clone();
    let room = room::holding();
    let asked = Asked::of(&call);
    let answer = {
        let _asks = served.broker.uploads().stay(&asked);
        tokio::select! {
            biased;
            answer = room.clone().around(served.broker.call(call)) => answer,
            wanted = served.broker.uploads().wanted(&asked) => Ok(Arc::new(ToolAnswer::Send { wanted })),
        }
    };
    Ok(served.answer_within(room, &uid, &*answer?).await?)
}

/// A call with its large body. It is made with that, or joined if it waits for it.
async fn upload(State(served): State<Served>, peer: PeerIdentity, body: Body) -> ApiResult<Response> {
    let (mut call, upload) = Upload::after_call(body).await?;
    served.admit(&peer, &mut call.session_uid)?;
    served.admit_session(&call.namespace)?;
    let (uid, asked) = (call.session_uid.clone(), Asked::of(&call));
    let room = room::holding();
    let answer = {
        let _offers = served.broker.uploads().offer(&asked, upload.clone());
        room.clone().around(served.broker.call(call)).await?
    };
    upload.drain().await;
    Ok(served.answer_within(room, &uid, &answer).await?)
}

async fn decide(State(served): State<Served>, _: PeerIdentity, ApiJson(call): ApiJson<DecideCall>) -> ApiResult<Json<()>> {
    served.admit_session(&call.namespace)?;
    served.broker.decide(call).await?;
    Ok(Json(()))
}

async fn tools(State(served): State<Served>, peer: PeerIdentity) -> ApiResult<Json<Vec<ToolDescription>>> {
    served.admit_peer(&peer)?;
    Ok(Json(served.broker.tools()))
}
