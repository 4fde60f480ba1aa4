//! Large answers: they are left open, and read part by part, free of credentials.

use axum::{Router, body::Body, http::HeaderMap, response::IntoResponse as _, routing::any};
use base64::Engine as _;
use dormouse_broker::Broker;
use dormouse_protocol::{
    ErrorCode,
    broker::{BodyAnswer, BodyCall, StreamedAnswer, ToolAnswer, ToolCall},
};
use serde_json::{Value, json};

use crate::world::{TOKEN, call, secrets};

/// Bytes of the large answer before its credential.
const BEFORE_BYTES: usize = 300_000;
/// Answers above so many bytes may be left open.
const ABOVE_BYTES: u64 = 100_000;

/// An answer with the credential in it, cut wherever a connection may cut it.
async fn large(headers: HeaderMap) -> axum::response::Response {
    let shown = headers["authorization"].to_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned();
    let text = format!("{}{shown}{}", "x".repeat(BEFORE_BYTES), "y".repeat(200_000));
    let chunks: Vec<Result<Vec<u8>, std::io::Error>> = text.as_bytes().chunks(7_001).map(|chunk| Ok(chunk.to_vec())).collect();
    ([("content-type", "text/plain")], Body::from_stream(futures::stream::iter(chunks))).into_response()
}

async fn broker() -> Broker {
    let endless = || futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 10_000]));
    let routes = Router::new()
        .route("/large", any(large))
        .route("/small", any(async || "[1]"))
        .route("/endless", any(async move || Body::from_stream(endless())));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let service = json!({
        "name": "far", "baseUrl": base, "allowedMethods": ["GET", "POST"], "allowedPaths": ["/*"], "direct": {},
        "auth": { "type": "bearer", "secretRef": { "name": "widgets", "key": "token" } },
    });
    let tool = |name: &str, method: &str, path: &str| json!({ "name": name, "service": "far", "method": method, "path": path });
    let mut checked = tool("checked", "GET", "/large");
    checked["output"] = json!({ "type": "string" });
    let tools = [
        tool("large", "GET", "/large"),
        tool("make", "POST", "/large"),
        tool("small", "GET", "/small"),
        tool("endless", "GET", "/endless"),
        checked,
    ];
    Broker::new(serde_json::from_value(json!({ "services": [service], "tools": tools })).unwrap(), secrets()).unwrap()
}

fn asking(number: u64, tool: &str) -> ToolCall {
    ToolCall { stream_above: Some(ABOVE_BYTES), ..call(number, tool, json!({})) }
}

async fn streamed(broker: &Broker, call: ToolCall) -> StreamedAnswer {
    match &*broker.call(call).await.unwrap() {
        ToolAnswer::Stream { stream } => stream.clone(),
        other => panic!("{other:?}"),
    }
}

async fn part(broker: &Broker, stream: u64, part: u64) -> BodyAnswer {
    broker.body(BodyCall { namespace: "team-a".into(), session_uid: "u-1".into(), epoch: 1, stream, part }).await.unwrap()
}

/// All that is left open under this number.
async fn whole(broker: &Broker, stream: u64) -> String {
    let mut bytes = Vec::new();
    for number in 0.. {
        let BodyAnswer::Part { bytes: more, last } = part(broker, stream, number).await else { panic!("it breaks off") };
        bytes.extend(base64::engine::general_purpose::STANDARD.decode(more).unwrap());
        if last {
            break;
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_large_answer_is_read_as_it_comes_and_free_of_the_credential() {
    let broker = broker().await;
    let expected = format!("{}[redacted]{}", "x".repeat(BEFORE_BYTES), "y".repeat(200_000));
    let stream = streamed(&broker, asking(1, "large")).await;
    assert_eq!(stream, StreamedAnswer { mime_type: "text/plain".into(), repeatable: true });
    let text = whole(&broker, 1).await;
    assert!(!text.contains(TOKEN) && text == expected, "{} bytes", text.len());

    // What is safe is made again; what is not is over when it was read.
    streamed(&broker, ToolCall { repeated: true, ..asking(1, "large") }).await;
    assert_eq!(whole(&broker, 1).await, expected);
    assert!(!streamed(&broker, asking(2, "make")).await.repeatable);
    assert_eq!(whole(&broker, 2).await, expected);
    streamed(&broker, ToolCall { repeated: true, ..asking(2, "make") }).await;
    assert_eq!(part(&broker, 2, 0).await, BodyAnswer::Lost {});
}

#[tokio::test]
async fn what_is_small_or_checked_or_not_wanted_so_comes_whole() {
    let broker = broker().await;
    for (number, call) in [(1, asking(1, "small")), (2, asking(2, "checked")), (3, call(3, "large", json!({})))] {
        let answer = broker.call(call).await.unwrap();
        assert!(matches!(&*answer, ToolAnswer::Ok { .. }), "{number}: {answer:?}");
    }
    let direct = |number, response: Value| {
        let args = json!({ "service": "far", "path": "/large", "response": response });
        ToolCall { args, ..asking(number, "callService") }
    };
    streamed(&broker, direct(4, json!("reference"))).await;
    for form in ["text", "bytes"] {
        let answer = broker.call(direct(form.len() as u64 * 10, json!(form))).await.unwrap();
        assert!(matches!(&*answer, ToolAnswer::Ok { .. }), "{form}: {answer:?}");
    }
}

#[tokio::test]
async fn an_answer_without_an_end_breaks_off_at_its_bound() {
    let broker = broker().await;
    streamed(&broker, asking(1, "endless")).await;
    let failed = async {
        for number in 0.. {
            match part(&broker, 1, number).await {
                BodyAnswer::Part { .. } => {}
                BodyAnswer::Failed(failure) => return (number, failure.code),
                BodyAnswer::Lost {} => panic!("lost"),
            }
        }
        unreachable!("parts have no end")
    };
    let (parts, code) = failed.await;
    assert_eq!(code, "ERR_BODY_TOO_LARGE");
    assert!(parts >= 32, "8 MiB in parts of 256 KiB at most, of which {parts} came");
    let small = match &*broker.call(ToolCall { stream_above: Some(u64::MAX), ..asking(2, "endless") }).await.unwrap() {
        ToolAnswer::Err { error } => error.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(small, ErrorCode::ToolResultInvalid, "what is not left open is refused");
}
