//! The client against a small HTTP server that answers what a gateway might.

use axum::{
    Json, Router,
    http::{HeaderMap, StatusCode},
    routing,
};
use dormouse_protocol::{ApiError, ErrorBody, ErrorCode, eval::EvalRequest, event::EventBody};
use futures::StreamExt as _;
use reqwest::Url;

use super::{Client, Error, below};

async fn client(router: Router) -> Client {
    dormouse_service::telemetry::install_tls_provider();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    Client::new(&format!("http://{address}/"), "team", Some("secret")).unwrap()
}

#[test]
fn names_cannot_leave_their_place() {
    let base = Url::parse("http://h:1/prefix/").unwrap();
    assert_eq!(below(&base, &["a", "eval"]).unwrap().as_str(), "http://h:1/prefix/a/eval");
    assert_eq!(below(&base, &["a/../b?c#d"]).unwrap().as_str(), "http://h:1/prefix/a%2F..%2Fb%3Fc%23d");
    for bad in ["", ".", ".."] {
        assert!(matches!(below(&base, &[bad]), Err(Error::Address(_))), "{bad}");
    }
}

#[test]
fn an_address_that_is_none_is_named() {
    for bad in ["nonsense", "ftp://x", "unix:/x"] {
        assert!(matches!(Client::new(bad, "default", None), Err(Error::Address(_))), "{bad}");
    }
}

#[tokio::test]
async fn an_error_body_becomes_its_code() {
    let answer = || async {
        let error = ApiError::new(ErrorCode::SessionGone, "it is elsewhere");
        (StatusCode::CONFLICT, Json(ErrorBody { error }))
    };
    let client = client(Router::new().route("/v1/namespaces/team/sessions/gone", routing::get(answer).delete(answer))).await;
    let errors = [client.get("gone").await.map(drop).unwrap_err(), client.delete("gone").await.unwrap_err()];
    for error in errors {
        assert!(matches!(error, Error::Api { status: Some(409), .. }), "{error}");
        assert_eq!((error.code(), error.retryable()), (Some(ErrorCode::SessionGone), true));
    }
}

#[tokio::test]
async fn an_answer_of_something_else_is_told_apart() {
    let client = client(Router::new().fallback(|| async { (StatusCode::BAD_GATEWAY, "<html>proxy</html>") })).await;
    let error = client.hibernate("a").await.unwrap_err();
    assert!(matches!(&error, Error::Garbled { status: 502, reason } if reason.contains("proxy")), "{error}");
    assert_eq!((error.code(), error.retryable()), (None, false));
}

#[tokio::test]
async fn who_is_not_there_may_be_asked_again() {
    dormouse_service::telemetry::install_tls_provider();
    let nobody = Client::new("http://127.0.0.1:1", "team", None).unwrap();
    let error = nobody.hibernate("a").await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable { url, .. } if url == "http://127.0.0.1:1"), "{error}");
    assert!(error.retryable());
}

#[tokio::test]
async fn the_token_and_the_events_of_a_stream_arrive_that_are_known() {
    let events = |headers: HeaderMap| async move {
        assert_eq!(headers.get("authorization").unwrap(), "Bearer secret");
        assert_eq!(headers.get("accept").unwrap(), "application/x-ndjson");
        let event = |seq: u64, kind: &str| {
            format!(r#"{{"protocolVersion":1,"sessionId":"s_1","seq":{seq},"type":"{kind}","payload":{{"level":"log","text":"hi"}}}}"#)
        };
        format!("{}\n{}\n\nno event\n", event(3, "pondered"), event(4, "log"))
    };
    let client = client(Router::new().route("/v1/namespaces/team/sessions/a/eval", routing::post(events))).await;
    let stream = client.eval_events("a", &EvalRequest { code: "1".into(), ..EvalRequest::default() }).await.unwrap();
    let seen: Vec<_> = stream.collect().await;
    assert!(matches!(&seen[..], [Ok(_), Err(Error::Garbled { status: 200, .. })]), "{seen:?}");
    let event = seen[0].as_ref().unwrap();
    assert!(event.seq == 4 && matches!(&event.body, EventBody::Log { text, .. } if text == "hi"), "{event:?}");
}
