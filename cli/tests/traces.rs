//! One request, from its client to the far side of a tool: its id and its trace, as a collector sees it.

use std::{sync::Arc, time::Duration};

use crate::support::{Dev, http};
use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, header},
    response::IntoResponse,
    routing::{get, post},
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
    trace::v1::Span,
};
use prost::Message as _;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT: &str = "00f067aa0ba902b7";
/// A cell that asks the far side.
const CODE: &str = "(await callTool('getWidget', { id: '7' })).colour";
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came, to the collector and to the far side.
#[derive(Default)]
struct Came {
    spans: Vec<(String, Span)>,
    asked: Option<HeaderMap>,
}

async fn collect(State(came): State<Arc<watch::Sender<Came>>>, body: Bytes) -> impl IntoResponse {
    let batch = ExportTraceServiceRequest::decode(body).unwrap();
    came.send_modify(|came| {
        for part in batch.resource_spans {
            let attributes = part.resource.unwrap().attributes;
            let name = attributes.iter().find(|attribute| attribute.key == "service.name").unwrap().value.clone();
            let spans = part.scope_spans.into_iter().flat_map(|scope| scope.spans);
            came.spans.extend(spans.map(|span| (format!("{name:?}"), span)));
        }
    });
    ([(header::CONTENT_TYPE, "application/x-protobuf")], ExportTraceServiceResponse::default().encode_to_vec())
}

async fn widget(State(came): State<Arc<watch::Sender<Came>>>, headers: HeaderMap) -> Json<Value> {
    came.send_modify(|came| came.asked = Some(headers));
    Json(json!({ "id": "7", "colour": "red" }))
}

/// A collector that is the far side of a tool, too.
async fn neighbours() -> (String, watch::Receiver<Came>) {
    let (came, seen) = watch::channel(Came::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let routes = Router::new().route("/v1/traces", post(collect)).route("/widgets/7", get(widget)).with_state(Arc::new(came));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    (url, seen)
}

fn dev(url: &str, data: &std::path::Path, variables: &[(&str, &str)]) -> Dev {
    let manifest = data.join("tools.yaml");
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/toolbroker.yaml")).unwrap();
    std::fs::write(&manifest, text.replace("http://widgets.default.svc", url)).unwrap();
    let session = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/session.yaml");
    Dev::start_with(data, &["--broker", manifest.to_str().unwrap(), "--session", session], variables)
}

async fn call(dev: &Dev) -> reqwest::Response {
    let eval = format!("{}/v1/namespaces/default/sessions/analyst/eval", dev.server);
    let request = http().post(eval).header("x-request-id", "r-42").header("traceparent", format!("00-{TRACE}-{CLIENT}-01"));
    request.json(&json!({ "code": CODE })).send().await.unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The span of this name in the trace, behind the service's name.
fn find<'a>(came: &'a Came, name: &str) -> Option<&'a (String, Span)> {
    came.spans.iter().find(|(_, span)| span.name == name && hex(&span.trace_id) == TRACE)
}

/// What a process is told that sends its spans at once.
fn sending(url: &str) -> [(&'static str, &str); 2] {
    [("OTEL_EXPORTER_OTLP_ENDPOINT", url), ("OTEL_BSP_SCHEDULE_DELAY", "100")]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_one_trace_under_one_id_as_far_as_it_goes() {
    let (url, mut seen) = neighbours().await;
    let data = tempfile::tempdir().unwrap();
    let dev = dev(&url, data.path(), &sending(&url));
    assert!(dev.command(&["sessions", "hibernate", "analyst"], "").status.success());
    let answer = call(&dev).await;
    assert_eq!(answer.headers()["x-request-id"], "r-42");
    assert_eq!(answer.json::<Value>().await.unwrap()["value"], "red");
    let route = "POST /v1/namespaces/{namespace}/sessions/{name}/eval";
    let wanted = [route, "/v1/eval", "/v1/call", "wake", "commit"];
    let all = |came: &Came| wanted.iter().all(|wanted| find(came, wanted).is_some());
    let came = tokio::time::timeout(PATIENCE, seen.wait_for(all)).await.expect("every step has its span").unwrap();
    let span = |name: &str| find(&came, name).unwrap();
    let parent = |name: &str| hex(&span(name).1.parent_span_id);
    let id = |name: &str| hex(&span(name).1.span_id);
    assert_eq!(parent(route), CLIENT);
    assert_eq!(parent("/v1/eval"), id(route));
    for step in ["/v1/call", "wake", "commit"] {
        assert_eq!(parent(step), id("/v1/eval"), "{step}");
    }
    assert!(span(route).0.contains("dormouse-dev"), "{}", span(route).0);
    let asked = came.asked.as_ref().unwrap();
    assert_eq!(asked["x-request-id"], "r-42");
    assert!(asked["traceparent"].to_str().unwrap().starts_with(&format!("00-{TRACE}-")), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_mcp_is_a_part_of_the_trace_that_its_message_names() {
    let (url, mut seen) = neighbours().await;
    let data = tempfile::tempdir().unwrap();
    let dev = dev(&url, data.path(), &sending(&url));
    let arguments = json!({ "session": "analyst", "code": CODE });
    let params = json!({ "name": "eval", "arguments": arguments, "_meta": { "traceparent": format!("00-{TRACE}-{CLIENT}-01") } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let answer = http().post(format!("{}/mcp", dev.server)).json(&body).send().await.unwrap().json::<Value>().await.unwrap();
    assert_eq!(answer["result"]["structuredContent"]["value"], "red", "{answer}");
    let wanted = ["tools/call", "/v1/eval", "/v1/call"];
    let all = |came: &Came| wanted.iter().all(|wanted| find(came, wanted).is_some());
    let came = tokio::time::timeout(PATIENCE, seen.wait_for(all)).await.expect("every step has its span").unwrap();
    let span = |name: &str| &find(&came, name).unwrap().1;
    for (name, parent) in [("tools/call", CLIENT.to_owned()), ("/v1/eval", hex(&span("tools/call").span_id))] {
        assert_eq!(hex(&span(name).parent_span_id), parent, "{name}");
    }
    let asked = came.asked.as_ref().unwrap();
    assert!(asked["traceparent"].to_str().unwrap().starts_with(&format!("00-{TRACE}-")), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_traces_are_sent_as_the_sampler_says() {
    for (ratio, are_sent) in [("0", false), ("1", true)] {
        let (url, mut seen) = neighbours().await;
        let data = tempfile::tempdir().unwrap();
        let sampled = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", ratio)];
        let dev = dev(&url, data.path(), &[sending(&url), sampled].concat());
        assert_eq!(call(&dev).await.json::<Value>().await.unwrap()["value"], "red");
        if are_sent {
            let came = |came: &Came| find(came, "/v1/call").is_some();
            tokio::time::timeout(PATIENCE, seen.wait_for(came)).await.expect("a span comes").unwrap();
        }
        // What has not been sent is sent at the end.
        assert!(dev.terminate().success());
        let came = seen.borrow();
        assert_eq!(!came.spans.is_empty(), are_sent, "{ratio}");
        let told = came.asked.as_ref().unwrap().get("traceparent").map(|told| told.to_str().unwrap().to_owned());
        assert_eq!(told.is_some_and(|told| told.ends_with("-01")), are_sent, "the far side is told the same: {ratio}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_where_nobody_wants_it() {
    let (url, seen) = neighbours().await;
    let data = tempfile::tempdir().unwrap();
    let off = [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_SDK_DISABLED", "true"), ("OTEL_BSP_SCHEDULE_DELAY", "1")];
    let dev = dev(&url, data.path(), &off);
    assert_eq!(call(&dev).await.json::<Value>().await.unwrap()["value"], "red");
    assert!(dev.terminate().success());
    let came = seen.borrow();
    assert!(came.spans.is_empty());
    let asked = came.asked.as_ref().unwrap();
    assert_eq!((asked["x-request-id"].to_str().unwrap(), asked.get("traceparent")), ("r-42", None));
}
