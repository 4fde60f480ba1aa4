//! Somebody who has no right, at every route there is: with credentials that are none, and with good ones of another tenant.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::support::issuer::{Issuer, SigningKey, forged, now};
use crate::support::{Client, FakePod, Trust, directory, serve, serve_routes};
use async_trait::async_trait;
use aws_lc_rs::hmac;
use dormouse_gateway::{
    Directory, Gateway,
    auth::{
        Access, AuthError, Authenticator, Caller,
        keys::{KeyRecord, KeyStore, digest, file::KeyFile},
    },
};
use dormouse_protocol::key::{ApiKey, KeyVerb};
use futures::{SinkExt as _, StreamExt as _};
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};
use tokio_util::sync::CancellationToken;

/// Tries of each kind, at least.
const TRIES_MIN: usize = 1_000;
/// The namespace that is attacked, and a session in it.
pub const VICTIM: &str = "victim";
pub const SESSION: &str = "secret";
/// The route of a namespace's sessions.
const SESSIONS: &str = "/v1/namespaces/{namespace}/sessions";
/// Paths of the API's description, at least: one that lost them would show nothing here.
const PATHS_MIN: usize = 30;
/// Those that are anybody's: what there is, and what a link's own token opens.
const PUBLIC: [&str; 4] =
    ["/approve", "/openapi.json", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"];
/// Those that tell everybody with a good credential the same.
const SAME_FOR_ALL: [&str; 3] = ["/api", "/api/kernelspecs", "/api/kernelspecs/{name}"];
/// Tries at once.
const AT_ONCE: usize = 16;

/// Lets the issuer's group do everything in the namespace `own`.
struct Own;

#[async_trait]
impl Authenticator for Own {
    async fn authenticate(&self, _: Option<&str>) -> Result<Caller, AuthError> {
        Err(AuthError::Unauthenticated)
    }

    async fn authorize(&self, caller: &Caller, access: &Access) -> Result<(), AuthError> {
        if access.namespace == "own" && caller.groups.iter().any(|group| group == "oidc:team") {
            return Ok(());
        }
        let (user, namespace) = (caller.user.clone(), access.namespace.clone());
        Err(AuthError::Forbidden { user, verb: access.verb.as_str(), resource: access.part.resource(), namespace })
    }
}

/// One request.
#[derive(Debug, Clone)]
pub struct Route {
    pub method: String,
    pub path: String,
    /// The path before it was filled in.
    pub template: String,
    pub body: Option<Value>,
    /// Whether it becomes a WebSocket, and where its credential is.
    pub socket: Option<Credential>,
}

/// Where a WebSocket's client has its credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// In `Authorization`, as everywhere.
    Header,
    /// Among the subprotocols, as a page's.
    Subprotocol,
}

/// Every route of the API's description, filled in with what is the victim's, and those that are other protocols'.
fn routes(id: &str) -> Vec<Route> {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let mut routes = Vec::new();
    let mut add = |method: &str, path: &str, socket: Option<Credential>| {
        let item = match path {
            _ if path.contains("/runs/") => "r_0",
            _ if path.contains("/jobs/") => "tools.u.1",
            _ if path.starts_with("/sessions") || path.starts_with("/api") => id,
            _ => "1",
        };
        let filled = path.replace("{namespace}", VICTIM).replace("{name}", SESSION).replace("{id}", item).replace("{path}", "a");
        let query = if path.ends_with("/diff") { "?from=7" } else { "" };
        let template = path.split('?').next().unwrap().to_owned();
        routes.push(Route { method: method.to_uppercase(), path: filled + query, template, body: body(method, path), socket });
    };
    for (path, methods) in document["paths"].as_object().unwrap() {
        methods.as_object().unwrap().keys().filter(|method| *method != "parameters").for_each(|method| add(method, path, None));
    }
    assert!(document["paths"].as_object().unwrap().len() >= PATHS_MIN);
    let below = "/v1/namespaces/{namespace}/sessions/{name}";
    for (method, path) in [
        ("get", "/api"),
        ("get", "/api/kernelspecs"),
        ("get", "/api/kernelspecs/{name}"),
        ("get", "/api/kernels"),
        ("post", "/api/kernels"),
        ("get", "/api/kernels/{id}"),
        ("delete", "/api/kernels/{id}"),
        ("delete", "/api/kernels/{id}?delete=true"),
        ("post", "/api/kernels/{id}/interrupt"),
        ("post", "/api/kernels/{id}/restart"),
        ("post", "/mcp"),
        ("get", "/mcp"),
        ("post", &format!("{below}/mcp")),
        ("get", &format!("{below}/mcp")),
        ("get", &format!("{below}/files/../../b")),
    ] {
        add(method, path, None);
    }
    for credential in [Credential::Header, Credential::Subprotocol] {
        for path in [&format!("/ws?id={SESSION}"), &format!("{below}/ws"), "/api/kernels/{id}/channels"] {
            add("get", path, Some(credential));
        }
    }
    routes
}

/// What each route takes: a refusal for a wrong body would show nothing.
fn body(method: &str, path: &str) -> Option<Value> {
    let last = path.rsplit('/').next().unwrap();
    Some(match (method, last) {
        ("get" | "delete", _) => return None,
        ("post", "eval") => json!({ "code": "1" }),
        ("post", "sessions") if path == "/sessions" => json!({ "code": "1" }),
        ("post", "sessions") => json!({ "name": "evil" }),
        ("patch", _) => json!({ "labels": { "a": "b" } }),
        ("post", "fork") => json!({ "name": "evil" }),
        ("post", "checkpoints") => json!({ "label": "evil" }),
        ("post", "restore") => json!({ "checkpoint": "7" }),
        ("post", "keys") => json!({ "name": "evil", "verbs": ["eval"] }),
        ("post", "claim") => json!({ "capabilities": ["x"], "runner": "evil" }),
        ("post", "heartbeat") => json!({ "lease": "l" }),
        ("post", "answer") => json!({ "lease": "l", "ok": true, "value": 1 }),
        ("post", "kernels") => json!({ "env": { "KERNEL_DORMOUSE_SESSION": SESSION } }),
        ("post", "mcp") => json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "eval", "arguments": { "session": SESSION, "code": "1" } },
        }),
        ("post", "{id}") => json!({ "decision": "approve" }),
        ("post" | "put", _) => json!({}),
        other => panic!("what does {other:?} take?"),
    })
}

/// A key for all verbs, as it is kept, behind its secret.
pub fn key(namespace: &str, name: &str, selector: Option<&str>, expires_at: Option<&str>) -> (String, KeyRecord) {
    use KeyVerb::{Approve, Create, Delete, Eval, Get, List, Run, Update, Use};
    // 64 hex digits of no other key.
    let secret = format!("dmk_{}", digest(&format!("{namespace}/{name}")));
    let about = ApiKey {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        verbs: vec![Approve, Create, Delete, Eval, Get, List, Run, Update, Use],
        label_selector: selector.map(str::to_owned),
        expires_at: expires_at.map(str::to_owned),
        created_at: "2026-01-01T00:00:00Z".to_owned(),
        created_by: "somebody".to_owned(),
    };
    let record = KeyRecord { digest: digest(&secret), made_by: None, about };
    (secret, record)
}

/// A gateway, and what its clients may not get at.
pub struct World {
    _folder: tempfile::TempDir,
    client: Client,
    /// The same without a connection.
    pub inside: axum::Router,
    pod: Arc<FakePod>,
    pub keys: Arc<KeyFile>,
    pub issuer: Arc<Issuer>,
    pub key: SigningKey,
    pub routes: Vec<Route>,
    directory: Arc<dyn Directory>,
}

impl World {
    async fn new() -> Self {
        Self::with_keys(&[]).await
    }

    /// The same, where these keys are kept.
    pub async fn with_keys(records: &[KeyRecord]) -> Self {
        let trust = Trust::new();
        let pod = trust.pod("a", 10).await;
        let (folder, directory) = directory(&trust, &[&pod]).await;
        let directory = directory as Arc<dyn Directory>;
        let open = serve(&trust, Arc::clone(&directory)).await;
        let spec = json!({ "toolBrokerRef": { "name": "tools" } });
        let (status, made) =
            open.json("POST", &format!("/v1/namespaces/{VICTIM}/sessions"), json!({ "name": SESSION, "spec": spec })).await;
        assert_eq!(status, 201, "{made}");
        let own = json!({ "name": "unlabelled" });
        assert_eq!(open.json("POST", "/v1/namespaces/own/sessions", own).await.0, 201);
        let file = folder.path().join("keys.json");
        std::fs::write(&file, serde_json::to_vec(records).unwrap()).unwrap();
        let keys = Arc::new(KeyFile::open(&file).unwrap());
        let key = SigningKey::new("one", Algorithm::ES256);
        let issuer = Issuer::start(&[&key]).await;
        let gateway = Gateway::new(Arc::clone(&directory), trust.kernels(), Arc::new(Own));
        let gateway = gateway.with_oidc(issuer.settings()).unwrap().with_keys(Arc::clone(&keys) as Arc<dyn KeyStore>);
        let inside = gateway.routes(CancellationToken::new());
        let client = serve_routes(gateway).await;
        let routes = routes(made["id"].as_str().unwrap());
        Self { _folder: folder, client, inside, pod, keys, issuer, key, routes, directory }
    }

    /// Puts a key into the store that anybody with the right could have made.
    pub async fn key_in(&self, namespace: &str, name: &str, selector: Option<&str>, expires_at: Option<&str>) -> String {
        let (secret, record) = key(namespace, name, selector, expires_at);
        self.keys.create(record).await.unwrap();
        secret
    }

    async fn ask(&self, route: &Route, authorization: Option<&str>, namespace: Option<&str>) -> (u16, Value) {
        let mut request = self.client.request(&route.method, &route.path);
        if route.socket.is_some() {
            let upgrade = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13")];
            request = upgrade.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            request = request.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        }
        request = match (authorization, route.socket) {
            (Some(authorization), Some(Credential::Subprotocol)) => {
                let token = authorization.strip_prefix("Bearer ").filter(|token| !token.contains(','));
                token.iter().fold(request, |request, token| {
                    request.header("sec-websocket-protocol", format!("dormouse.v1, dormouse.bearer.{token}"))
                })
            }
            (Some(authorization), _) => request.header("authorization", authorization),
            (None, _) => request,
        };
        if let Some(namespace) = namespace {
            request = request.header("dormouse-namespace", namespace);
        }
        if let Some(body) = &route.body {
            request = request.json(body);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    /// Nothing of what was tried has been done.
    pub fn is_untouched(&self) {
        assert!(self.pod.evals().is_empty() && self.pod.wakes.lock().unwrap().is_empty());
        let done = [&self.pod.hibernates, &self.pod.removals].map(|count| count.load(Ordering::SeqCst));
        assert_eq!(done, [0, 0]);
        assert!(self.pod.restores.lock().unwrap().is_empty() && self.pod.checkpoints.lock().unwrap().is_empty());
        let names: Vec<_> = self.directory.list(None).iter().map(|record| (record.key.to_string(), record.labels.len())).collect();
        assert_eq!(names, [("own/unlabelled".to_owned(), 0), (format!("{VICTIM}/{SESSION}"), 0)]);
    }
}

#[tokio::test]
async fn no_wrong_credential_opens_any_route() {
    let world = World::new().await;
    let good = world.key_in(VICTIM, "good", None, None).await;
    let expired = world.key_in(VICTIM, "expired", None, Some("2026-01-01T00:00:00Z")).await;
    let revoked = world.key_in(VICTIM, "revoked", None, None).await;
    assert!(world.keys.delete(VICTIM, "revoked").await.unwrap());
    let claims = world.issuer.claims("ann");
    let with = |field: &str, value: Value| {
        let mut claims = claims.clone();
        claims[field] = value;
        claims
    };
    let signed = |claims: &Value| world.key.sign(claims);
    let header = |algorithm: &str| json!({ "alg": algorithm, "typ": "JWT", "kid": "one" });
    let public = world.key.public().to_string();
    let shared = |signed: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, public.as_bytes()), signed).as_ref().to_vec();
    let stranger = SigningKey::new("one", Algorithm::ES256);
    let tokens = [
        String::new(),
        "null".to_owned(),
        "dmk_".to_owned(),
        format!("dmk_{}", "0".repeat(64)),
        good[..good.len() - 1].to_owned(),
        format!("{good}0"),
        good.to_uppercase(),
        good.replace("dmk_", "dmk_ "),
        good.trim_start_matches("dmk_").to_owned(),
        digest(&good),
        expired,
        revoked,
        signed(&with("exp", json!(now() - 3_600))),
        signed(&with("nbf", json!(now() + 3_600))),
        signed(&with("aud", json!("kubernetes"))),
        signed(&with("aud", json!([]))),
        signed(&with("iss", json!("https://id.example"))),
        stranger.sign(&claims),
        forged(&header("none"), &claims, |_| Vec::new()),
        forged(&header("HS256"), &claims, shared),
        forged(&header("ES256"), &claims, |_| vec![0; 64]),
        format!("{}x", signed(&claims)),
        signed(&claims).rsplit_once('.').unwrap().0.to_owned(),
        "x".repeat(20_000),
    ];
    let mut headers: Vec<_> = tokens.iter().map(|token| Some(format!("Bearer {token}"))).collect();
    headers.extend([
        None,
        Some(format!("Basic {good}")),
        Some(good.clone()),
        Some(format!("Bearer{good}")),
        Some(format!("Bearer {good}, Bearer x")),
    ]);
    let tries: Vec<_> = headers.iter().flat_map(|header| world.routes.iter().map(move |route| (header.as_deref(), route))).collect();
    assert!(tries.len() >= TRIES_MIN, "{}", tries.len());
    let (world, answers) = (&world, futures::stream::iter(tries));
    let answers = answers.map(|(header, route)| async move { (header, route, world.ask(route, header, None).await) });
    let accepted: Vec<_> = answers
        .buffer_unordered(AT_ONCE)
        .filter(|(_, _, (status, body))| std::future::ready(*status != 401 || body["error"]["code"] != "Unauthenticated"))
        .collect()
        .await;
    assert!(accepted.is_empty(), "{} accepted: {:?}", accepted.len(), accepted.first());
    world.is_untouched();
    let list = world.routes.iter().find(|route| (route.method.as_str(), route.template.as_str()) == ("GET", SESSIONS)).unwrap();
    assert_eq!(world.ask(list, Some(&format!("Bearer {good}")), None).await.0, 200, "and a right one does");
}

#[tokio::test]
async fn no_good_credential_opens_another_tenants_door() {
    let world = World::new().await;
    let key = world.key_in("own", "all", None, None).await;
    let selective = world.key_in(VICTIM, "selective", Some("app=a"), None).await;
    let token = world.key.sign(&world.issuer.claims("ann"));
    let mut tries = Vec::new();
    // Ways to say whose it should be that a route might believe.
    for namespace in [Some(VICTIM), Some("VICTIM"), Some("victim/../own"), Some(" victim"), Some("own,victim"), None] {
        for bearer in [&key, &token] {
            tries.extend(world.routes.iter().map(|route| (format!("Bearer {bearer}"), namespace, route.clone())));
        }
    }
    // Paths that might be read as one of the own namespace, or as the victim's.
    for dots in ["own/../victim", "own%2F..%2Fvictim", "victim%00", "Victim", "victim%2e", "victim;own", "victim/"] {
        for bearer in [&key, &token] {
            let moved = world.routes.iter().filter(|route| route.path.starts_with("/v1/")).cloned();
            let moved = moved.map(|route| Route { path: route.path.replace("/victim/", &format!("/{dots}/")), ..route });
            tries.extend(moved.map(|route| (format!("Bearer {bearer}"), None, route)));
        }
    }
    // A key of the namespace itself, for other sessions.
    let sessions = format!("/v1/namespaces/{VICTIM}/sessions/{SESSION}");
    // A socket may be opened by who may make sessions; what goes through it is tried below.
    let others = world.routes.iter().filter(|route| route.path.starts_with(&sessions) && route.socket.is_none());
    tries.extend(others.map(|route| (format!("Bearer {selective}"), None, route.clone())));
    assert!(tries.len() >= TRIES_MIN, "{}", tries.len());
    let world = &world;
    let answers = futures::stream::iter(tries).map(|(header, namespace, route)| async move {
        let answer = world.ask(&route, Some(&header), namespace).await;
        (header, namespace, route, answer)
    });
    let accepted: Vec<_> = answers
        .buffer_unordered(AT_ONCE)
        .filter(|(header, namespace, route, (status, body))| std::future::ready(!is_refused(route, header, *namespace, *status, body)))
        .collect()
        .await;
    assert!(accepted.is_empty(), "{} accepted: {:?}", accepted.len(), accepted.first());
    let names: Vec<_> = world.directory.list(Some(VICTIM)).iter().map(|record| record.key.name.clone()).collect();
    assert_eq!(names, [SESSION]);
    assert!(world.directory.list(Some(VICTIM)).iter().all(|record| record.labels.is_empty() && record.status.placement.is_none()));
    assert!(world.pod.evals().iter().all(|call| call.assignment.namespace == "own"));
}

#[tokio::test]
async fn no_frame_of_a_socket_reaches_a_session_that_its_key_does_not_fit() {
    let world = World::new().await;
    let selective = world.key_in(VICTIM, "selective", Some("app=a"), None).await;
    let base = world.client.base.replace("http://", "ws://");
    for path in [format!("/ws?id={SESSION}"), format!("/v1/namespaces/{VICTIM}/sessions/{SESSION}/ws")] {
        let mut request = format!("{base}{path}").into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {selective}").parse().unwrap());
        let mut socket = connect_async(request).await.unwrap().0;
        for frame in [
            json!({ "t": "create" }),
            json!({ "t": "eval", "code": "1" }),
            json!({ "t": "gen" }),
            json!({ "t": "interrupt" }),
            json!({ "t": "reset" }),
            json!({ "t": "evict" }),
            json!({ "t": "hostcall-result", "callId": "1", "ok": true }),
        ] {
            socket.send(Message::Text(frame.to_string().into())).await.unwrap();
            let answer = tokio::time::timeout(Duration::from_secs(30), socket.next()).await.expect("it answers").unwrap().unwrap();
            let answer: Value = serde_json::from_str(answer.to_text().unwrap()).unwrap();
            assert_eq!(answer["error"]["code"], "Forbidden", "{frame}: {answer}");
        }
    }
    world.is_untouched();
}

/// A route that is neither in the API's description nor in the list here would be attacked by nobody.
#[tokio::test]
async fn every_route_that_there_is_is_attacked() {
    let world = World::new().await;
    let attacked: BTreeSet<(&str, &str)> = world.routes.iter().map(|route| (route.method.as_str(), route.template.as_str())).collect();
    let mut seen = 0;
    for path in dormouse_gateway::routes::paths() {
        let template = path.replace("{*", "{");
        if PUBLIC.contains(&template.as_str()) {
            continue;
        }
        // A method that no route has is answered with those that it has.
        let filled = ["{namespace}", "{name}", "{id}", "{path}"].iter().fold(template.clone(), |path, name| path.replace(name, "a"));
        let answer = world.client.request("TRACE", &filled).send().await.unwrap();
        assert_eq!(answer.status(), 405, "{filled}");
        let methods = answer.headers()["allow"].to_str().unwrap().to_owned();
        for method in methods.split(',').map(str::trim).filter(|method| *method != "HEAD") {
            assert!(
                attacked.contains(&(method, template.as_str())),
                "{method} {template} is not attacked: add it to `routes` of this file"
            );
            seen += 1;
        }
    }
    assert!(seen > PATHS_MIN, "{seen}");
}

/// Whether another tenant has got at nothing of the victim's, which `namespace` names in a header.
pub fn is_refused(route: &Route, header: &str, namespace: Option<&str>, status: u16, body: &Value) -> bool {
    let own = !route.path.contains("/namespaces/") && namespace.is_none();
    let tool = &body["result"]["structuredContent"]["error"]["code"];
    match route.path.as_str() {
        _ if SAME_FOR_ALL.contains(&route.template.as_str()) => !body.to_string().contains(VICTIM),
        // Nothing is sent unasked.
        "/mcp" if route.method == "GET" => status == 405,
        // A tool's refusal is for its model to read.
        "/mcp" => *tool == "Forbidden" || *tool == "InvalidRequest" || own && *tool == "SessionNotFound",
        // What a key's or a user's own namespace has is their matter; the victim's is not there.
        _ if own => refused_or_own(status, header, body),
        _ => matches!(status, 400 | 403 | 404),
    }
}

/// Without a namespace in path and header, what is done is done in the caller's own: the key's, or `default`, where the user may nothing.
fn refused_or_own(status: u16, header: &str, body: &Value) -> bool {
    let is_key = header.contains("dmk_");
    !body.to_string().contains(VICTIM) && (is_key || matches!(status, 400 | 403 | 404))
}
