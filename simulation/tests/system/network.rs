//! Requests between processes, without sockets: what arrives is handed to the receiver's own routes.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Body};
use bytes::Bytes;
use dormouse_service::{
    tls::PeerIdentity,
    wire::{SendError, Wire},
};
use futures::{StreamExt as _, future::BoxFuture};
use reqwest::{Request, Response};
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use crate::{
    chaos::{Act, Chaos, Fate},
    node::Node,
};

/// When a connection to nobody is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long what nobody hears may take to be said.
const ANSWER_MAX: Duration = Duration::from_secs(180);

/// When a connection on which nothing comes is given up.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
struct Endpoint {
    node: Node,
    routes: Router,
}

/// Who listens under which name. Clones are the same network.
#[derive(Clone)]
pub struct Network {
    endpoints: Arc<Mutex<BTreeMap<String, Vec<Endpoint>>>>,
    /// (from, to) that do not reach each other.
    cut: Arc<Mutex<Vec<(String, String)>>>,
    pub chaos: Chaos,
}

impl Network {
    pub fn new(chaos: Chaos) -> Self {
        Self { endpoints: Arc::default(), cut: Arc::default(), chaos }
    }

    /// Listens; several under one name share what comes.
    pub fn listen(&self, host: &str, node: &Node, routes: Router) {
        let endpoint = Endpoint { node: node.clone(), routes };
        self.endpoints.lock().unwrap().entry(host.to_owned()).or_default().push(endpoint);
    }

    /// Nobody listens under this name any more.
    pub fn forget(&self, host: &str) {
        self.endpoints.lock().unwrap().remove(host);
    }

    /// From here on `from` does not reach `to`.
    pub fn cut(&self, from: &str, to: &str) {
        self.cut.lock().unwrap().push((from.to_owned(), to.to_owned()));
    }

    /// Nobody listens any more: whoever listens can reach others, so they would keep each other for ever.
    pub fn end(&self) {
        self.endpoints.lock().unwrap().clear();
    }

    pub fn mend(&self) {
        self.cut.lock().unwrap().clear();
    }

    /// The network as one process has it.
    pub fn wire(&self, node: &Node, identity: Option<PeerIdentity>) -> Arc<dyn Wire> {
        Arc::new(Cable { network: self.clone(), node: node.clone(), identity })
    }

    fn find(&self, host: &str) -> Option<Endpoint> {
        let endpoints = self.endpoints.lock().unwrap();
        let all = endpoints.get(host)?;
        all.iter().find(|endpoint| !endpoint.node.is_dead()).or(all.first()).cloned()
    }

    fn is_cut(&self, from: &str, to: &str) -> bool {
        self.cut.lock().unwrap().iter().any(|(a, b)| a == from && b == to)
    }
}

/// The network as one process has it.
#[derive(Clone)]
struct Cable {
    network: Network,
    node: Node,
    identity: Option<PeerIdentity>,
}

impl fmt::Debug for Cable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cable({})", self.node.name())
    }
}

impl Wire for Cable {
    fn carry(&self, request: Request) -> BoxFuture<'static, Result<Response, SendError>> {
        let cable = self.clone();
        Box::pin(async move {
            let limit = request.timeout().copied();
            let Some(limit) = limit else { return cable.transfer(request).await };
            // With a limit, the body must be there within it, too.
            let whole = async {
                let response = cable.transfer(request).await?;
                let (status, headers) = (response.status(), response.headers().clone());
                let body = response.bytes().await?;
                let mut answer = http::Response::new(reqwest::Body::from(body));
                (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
                Ok(Response::from(answer))
            };
            timeout(limit, whole).await.unwrap_or_else(|_| Err(lost("timed out")))
        })
    }
}

impl Cable {
    async fn transfer(&self, request: Request) -> Result<Response, SendError> {
        self.node.lives().await;
        let host = request.url().host_str().unwrap_or_default().to_owned();
        let act = |to: &str| Act {
            from: self.node.name().to_owned(),
            to: to.to_owned(),
            verb: if request.method() == http::Method::GET { "GET" } else { "SEND" },
            name: format!("{} {}", request.method(), request.url().path()),
            bytes: 0,
        };
        let Some(Endpoint { node, routes }) = self.network.find(&host).filter(|found| !found.node.is_dead()) else {
            sleep(CONNECT_TIMEOUT).await;
            self.node.lives().await;
            return Err(SendError::Unreachable("nobody is there".into()));
        };
        let fate = self.network.chaos.decide(&act(node.name()));
        if self.network.is_cut(self.node.name(), node.name()) {
            sleep(CONNECT_TIMEOUT).await;
            self.node.lives().await;
            return Err(SendError::Unreachable("no way there".into()));
        }
        let request = self.received(request)?;
        let result = match fate {
            Fate::Arrives { before, after } => {
                sleep(Duration::from_millis(before)).await;
                let handled = handled(&node, routes, request).await;
                sleep(Duration::from_millis(after)).await;
                handled
            }
            Fate::ReplyLost { before } => {
                sleep(Duration::from_millis(before)).await;
                if let Ok(answer) = handled(&node, routes, request).await {
                    // What is to be done is done, whoever may hear of it; an answer without an end has nothing left to do.
                    tokio::spawn(tokio::time::timeout(ANSWER_MAX, answer.bytes()));
                }
                Err(lost("the connection was reset"))
            }
            Fate::ArrivesLate { after } => {
                let node = node.clone();
                tokio::spawn(async move {
                    sleep(Duration::from_millis(after)).await;
                    if let Ok(answer) = handled(&node, routes, request).await {
                        let _ = answer.bytes().await;
                    }
                });
                Err(lost("the connection was reset"))
            }
            Fate::RequestLost | Fate::Conflict => {
                sleep(PING_TIMEOUT).await;
                Err(lost("no sign of life"))
            }
            Fate::Busy => Err(SendError::Unreachable("the connection was refused".into())),
            Fate::Refused => {
                let mut answer = http::Response::new(reqwest::Body::from("gone"));
                *answer.status_mut() = http::StatusCode::BAD_GATEWAY;
                Ok(Response::from(answer))
            }
        };
        self.node.lives().await;
        result
    }

    fn received(&self, request: Request) -> Result<http::Request<Body>, SendError> {
        let request: http::Request<reqwest::Body> = request.try_into()?;
        let (mut parts, body) = request.into_parts();
        // A server sees a path, not a URL.
        if let Some(path) = parts.uri.path_and_query().cloned() {
            parts.uri = http::Uri::from(path);
        }
        let sender = self.node.clone();
        // The body of a process that dies is cut off.
        let body = Body::new(body).into_data_stream().boxed();
        let body = futures::stream::unfold((body, sender), |(mut body, sender)| async move {
            tokio::select! {
                biased;
                chunk = body.next() => chunk.map(|chunk| (chunk.map_err(std::io::Error::other), (body, sender))),
                () = sender.died() => Some((Err(std::io::Error::other("cut off")), (futures::stream::empty().boxed(), Node::new("")))),
            }
        });
        let mut received = http::Request::from_parts(parts, Body::from_stream(body));
        if let Some(identity) = &self.identity {
            received.extensions_mut().insert(identity.clone());
        }
        Ok(received)
    }
}

async fn handled(node: &Node, routes: Router, request: http::Request<Body>) -> Result<Response, SendError> {
    let answer = tokio::select! {
                biased;
        answer = routes.oneshot(request) => answer,
        () = node.died() => return Err(lost("the peer is gone")),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(never) => match never {},
    };
    let (parts, body) = answer.into_parts();
    let body = futures::stream::unfold((body.into_data_stream().boxed(), node.clone()), |(mut body, node)| async move {
        tokio::select! {
                biased;
            chunk = body.next() => chunk.map(|chunk: Result<Bytes, axum::Error>| (chunk.map_err(std::io::Error::other), (body, node))),
            () = node.died() => Some((Err(std::io::Error::other("the peer is gone")), (futures::stream::empty().boxed(), Node::new("")))),
        }
    });
    Ok(Response::from(http::Response::from_parts(parts, reqwest::Body::wrap_stream(body))))
}

fn lost(why: &'static str) -> SendError {
    SendError::Lost(why.into())
}
