//! An HTTP server on loopback that does what servers do: echoes, redirects, compresses, drips, hangs and breaks off.

use std::{
    convert::Infallible,
    io::{self, Write as _},
    net::SocketAddr,
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, Query, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{any, get},
};
use futures::{Stream, StreamExt as _, stream};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

/// Between two pieces of a body that drips.
const DRIP: Duration = Duration::from_millis(150);

/// The server. It ends with the process. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Web {
    /// Where it listens.
    pub address: SocketAddr,
    seen: watch::Sender<Vec<String>>,
    open: watch::Sender<bool>,
}

impl Web {
    /// Starts it.
    ///
    /// # Errors
    /// Loopback has no free port.
    pub async fn start() -> io::Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let web = Self { address: listener.local_addr()?, seen: watch::channel(Vec::new()).0, open: watch::channel(false).0 };
        let router = Router::new()
            .route("/echo", any(echo))
            .route("/status/{code}", any(status))
            .route("/redirect/{code}", any(redirect))
            .route("/circle", any(|| async { (StatusCode::FOUND, [(header::LOCATION, "/circle")]) }))
            .route("/gzip", get(gzip))
            .route("/cookies", get(cookies))
            .route("/bytes/{count}", any(bytes))
            .route("/drip/{count}", get(drip))
            .route("/items/{id}", get(item))
            .route("/items/{id}/log", get(|| drip(Path(3))))
            .route("/hang", any(hang))
            .route("/endless", get(endless))
            .route("/cut", get(cut))
            .layer(axum::middleware::from_fn_with_state(web.clone(), note))
            .with_state(web.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(web)
    }

    /// Its URL, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far: method, path and query.
    #[must_use]
    pub fn seen(&self) -> Vec<String> {
        self.seen.borrow().clone()
    }

    /// Waits until a request that begins so has arrived.
    pub async fn until_seen(&self, request: &str) {
        // The sender is here, so the wait cannot fail.
        let _ = self.seen.subscribe().wait_for(|seen| seen.iter().any(|one| one.starts_with(request))).await;
    }

    /// Lets `/hang` answer, and `/endless` go on.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    async fn opened(&self) {
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

async fn note(State(web): State<Web>, request: Request, next: axum::middleware::Next) -> Response {
    web.seen.send_modify(|seen| seen.push(format!("{} {}", request.method(), request.uri())));
    next.run(request).await
}

/// What the request was.
async fn echo(request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else { return StatusCode::BAD_REQUEST.into_response() };
    let mut headers = Map::new();
    for (name, value) in &parts.headers {
        headers.insert(name.to_string(), Value::from(String::from_utf8_lossy(value.as_bytes())));
    }
    let told = json!({
        "method": parts.method.as_str(), "uri": parts.uri.to_string(), "headers": headers, "bytes": body.len(), "body": String::from_utf8_lossy(&body),
    });
    Json(told).into_response()
}

async fn status(Path(code): Path<u16>) -> Response {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST);
    if matches!(code, 204 | 304) { status.into_response() } else { (status, format!("status {code}")).into_response() }
}

/// `?to=URL`
async fn redirect(Path(code): Path<u16>, Query(query): Query<std::collections::HashMap<String, String>>) -> Response {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST);
    let mut headers = HeaderMap::new();
    if let Some(to) = query.get("to").and_then(|to| HeaderValue::from_str(to).ok()) {
        headers.insert(header::LOCATION, to);
    }
    (status, headers).into_response()
}

async fn gzip() -> Response {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let packed = encoder.write_all("compressed ".repeat(100).as_bytes()).and_then(|()| encoder.finish());
    let Ok(packed) = packed else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    ([(header::CONTENT_ENCODING, "gzip"), (header::CONTENT_TYPE, "text/plain")], packed).into_response()
}

async fn cookies() -> Response {
    let mut headers = HeaderMap::new();
    headers.append(header::SET_COOKIE, HeaderValue::from_static("a=1; Path=/"));
    headers.append(header::SET_COOKIE, HeaderValue::from_static("b=2"));
    headers.insert("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap_or(HeaderValue::from_static("")));
    (headers, "cookies").into_response()
}

/// So many bytes; each is its position modulo 251.
async fn bytes(Path(count): Path<usize>) -> Vec<u8> {
    (0..count).map(|at| u8::try_from(at % 251).unwrap_or_default()).collect()
}

/// So many lines, one after the other.
async fn drip(Path(count): Path<usize>) -> Body {
    Body::from_stream(stream::iter(0..count).then(|at| async move {
        if at > 0 {
            tokio::time::sleep(DRIP).await;
        }
        Ok::<_, Infallible>(format!("drop {at}\n"))
    }))
}

async fn item(Path(id): Path<String>) -> Json<Value> {
    Json(json!({ "id": id, "left": 3 }))
}

async fn hang(State(web): State<Web>) -> &'static str {
    web.opened().await;
    "at last"
}

/// A first piece, and then nothing until it is opened; then without end.
async fn endless(State(web): State<Web>) -> Body {
    Body::from_stream(first("begun").chain(stream::unfold(web, |web| async move {
        web.opened().await;
        Some((Ok(Bytes::from_static(&[b'x'; 4_096])), web))
    })))
}

/// A body that breaks off.
async fn cut() -> Body {
    Body::from_stream(first("begun").chain(stream::once(async {
        tokio::time::sleep(DRIP).await;
        Err(io::Error::other("the server breaks off"))
    })))
}

fn first(text: &'static str) -> impl Stream<Item = io::Result<Bytes>> {
    stream::iter([Ok(Bytes::from_static(text.as_bytes()))])
}
