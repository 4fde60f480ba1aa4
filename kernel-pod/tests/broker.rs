//! What a kernel pod tells a broker about a call that it sends again.

use std::sync::{Arc, Mutex};

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::post};
use dormouse_kernel::{BrokerTools, Tools};
use dormouse_protocol::{
    ApiError, ErrorBody, ErrorCode,
    broker::{ToolAnswer, ToolCall},
};
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    tls::{Identity, PeerClient, Process, Server, TlsFiles},
};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

type Seen = Arc<Mutex<Vec<bool>>>;

/// Refuses the first sending without making the call, loses the answer of the second, answers the third.
async fn answer(State(seen): State<Seen>, Json(call): Json<ToolCall>) -> axum::response::Response {
    let mut seen = seen.lock().unwrap();
    seen.push(call.repeated);
    match seen.len() {
        1 => {
            let error = ApiError::new(ErrorCode::ShuttingDown, "another replica will take it");
            assert!(error.retryable);
            (StatusCode::SERVICE_UNAVAILABLE, Json(ErrorBody { error })).into_response()
        }
        2 => (StatusCode::BAD_GATEWAY, "a proxy between them").into_response(),
        _ => Json(ToolAnswer::Ok { value: json!(call.call) }).into_response(),
    }
}

#[tokio::test]
async fn a_call_is_repeated_once_its_answer_may_have_been_lost() {
    let ca = Ca::generate().unwrap();
    let own = Identity::new(Process::Broker, "team", "tools");
    let issue = |name: String| TlsFiles::from_pem(&ca.issue(&[name], LEAF_VALIDITY).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Seen::default();
    let router = Router::new().route("/v1/call", post(answer)).with_state(seen.clone());
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(Server::new(issue(own.dns_name())).serve(listener, router, shutdown.clone()));

    let tools = BrokerTools::new(PeerClient::new(issue(Identity::of_pool("team", "default"))).unwrap(), address);
    let call = ToolCall {
        namespace: "team".into(),
        session: "analyst".into(),
        session_uid: "u".into(),
        epoch: 1,
        call: 7,
        tool: "t".into(),
        args: json!({}),
        references: std::collections::BTreeMap::new(),
        repeated: false,
        settled_below: 0,
        page: None,
        waits: Default::default(),
        made_in: None,
        service_secrets: Default::default(),
        knowledge: None,
        body: None,
        stream_above: None,
        by: None,
    };
    assert_eq!(tools.call("tools", call).await.unwrap(), ToolAnswer::Ok { value: json!(7) });
    assert_eq!(*seen.lock().unwrap(), [false, false, true]);
    shutdown.cancel();
    server.await.unwrap();
}
