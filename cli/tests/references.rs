//! Large answers of tools, which stay outside the heap, against a real `dormouse dev` and a real HTTP service.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::support::Dev;
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use serde_json::{Value, json};

/// What the service was given.
type Given = Arc<Mutex<Vec<Value>>>;

const ROWS: usize = 100_000;

/// What a request of the service may have.
const REQUEST_BYTES_MAX: usize = 32 << 20;

/// About 10 MB.
fn rows() -> Value {
    (0..ROWS).map(|n| json!({ "id": n, "name": format!("row {n} ü"), "text": "x".repeat(64) })).collect()
}

/// 1 MB that is no text.
fn video() -> Vec<u8> {
    (0..1_000_000_u32).map(|n| (n % 251) as u8 | 0x80).collect()
}

async fn service() -> (SocketAddr, Given) {
    let given = Given::default();
    let take = async |State(given): State<Given>, Json(body): Json<Value>| {
        let bytes = body.to_string().len();
        given.lock().unwrap().push(body);
        Json(json!({ "bytes": bytes }))
    };
    let raw = async |headers: HeaderMap, body: Bytes| {
        let text: String = String::from_utf8_lossy(&body).chars().take(400).collect();
        let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
        Json(json!({ "type": headers["content-type"].to_str().unwrap(), "bytes": body.len(), "sum": sum, "text": text }))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new()
        .route("/rows", get(async || Json(rows())))
        .route("/few", get(async || Json(json!([1, 2, 3]))))
        .route("/take", post(take))
        .route("/raw", post(raw))
        .route("/refuse", post(async || (StatusCode::UNPROCESSABLE_ENTITY, "no: ".to_owned() + &"x".repeat(200_000))))
        .route("/image", get(async || ([("content-type", "image/png")], vec![0x89, 0xff, 0, 0x80])))
        .route("/video", get(async || ([("content-type", "video/mp4")], video())))
        .layer(DefaultBodyLimit::disable())
        .with_state(Arc::clone(&given));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    (address, given)
}

fn manifest(folder: &Path, service: SocketAddr) -> PathBuf {
    manifest_above(folder, service, 65_536)
}

/// Answers of so many bytes stay outside the heap.
fn manifest_above(folder: &Path, service: SocketAddr, threshold_bytes: u64) -> PathBuf {
    let path = folder.join("data.yaml");
    let tool = |name: &str, method: &str, to: &str, more: &str| {
        format!("    - {{name: {name}, service: data, method: {method}, path: /{to}{more}}}\n")
    };
    let any = ", input: {type: object}";
    let text = format!(
        "apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: data}}\nspec:\n  offload: {{thresholdBytes: {threshold_bytes}, previewChars: 300}}\n  services:\n    - name: data\n      baseUrl: http://{service}\n      \
         allowedMethods: [GET, POST]\n      direct: {{}}\n      requestBytesMax: {REQUEST_BYTES_MAX}\n      responseBytesMax: 33554432\n  tools:\n{}{}{}{}{}",
        tool("rows", "GET", "rows", any),
        tool("few", "GET", "few", any),
        tool("take", "POST", "take", any),
        tool("give", "POST", "take", &format!("{any}, approval: {{}}")),
        tool("refuse", "POST", "refuse", any),
    );
    let session = |name: &str| {
        format!(
            "---\napiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: {name}}}\nspec:\n  idleSeconds: 1\n  toolBrokerRef: {{name: data}}\n"
        )
    };
    std::fs::write(&path, text + &session("agent") + &session("other")).unwrap();
    path
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
    let dev = Dev::start_of(data.path(), &manifest);
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
    // QuickJS takes memory in arenas of 4 KiB: what one passage leaves is told by several.
    let others = "for (let n = 0; n < 4; n++) { const more = await tools.rows(); await tools.take({ rows: more }); refs.delete(more); }";
    let after = eval(&dev, "agent", others).await;
    assert_eq!(after["ok"], true, "{after}");
    let (before, after) = (before["stats"]["heapBytes"].as_i64().unwrap(), after["stats"]["heapBytes"].as_i64().unwrap());
    assert!(after - before < 5 * 1024, "five passages left {} bytes in the heap", after - before);

    // Read, kept as a file, forgotten.
    assert_eq!(value(&dev, "refs.read(rows, 0, 9)").await, json!(&text[..9]));
    assert_eq!(value(&dev, "refs.read(rows, -3)").await, json!(&text[text.len() - 3..]));
    assert_eq!(value(&dev, "JSON.parse(refs.read(rows)).length").await, json!(ROWS));
    let saved = value(&dev, "refs.save(rows, '/tmp/rows.json'); require('fs').statSync('/tmp/rows.json').size").await;
    assert_eq!(saved, json!(text.len()));
    dev.kill();

    let dev = Dev::start_of(data.path(), &manifest);
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
async fn whoever_only_passes_an_answer_on_says_so_and_pays_less_than_a_kilobyte_for_ten_megabytes() {
    let data = tempfile::tempdir().unwrap();
    let (service, given) = service().await;
    // By its size it would come into the heap.
    let dev = Dev::start_of(data.path(), &manifest_above(data.path(), service, 64 << 20));
    let pass = |times: usize| {
        format!(
            "for (let n = 0; n < {times}; n++) {{ const rows = await tools.rows({{}}, {{ reference: true }}); \
             await tools.take({{ rows }}); refs.delete(rows) }}"
        )
    };
    let before = eval(&dev, "agent", &pass(2)).await;
    let after = eval(&dev, "agent", &pass(5)).await;
    assert!(before["ok"] == true && after["ok"] == true, "{before} {after}");
    assert!(given.lock().unwrap().len() == 7 && given.lock().unwrap()[6] == json!({ "rows": rows() }), "what arrives is what came");
    let (before, after) = (before["stats"]["heapBytes"].as_i64().unwrap(), after["stats"]["heapBytes"].as_i64().unwrap());
    assert!(after - before < 5 * 1024, "five passages left {} bytes in the heap", after - before);
    assert_eq!(value(&dev, "(await tools.rows()).length").await, json!(ROWS), "without a word it is in the heap");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_says_whether_its_answer_stays_outside_and_who_agrees_sees_what_stands_for_it() {
    let data = tempfile::tempdir().unwrap();
    let (service, given) = service().await;
    let dev = Dev::start_of(data.path(), &manifest(data.path(), service));
    assert_eq!(value(&dev, "(await tools.rows({}, { reference: false })).length").await, json!(ROWS));
    let token = value(&dev, "var few = await tools.few({}, { reference: true }); few").await;
    assert_eq!((&token["$ref"]["preview"], &token["$ref"]["bytes"]), (&json!("[1,2,3]"), &json!(7)));
    value(&dev, "var given = tools.give({ few }).then((it) => it.bytes); 0").await;
    let item = dev.waiting_call().await;
    assert_eq!(item["args"], json!({ "few": token }), "what the code wrote");
    let said = dev.command(&["approvals", "--session", "agent", "approve", item["id"].as_str().unwrap()], "");
    assert!(said.status.success(), "{}{}", said.out, said.err);
    assert_eq!(value(&dev, "await given").await, json!(r#"{"few":[1,2,3]}"#.len()));
    assert_eq!(given.lock().unwrap().last(), Some(&json!({ "few": [1, 2, 3] })));
}

/// `callService` of the service, in a cell.
fn call(request: &str) -> String {
    format!("await callService('data', {request})")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_takes_bytes_files_and_forms() {
    let data = tempfile::tempdir().unwrap();
    let (service, _) = service().await;
    let dev = Dev::start_of(data.path(), &manifest(data.path(), service));
    let raw = async |body: &str| value(&dev, &call(&format!("{{ method: 'POST', path: '/raw', body: {body} }}"))).await;
    let octets = json!("application/octet-stream");
    for body in ["new Uint8Array([0, 255, 128])", "new Uint8Array([0, 255, 128]).buffer", "Buffer.from([0, 255, 128])"] {
        let given = raw(body).await;
        assert_eq!((&given["type"], &given["bytes"], &given["sum"]), (&octets, &json!(3), &json!(383)), "{body}: {given}");
    }
    let blob = raw("new Blob(['a,b'], { type: 'text/csv' })").await;
    assert_eq!((&blob["type"], &blob["text"]), (&json!("text/csv"), &json!("a,b")));
    let form = raw("new URLSearchParams({ a: '1 2', b: 'ü' })").await;
    assert_eq!(form["text"], "a=1+2&b=%C3%BC");
    assert!(form["type"].as_str().unwrap().starts_with("application/x-www-form-urlencoded"));
    value(
        &dev,
        "var form = new FormData(); form.append('note', 'hello'); form.append('scan', new File([new Uint8Array([1, 2])], 'a.bin')); 0",
    )
    .await;
    let parts = raw("form").await;
    let boundary = parts["type"].as_str().unwrap().strip_prefix("multipart/form-data; boundary=").unwrap().to_owned();
    let text = parts["text"].as_str().unwrap();
    assert!(text.contains(&boundary) && text.contains("hello") && text.contains("filename=\"a.bin\""), "{text}");
    assert_eq!(raw("{ a: [1] }").await["type"], "application/json");
    assert_eq!(raw("'text'").await["text"], "\"text\"", "a text is JSON, too");

    // A file: a small one, and one that lies outside the heap and does not enter it.
    value(&dev, "require('fs').writeFileSync('/tmp/small.txt', 'small'); 0").await;
    let small = raw("{ $file: '/tmp/small.txt', type: 'text/plain' }").await;
    assert_eq!((&small["type"], &small["text"]), (&json!("text/plain"), &json!("small")));
    let large: Vec<u8> = video();
    value(&dev, "var part = new Uint8Array(1e6).map((_, n) => (n % 251) | 128); for (let n = 0; n < 8; n++) require('fs').appendFileSync('/tmp/large.bin', part); part = 0").await;
    let before = eval(&dev, "agent", "0").await["stats"]["heapBytes"].as_i64().unwrap();
    let sent = eval(&dev, "agent", &call("{ method: 'POST', path: '/raw', body: { $file: '/tmp/large.bin' } }")).await;
    let sum: u64 = 8 * large.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    assert_eq!(
        (&sent["value"]["bytes"], &sent["value"]["sum"], &sent["value"]["type"]),
        (&json!(8_000_000), &json!(sum), &octets),
        "{sent}"
    );
    assert!(sent["stats"]["heapBytes"].as_i64().unwrap() - before < 64 << 10, "{sent}");
    assert_eq!(value(&dev, "refs.list()").await, json!([]), "what stood for the file is gone");
    let missing = value(&dev, "try { callService('data', { path: '/raw', body: { $file: '/no' } }) } catch (error) { error.code }").await;
    assert_eq!(missing, "ENOENT");
    // As an argument of a tool, which is JSON, a file would not go; as a body it is sent by itself, up to the service's own bound.
    let huge = format!(
        "{}.then((it) => it.bytes, (error) => error.code)",
        call("{ method: 'POST', path: '/raw', body: { $file: '/tmp/huge.bin' } }")
    );
    value(
        &dev,
        "var block = new Uint8Array(1 << 20); for (let n = 0; n < 32; n++) require('fs').appendFileSync('/tmp/huge.bin', block); block = 0",
    )
    .await;
    assert_eq!(value(&dev, &huge).await, json!(REQUEST_BYTES_MAX));
    value(&dev, "require('fs').appendFileSync('/tmp/huge.bin', 'x'); 0").await;
    assert_eq!(value(&dev, &huge).await, "ToolArgsInvalid", "one byte more");
    assert_eq!(value(&dev, "refs.list()").await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_of_a_service_is_bytes_text_json_or_a_reference() {
    let data = tempfile::tempdir().unwrap();
    let (service, _) = service().await;
    let dev = Dev::start_of(data.path(), &manifest(data.path(), service));
    let image = value(&dev, &format!("[...{}]", call("{ path: '/image', response: 'bytes' }"))).await;
    assert_eq!(image, json!([0x89, 0xff, 0, 0x80]));
    assert_eq!(value(&dev, &call("{ path: '/few', response: 'text' }")).await, "[1,2,3]");
    assert_eq!(value(&dev, &call("{ path: '/few', response: 'json' }")).await, json!([1, 2, 3]));
    let length = value(&dev, &format!("({}).length", call("{ path: '/rows', response: 'json' }"))).await;
    assert_eq!(length, json!(ROWS), "who says how to read an answer has it in the heap");
    let video = value(&dev, &format!("var video = {}; video", call("{ path: '/video', response: 'reference' }"))).await;
    assert_eq!((&video["$ref"]["bytes"], &video["$ref"]["mimeType"]), (&json!(1_000_000), &json!("video/mp4")));
    assert_eq!(value(&dev, "[...refs.read(video, 0, 3)]").await, json!([128, 129, 130]));
    assert_eq!(value(&dev, "refs.save(video, '/tmp/v.mp4'); require('fs').statSync('/tmp/v.mp4').size").await, json!(1_000_000));
    let back = value(&dev, &call("{ method: 'POST', path: '/raw', body: video }")).await;
    assert_eq!((&back["bytes"], &back["type"]), (&json!(1_000_000), &json!("video/mp4")), "it goes back as what it was");
    let wrong = value(&dev, "try { callService('data', { path: '/few', response: 'xml' }) } catch (error) { error.message }").await;
    assert_eq!(wrong, "response: write one of json, text, bytes, reference");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_comes_into_the_heap_whatever_its_size() {
    let data = tempfile::tempdir().unwrap();
    let (service, _) = service().await;
    let dev = Dev::start_of(data.path(), &manifest(data.path(), service));
    for options in ["{}", "{ reference: true }"] {
        let refused = value(&dev, &format!("await tools.refuse({{}}, {options}).catch((error) => error.code)")).await;
        assert_eq!(refused, json!("ToolResultInvalid"), "{options}");
    }
    assert_eq!(value(&dev, "refs.list()").await, json!([]), "nothing of it lies outside");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_are_declared_in_typescript() {
    let data = tempfile::tempdir().unwrap();
    let (service, _) = service().await;
    let dev = Dev::start_of(data.path(), &manifest(data.path(), service));
    let declared = value(&dev, "await tools.declarations()").await;
    let declared = declared.as_str().unwrap();
    assert!(declared.contains("  few(args?: Record<string, unknown>, options?: CallOptions): Promise<unknown>;"), "{declared}");
    // Whoever keeps them beside a cell may compile both.
    assert_eq!(value(&dev, &format!("{declared}; 1 + 1")).await, json!(2));
}
