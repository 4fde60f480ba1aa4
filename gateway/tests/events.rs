//! Events of a session over HTTP: where a reader begins, and what it hears of those that are not kept.

use crate::support::{Client, Trust, directory, serve};
use serde_json::json;

const EVENTS: &str = "/v1/namespaces/default/sessions/a/events";

/// A session of which the events 4 to 6 are kept.
async fn client() -> (tempfile::TempDir, Client) {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    *pod.kept.lock().unwrap() = 4..=6;
    let (folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory).await;
    assert_eq!(client.json("POST", "/v1/namespaces/default/sessions", json!({ "name": "a" })).await.0, 201);
    (folder, client)
}

#[tokio::test]
async fn who_asks_for_events_that_are_not_kept_hears_which_is_the_first() {
    let (_folder, client) = client().await;
    let (status, refused) = client.get(&format!("{EVENTS}?after=2&follow=false")).await;
    let error = &refused["error"];
    assert_eq!((status, &error["code"], &error["details"]["oldest"]), (410, &json!("EventsExpired"), &json!(4)), "{refused}");
    let refused = client.request("GET", EVENTS).header("last-event-id", "2").header("accept", "text/event-stream").send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["content-type"].to_str().unwrap()), (410, "application/problem+json"));
    for (query, first) in [("?after=3&follow=false", 4), ("?follow=false", 4), ("?after=5&follow=false", 6)] {
        let text = client.request("GET", &format!("{EVENTS}{query}")).send().await.unwrap().text().await.unwrap();
        let seen: Vec<u64> =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap()).collect();
        assert_eq!(seen, (first..=6).collect::<Vec<_>>(), "{query}");
    }
}

#[tokio::test]
async fn a_browser_goes_on_behind_the_last_event_that_it_has_seen() {
    let (_folder, client) = client().await;
    for (last, path, ids) in [
        (Some("4"), "?follow=false", vec!["5", "6"]),
        (Some("6"), "?follow=false", vec![]),
        (None, "?follow=false", vec!["4", "5", "6"]),
        // What is no number says nothing, and what the query says counts.
        (Some("x"), "?follow=false", vec!["4", "5", "6"]),
        (Some("4"), "?follow=false&after=5", vec!["6"]),
    ] {
        let request = client.request("GET", &format!("{EVENTS}{path}")).header("accept", "text/event-stream");
        let request = last.iter().fold(request, |request, last| request.header("last-event-id", *last));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let text = answer.text().await.unwrap();
        let seen: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
        assert_eq!(seen, ids, "{last:?} {path}: {text}");
    }
}
