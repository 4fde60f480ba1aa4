//! An axum router behind mutual TLS.

use std::{convert::Infallible, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::Request,
    middleware::{Next, from_fn},
    response::{IntoResponse as _, Response},
};
use dormouse_protocol::{ApiError, ErrorCode};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::{PeerIdentity, Process, TlsFiles};
use crate::{ApiErrorResponse, origin};

/// How long a client may take to prove who it is.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an HTTP/1 client may take to send its headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long requests may go on after the shutdown began.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests in flight on one HTTP/2 connection: a gateway has one connection to a pod and many sessions there.
const STREAMS_PER_CONNECTION_MAX: u32 = 16_384;
/// Flow-control window of a stream, in bytes.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Flow-control window of a connection, in bytes.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// How long to wait after a failed accept: the process is out of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Serves a router to peers that prove an identity. Every request carries the [`PeerIdentity`] as an extension.
#[derive(Debug, Clone)]
pub struct Server {
    tls: TlsFiles,
    drain_timeout: Duration,
}

impl Server {
    /// A server with this process's certificate.
    #[must_use]
    pub fn new(tls: TlsFiles) -> Self {
        Self { tls, drain_timeout: DRAIN_TIMEOUT }
    }

    /// How long requests may go on after the shutdown began; 30 seconds by default. Streams that never end must watch the token themselves.
    #[must_use]
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// Serves until `shutdown` is cancelled, then lets the requests in flight end.
    pub async fn serve(self, listener: TcpListener, router: Router, shutdown: CancellationToken) {
        let (graceful, router) = (GracefulShutdown::new(), router.layer(from_fn(origin::taken)));
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let watcher = graceful.watcher();
                    let (tls, router) = (self.tls.clone(), router.clone());
                    tokio::spawn(connection(tls, stream, router, watcher, shutdown.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
        drop(listener);
        if tokio::time::timeout(self.drain_timeout, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests were still running when the time to stop was over");
        }
    }
}

async fn connection(
    tls: TlsFiles,
    stream: TcpStream,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
    shutdown: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let acceptor = tokio_rustls::TlsAcceptor::from(tls.current().server.clone());
    let handshake = tokio::select! {
        () = shutdown.cancelled() => return,
        handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)) => handshake,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "handshake refused"),
        Err(_) => return tracing::debug!("handshake took too long"),
    };
    let peer = stream.get_ref().1.peer_certificates().and_then(|chain| PeerIdentity::of_certificate(chain.first()?));
    let Some(peer) = peer else { return tracing::debug!("the peer's certificate names no process") };
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        let mut router = router.clone();
        async move { Ok::<_, Infallible>(infallible(router.call(request.map(Body::new)).await)) }
    });
    let builder = builder();
    let served = watcher.watch(builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned()).await;
    if let Err(error) = served {
        tracing::debug!(error = %error, "connection ended");
    }
}

fn infallible(result: Result<Response, Infallible>) -> Response {
    match result {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    builder
}

/// The router, for these kinds of process only: others get `Forbidden`.
pub fn require(router: Router, allowed: &'static [Process]) -> Router {
    router.layer(from_fn(move |peer: PeerIdentity, request: Request, next: Next| async move {
        if allowed.contains(&peer.process) {
            return next.run(request).await;
        }
        let message = format!("a {} may not do this here", peer.process);
        ApiErrorResponse(ApiError::new(ErrorCode::Forbidden, message)).into_response()
    }))
}
