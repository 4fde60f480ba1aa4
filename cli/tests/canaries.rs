//! Secrets of every kind, through calls that work, fail, hang, break and are cut off: in nothing that anybody but the far side gets.
//!
//! No request is known to make a process panic, so none does here. What a panic would say is its place and a message of this source.

use std::{path::Path, sync::Arc};

use crate::support::Dev;
use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{any, post},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use dormouse_client::Client;
use dormouse_engine::{EngineOptions, Engines};
use dormouse_lifecycle::{Head, assemble, log};
use dormouse_protocol::{
    approval::{Decide, Verdict},
    eval::EvalRequest,
};
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    tls::{Identity, Process, Server, TlsFiles},
};
use dormouse_store::{Folder, SnapshotStore as _};
use dormouse_testkit::{soak, wait::eventually};
use memchr::memmem;
use serde_json::{Value, json};

/// Calls of one cell.
const CELL_CALLS: u64 = 90;
/// Cells whose results stay in the heap.
const CELLS_KEPT: usize = 8;
/// Where `dev` keeps the key of links, which is searched for elsewhere.
const LINKS_KEY_FILE: &str = "links.key";

/// What nobody may see, by what it is for.
struct Canaries {
    bearer: String,
    header: String,
    password: String,
    client_secret: String,
    token: String,
    hook_token: String,
    hook_answer: String,
    extra: String,
    tool_key: String,
    event_key: String,
    tls_key: String,
    model: String,
    mcp: String,
    own: String,
    registry: String,
    documents: String,
    mcp_extra: String,
}

impl Canaries {
    fn new(tls_key: &str) -> Self {
        let of = |what: &str| format!("canary-{what}-{:016x}", rand_of(what));
        let key = |what: &str| format!("whsec_{}", BASE64_STANDARD.encode(of(what)));
        Self {
            bearer: of("bearer"),
            header: of("header"),
            password: of("password"),
            client_secret: of("client-secret"),
            token: of("access-token"),
            hook_token: of("hook-token"),
            hook_answer: of("hook-answer"),
            extra: of("extra-header"),
            tool_key: key("tool-key"),
            event_key: key("event-key"),
            tls_key: tls_key.to_owned(),
            model: of("model-key"),
            mcp: of("mcp-token"),
            own: of("session-secret"),
            registry: of("registry-token"),
            documents: of("documents-header"),
            mcp_extra: of("mcp-header"),
        }
    }

    /// Each, and the text by which it would be found: of keys a line from the middle.
    fn needles(&self) -> Vec<(&'static str, Vec<Vec<u8>>)> {
        let plain = |text: &str| {
            let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let mut forms = vec![text.as_bytes().to_vec(), hex.into_bytes(), wide];
            for shift in 0..3 {
                let coded = BASE64_STANDARD.encode([&vec![0; shift], text.as_bytes()].concat());
                forms.push(coded.as_bytes()[4..coded.len() - 6].to_vec());
            }
            forms
        };
        let signing = |key: &str| {
            let coded = key.trim_start_matches("whsec_");
            vec![coded.as_bytes().to_vec(), BASE64_STANDARD.decode(coded).unwrap()]
        };
        let line = self.tls_key.lines().nth(1).unwrap();
        vec![
            ("bearer", plain(&self.bearer)),
            ("header", plain(&self.header)),
            ("password", plain(&self.password)),
            ("client secret", plain(&self.client_secret)),
            ("access token", plain(&self.token)),
            ("hook's token", plain(&self.hook_token)),
            ("hook's answer", plain(&self.hook_answer)),
            ("extra header", plain(&self.extra)),
            ("key of a model", plain(&self.model)),
            ("token of an MCP server", plain(&self.mcp)),
            ("a session's own Secret", plain(&self.own)),
            ("token of a registry", plain(&self.registry)),
            ("header of a base of documents", plain(&self.documents)),
            ("header of an MCP server", plain(&self.mcp_extra)),
            ("key of a tool", signing(&self.tool_key)),
            ("key of events", signing(&self.event_key)),
            ("key of TLS", vec![line.as_bytes().to_vec(), BASE64_STANDARD.decode(line).unwrap()[..16].to_vec()]),
        ]
    }
}

fn rand_of(what: &str) -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(what)
}

/// Answers every request with all that it was sent, in whatever way the path says.
async fn far(State(canaries): State<Arc<Canaries>>, headers: HeaderMap, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body).into_owned();
    let sent: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))).collect();
    let said = format!("{} {body}", sent.join("\n"));
    match path.rsplit('/').next().unwrap_or_default() {
        "token" => {
            let coded = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
            let shown = BASE64_STANDARD.decode(coded.trim_start_matches("Basic ")).unwrap_or_default();
            assert!(String::from_utf8_lossy(&shown).contains(&canaries.client_secret), "{coded}");
            Json(json!({ "access_token": canaries.token, "token_type": "bearer", "expires_in": 3_600 })).into_response()
        }
        "hook" => {
            assert!(said.contains(&canaries.hook_token), "{said}");
            Json(json!({ "headers": { "x-signed": canaries.hook_answer } })).into_response()
        }
        "completions" => {
            assert!(said.contains(&canaries.model), "{said}");
            if body.contains("\"stream\":true") {
                let words = json!({ "choices": [{ "delta": { "content": format!("streamed: {said}") } }] });
                let usage = json!({ "choices": [], "usage": { "prompt_tokens": 1, "completion_tokens": 1 } });
                let events = format!("data: {words}\n\ndata: {usage}\n\ndata: [DONE]\n\n");
                return ([(header::CONTENT_TYPE, "text/event-stream")], events).into_response();
            }
            let choices = json!([{ "message": { "role": "assistant", "content": said } }]);
            Json(json!({ "choices": choices, "usage": { "prompt_tokens": 1, "completion_tokens": 1 } })).into_response()
        }
        "mcp" => {
            assert!(said.contains(&canaries.mcp) && said.contains(&canaries.mcp_extra), "{said}");
            let message: Value = serde_json::from_str(&body).unwrap();
            let result = match message["method"].as_str().unwrap() {
                "tools/list" => json!({ "tools": [{ "name": "whisper", "inputSchema": { "type": "object" } }] }),
                _ => json!({ "structuredContent": { "said": said }, "content": [] }),
            };
            Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
        }
        "page.txt" => {
            assert!(said.contains(&canaries.documents), "{said}");
            said.into_response()
        }
        "good" => Json(json!({ "said": said, "list": sent })).into_response(),
        "text" => said.into_response(),
        "fail" => (StatusCode::INTERNAL_SERVER_ERROR, said).into_response(),
        "denied" => (StatusCode::FORBIDDEN, said).into_response(),
        "away" => {
            (StatusCode::FOUND, [(header::LOCATION, format!("http://else.example/?{}", said.replace(['\n', ' '], "_")))]).into_response()
        }
        "broken" => {
            let parts = [Ok(Bytes::from(said)), Err(std::io::Error::other("it breaks off"))];
            Body::from_stream(futures::stream::iter(parts)).into_response()
        }
        "hang" => std::future::pending().await,
        _ => (StatusCode::NOT_FOUND, said).into_response(),
    }
}

const PATHS: [&str; 8] = ["good", "text", "fail", "denied", "away", "broken", "hang", "missing"];
const SERVICES: [&str; 8] = ["bearer", "header", "basic", "oauth", "custom", "tls", "badtls", "own"];
/// What is called beside services.
const OTHERS: usize = 5;

fn manifest(far: &str, tls_port: u16, pem: [&str; 3], canaries: &Canaries) -> String {
    let service = |name: &str, auth: Value| {
        json!({
            "name": name, "baseUrl": far, "auth": auth, "allowedMethods": ["GET", "POST"], "direct": { "timeoutMs": 300 }, "retries": 0,
            "breaker": { "failures": 0, "openSeconds": 1 },
            "secretHeaders": [{ "name": "X-Extra", "secretRef": { "name": "keys", "key": "extra" } }],
        })
    };
    let tls = |name: &str, ca: bool| {
        let mut service = service(name, json!({}));
        service["baseUrl"] = json!(format!("https://localhost:{tls_port}"));
        service["tls"] = json!({ "clientSecretRef": { "name": "tls" } });
        if ca {
            service["tls"]["caSecretRef"] = json!({ "name": "tls", "key": "ca.crt" });
        }
        service
    };
    let secret = |key: &str| json!({ "name": "keys", "key": key });
    let bearer = |key: &str| json!({ "type": "bearer", "secretRef": secret(key) });
    let mut own = service("own", bearer("bearer"));
    own["sessionSecrets"] = json!(["mine"]);
    let signed = |name: String, path: &str| json!({ "name": name, "webhook": { "url": format!("{far}/{path}"), "secretRef": secret("tool") }, "timeoutMs": 300 });
    let mut tools: Vec<Value> = PATHS.map(|path| signed(format!("sign_{path}"), path)).into();
    tools.push(signed("asked".to_owned(), "good"));
    tools.last_mut().unwrap()["approval"] = json!("Always");
    let spec = json!({
        "services": [
            service("bearer", bearer("bearer")),
            service("header", json!({ "type": "header", "headerName": "X-Api-Key", "secretRef": secret("header") })),
            service("basic", json!({ "type": "basic", "secretRef": { "name": "login" } })),
            service("oauth", json!({ "type": "oauth2ClientCredentials", "tokenUrl": format!("{far}/token"), "secretRef": { "name": "oauth" } })),
            service("custom", json!({ "type": "custom", "hook": { "url": format!("{far}/hook"), "secretRef": secret("hook") } })),
            tls("tls", true),
            tls("badtls", false),
            own,
        ],
        "tools": tools,
        "models": [{ "name": "lab", "api": "openai", "baseUrl": format!("{far}/lab"), "model": "m", "auth": bearer("model") }],
        "mcpServers": [{
            "name": "far", "url": format!("{far}/mcp"), "auth": bearer("mcp"),
            "secretHeaders": [{ "name": "X-Tenant-Key", "secretRef": secret("mcpExtra") }],
        }],
        "knowledge": [{
            "name": "pages", "urls": [format!("{far}/page.txt")], "secretHeaders": [{ "name": "X-Wiki-Key", "secretRef": secret("documents") }],
        }],
        "modules": { "registry": format!("{far}/npm"), "auth": bearer("registry") },
        "webhooks": [{ "url": format!("{far}/fail"), "events": ["completed", "failed"], "secretRef": secret("event") }],
    });
    let kind = |version: &str, kind: &str, name: &str, field: &str, value: Value| json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, field: value });
    let keys = json!({
        "bearer": canaries.bearer, "header": canaries.header, "extra": canaries.extra, "hook": canaries.hook_token, "tool": canaries.tool_key,
        "event": canaries.event_key, "model": canaries.model, "mcp": canaries.mcp, "registry": canaries.registry,
        "documents": canaries.documents, "mcpExtra": canaries.mcp_extra,
    });
    let session = json!({
        "toolBrokerRef": { "name": "far" }, "idleSeconds": 3_600, "serviceSecrets": { "own": "mine" }, "modules": { "allow": ["canary"] },
    });
    let documents = [
        kind("v1", "Secret", "keys", "stringData", keys),
        kind("v1", "Secret", "login", "stringData", json!({ "user": "u", "password": canaries.password })),
        kind("v1", "Secret", "oauth", "stringData", json!({ "clientId": "c", "clientSecret": canaries.client_secret })),
        kind("v1", "Secret", "tls", "stringData", json!({ "tls.crt": pem[0], "tls.key": pem[1], "ca.crt": pem[2] })),
        kind("v1", "Secret", "mine", "stringData", json!({ "bearer": canaries.own })),
        kind("dormouse.dev/v1alpha1", "ToolBroker", "far", "spec", spec),
        kind("dormouse.dev/v1alpha1", "KernelSession", "s", "spec", session),
    ];
    documents.map(|document| document.to_string()).join("\n---\n")
}

/// A cell with calls of every service and tool in every way; what comes of them stays in its heap for a while.
fn cell(from: u64, calls: u64) -> String {
    let mut asked = Vec::new();
    for n in from..from + calls {
        let n = usize::try_from(n).unwrap();
        let path = PATHS[n % PATHS.len()];
        asked.push(match n / PATHS.len() % (SERVICES.len() + OTHERS) {
            kind if kind < SERVICES.len() => {
                let method = if n % 3 == 0 { "POST" } else { "GET" };
                let body = if method == "POST" { ", body: { n: 1 }" } else { "" };
                let response = ["json", "text", "bytes"][n % 3];
                format!("callService('{}', {{ method: '{method}', path: '/{path}'{body}, response: '{response}' }})", SERVICES[kind])
            }
            kind => match kind - SERVICES.len() {
                0 => format!("callTool('sign_{path}', {{ n: 1 }})"),
                1 => "host.subLM({ model: 'lab', prompt: 'hi' })".to_owned(),
                2 => "(async () => { let said = ''; for await (const piece of host.subLM({ model: 'lab', prompt: 'hi', stream: true })) said += piece; \
                      return said; })()"
                    .to_owned(),
                3 => "callTool('knowledge.search', { query: 'key wiki host' })".to_owned(),
                _ => "callTool('whisper', {})".to_owned(),
            },
        });
    }
    format!(
        "globalThis.all ??= []; const got = await Promise.allSettled([{}]); all.push(got.map(it => it.status + JSON.stringify(it.value ?? [it.reason.name, \
         it.reason.message, it.reason.details, it.reason.stack]))); if (all.length > {CELLS_KEPT}) all.shift(); console.log(all.at(-1).join('\\n')); got.filter(it => it.status === 'fulfilled').length",
        asked.join(", ")
    )
}

fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => files(&entry.path(), found),
            false => found.push((entry.path().display().to_string(), std::fs::read(entry.path()).unwrap())),
        }
    }
}

/// The memory of the session now and at every commit that is kept, and what else is compressed.
async fn memory(data: &Path) -> Vec<(String, Vec<u8>)> {
    let engines = tokio::task::spawn_blocking(|| Engines::new(EngineOptions::for_user()).unwrap()).await.unwrap();
    let bucket = Folder::open(data.join("store")).unwrap();
    let mut said = Vec::new();
    for key in bucket.list("t/default/s/").await.unwrap() {
        let bytes = bucket.get(&key).await.unwrap().unwrap().bytes;
        if let Ok(head) = Head::decode(&bytes) {
            let engine = engines.get(&head.engine_digest).unwrap();
            let mut segments = Vec::new();
            for segment in &head.segments {
                segments.push(bucket.get(&segment.key).await.unwrap().unwrap().bytes);
            }
            let pages = assemble(&head, &segments).unwrap();
            let memory: Vec<u8> = pages.iter().flat_map(|(number, page)| engine.content(*number, page).to_vec()).collect();
            said.push((format!("the record in {key}"), serde_json::to_vec(&head).unwrap()));
            said.push((format!("the memory of {key}"), memory));
        } else if let Ok(entries) = log::decode(&bytes) {
            said.push((key, serde_json::to_vec(&entries.entries).unwrap()));
        }
    }
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_any_kind_is_in_memory_logs_events_errors_or_audit() {
    let calls = soak::count(360, 10_000);
    dormouse_service::telemetry::install_tls_provider();
    let ca = Ca::generate().unwrap();
    let server = ca.issue(&["localhost".to_owned(), Identity::new(Process::Broker, "else", "far").dns_name()], LEAF_VALIDITY).unwrap();
    let client = ca.issue(&[Identity::new(Process::Broker, "else", "client").dns_name()], LEAF_VALIDITY).unwrap();
    let canaries = Arc::new(Canaries::new(&client.key));
    let routes = Router::new().route("/token", post(far)).fallback(any(far)).with_state(Arc::clone(&canaries));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let plain = routes.clone();
    tokio::spawn(async move { axum::serve(listener, plain).await.unwrap() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls_port = listener.local_addr().unwrap().port();
    tokio::spawn(Server::new(TlsFiles::from_pem(&server).unwrap()).serve(listener, routes, Default::default()));

    let data = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("far.yaml");
    std::fs::write(&file, manifest(&format!("http://{address}"), tls_port, [&client.cert, &client.key, &client.ca], &canaries)).unwrap();
    let file = file.to_str().unwrap();
    let log = outside.path().join("log");
    let start = || {
        let log = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        Dev::start_logging(data.path(), &["--broker", file, "--session", file], &[("DORMOUSE_LOG", "trace")], log)
    };
    let mut dev = start();
    let mut answers = Vec::new();
    let (mut made, mut good, mut was_killed) = (0, 0, false);
    while made < calls {
        let count = CELL_CALLS.min(calls - made);
        let client = Client::new(&dev.server, "default", None).unwrap();
        let run = EvalRequest { code: cell(made, count), idempotency_key: Some(format!("cell-{made}")), ..EvalRequest::default() };
        let answer = client.eval("s", &run).await.unwrap();
        assert!(answer.ok, "{:?}", answer.error);
        good += answer.value.as_ref().and_then(Value::as_u64).unwrap_or_default();
        answers.push(serde_json::to_vec(&answer).unwrap());
        made += count;
        // One that is thrown out of a cell, and one under which its process is killed.
        for code in ["await callService('bearer', { path: '/fail' })", "await import('npm:canary')"] {
            let thrown = client.eval("s", &EvalRequest { code: code.to_owned(), ..EvalRequest::default() }).await.unwrap();
            assert!(!thrown.ok, "{code}: {:?}", thrown.value);
            answers.push(serde_json::to_vec(&thrown).unwrap());
        }
        if made >= calls / 2 && !was_killed {
            was_killed = true;
            let hanging = EvalRequest {
                code: "await callService('oauth', { method: 'POST', path: '/hang', body: {} })".to_owned(),
                ..EvalRequest::default()
            };
            let _ = tokio::time::timeout(std::time::Duration::from_millis(150), client.eval("s", &hanging)).await;
            dev.kill();
            dev = start();
        }
    }
    assert!(good > 0 && good < calls, "some work and some do not: {good} of {calls}");
    answers.extend(linked(&dev).await);
    let link_key = std::fs::read_to_string(data.path().join(LINKS_KEY_FILE)).unwrap();
    let said = dev.command(&["logs", "s"], "");
    answers.extend([said.out.into_bytes(), said.err.into_bytes()]);
    let http = reqwest::Client::builder().timeout(std::time::Duration::from_secs(60)).build().unwrap();
    for path in ["sessions/s", "sessions/s/journal", "sessions/s/runs", "webhooks/deliveries", "approvals", "usage"] {
        let answer = http.get(format!("{}/v1/namespaces/default/{path}", dev.server)).send().await.unwrap();
        answers.push(answer.bytes().await.unwrap().to_vec());
    }
    assert!(dev.terminate().success());

    let mut places: Vec<(String, Vec<u8>)> = answers.into_iter().enumerate().map(|(n, bytes)| (format!("answer {n}"), bytes)).collect();
    files(data.path(), &mut places);
    places.retain(|(place, _)| !place.ends_with(LINKS_KEY_FILE));
    places.push(("the log".to_owned(), std::fs::read(&log).unwrap()));
    places.extend(memory(data.path()).await);
    let holds = |bytes: &[u8], needle: &[u8]| memmem::find(bytes, needle).is_some();
    let everywhere =
        |needle: &[u8]| places.iter().filter(|(_, bytes)| holds(bytes, needle)).map(|(place, _)| place.clone()).collect::<Vec<_>>();
    // What is no secret is found where it should be: in the memory, in the log of a broker at work, and in the audit.
    assert!(everywhere(b"[redacted]").iter().any(|place| place.starts_with("the memory of")));
    assert!(everywhere(b"tool call").contains(&"the log".to_owned()));
    assert!(everywhere(b"callService").iter().any(|place| place.contains("/audit/")), "{:?}", everywhere(b"callService"));
    // What a stream and a document told is there, too.
    for shown in ["streamed: ", "x-wiki-key: [redacted]"] {
        assert!(!everywhere(shown.as_bytes()).is_empty(), "{shown}");
    }
    // So is who sent the cells.
    let by = everywhere(br#""by":"local""#);
    assert!(by.iter().any(|place| place.contains("/audit/")), "{by:?}");
    let key_of_links = ("key of links", vec![link_key.trim().as_bytes().to_vec()]);
    for (what, needles) in canaries.needles().into_iter().chain([key_of_links]) {
        for needle in needles {
            let found = everywhere(&needle);
            assert!(found.is_empty(), "{what} is in {found:?}");
        }
    }
    let searched: usize = places.iter().map(|(_, bytes)| bytes.len()).sum();
    soak::report(&format!(
        "{calls} calls with 18 kinds of secrets; {searched} bytes of memory, store, logs, answers and audit with none of them"
    ));
}

/// What a gateway says of a call that waits, and of a link with which somebody may decide about it.
async fn linked(dev: &Dev) -> Vec<Vec<u8>> {
    let client = Client::new(&dev.server, "default", None).unwrap();
    let cell = EvalRequest {
        code: "await callTool('asked', {}).catch(it => it.message)".to_owned(),
        idempotency_key: Some("asked".to_owned()),
        ..EvalRequest::default()
    };
    let run = client.eval_later("s", &cell).await.unwrap().run;
    let mut waiting = Vec::new();
    eventually("the call waits", async || {
        waiting = client.approvals(Some("s")).await.unwrap().items;
        !waiting.is_empty()
    })
    .await;
    let http = reqwest::Client::builder().timeout(std::time::Duration::from_secs(60)).build().unwrap();
    let path = format!("{}/v1/namespaces/default/sessions/s/approvals/{}/link", dev.server, waiting[0].id);
    let link = http.post(path).json(&json!({})).send().await.unwrap().error_for_status().unwrap().bytes().await.unwrap();
    let deny = Decide { decision: Verdict::Deny, reason: None, epoch: None, arguments: None, idempotency_key: None };
    client.decide("s", &waiting[0].id, &deny).await.unwrap();
    let ended = client.wait_for_run("s", &run, 60).await.unwrap();
    vec![link.to_vec(), serde_json::to_vec(&ended).unwrap()]
}
