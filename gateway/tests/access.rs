//! The access log. A process of its own: which lines are wanted is remembered for all threads of one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use serde_json::json;
use support::{Trust, directory, serve};

const SESSIONS: &str = "/v1/namespaces/default/sessions";

/// Keeps the lines of the access log of its thread.
#[derive(Clone, Default)]
struct Kept(Arc<std::sync::Mutex<Vec<String>>>);

impl tracing::field::Visit for Kept {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().push(format!("{field}={value:?}"));
    }
}

impl tracing::Subscriber for Kept {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == dormouse_gateway::access::TARGET
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn every_request_has_a_line_in_the_access_log_and_no_body_has() {
    let kept = Kept::default();
    let _guard = tracing::subscriber::set_default(kept.clone());
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    let client = serve(&trust, directory).await;
    let path = format!("{SESSIONS}/a");
    client.json("POST", SESSIONS, json!({"name": "a", "labels": {"secret": "in-the-body"}})).await;
    client.request("DELETE", &format!("{path}?x=in-the-query")).header("x-request-id", "r-1").send().await.unwrap();
    let lines = kept.0.lock().unwrap().join(" ");
    for part in [
        "user=\"local\"",
        "method=POST",
        "status=201",
        "method=DELETE",
        &format!("object=\"{path}\""),
        "request_id=\"r-1\"",
        "audit=\"delete\"",
        "ms=",
    ] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
    assert!(!lines.contains("in-the-body") && !lines.contains("in-the-query"), "{lines}");
}
