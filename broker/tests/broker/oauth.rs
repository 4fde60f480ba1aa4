//! Client credentials of an OAuth server that others wrote: `oidc-provider`, which is certified, and a service that asks it about each token.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use dormouse_broker::{Broker, Secrets};
use dormouse_protocol::ErrorCode;
use serde_json::{Value, json};

use crate::{
    oidc_provider,
    world::{call, failure, value},
};

/// A client that may ask for a token, and whoever asks about one.
const SERVER: &str = "
import { Provider } from 'oidc-provider';
const port = Number(process.argv[1]);
const client = (id, secret) => ({
    client_id: id, client_secret: secret, grant_types: ['client_credentials'], redirect_uris: [], response_types: [], scope: 'read write',
});
const clients = [client('vm-id', 'pass/word +%'), client('resource', 'asks')];
const allowedPolicy = (context, asking) => asking.clientId === 'resource';
const features = {
    clientCredentials: { enabled: true }, introspection: { enabled: true, allowedPolicy }, devInteractions: { enabled: false },
};
new Provider(`http://127.0.0.1:${port}`, { clients, scopes: ['read', 'write'], features }).listen(port, '127.0.0.1');
";

/// A service that takes what the server at this URL calls a good token.
async fn guarded(State(server): State<String>, headers: HeaderMap) -> Response {
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let token = shown.trim_start_matches("Bearer ").to_owned();
    let client = reqwest::Client::builder().timeout(std::time::Duration::from_secs(30)).build().unwrap();
    let asked = client
        .post(format!("{server}/token/introspection"))
        .header(header::AUTHORIZATION, "Basic cmVzb3VyY2U6YXNrcw==")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(format!("token={token}"));
    let said: Value = asked.send().await.unwrap().json().await.unwrap();
    match said["active"].as_bool() {
        Some(true) => Json(json!({ "client": said["client_id"], "scope": said["scope"], "echo": shown })).into_response(),
        _ => (StatusCode::UNAUTHORIZED, said.to_string()).into_response(),
    }
}

fn broker(server: &str, service: &str, secret: &str) -> Broker {
    let auth = json!({ "type": "oauth2ClientCredentials", "tokenUrl": format!("{server}/token"), "scopes": ["read", "write"], "secretRef": { "name": "client" } });
    let spec = json!({
        "services": [{ "name": "far", "baseUrl": service, "auth": auth }],
        "tools": [{ "name": "read", "service": "far", "path": "/thing" }],
    });
    let keys = [("clientId", "vm-id"), ("clientSecret", secret)].map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
    let secrets = Secrets::memory([("client".to_owned(), keys.into_iter().collect())].into_iter().collect());
    Broker::new(serde_json::from_value(spec).unwrap(), secrets).unwrap()
}

#[tokio::test]
async fn a_certified_server_gives_a_token_that_its_services_take() {
    dormouse_service::telemetry::install_tls_provider();
    let Some((server, _process, _logs)) = oidc_provider::start(SERVER).await else { return };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let service = format!("http://{}", listener.local_addr().unwrap());
    let routes = Router::new().route("/thing", get(guarded)).with_state(server.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await });

    let answer = value(&broker(&server, &service, "pass/word +%"), call(1, "read", json!({}))).await;
    assert_eq!(answer, json!({ "client": "vm-id", "scope": "read write", "echo": "Bearer [redacted]" }));
    let refused = failure(&broker(&server, &service, "another"), call(1, "read", json!({}))).await;
    assert_eq!(refused.code, ErrorCode::ToolDenied);
    assert!(refused.message.contains("401"), "{}", refused.message);
}

/// Has the time of timers pass, and nothing else.
async fn later(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_token_is_renewed_before_its_end() {
    static MADE: AtomicU64 = AtomicU64::new(0);
    // Its life in seconds, how long it is used, and how much later it is another one although it is not over: 30 s before, and a tenth of a short life.
    for (life, used, then) in [(3_600, 3_500, 80), (100, 60, 35)] {
        let token = move || async move {
            let number = MADE.fetch_add(1, Ordering::SeqCst);
            Json(json!({ "access_token": format!("token-{number}"), "token_type": "Bearer", "expires_in": life }))
        };
        // It takes any token, so none is renewed because it was refused.
        let routes = Router::new().route("/token", post(token)).route("/thing", get(async || Json(json!("taken"))));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let (broker, before) = (broker(&far, &far, "secret"), MADE.load(Ordering::SeqCst));
        let made = async |number: u64| {
            assert_eq!(value(&broker, call(number, "read", json!({}))).await, "taken");
            MADE.load(Ordering::SeqCst) - before
        };
        assert_eq!((made(1).await, made(2).await), (1, 1), "{life}");
        later(used).await;
        assert_eq!(made(3).await, 1, "{life}: it is good");
        later(then).await;
        assert_eq!((made(4).await, made(5).await), (2, 2), "{life}: its end is near");
    }
}
