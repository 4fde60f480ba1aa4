//! Calls against a real HTTP service.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::world::{PASSWORD, TOKEN, broker, call, failure, value};
use base64::Engine as _;
use dormouse_protocol::{ErrorCode, broker::ToolCall};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[tokio::test]
async fn credentials_are_added() {
    let (world, broker) = broker().await;
    value(&broker, call(1, "getWidget", json!({"id": "7"}))).await;
    assert_eq!(world.last().authorization, Some(format!("Bearer {TOKEN}")));
    let key = world.last().idempotency_key.unwrap();
    assert!(key.len() == 34 && key.starts_with('"') && key.ends_with('"') && !key.contains("u-1"), "a structured string: {key}");
    value(&broker, call(2, "byHeader", json!({"id": "7"}))).await;
    assert_ne!(world.last().idempotency_key, Some(key));
    assert_eq!((world.last().api_key, world.last().authorization), (Some(TOKEN.to_owned()), None));
    value(&broker, call(3, "byBasic", json!({"id": "7"}))).await;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("admin:{PASSWORD}"));
    assert_eq!(world.last().authorization, Some(format!("Basic {pair}")));
    value(&broker, call(4, "byNothing", json!({"id": "7"}))).await;
    assert_eq!((world.last().api_key, world.last().authorization), (None, None));
}

#[tokio::test]
async fn an_echoed_credential_is_struck() {
    let (_world, broker) = broker().await;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("admin:{PASSWORD}"));
    let mut number = 0;
    for tool in ["getWidget", "byHeader", "byBasic"] {
        for id in ["echo", "text", "refused", "redirect"] {
            number += 1;
            let answer = broker.call(call(number, tool, json!({"id": id}))).await.unwrap();
            let text = serde_json::to_string(answer.as_ref()).unwrap();
            assert!(text.contains("[redacted]"), "{tool} {id}: {text}");
            for secret in [TOKEN, PASSWORD, &pair, pair.trim_end_matches('=')] {
                assert!(!text.contains(secret), "{tool} {id}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn arguments_go_into_path_query_and_body() {
    let (world, broker) = broker().await;
    let args = json!({"id": "a b", "deep": true, "tags": ["x", "y&z"], "none": null});
    assert_eq!(value(&broker, call(1, "getWidget", args)).await, json!({"id": "a%20b", "price": 12}));
    assert_eq!(world.last().uri, "/base/widgets/a%20b?deep=true&tags=x&tags=y%26z");
    assert_eq!(world.last().body, "");
    value(&broker, call(2, "make", json!({"kind": 3, "size": {"cm": 5}}))).await;
    assert_eq!((world.last().method.as_str(), world.last().uri.as_str()), ("POST", "/base/widgets/3"));
    assert_eq!(world.last().body, r#"{"size":{"cm":5}}"#);
    value(&broker, call(3, "remove", json!({"id": "1", "force": true}))).await;
    assert_eq!((world.last().method.as_str(), world.last().uri.as_str()), ("DELETE", "/base/widgets/1?force=true"));
    assert_eq!(value(&broker, call(4, "byNothing", json!({"id": "text"}))).await, json!("you sent "));
    assert_eq!(value(&broker, call(5, "getWidget", json!({"id": "empty"}))).await, json!(null));
}

#[tokio::test]
async fn what_is_not_allowed_never_leaves() {
    let (world, broker) = broker().await;
    let mut number = 0;
    let mut refuse = async |tool: &str, args| {
        number += 1;
        failure(&broker, call(number, tool, args)).await
    };
    for id in ["../secrets", "..", "%2e%2e", "a/b", "a%2Fb", "%252e%252e%252fadmin", "a\\b", ""] {
        assert_eq!(refuse("getWidget", json!({"id": id})).await.code, ErrorCode::ToolArgsInvalid, "{id}");
    }
    let missing = refuse("getWidget", json!({})).await;
    assert_eq!(missing.code, ErrorCode::ToolArgsInvalid);
    let nested = refuse("getWidget", json!({"id": {"a": 1}})).await;
    assert_eq!(nested.details, Some(json!({"path": "/id"})));
    assert_eq!(refuse("byHeader", json!(["id"])).await.code, ErrorCode::ToolArgsInvalid);
    assert_eq!(refuse("byHeader", json!({"id": null})).await.details, Some(json!({"path": "/id"})));
    assert_eq!(refuse("outside", json!({"where": "admin"})).await.code, ErrorCode::ToolDenied);
    assert_eq!(refuse("nothing", json!({})).await.code, ErrorCode::ToolNotFound);
    let large = "x".repeat(600);
    assert_eq!(refuse("make", json!({"kind": "a", "text": large})).await.code, ErrorCode::ToolArgsInvalid);
    assert_eq!(refuse("getWidget", json!({"id": "a", "text": large})).await.code, ErrorCode::ToolArgsInvalid);
    assert!(world.seen().is_empty(), "{:?}", world.seen());
}

#[tokio::test]
async fn what_comes_back_is_checked() {
    let (world, broker) = broker().await;
    let refused = failure(&broker, call(1, "getWidget", json!({"id": "refused"}))).await;
    assert_eq!(refused.code, ErrorCode::ToolResultInvalid);
    let details = refused.details.unwrap();
    assert_eq!(details["status"], 422);
    assert!(details["body"].as_str().unwrap().len() < 5_000);
    assert_eq!(failure(&broker, call(2, "getWidget", json!({"id": "forbidden"}))).await.code, ErrorCode::ToolDenied);
    let redirect = failure(&broker, call(3, "getWidget", json!({"id": "redirect"}))).await;
    assert_eq!((redirect.code, redirect.details.unwrap()["status"].clone()), (ErrorCode::ToolResultInvalid, json!(302)));
    for (number, id) in [(4, "large"), (5, "endless")] {
        let error = failure(&broker, call(number, "getWidget", json!({"id": id}))).await;
        assert!(error.code == ErrorCode::ToolResultInvalid && error.message.contains("responseBytesMax"), "{error:?}");
    }
    let price = failure(&broker, call(6, "priced", json!({"id": "7"}))).await;
    assert_eq!((price.code, price.details), (ErrorCode::ToolResultInvalid, Some(json!({"path": "/price"}))));
    assert_eq!(world.seen().len(), 6);
}

#[tokio::test]
async fn a_slow_or_absent_service_is_a_typed_failure() {
    let (_world, broker) = broker().await;
    assert_eq!(failure(&broker, call(1, "quick", json!({"id": "slow"}))).await.code, ErrorCode::TimeoutError);
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    broker.reconfigure(&crate::world::spec(&format!("http://{address}"))).await.unwrap();
    let error = failure(&broker, call(2, "getWidget", json!({"id": "argument"}))).await;
    assert_eq!(error.code, ErrorCode::ToolResultInvalid);
    assert!(!error.message.contains("argument") && !error.message.contains(&address.port().to_string()), "{error:?}");
}

/// A peer that takes requests one after the other, answers each with `said`, and breaks the connection; how many it has taken whole.
async fn breaks_off(said: &'static [u8]) -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, taken) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&taken);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !is_whole(&request) && connection.read_buf(&mut request).await.unwrap() > 0 {}
            counter.fetch_add(usize::from(is_whole(&request)), Ordering::SeqCst);
            connection.write_all(said).await.unwrap();
        }
    });
    (format!("http://{address}/base/"), taken)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.split("content-length: ").nth(1).map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
    body.len() >= length
}

#[tokio::test]
async fn an_unsafe_call_whose_connection_breaks_after_it_was_sent_has_an_unknown_outcome() {
    let (_world, broker) = broker().await;
    let half: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"id\"";
    for (number, said) in [(1, &b""[..]), (3, half)] {
        let (base, taken) = breaks_off(said).await;
        broker.reconfigure(&crate::world::spec(&base)).await.unwrap();
        let error = failure(&broker, call(number, "make", json!({"kind": "big"}))).await;
        assert_eq!((error.code, error.retryable), (ErrorCode::OutcomeUnknown, false), "{error:?}");
        assert!(error.message.contains("may or may not"), "{error:?}");
        assert_eq!(taken.load(Ordering::SeqCst), 1, "it is not sent again");
        let read = failure(&broker, call(number + 1, "getWidget", json!({"id": "7"}))).await;
        assert_eq!(read.code, ErrorCode::ToolResultInvalid, "what changes nothing has no outcome that matters: {read:?}");
    }
    let (base, taken) = breaks_off(b"").await;
    broker.reconfigure(&crate::world::spec(&base)).await.unwrap();
    failure(&broker, call(6, "keyed", json!({"kind": "big"}))).await;
    assert_eq!(taken.load(Ordering::SeqCst), 3, "a service that knows the key gets it again, as often as `retries` says");
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    broker.reconfigure(&crate::world::spec(&format!("http://{closed}/base/"))).await.unwrap();
    let error = failure(&broker, call(5, "make", json!({"kind": "big"}))).await;
    assert_eq!(error.code, ErrorCode::ToolResultInvalid, "nobody has seen it: {error:?}");
}

#[tokio::test]
async fn ten_concurrent_repeats_are_one_call() {
    let (world, broker) = broker().await;
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let broker = broker.clone();
            tokio::spawn(async move { value(&broker, call(1, "getWidget", json!({"id": "slow"}))).await })
        })
        .collect();
    world.arrived.notified().await;
    world.go.notify_one();
    for call in calls {
        assert_eq!(call.await.unwrap(), json!({"id": "slow"}));
    }
    assert_eq!(value(&broker, call(1, "getWidget", json!({"id": "slow"}))).await, json!({"id": "slow"}));
    assert_eq!(world.seen().len(), 1);
}

#[tokio::test]
async fn a_call_goes_on_when_its_caller_is_gone() {
    let (world, broker) = broker().await;
    let (first, slow) = (broker.clone(), call(1, "getWidget", json!({"id": "slow"})));
    let again = slow.clone();
    let caller = tokio::spawn(async move { first.call(slow).await });
    world.arrived.notified().await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    world.go.notify_one();
    assert_eq!(value(&broker, ToolCall { epoch: 2, ..again }).await, json!({"id": "slow"}));
    assert_eq!(world.seen().len(), 1);
}

#[tokio::test]
async fn a_repeated_call_that_a_broker_which_ended_had_is_not_made_twice() {
    let (world, broker) = broker().await;
    let repeated = |number, tool: &str| ToolCall { repeated: true, ..call(number, tool, json!({"id": "1", "kind": "big"})) };
    let error = broker.call(repeated(1, "make")).await.unwrap_err();
    assert!(error.code == ErrorCode::OutcomeUnknown && error.message.contains("not made again"), "{error:?}");
    assert!(world.seen().is_empty());
    value(&broker, repeated(2, "getWidget")).await;
    assert_eq!(world.seen().len(), 1, "a safe method may be repeated");
}

#[tokio::test]
async fn an_epoch_that_is_over_is_refused() {
    let (world, broker) = broker().await;
    let mut newer = call(1, "getWidget", json!({"id": "1"}));
    newer.epoch = 5;
    value(&broker, newer).await;
    assert_eq!(broker.call(call(2, "getWidget", json!({"id": "2"}))).await.unwrap_err().code, ErrorCode::SessionGone);
    let mut other = call(2, "getWidget", json!({"id": "2"}));
    other.session_uid = "u-2".to_owned();
    value(&broker, other).await;
    assert_eq!(world.seen().len(), 2);
}
