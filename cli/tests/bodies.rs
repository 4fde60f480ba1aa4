//! Large files of a session as bodies of requests: sent as they are read, against a real `dormouse dev` and a real HTTP service.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::support::Dev;
use axum::{
    Json, Router,
    body::Body,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use futures::StreamExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const SECRET: &str = "whsec_YSBrZXkgb2YgZm91ciBhbmQgdHdlbnR5IGJ5";
/// A body that nobody could hold unnoticed.
const LARGE_MIB: usize = 192;
/// What all processes together may take for it: pieces of 1 MiB on their way, and what allocators keep of them.
const TAKEN_KIB_MAX: u64 = 64 << 10;
/// What a service whose credential covers the body may be sent.
const COVERED_BYTES_MAX: usize = 18 << 20;

#[derive(Clone, Default)]
struct Far {
    asked: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
}

impl Far {
    async fn start(&self) -> SocketAddr {
        let take = async |State(far): State<Self>, headers: HeaderMap, body: Body| {
            far.asked.fetch_add(1, Ordering::SeqCst);
            let (mut parts, mut sum, mut bytes) = (body.into_data_stream(), Sha256::new(), 0);
            while let Some(part) = parts.next().await {
                let part = part.unwrap();
                sum.update(&part);
                bytes += part.len();
            }
            let sum: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
            Json(json!({
                "bytes": bytes, "sha256": sum, "length": header("content-length"), "type": header("content-type"),
                "authorization": header("authorization"),
            }))
        };
        let signed = async |headers: HeaderMap, body: axum::body::Bytes| {
            let good = standardwebhooks::Webhook::new(SECRET).unwrap().verify(&body, &headers).is_ok();
            Json(json!({ "bytes": body.len(), "good": good }))
        };
        let refuse = async |body: axum::body::Bytes| (StatusCode::PAYLOAD_TOO_LARGE, format!("no, {} bytes", body.len()));
        let unauthorized = async |State(far): State<Self>, body: axum::body::Bytes| {
            far.refused.fetch_add(1, Ordering::SeqCst);
            drop(body);
            StatusCode::UNAUTHORIZED
        };
        let half = async |State(far): State<Self>, body: Body| {
            far.asked.fetch_add(1, Ordering::SeqCst);
            let mut parts = body.into_data_stream();
            drop(parts.next().await);
            std::future::pending::<()>().await;
            drop(parts);
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new()
            .route("/take", post(take))
            .route("/signed", post(signed))
            .route("/refuse", post(refuse))
            .route("/unauthorized", post(unauthorized))
            .route("/half", post(half))
            .layer(DefaultBodyLimit::disable())
            .with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        address
    }
}

fn manifest(folder: &Path, far: SocketAddr) -> PathBuf {
    let path = folder.join("far.yaml");
    let service = |name: &str, more: &str| {
        format!("    - {{name: {name}, baseUrl: 'http://{far}', allowedMethods: [POST], requestBytesMax: 1073741824, {more}}}\n")
    };
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: far}}\nstringData: {{token: tok-of-the-far-side, secret: {SECRET}}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: far}}\nspec:\n  services:\n{}{}{}{}---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: agent}}\nspec:\n  toolBrokerRef: {{name: far}}\n",
        service("far", "direct: {timeoutMs: 120000}, auth: {type: bearer, secretRef: {name: far, key: token}}"),
        service("signed", "direct: {}, auth: {type: webhook, secretRef: {name: far, key: secret}}"),
        service("asked", "direct: {approval: Always}"),
        service("brief", "direct: {timeoutMs: 10000}"),
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn client() -> reqwest::Client {
    dormouse_service::telemetry::install_tls_provider();
    reqwest::Client::builder().timeout(Duration::from_secs(180)).build().unwrap()
}

async fn eval(dev: &Dev, body: Value) -> Value {
    let client = client();
    let path = format!("{}/v1/namespaces/default/sessions/agent/eval", dev.server);
    client.post(path).json(&body).send().await.unwrap().json().await.unwrap()
}

async fn value(dev: &Dev, code: &str) -> Value {
    let result = eval(dev, json!({ "code": code })).await;
    assert_eq!(result["ok"], true, "{code}: {result}");
    result["value"].clone()
}

/// Makes a file of so many bytes; answers its digest.
async fn file(dev: &Dev, path: &str, bytes: usize) -> String {
    let code = format!(
        "{{ const part = new Uint8Array(1 << 20).map((_, n) => 32 + n * 7 % 95); const fs = require('fs'); \
         for (let left = {bytes}; left > 0; left -= part.length) fs.appendFileSync('{path}', part.subarray(0, left)); }}"
    );
    value(dev, &code).await;
    let part: Vec<u8> = (0..1_usize << 20).map(|n| u8::try_from(32 + n * 7 % 95).unwrap()).collect();
    let mut sum = Sha256::new();
    let mut left = bytes;
    while left > 0 {
        let some = left.min(part.len());
        sum.update(&part[..some]);
        left -= some;
    }
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn call(service: &str, path: &str, file: &str) -> String {
    format!("await callService('{service}', {{ method: 'POST', path: '{path}', body: {{ $file: '{file}', type: 'video/mp4' }} }})")
}

fn caught(call: &str) -> String {
    format!("{call}.then(() => 'sent', (error) => error.code)")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_is_a_body_that_nobody_holds() {
    let data = tempfile::tempdir().unwrap();
    let far = Far::default();
    let dev = Dev::start_of(data.path(), &manifest(data.path(), far.start().await));
    let digest = file(&dev, "/tmp/large.bin", LARGE_MIB << 20).await;
    file(&dev, "/tmp/warm.bin", 4 << 20).await;
    value(&dev, &call("far", "/take", "/tmp/warm.bin")).await;

    let before = dev.resident_kib();
    let highest = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let (dev, watching) = (Arc::new(dev), Arc::clone(&highest));
    let watched = Arc::clone(&dev);
    let watch = tokio::spawn(async move {
        loop {
            watching.fetch_max(watched.resident_kib(), Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let sent = eval(&dev, json!({ "code": call("far", "/take", "/tmp/large.bin") })).await;
    watch.abort();
    let given = &sent["value"];
    assert_eq!((&given["bytes"], &given["sha256"]), (&json!(LARGE_MIB << 20), &json!(digest)), "{sent}");
    let length = (LARGE_MIB << 20).to_string();
    assert_eq!((&given["length"], &given["type"]), (&json!(length), &json!("video/mp4")), "the far side is told its length");
    assert_eq!(given["authorization"], json!("Bearer [redacted]"), "the credential went out, and did not come back");
    let taken = highest.load(Ordering::SeqCst).saturating_sub(before);
    assert!(taken < TAKEN_KIB_MAX, "{taken} KiB more for {LARGE_MIB} MiB");
    assert_eq!(far.asked.load(Ordering::SeqCst), 2, "each was sent once");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_signature_covers_has_its_own_bound_and_what_was_refused_is_told() {
    let data = tempfile::tempdir().unwrap();
    let far = Far::default();
    let dev = Dev::start_of(data.path(), &manifest(data.path(), far.start().await));
    file(&dev, "/tmp/covered.bin", COVERED_BYTES_MAX).await;
    let signed = value(&dev, &call("signed", "/signed", "/tmp/covered.bin")).await;
    assert_eq!(signed, json!({ "bytes": COVERED_BYTES_MAX, "good": true }));
    // Who refuses is heard, and the session goes on.
    assert_eq!(value(&dev, &caught(&call("far", "/refuse", "/tmp/covered.bin"))).await, "ToolResultInvalid");
    // What has begun to leave cannot be sent under another credential.
    assert_eq!(value(&dev, &caught(&call("far", "/unauthorized", "/tmp/covered.bin"))).await, "ToolDenied");
    assert_eq!(far.refused.load(Ordering::SeqCst), 1);
    value(&dev, "require('fs').appendFileSync('/tmp/covered.bin', 'x'); 0").await;
    assert_eq!(value(&dev, &caught(&call("signed", "/signed", "/tmp/covered.bin"))).await, "ToolArgsInvalid", "one byte more");
    assert_eq!(value(&dev, "refs.list()").await, json!([]), "what stood for the file is gone");
    // The broker's own word for a body is nobody else's.
    let forged =
        "await callService('far', { method: 'POST', path: '/take', body: { $sent: 5, type: 'a/b' } }).catch((error) => error.code)";
    assert_eq!(value(&dev, forged).await, "ToolArgsInvalid");
    assert_eq!(far.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_sent_when_somebody_has_agreed_and_at_most_once_whatever_dies() {
    let data = tempfile::tempdir().unwrap();
    let far = Far::default();
    let manifest = manifest(data.path(), far.start().await);
    let dev = Dev::start_of(data.path(), &manifest);
    let digest = file(&dev, "/tmp/body.bin", 5 << 20).await;
    value(&dev, &format!("var asked = {}; 0", call("asked", "/take", "/tmp/body.bin").trim_start_matches("await "))).await;
    let item = dev.waiting_call().await;
    assert_eq!(item["args"]["body"]["$ref"]["bytes"], json!(5 << 20), "who decides sees what stands for it: {item}");
    assert_eq!(far.asked.load(Ordering::SeqCst), 0);
    dev.kill();
    let dev = Dev::start_of(data.path(), &manifest);
    let said = dev.command(&["approvals", "--session", "agent", "approve", item["id"].as_str().unwrap()], "");
    assert!(said.status.success(), "{}{}", said.out, said.err);
    assert_eq!(value(&dev, "(await asked).sha256").await, json!(digest), "another process sends it");
    assert_eq!(far.asked.load(Ordering::SeqCst), 1);

    // All processes die while it is sent.
    let dev = Arc::new(dev);
    let key = "half";
    let (sending, code) = (Arc::clone(&dev), caught(&call("brief", "/half", "/tmp/body.bin")));
    let request = json!({ "code": code, "idempotencyKey": key });
    let under_way = tokio::spawn({
        let request = request.clone();
        async move {
            let client = client();
            let path = format!("{}/v1/namespaces/default/sessions/agent/eval", sending.server);
            let _ = client.post(path).json(&request).send().await;
        }
    });
    let far_side = async {
        while far.asked.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), far_side).await.expect("it is being sent");
    under_way.abort();
    let _ = under_way.await;
    Arc::into_inner(dev).unwrap().kill();
    let dev = Dev::start_of(data.path(), &manifest);
    let ended = eval(&dev, request).await;
    assert_eq!(ended["value"], json!("OutcomeUnknown"), "{ended}");
    assert_eq!(far.asked.load(Ordering::SeqCst), 2, "it was not sent again");
}
