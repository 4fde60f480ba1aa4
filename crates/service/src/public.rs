//! A listener for anybody: what a client that sends slowly, reads slowly, or only connects may take is bounded.
//!
//! A connection without a request under way ends after a while, which bounds the time for a request's head, for a protocol's preface and between
//! two requests. A body must come at a least rate, and an answer must be read. Connections are counted; when there are too many, the one that
//! has done nothing for longest makes room.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{
        HeaderValue, StatusCode, Version,
        header::{CONNECTION, TRANSFER_ENCODING},
    },
};
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    time::{Instant, Sleep, sleep_until},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::tls::DoorCertificate;

/// How long to wait after a failed accept: the process is out of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Requests at once on one HTTP/2 connection.
const STREAMS_PER_CONNECTION_MAX: u32 = 256;
/// Bytes of a request's head.
const HEAD_BYTES_MAX: u32 = 64 << 10;
/// Bytes that HTTP/1 reads ahead, a request's head among them.
const BUFFER_BYTES_MAX: usize = 128 << 10;
/// Bytes of answers that wait for an HTTP/2 client on one of its streams.
const SEND_BYTES_MAX: usize = 64 << 10;

/// What clients may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once.
    pub connections_max: usize,
    /// Time without a request under way: that a client may take for the head of one.
    pub idle_timeout: Duration,
    /// Time that a body has before its rate counts.
    pub body_grace: Duration,
    /// Least rate of a body, in bytes a second.
    pub body_rate_min: u64,
    /// Time that a client may read nothing of an answer that waits for it.
    pub write_timeout: Duration,
    /// Time that requests have to end after the shutdown began.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4_096,
            idle_timeout: Duration::from_secs(30),
            body_grace: Duration::from_secs(20),
            body_rate_min: 8 << 10,
            write_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(25),
        }
    }
}

/// How a listener for anybody serves.
#[derive(Debug, Clone)]
pub struct Door {
    /// What clients may take.
    pub limits: Limits,
    /// What it shows; without it there is no TLS.
    pub certificate: Option<DoorCertificate>,
    /// Cancelled some time before the shutdown: connections are still taken, for those who do not know yet, and each answer over HTTP/1 ends its own.
    /// So nobody sends over a connection that the shutdown closes: to a client that would be a failure.
    pub leaving: CancellationToken,
}

impl Door {
    /// Without TLS, and without a time to leave.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, certificate: None, leaving: CancellationToken::new() }
    }

    /// Serves a router to anybody until `shutdown` is cancelled, then lets the requests in flight end.
    pub async fn serve(self, listener: TcpListener, router: Router, shutdown: CancellationToken) {
        let graceful = GracefulShutdown::new();
        let connections = Arc::new(Connections::default());
        let Self { limits, certificate, leaving } = self;
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let Some(admitted) = connections.admit(limits) else { continue };
                    let _ = stream.set_nodelay(true);
                    let served = Served { router: router.clone(), limits, leaving: leaving.clone(), admitted, watcher: graceful.watcher() };
                    match certificate.as_ref().map(DoorCertificate::config) {
                        None => drop(tokio::spawn(served.connection(stream))),
                        Some(config) => drop(tokio::spawn(served.secured(stream, config))),
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
        drop(listener);
        if tokio::time::timeout(limits.drain_timeout, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests were still running when the time to stop was over");
        }
    }
}

/// What one connection is served with.
struct Served {
    router: Router,
    limits: Limits,
    leaving: CancellationToken,
    admitted: Admitted,
    watcher: Watcher,
}

impl Served {
    /// A connection that speaks TLS. Its handshake is a time without a request.
    async fn secured(self, stream: TcpStream, config: Arc<rustls::ServerConfig>) {
        let accepted = tokio::select! {
            accepted = TlsAcceptor::from(config).accept(stream) => accepted,
            () = self.admitted.evicted.cancelled() => return,
            () = self.admitted.activity.idle_for(self.limits.idle_timeout) => return,
        };
        match accepted {
            Ok(stream) => self.connection(stream).await,
            Err(error) => tracing::debug!(%error, "a client and the door did not agree on TLS"),
        }
    }

    async fn connection<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { router, limits, leaving, admitted, watcher } = self;
        let service = {
            let activity = Arc::clone(&admitted.activity);
            hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
                let busy = Busy::new(&activity);
                let (mut router, leaving) = (router.clone(), leaving.clone());
                async move {
                    let (chunked, version) = (request.headers().contains_key(TRANSFER_ENCODING), request.version());
                    let request = request.map(|body| Body::new(Paced::new(body, limits)));
                    let mut response = router.call(request).await.unwrap_or_else(|never: Infallible| match never {});
                    // Beside chunks, a length is not even seen here: what stands before may have gone by that, and another request may begin where
                    // it saw a body (RFC 9112, 6.3). HTTP/2 has no such header, and says by itself which requests it still takes.
                    let ends = chunked || (leaving.is_cancelled() && version < Version::HTTP_2);
                    // One that becomes something else, such as a WebSocket, says so in this header.
                    if ends && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    }
                    Ok::<_, Infallible>(response.map(|body| Body::new(Answer { body, _busy: busy })))
                }
            })
        };
        let builder = builder();
        let stream = Draining { stream, write_timeout: limits.write_timeout, stalled: None };
        let served = watcher.watch(builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned());
        tokio::select! {
            served = served => if let Err(error) = served {
                tracing::debug!(%error, "connection ended");
            },
            () = admitted.evicted.cancelled() => tracing::debug!("an idle connection made room"),
            () = admitted.activity.idle_for(limits.idle_timeout) => tracing::debug!("a connection was idle for too long"),
        }
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(BUFFER_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_send_buf_size(SEND_BYTES_MAX);
    builder
}

/// Whether a connection does something, and since when it does not.
#[derive(Debug)]
struct Activity(Mutex<(usize, Instant)>);

impl Activity {
    fn get(&self) -> (usize, Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn idle_for(&self, timeout: Duration) {
        loop {
            let (busy, since) = self.get();
            let now = Instant::now();
            let until = if busy == 0 { since + timeout } else { now + timeout };
            if until <= now {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// A request under way, until its answer has been taken.
struct Busy(Arc<Activity>);

impl Busy {
    fn new(activity: &Arc<Activity>) -> Self {
        activity.0.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        Self(Arc::clone(activity))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut activity = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        activity.0 = activity.0.saturating_sub(1);
        activity.1 = Instant::now();
    }
}

/// The connections that there are.
#[derive(Debug, Default)]
struct Connections {
    next: AtomicU64,
    open: Mutex<HashMap<u64, (Arc<Activity>, CancellationToken)>>,
}

impl Connections {
    /// Admits a connection; where there are as many as may be, the one that is idle for longest ends. None when every one is busy.
    fn admit(self: &Arc<Self>, limits: Limits) -> Option<Admitted> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= limits.connections_max {
            let idle = open.iter().filter(|(_, (activity, _))| activity.get().0 == 0);
            let oldest = *idle.min_by_key(|(_, (activity, _))| activity.get().1)?.0;
            open.remove(&oldest)?.1.cancel();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let activity = Arc::new(Activity(Mutex::new((0, Instant::now()))));
        let evicted = CancellationToken::new();
        open.insert(number, (Arc::clone(&activity), evicted.clone()));
        Some(Admitted { connections: Arc::clone(self), number, activity, evicted })
    }
}

/// A connection that counts, until this is dropped.
struct Admitted {
    connections: Arc<Connections>,
    number: u64,
    activity: Arc<Activity>,
    evicted: CancellationToken,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.connections.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// A request's body that must come at a least rate.
struct Paced {
    body: Incoming,
    deadline: Pin<Box<Sleep>>,
    /// What each byte adds to the deadline.
    byte_time: Duration,
}

/// A body came too slowly.
#[derive(Debug, thiserror::Error)]
#[error("the body comes too slowly: send it at once, or in parts")]
struct TooSlow;

impl Paced {
    fn new(body: Incoming, limits: Limits) -> Self {
        let byte_time =
            Duration::from_secs(1).checked_div(u32::try_from(limits.body_rate_min.max(1)).unwrap_or(u32::MAX)).unwrap_or_default();
        Self { body, deadline: Box::pin(sleep_until(Instant::now() + limits.body_grace)), byte_time }
    }
}

impl hyper::body::Body for Paced {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let more = self.byte_time.saturating_mul(u32::try_from(bytes).unwrap_or(u32::MAX));
                let deadline = self.deadline.deadline() + more;
                self.deadline.as_mut().reset(deadline);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(ended) => Poll::Ready(ended.map(|frame| frame.map_err(Into::into))),
            Poll::Pending => {
                ready!(self.deadline.as_mut().poll(cx));
                Poll::Ready(Some(Err(TooSlow.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body; its connection is busy until it is dropped.
struct Answer {
    body: Body,
    _busy: Busy,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection whose client must read what waits for it.
struct Draining<S> {
    stream: S,
    write_timeout: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Draining<S> {
    fn watched<T>(&mut self, cx: &mut Context<'_>, polled: Poll<std::io::Result<T>>) -> Poll<std::io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let timeout = self.write_timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + timeout)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Draining<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Draining<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watched(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watched(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
