//! The client against a small HTTP server that answers what a gateway might.

use axum::{Router, http::StatusCode, routing};
use dormouse_protocol::{ApiError, ErrorBody, ErrorCode, eval::EvalRequest, event::EventBody};
use futures::StreamExt as _;

use crate::{Client, ClientError};

async fn client(router: Router) -> Client {
    dormouse_service::telemetry::install_tls_provider();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    Client::new(format!("http://{address}/"), "team").with_token("secret")
}

#[tokio::test]
async fn an_error_body_becomes_its_code() {
    let answer = || async {
        let error = ApiError::new(ErrorCode::SessionNotFound, "no such session");
        (StatusCode::NOT_FOUND, axum::Json(ErrorBody { error }))
    };
    let client = client(Router::new().route("/v1/namespaces/team/sessions/gone", routing::get(answer).delete(answer))).await;
    assert!(client.get("gone").await.unwrap().is_none());
    assert_eq!(client.delete("gone").await.unwrap_err().code(), Some(ErrorCode::SessionNotFound));
}

#[tokio::test]
async fn an_answer_of_something_else_is_told_apart() {
    let client = client(Router::new().fallback(|| async { (StatusCode::BAD_GATEWAY, "<html>proxy</html>") })).await;
    let error = client.hibernate("a").await.unwrap_err();
    assert!(matches!(error, ClientError::Foreign { status: 502, ref body } if body.contains("proxy")), "{error}");
}

#[tokio::test]
async fn the_token_and_the_lines_of_a_stream_arrive() {
    let events = |headers: axum::http::HeaderMap| async move {
        assert_eq!(headers.get("authorization").unwrap(), "Bearer secret");
        assert_eq!(headers.get("accept").unwrap(), "application/x-ndjson");
        "{\"protocolVersion\":1,\"sessionId\":\"s_1\",\"seq\":4,\"type\":\"log\",\"payload\":{\"level\":\"log\",\"text\":\"hi\"}}\n\n\
         {\"error\":{\"code\":\"SessionGone\",\"message\":\"moved\",\"retryable\":true}}\n"
    };
    let client = client(Router::new().route("/v1/namespaces/team/sessions/a/eval", routing::post(events))).await;
    let stream = client.eval_events("a", &EvalRequest { code: "1".into(), ..EvalRequest::default() }).await.unwrap();
    let seen: Vec<_> = stream.collect().await;
    assert!(matches!(&seen[0], Ok(event) if event.seq == 4 && matches!(&event.body, EventBody::Log { text, .. } if text == "hi")));
    assert_eq!(seen[1].as_ref().unwrap_err().code(), Some(ErrorCode::SessionGone));
    assert_eq!(seen.len(), 2);
}
