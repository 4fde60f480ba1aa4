//! What stays open says so while nothing happens, and ends with the credential that it was opened with, or with its gateway.

use std::{sync::Arc, time::Duration};

use crate::support::{Answer, Client, FakePod, Trust, directory, pass, serve_routes_until};
use dormouse_gateway::{
    Gateway,
    auth::{
        keys::{KeyRecord, KeyStore as _, digest, file::KeyFile},
        loopback::Loopback,
        review::{ENDED_WITHIN, INTERVAL, LOOK_TIMEOUT},
    },
    stream::HEARTBEAT_INTERVAL,
};
use dormouse_protocol::{
    key::{ApiKey, KeyVerb},
    run::{Run, RunState},
};
use dormouse_testkit::wait::eventually;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};
use tokio_util::sync::CancellationToken;

const SESSION: &str = "/v1/namespaces/default/sessions/a";
/// More than passes in a test.
const LONG: Duration = Duration::from_secs(3_600);
/// Longer than an answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway with the session `a`, of which a run never ends, and a key for it.
struct World {
    _folder: tempfile::TempDir,
    client: Client,
    pod: Arc<FakePod>,
    keys: Arc<KeyFile>,
    secret: String,
    shutdown: CancellationToken,
}

impl World {
    async fn new() -> Self {
        let trust = Trust::new();
        let pod = trust.pod("one", 4).await;
        let (folder, directory) = directory(&trust, &[&pod]).await;
        let keys = Arc::new(KeyFile::open(&folder.path().join("keys.json")).unwrap());
        let gateway = Gateway::new(directory, trust.kernels(), Arc::new(Loopback::default())).with_keys(Arc::clone(&keys) as Arc<_>);
        let shutdown = CancellationToken::new();
        let client = serve_routes_until(gateway, shutdown.clone()).await;
        assert_eq!(client.json("POST", "/v1/namespaces/default/sessions", json!({ "name": "a" })).await.0, 201);
        pod.runs.lock().unwrap().push(endless());
        let world = Self { _folder: folder, client, pod, keys, secret: format!("dmk_{}", digest("page")), shutdown };
        world.make_key(None).await;
        world
    }

    async fn make_key(&self, expires_at: Option<&str>) {
        let about = ApiKey {
            name: "page".to_owned(),
            namespace: "default".to_owned(),
            verbs: vec![KeyVerb::Get, KeyVerb::Eval],
            label_selector: None,
            expires_at: expires_at.map(str::to_owned),
            created_at: "2026-01-01T00:00:00Z".to_owned(),
            created_by: "somebody".to_owned(),
        };
        self.keys.create(KeyRecord { digest: digest(&self.secret), made_by: None, about }).await.unwrap();
    }

    /// Lets time pass, and the gateway's connection to the pod live through it.
    async fn passes(&self, time: Duration) {
        pass(time).await;
        assert_eq!(self.client.get(&format!("{SESSION}/journal")).await.0, 200);
    }

    async fn revoke(&self) {
        assert!(self.keys.delete("default", "page").await.unwrap());
    }

    /// As if the time that the key says had come.
    async fn expire(&self) {
        self.revoke().await;
        self.make_key(Some("2026-01-01T00:00:00Z")).await;
    }

    fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, path).bearer_auth(&self.secret).timeout(LONG)
    }

    /// Every kind of a stream, open: each has said what it begins with.
    async fn streams(&self) -> Vec<Stream> {
        self.pod.answers.lock().unwrap().push_back(Answer::Waits);
        let stateless = "2026-07-28";
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": stateless, "io.modelcontextprotocol/clientCapabilities": {} });
        let params = json!({ "notifications": { "toolsListChanged": true }, "_meta": meta });
        let listen = json!({ "jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params });
        let listens = self.request("POST", &format!("{SESSION}/mcp")).json(&listen).header("accept", "application/json, text/event-stream");
        let listens = listens.header("mcp-protocol-version", stateless).header("mcp-method", "subscriptions/listen");
        let events = format!("{SESSION}/events");
        let beats = "\"type\":\"heartbeat\"";
        let cell = self.request("POST", &format!("{SESSION}/eval")).json(&json!({ "code": "1" })).header("accept", "application/x-ndjson");
        let mut streams = Vec::new();
        for (name, request, begins, beats) in [
            ("events as lines", self.request("GET", &events), "hello", beats),
            ("server-sent events", self.request("GET", &events).header("accept", "text/event-stream"), "hello", beats),
            ("a cell", cell, "hello", beats),
            ("the streaming protocol", self.request("GET", "/sessions/a/stream"), "hello", beats),
            ("a subscription of MCP", listens, "acknowledged", ":\n\n"),
        ] {
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), 200, "{name}");
            let mut stream = Stream { name, answer, heard: String::new(), beats };
            stream.says(begins).await;
            streams.push(stream);
        }
        streams
    }

    /// Every kind of a socket, open.
    async fn sockets(&self) -> Vec<(&'static str, Socket)> {
        let mut sockets = Vec::new();
        for path in ["/ws?id=a", "/v1/namespaces/default/sessions/a/ws", "/api/kernels/a/channels"] {
            let mut request = format!("{}{path}", self.client.base.replace("http://", "ws://")).into_client_request().unwrap();
            request.headers_mut().insert("authorization", format!("Bearer {}", self.secret).parse().unwrap());
            sockets.push((path, connect_async(request).await.unwrap().0));
        }
        sockets
    }
}

fn endless() -> Run {
    Run {
        id: "r_0".to_owned(),
        state: RunState::Running,
        idempotency_key: "k".to_owned(),
        cell: Some(1),
        created_at: "2026-01-01T00:00:00Z".to_owned(),
        started_at: None,
        heartbeat_at: None,
        progress: None,
        ended_at: None,
        result: None,
        dropped: None,
        url: String::new(),
    }
}

/// An answer that goes on.
struct Stream {
    name: &'static str,
    answer: reqwest::Response,
    /// What has come and was not looked at.
    heard: String,
    /// What it says when nothing happens.
    beats: &'static str,
}

impl Stream {
    /// Reads on. False: it has ended.
    async fn reads(&mut self) -> bool {
        let chunk = tokio::time::timeout(PATIENCE, self.answer.chunk()).await;
        let chunk = chunk.unwrap_or_else(|_| panic!("{} is silent behind {:?}", self.name, self.heard)).unwrap();
        chunk.iter().for_each(|chunk| self.heard.push_str(std::str::from_utf8(chunk).unwrap()));
        chunk.is_some()
    }

    async fn says(&mut self, what: &str) {
        loop {
            if let Some(at) = self.heard.find(what) {
                self.heard.drain(..at + what.len());
                return;
            }
            assert!(self.reads().await, "{} has ended before it said {what}: {:?}", self.name, self.heard);
        }
    }

    /// The last that it says.
    async fn last(mut self) -> Value {
        while self.reads().await {}
        let last = self.heard.lines().rfind(|line| line.contains('{')).unwrap_or_else(|| panic!("{} ends without a word", self.name));
        serde_json::from_str(last.trim_start_matches("data: ")).unwrap()
    }
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// Waits for a message of a socket.
async fn hears<T>(name: &str, socket: &mut Socket, wanted: impl Fn(&Message) -> Option<T>) -> T {
    loop {
        let came = tokio::time::timeout(PATIENCE, socket.next()).await.unwrap_or_else(|_| panic!("{name} is silent"));
        let came = came.unwrap_or_else(|| panic!("{name} is over")).unwrap();
        if let Some(found) = wanted(&came) {
            return found;
        }
    }
}

async fn closes_with(name: &str, socket: &mut Socket) -> u16 {
    let code = |came: &Message| match came {
        Message::Close(close) => Some(close.as_ref().map_or(0, |close| close.code.into())),
        _ => None,
    };
    hears(name, socket, code).await
}

/// Lets everything be opened, and end in time by `end`.
async fn ends_in_time(end: impl AsyncFnOnce(&World)) {
    let world = World::new().await;
    let mut streams = world.streams().await;
    let mut sockets = world.sockets().await;
    world.pod.answers.lock().unwrap().push_back(Answer::Waits);
    let waited = world.request("POST", &format!("{SESSION}/eval")).json(&json!({ "code": "2", "idempotencyKey": "mine" }));
    let waited = tokio::spawn(async move { waited.send().await.unwrap() });
    eventually("the cell has begun", async || world.pod.evals().iter().any(|call| call.eval.code == "2")).await;
    // A credential that is good is looked at, and nothing comes of it.
    world.passes(INTERVAL).await;
    for stream in &mut streams {
        stream.says(stream.beats).await;
    }
    for (name, socket) in &mut sockets {
        hears(name, socket, |came| came.is_ping().then_some(())).await;
    }
    end(&world).await;
    let ended = Instant::now();
    pass(INTERVAL + LOOK_TIMEOUT).await;
    for stream in streams {
        let name = stream.name;
        let last = stream.last().await;
        let (of_stream, of_mcp) = (&last["payload"]["code"], &last["error"]["data"]["code"]);
        assert!(*of_stream == "Unauthenticated" || *of_mcp == "Unauthenticated" && last["id"] == 7, "{name}: {last}");
    }
    for (name, socket) in &mut sockets {
        assert_eq!(closes_with(name, socket).await, 1008, "{name}");
    }
    let refused = waited.await.unwrap();
    assert_eq!(refused.status(), 401);
    let refused: Value = refused.json().await.unwrap();
    assert_eq!(refused["error"]["details"]["idempotencyKey"], "mine", "with a good credential it is asked for again: {refused}");
    assert!(ended.elapsed() < ENDED_WITHIN, "{:?}", ended.elapsed());
}

#[tokio::test]
async fn what_a_key_opened_ends_within_a_minute_after_it_was_revoked() {
    ends_in_time(World::revoke).await;
}

#[tokio::test]
async fn what_a_key_opened_ends_within_a_minute_after_it_has_expired() {
    ends_in_time(World::expire).await;
}

#[tokio::test]
async fn what_stays_open_says_so_while_nothing_happens() {
    let world = World::new().await;
    let mut streams = world.streams().await;
    let mut sockets = world.sockets().await;
    for _ in 0..3 {
        world.passes(HEARTBEAT_INTERVAL).await;
        for stream in &mut streams {
            stream.says(stream.beats).await;
        }
        for (name, socket) in &mut sockets {
            hears(name, socket, |came| came.is_ping().then_some(())).await;
        }
    }
}

#[tokio::test]
async fn a_gateway_that_stops_tells_every_socket() {
    let world = World::new().await;
    let mut sockets = world.sockets().await;
    world.shutdown.cancel();
    for (name, socket) in &mut sockets {
        assert_eq!(closes_with(name, socket).await, 1001, "{name}");
    }
}
