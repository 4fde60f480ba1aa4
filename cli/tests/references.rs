//! Large answers of tools, which stay outside the heap, against a real `dormouse dev` and a real HTTP service.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    routing::{get, post},
};
use serde_json::{Value, json};
use support::Dev;

/// What the service was given.
type Given = Arc<Mutex<Vec<Value>>>;

const ROWS: usize = 100_000;

/// About 10 MB.
fn rows() -> Value {
    (0..ROWS).map(|n| json!({ "id": n, "name": format!("row {n} ü"), "text": "x".repeat(64) })).collect()
}

async fn service() -> (SocketAddr, Given) {
    let given = Given::default();
    let take = async |State(given): State<Given>, Json(body): Json<Value>| {
        let bytes = body.to_string().len();
        given.lock().unwrap().push(body);
        Json(json!({ "bytes": bytes }))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new()
        .route("/rows", get(async || Json(rows())))
        .route("/few", get(async || Json(json!([1, 2, 3]))))
        .route("/take", post(take))
        .layer(DefaultBodyLimit::disable())
        .with_state(Arc::clone(&given));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    (address, given)
}

fn manifest(folder: &Path, service: SocketAddr) -> PathBuf {
    let path = folder.join("data.yaml");
    let tool = |name: &str, method: &str, to: &str, more: &str| {
        format!("    - {{name: {name}, service: data, method: {method}, path: /{to}{more}}}\n")
    };
    let any = ", input: {type: object}";
    let text = format!(
        "apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: data}}\nspec:\n  offload: {{thresholdBytes: 65536, previewChars: 300}}\n  services:\n    - name: data\n      baseUrl: http://{service}\n      \
         allowedMethods: [GET, POST]\n      direct: {{}}\n      requestBytesMax: 33554432\n      responseBytesMax: 33554432\n  tools:\n{}{}{}{}",
        tool("rows", "GET", "rows", any),
        tool("few", "GET", "few", any),
        tool("take", "POST", "take", any),
        tool("give", "POST", "take", &format!("{any}, approval: {{}}")),
    );
    let session = |name: &str| {
        format!(
            "---\napiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: {name}}}\nspec:\n  idleSeconds: 1\n  toolBrokerRef: {{name: data}}\n"
        )
    };
    std::fs::write(&path, text + &session("agent") + &session("other")).unwrap();
    path
}

fn start(data: &Path, manifest: &Path) -> Dev {
    let manifest = manifest.to_str().unwrap();
    Dev::start(data, &["--broker", manifest, "--session", manifest])
}

async fn eval(dev: &Dev, session: &str, code: &str) -> Value {
    dormouse_service::telemetry::install_tls_provider();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(120)).build().unwrap();
    let path = format!("{}/v1/namespaces/default/sessions/{session}/eval", dev.server);
    client.post(path).json(&json!({ "code": code })).send().await.unwrap().json().await.unwrap()
}

async fn value(dev: &Dev, code: &str) -> Value {
    let result = eval(dev, "agent", code).await;
    assert_eq!(result["ok"], true, "{code}: {result}");
    result["value"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes_pass_through_a_session_that_never_holds_them() {
    let data = tempfile::tempdir().unwrap();
    let (service, given) = service().await;
    let manifest = manifest(data.path(), service);
    let dev = start(data.path(), &manifest);
    let whole = rows();
    let text = whole.to_string();

    // Whatever a call costs is there before.
    let few = value(&dev, "var rows = await tools.few(); rows").await;
    assert_eq!(few, json!([1, 2, 3]), "a small answer is itself");
    value(&dev, "await tools.take({ rows }); refs.list()").await;
    let before = eval(&dev, "agent", "rows = 0").await;
    let token = value(&dev, "rows = await tools.rows(); rows").await;
    let reference = &token["$ref"];
    assert_eq!((reference["bytes"].as_u64().unwrap(), &reference["mimeType"]), (text.len() as u64, &json!("application/json")));
    assert_eq!(reference["preview"], json!(text.chars().take(300).collect::<String>()));
    let taken = eval(&dev, "agent", "(await tools.take({ rows, deep: [{ rows }] })).bytes > 20e6").await;
    assert_eq!(taken["value"], true, "{taken}");
    assert!(given.lock().unwrap()[1] == json!({ "rows": whole, "deep": [{ "rows": whole }] }), "what arrives is what came");
    let (before, after) = (before["stats"]["heapBytes"].as_i64().unwrap(), taken["stats"]["heapBytes"].as_i64().unwrap());
    assert!(after - before < 1024, "the pass-through left {} bytes in the heap", after - before);

    // Read, kept as a file, forgotten.
    assert_eq!(value(&dev, "refs.read(rows, 0, 9)").await, json!(&text[..9]));
    assert_eq!(value(&dev, "refs.read(rows, -3)").await, json!(&text[text.len() - 3..]));
    assert_eq!(value(&dev, "JSON.parse(refs.read(rows)).length").await, json!(ROWS));
    let saved = value(&dev, "refs.save(rows, '/tmp/rows.json'); require('fs').statSync('/tmp/rows.json').size").await;
    assert_eq!(saved, json!(text.len()));
    dev.kill();

    let dev = start(data.path(), &manifest);
    assert_eq!(value(&dev, "refs.list()").await, json!([{ "$ref": { "id": reference["id"], "bytes": text.len() } }]));
    assert_eq!(value(&dev, "(await tools.take({ rows })).bytes").await, json!(text.len() + r#"{"rows":}"#.len()), "after a restore, too");
    let other =
        format!("tools.take({{ rows: {{ $ref: {{ id: '{}' }} }} }}).catch((error) => error.code)", reference["id"].as_str().unwrap());
    assert_eq!(eval(&dev, "other", &format!("await {other}")).await["value"], "RefNotFound", "it is another session's");
    assert_eq!(value(&dev, "refs.delete(rows)").await, json!(true));
    assert_eq!(value(&dev, "await tools.take({ rows }).catch((error) => error.code)").await, "RefNotFound");
    assert_eq!(value(&dev, "try { refs.read(rows) } catch (error) { error.code }").await, "RefNotFound");
    let file = value(&dev, "JSON.parse(require('fs').readFileSync('/tmp/rows.json', 'utf8')).at(-1).id").await;
    assert_eq!(file, json!(ROWS - 1), "the file has its own name for the bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_says_whether_its_answer_stays_outside_and_who_agrees_sees_what_stands_for_it() {
    let data = tempfile::tempdir().unwrap();
    let (service, given) = service().await;
    let dev = start(data.path(), &manifest(data.path(), service));
    assert_eq!(value(&dev, "(await tools.rows({}, { reference: false })).length").await, json!(ROWS));
    let token = value(&dev, "var few = await tools.few({}, { reference: true }); few").await;
    assert_eq!((&token["$ref"]["preview"], &token["$ref"]["bytes"]), (&json!("[1,2,3]"), &json!(7)));
    value(&dev, "var given = tools.give({ few }).then((it) => it.bytes); 0").await;
    let waiting = async || {
        let path = format!("{}/v1/namespaces/default/sessions/agent/approvals", dev.server);
        reqwest::get(path).await.unwrap().json::<Value>().await.unwrap()["items"].as_array().unwrap().clone()
    };
    let found = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            match waiting().await.pop() {
                Some(found) => break found,
                None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    });
    let item = found.await.expect("the call waits");
    assert_eq!(item["args"], json!({ "few": token }), "what the code wrote");
    let said = dev.command(&["approvals", "--session", "agent", "approve", item["id"].as_str().unwrap()], "");
    assert!(said.status.success(), "{}{}", said.out, said.err);
    assert_eq!(value(&dev, "await given").await, json!(r#"{"few":[1,2,3]}"#.len()));
    assert_eq!(given.lock().unwrap().last(), Some(&json!({ "few": [1, 2, 3] })));
}
