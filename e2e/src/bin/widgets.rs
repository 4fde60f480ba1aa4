//! A real HTTP service for a tool to call: it wants a bearer token and counts how often it was called.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    routing::get,
};
use serde_json::{Value, json};

/// Where it listens.
const LISTEN: &str = "0.0.0.0:8080";

/// What it was told and what it has seen.
struct Widgets {
    authorization: String,
    served: AtomicU64,
    refused: AtomicU64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let token = std::env::var("WIDGETS_TOKEN")?;
    let widgets = Arc::new(Widgets { authorization: format!("Bearer {token}"), served: AtomicU64::new(0), refused: AtomicU64::new(0) });
    let app = Router::new().route("/widgets/{id}", get(widget)).route("/calls", get(calls)).with_state(widgets);
    let listener = tokio::net::TcpListener::bind(LISTEN.parse::<SocketAddr>()?).await?;
    axum::serve(listener, app).await?;
    Ok(())
}

async fn widget(State(widgets): State<Arc<Widgets>>, Path(id): Path<String>, headers: HeaderMap) -> (StatusCode, Json<Value>) {
    if headers.get(AUTHORIZATION).is_none_or(|value| value.as_bytes() != widgets.authorization.as_bytes()) {
        widgets.refused.fetch_add(1, Ordering::Relaxed);
        return (StatusCode::UNAUTHORIZED, Json(json!({ "error": "a bearer token is needed" })));
    }
    let call = widgets.served.fetch_add(1, Ordering::Relaxed) + 1;
    (StatusCode::OK, Json(json!({ "id": id, "name": format!("Widget {id}"), "call": call })))
}

async fn calls(State(widgets): State<Arc<Widgets>>) -> Json<Value> {
    Json(json!({ "served": widgets.served.load(Ordering::Relaxed), "refused": widgets.refused.load(Ordering::Relaxed) }))
}
