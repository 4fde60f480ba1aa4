//! Checkpoints, forks and the journal on their way through the gateway.

use std::sync::{Arc, atomic::Ordering};

use crate::support::{Trust, directory, serve};
use dormouse_gateway::{
    Directory as _, Gateway, auth::loopback::Loopback, directory::Key, history, in_flight::PLACING_TIMEOUT, router::ROOM_POLL,
};
use dormouse_protocol::{ErrorCode, kernel::Anchor};
use serde_json::json;

const SESSIONS: &str = "/v1/namespaces/default/sessions";

#[tokio::test]
async fn a_fork_tells_its_pod_whose_child_it_is() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory.clone()).await;
    let parent = json!({"name": "parent", "spec": {"idleSeconds": 17, "operatingMode": "Hibernated"}});
    assert_eq!(client.json("POST", SESSIONS, parent).await.0, 201);
    let (status, body) = client.json("POST", &format!("{SESSIONS}/parent/fork"), json!({"name": "child", "checkpoint": "7"})).await;
    assert_eq!((status, body["name"].as_str(), body["state"].as_str()), (201, Some("child"), Some("Idle")), "{body}");
    assert_eq!(body["spec"]["source"], json!({"session": "parent", "checkpoint": "7"}));
    assert_eq!((body["spec"]["idleSeconds"].as_u64(), body["spec"]["operatingMode"].as_str()), (Some(17), Some("Auto")));
    let uid = directory.get(&Key::new("default", "parent")).unwrap().uid.clone();
    let told = pod.wakes.lock().unwrap()[0].clone();
    assert_eq!((told.name.as_str(), told.source_uid), ("child", Some(uid)));

    let (status, body) = client.json("POST", &format!("{SESSIONS}/parent/fork"), json!({"name": "child"})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (409, Some("Conflict")), "{body}");
    let (status, _) = client.json("POST", &format!("{SESSIONS}/nobody/fork"), json!({"name": "other"})).await;
    assert_eq!(status, 404);
    let (status, body) = client.json("PATCH", &format!("{SESSIONS}/child"), json!({"spec": {"source": null}})).await;
    assert_eq!((status, body["error"]["details"]["path"].as_str()), (400, Some("spec.source")), "{body}");
}

#[tokio::test]
async fn every_request_brings_what_status_knows_to_be_stored() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory.clone()).await;
    client.json("POST", SESSIONS, json!({"name": "a"})).await;
    // The folder may not follow the pod's reports yet: each wake is told again.
    let stored = || directory.get(&Key::new("default", "a")).unwrap().status.snapshot.is_some();
    let first = async {
        while !stored() {
            assert_eq!(client.json("POST", &format!("{SESSIONS}/a/wake"), json!({})).await.0, 200);
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), first).await.expect("status has the snapshot");
    assert_eq!(pod.wakes.lock().unwrap()[0].anchor, None, "nothing is known of a session that never ran");
    assert_eq!(client.json("POST", &format!("{SESSIONS}/a/eval"), json!({"code": "1"})).await.0, 200);
    let known = Some(Anchor { epoch: 1, sequence: 1, encrypted: false });
    assert_eq!(pod.evals().last().unwrap().assignment.anchor, known);
    assert_eq!(client.json("POST", &format!("{SESSIONS}/a/fork"), json!({"name": "child"})).await.0, 201);
    let told = pod.wakes.lock().unwrap().last().unwrap().clone();
    assert_eq!((told.name.as_str(), told.anchor, told.source_anchor), ("child", None, known));
}

#[tokio::test]
async fn a_fork_that_cannot_begin_leaves_nothing() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory.clone()).await;
    client.json("POST", SESSIONS, json!({"name": "parent"})).await;
    pod.wake_refusals.lock().unwrap().push_back(ErrorCode::InvalidRequest);
    let (status, body) = client.json("POST", &format!("{SESSIONS}/parent/fork"), json!({"name": "child", "checkpoint": "none"})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (400, Some("InvalidRequest")), "{body}");
    assert_eq!(client.get(&format!("{SESSIONS}/child")).await.0, 404);
}

#[tokio::test]
async fn what_is_stored_is_told_without_a_wake() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory.clone()).await;
    client.json("POST", SESSIONS, json!({"name": "a", "spec": {"operatingMode": "Hibernated"}})).await;
    let (status, body) = client.get(&format!("{SESSIONS}/a/checkpoints")).await;
    assert_eq!((status, &body["items"][0]["label"]), (200, &json!("a")), "{body}");
    let (status, body) = client.get(&format!("{SESSIONS}/a/journal?after=41&limit=5")).await;
    assert_eq!((status, &body["entries"][0]), (200, &json!({"seq": 42, "time": "t", "epoch": 5, "kind": "hibernated"})), "{body}");
    for (query, to) in [("from=1&to=two", "two"), ("from=1", "last")] {
        let (status, body) = client.get(&format!("{SESSIONS}/a/checkpoints/diff?{query}")).await;
        assert_eq!(
            (status, &body["from"]["id"], &body["to"]["id"], &body["from"]["time"]),
            (200, &json!("1"), &json!(to), &json!("a")),
            "{body}"
        );
    }
    let (status, body) = client.get(&format!("{SESSIONS}/a/checkpoints/diff")).await;
    assert_eq!((status, body["error"]["code"].as_str()), (400, Some("InvalidRequest")), "{body}");
    assert!(directory.get(&Key::new("default", "a")).unwrap().status.placement.is_none() && pod.wakes.lock().unwrap().is_empty());
    let (status, body) = client.json("POST", &format!("{SESSIONS}/a/restore"), json!({"checkpoint": "7"})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (409, Some("Conflict")), "its user has put it to sleep: {body}");
    client.json("PATCH", &format!("{SESSIONS}/a"), json!({"spec": {"operatingMode": "Auto"}})).await;
    let (status, body) = client.json("POST", &format!("{SESSIONS}/a/restore"), json!({"checkpoint": "7"})).await;
    assert_eq!((status, body["state"].as_str()), (200, Some("Idle")), "{body}");
    assert_eq!(pod.restores.lock().unwrap()[0].checkpoint, "7");
}

#[tokio::test]
async fn a_read_says_where_its_answer_comes_from() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory).await;
    client.json("POST", SESSIONS, json!({"name": "a"})).await;
    for (method, path, source) in [
        ("GET", "", Some("reported")),
        ("GET", "/a", Some("reported")),
        ("GET", "/a/journal", Some("committed")),
        ("GET", "/a/checkpoints", Some("committed")),
        ("GET", "/a/checkpoints/diff?from=1", Some("committed")),
        ("POST", "/a/wake", None),
    ] {
        let response = client.request(method, &format!("{SESSIONS}{path}")).send().await.unwrap();
        let said = response.headers().get("dormouse-read").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!((response.status().as_u16(), said.as_deref()), (200, source), "{method} {path}");
    }
}

#[tokio::test]
async fn without_a_pod_nothing_stored_can_be_read_and_the_reader_hears_so_in_time() {
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    serve(&trust, directory.clone()).await.json("POST", SESSIONS, json!({"name": "a"})).await;
    let gateway = Gateway::new(directory, trust.kernels(), Arc::new(Loopback::default()));
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let refused = history::journal(gateway.router(), &Key::new("default", "a"), 0, None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::CapacityExhausted);
    assert!(
        refused.message.contains("has no kernel pod that is ready yet") && refused.message.contains("send the request again"),
        "{refused}"
    );
    assert!(began.elapsed() >= PLACING_TIMEOUT && began.elapsed() < PLACING_TIMEOUT + ROOM_POLL, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_restore_or_a_checkpoint_whose_answer_was_lost_is_the_same_one_when_it_is_sent_again() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory).await;
    client.json("POST", SESSIONS, json!({"name": "a"})).await;
    pod.lost.store(2, Ordering::SeqCst);
    let (status, body) = client.json("POST", &format!("{SESSIONS}/a/restore"), json!({"checkpoint": "7"})).await;
    assert_eq!(status, 200, "{body}");
    let sent: Vec<_> = pod.restores.lock().unwrap().iter().map(|call| call.operation.clone()).collect();
    assert!(sent.len() == 3 && sent[0].is_some() && sent.iter().all(|operation| *operation == sent[0]), "{sent:?}");
    pod.lost.store(1, Ordering::SeqCst);
    let wanted = json!({"label": "here", "idempotencyKey": "mine"});
    let (status, body) = client.json("POST", &format!("{SESSIONS}/a/checkpoints"), wanted).await;
    assert_eq!((status, body["label"].as_str()), (201, Some("here")), "{body}");
    let sent: Vec<_> = pod.checkpoints.lock().unwrap().iter().map(|call| call.operation.clone()).collect();
    assert_eq!(sent, [Some("mine".to_owned()), Some("mine".to_owned())]);
    client.json("POST", &format!("{SESSIONS}/a/restore"), json!({"checkpoint": "7"})).await;
    let last = pod.restores.lock().unwrap().last().unwrap().operation.clone();
    assert_ne!(last, pod.restores.lock().unwrap()[0].operation, "each request has a key of its own");
}

#[tokio::test]
async fn a_removal_whose_answer_was_lost_is_not_sent_again() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory).await;
    client.json("POST", SESSIONS, json!({"name": "a"})).await;
    pod.lost.store(1, Ordering::SeqCst);
    let response = client.request("DELETE", &format!("{SESSIONS}/a/files/x.txt")).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers().contains_key("retry-after")), (502, false));
    let body: serde_json::Value = response.json().await.unwrap();
    assert_eq!((body["error"]["code"].as_str(), body["error"]["retryable"].as_bool()), (Some("OutcomeUnknown"), Some(false)), "{body}");
    assert_eq!(pod.removals.load(Ordering::SeqCst), 1);
}
