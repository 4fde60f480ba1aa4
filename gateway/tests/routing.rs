//! From a name to the process that runs it: placing, moving, sending again.

mod dedicated;
mod directories;
mod pools;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use dormouse_crds::session::Placement;
use dormouse_gateway::{
    Directory,
    directory::{
        Key,
        folder::{FolderDirectory, StaticPod},
    },
};
use dormouse_lifecycle::attempts::PROCESSES_LOST_MAX;
use dormouse_protocol::{ErrorCode, kernel::ReportLine};
use dormouse_testkit::wait::eventually;
use futures::future::join_all;
use serde_json::json;

use crate::support::{Answer, Client, FakePod, Trust, directory, serve};
use directories::{Different, Recreated, Untouched};

const SESSIONS: &str = "/v1/namespaces/default/sessions";
const EVAL: &str = "/v1/namespaces/default/sessions/a/eval";

async fn create(client: &Client) {
    let (status, body) = client.json("POST", SESSIONS, json!({"name": "a"})).await;
    assert_eq!(status, 201, "{body}");
}

#[tokio::test]
async fn the_first_eval_places_the_session_and_the_second_goes_straight_there() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory.clone()).await;
    create(&client).await;
    for _ in 0..2 {
        let (status, body) = client.json("POST", EVAL, json!({"code": "1"})).await;
        assert_eq!((status, body["preview"].as_str()), (200, Some("one")), "{body}");
    }
    let evals = pod.evals();
    assert_eq!(evals.iter().map(|call| call.assignment.epoch).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(evals[0].assignment.boot, "boot-one");
    let keys: HashSet<_> = evals.iter().map(|call| call.eval.idempotency_key.clone().unwrap()).collect();
    assert_eq!(keys.len(), 2, "each request has a key of its own");
    let status = directory.get(&Key::new("default", "a")).unwrap().status.clone();
    assert_eq!((status.last_epoch, status.placement.unwrap().pod.as_str()), (Some(1), "one"));
}

#[tokio::test]
async fn not_every_session_that_is_placed_has_the_pods_asked() {
    const PLACED: usize = 20;
    let trust = Trust::new();
    let pod = trust.pod("one", 100).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory).await;
    for number in 0..PLACED {
        let name = format!("s{number}");
        let (status, body) = client.json("POST", SESSIONS, json!({ "name": name })).await;
        assert_eq!(status, 201, "{body}");
        let (status, body) = client.json("POST", &format!("{SESSIONS}/{name}/eval"), json!({"code": "1"})).await;
        assert_eq!(status, 200, "{body}");
    }
    let asked = pod.infos.load(Ordering::SeqCst);
    assert!((1..PLACED).contains(&asked), "{asked} questions for {PLACED} sessions, most of them within a second of another");
}

#[tokio::test]
async fn a_pod_that_should_be_full_by_now_is_asked_before_a_session_is_refused() {
    let trust = Trust::new();
    let pod = trust.pod("one", 1).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory).await;
    for name in ["a", "b"] {
        let (status, body) = client.json("POST", SESSIONS, json!({ "name": name })).await;
        assert_eq!(status, 201, "{body}");
        // It always says that nothing is used.
        let (status, body) = client.json("POST", &format!("{SESSIONS}/{name}/eval"), json!({"code": "1"})).await;
        assert_eq!((status, body["preview"].as_str()), (200, Some("one")), "{body}");
    }
    assert!(pod.infos.load(Ordering::SeqCst) >= 2);
}

#[tokio::test]
async fn many_gateways_and_many_requests_give_a_session_one_process() {
    let trust = Trust::new();
    let (one, two) = (trust.pod("one", 4).await, trust.pod("two", 4).await);
    let (_folder, directory) = directory(&trust, &[&one, &two]).await;
    let gateways = [serve(&trust, directory.clone()).await, serve(&trust, directory.clone()).await, serve(&trust, directory.clone()).await];
    create(&gateways[0]).await;
    let evals = (0..24).map(|turn| {
        let client = gateways[turn % gateways.len()].clone();
        async move { client.json("POST", EVAL, json!({"code": "1"})).await }
    });
    for (status, body) in join_all(evals).await {
        assert_eq!(status, 200, "{body}");
    }
    let calls = [one.evals(), two.evals()].concat();
    assert_eq!(calls.len(), 24);
    let owners: HashSet<_> = calls.iter().map(|call| (call.assignment.boot.clone(), call.assignment.epoch)).collect();
    assert_eq!(owners.len(), 1, "losers of the compare-and-swap follow the winner: {owners:?}");
    assert_eq!(directory.get(&Key::new("default", "a")).unwrap().status.last_epoch, Some(1));
}

#[tokio::test]
async fn a_session_that_was_put_to_sleep_meanwhile_wakes_where_it_is() {
    let trust = Trust::new();
    let pod = trust.pod("one", 9).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory.clone()).await;
    create(&client).await;
    pod.answers.lock().unwrap().push_back(Answer::Refuse(ErrorCode::SessionGone));
    let (status, body) = client.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(pod.evals().iter().map(|call| call.assignment.epoch).collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test]
async fn a_session_that_is_gone_is_moved_and_the_same_call_is_sent_again() {
    let trust = Trust::new();
    let (one, two) = (trust.pod("one", 9).await, trust.pod("two", 4).await);
    let (_folder, directory) = directory(&trust, &[&one, &two]).await;
    let client = serve(&trust, directory.clone()).await;
    create(&client).await;
    one.answers.lock().unwrap().extend([Answer::Refuse(ErrorCode::SessionGone), Answer::Refuse(ErrorCode::SessionGone)]);
    let (status, body) = client.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!(status, 200, "{body}");
    let calls = [one.evals(), two.evals()].concat();
    let keys: HashSet<_> = calls.iter().map(|call| call.eval.idempotency_key.clone()).collect();
    assert_eq!(keys.len(), 1, "the idempotency key is the same");
    assert_eq!(calls.iter().map(|call| call.assignment.epoch).collect::<Vec<_>>(), [1, 1, 2]);
    assert_eq!(directory.get(&Key::new("default", "a")).unwrap().status.last_epoch, Some(2));
}

#[tokio::test]
async fn a_pod_that_cannot_be_reached_is_left() {
    let trust = Trust::new();
    let here = trust.pod("here", 4).await;
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pod = |pod: &str, address, boot: &str| StaticPod { pod: pod.into(), namespace: "default".into(), address, boot: boot.into() };
    let pods = vec![pod("gone", nobody, "boot-gone"), pod("here", here.address, &here.boot)];
    let directory = FolderDirectory::open(dormouse_durable::System::shared(), folder.path(), pods, trust.operator(), None).await.unwrap();
    let client = serve(&trust, directory.clone()).await;
    create(&client).await;
    let record = directory.get(&Key::new("default", "a")).unwrap();
    let placement = Placement { pod: "gone".into(), pod_uid: "boot-gone".into(), boot: "boot-gone".into(), epoch: 5 };
    directory.assign(&record, placement).await.unwrap();
    let (status, body) = client.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!((status, body["preview"].as_str()), (200, Some("here")), "{body}");
    assert_eq!(here.evals()[0].assignment.epoch, 6);
}

#[tokio::test]
async fn an_error_of_the_pod_is_the_answer() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory).await;
    create(&client).await;
    pod.answers.lock().unwrap().push_back(Answer::Refuse(ErrorCode::SnapshotCorrupt));
    let (status, body) = client.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (500, Some("SnapshotCorrupt")), "{body}");
    assert_eq!(pod.evals().len(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_again_and_says_that_the_cell_comes_anew() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory).await;
    create(&client).await;
    pod.answers.lock().unwrap().push_back(Answer::CutOff);
    let response = client.request("POST", EVAL).header("accept", "application/x-ndjson").json(&json!({"code": "1"})).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let text = response.text().await.unwrap();
    let types: Vec<_> =
        text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(types, ["log", "restarted", "log", "final"]);
    let evals = pod.evals();
    assert_eq!(evals.len(), 2);
    assert_eq!(evals[0].eval, evals[1].eval);
}

#[tokio::test]
async fn a_session_put_to_sleep_by_its_spec_is_not_woken_by_requests() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory).await;
    create(&client).await;
    let (status, body) = client.json("PATCH", "/v1/namespaces/default/sessions/a", json!({"spec": {"operatingMode": "Hibernated"}})).await;
    assert_eq!((status, body["spec"]["operatingMode"].as_str()), (200, Some("Hibernated")), "{body}");
    let (status, body) = client.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (409, Some("Conflict")));
    assert!(body["error"]["message"].as_str().unwrap().contains("Auto or Running"), "{body}");
    assert!(pod.evals().is_empty());
}

#[tokio::test]
async fn sleep_and_wake_answer_when_it_is_so() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory).await;
    create(&client).await;
    let (status, body) = client.json("POST", "/v1/namespaces/default/sessions/a/wake", json!({})).await;
    assert_eq!((status, body["state"].as_str()), (200, Some("Idle")), "{body}");
    let (status, body) = client.json("POST", "/v1/namespaces/default/sessions/a/hibernate", json!({})).await;
    assert_eq!((status, body["state"].as_str()), (200, Some("Hibernated")), "{body}");
    assert_eq!(pod.wakes.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn placements_of_a_process_that_is_gone_are_cleared_when_the_folder_is_opened() {
    let trust = Trust::new();
    let (old, new) = (trust.pod("old", 4).await, trust.pod("new", 4).await);
    let (folder, first) = directory(&trust, &[&old]).await;
    let client = serve(&trust, first.clone()).await;
    create(&client).await;
    client.json("POST", EVAL, json!({"code": "1"})).await;
    drop((client, first));
    let pods = vec![StaticPod { pod: "new".into(), namespace: "default".into(), address: new.address, boot: new.boot.clone() }];
    let second = FolderDirectory::open(dormouse_durable::System::shared(), folder.path(), pods, trust.operator(), None).await.unwrap();
    let status = second.get(&Key::new("default", "a")).unwrap().status.clone();
    assert_eq!((status.placement, status.last_epoch), (None, Some(1)));
    let client = serve(&trust, second as Arc<_>).await;
    let (status, body) = client.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!((status, body["preview"].as_str()), (200, Some("new")), "{body}");
    assert_eq!(new.evals()[0].assignment.epoch, 2);
}

/// A directory that stops with its pods once stopped before it had read what they told last: whoever put the store back before the next start was
/// believed.
#[tokio::test]
async fn what_a_pod_tells_last_is_in_the_file_of_a_directory_that_closes() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (folder, directory) = directory(&trust, &[&pod]).await;
    eventually("the follower is there", async || pod.reports.receiver_count() > 0).await;
    let client = serve(&trust, directory.clone()).await;
    create(&client).await;
    client.json("POST", EVAL, json!({"code": "1"})).await;
    let mut closed = std::pin::pin!(directory.close());
    assert!(futures::poll!(&mut closed).is_pending(), "the pod may have more to tell");
    client.json("POST", "/v1/namespaces/default/sessions/a/hibernate", json!({})).await;
    let last = serde_json::to_string(&ReportLine::Drained).unwrap() + "\n";
    assert_eq!(pod.reports.send(last).unwrap(), 1);
    closed.await.unwrap();
    let file = std::fs::read(folder.path().join("default/a.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(record["status"]["snapshot"]["sequence"], 1, "{record}");
}

#[tokio::test]
async fn a_wake_in_place_makes_no_request_to_the_directory() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory.clone()).await;
    create(&client).await;
    client.json("POST", EVAL, json!({"code": "1"})).await;
    let (status, body) = client.json("POST", "/v1/namespaces/default/sessions/a/hibernate", json!({})).await;
    assert_eq!(status, 200, "{body}");
    let other = serve(&trust, Arc::new(Different(directory, Untouched))).await;
    let (status, body) = other.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!((status, body["preview"].as_str()), (200, Some("one")), "{body}");
    assert_eq!(pod.evals().iter().map(|call| call.assignment.epoch).collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test]
async fn a_pod_that_names_the_sessions_owner_moves_the_epoch_at_once() {
    let trust = Trust::new();
    let pod = trust.pod("one", 9).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory.clone()).await;
    create(&client).await;
    pod.answers.lock().unwrap().push_back(Answer::TakenOver(41));
    let (status, body) = client.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(pod.evals().iter().map(|call| call.assignment.epoch).collect::<Vec<_>>(), [1, 42]);
    assert_eq!(directory.get(&Key::new("default", "a")).unwrap().status.last_epoch, Some(42));
}

#[tokio::test]
async fn an_error_names_the_key_and_the_time_of_a_retry() {
    let trust = Trust::new();
    let pod = trust.pod("one", 9).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory.clone()).await;
    create(&client).await;
    pod.answers.lock().unwrap().push_back(Answer::Refuse(ErrorCode::StorageUnavailable));
    let response = client.request("POST", EVAL).json(&json!({"code": "1"})).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (503, "5"));
    let body: serde_json::Value = response.json().await.unwrap();
    let made = pod.evals()[0].eval.idempotency_key.clone();
    assert_eq!(body["error"]["details"]["idempotencyKey"].as_str(), made.as_deref(), "{body}");
    pod.answers.lock().unwrap().push_back(Answer::Refuse(ErrorCode::TimeoutError));
    let response = client.request("POST", EVAL).json(&json!({"code": "1", "idempotencyKey": "mine"})).send().await.unwrap();
    assert!(!response.headers().contains_key("retry-after"), "no time makes it better");
    let body: serde_json::Value = response.json().await.unwrap();
    assert_eq!(body["error"]["details"]["idempotencyKey"], json!("mine"), "{body}");
}

#[tokio::test]
async fn a_stream_of_events_names_its_key_before_the_first() {
    let trust = Trust::new();
    let pod = trust.pod("one", 9).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, directory.clone()).await;
    create(&client).await;
    let request = client.request("POST", EVAL).header("accept", "application/x-ndjson").json(&json!({"code": "1"}));
    let response = request.send().await.unwrap();
    let named = response.headers()["idempotency-key"].to_str().unwrap().to_owned();
    assert_eq!(pod.evals()[0].eval.idempotency_key, Some(named));
}

#[tokio::test]
async fn a_cell_that_ends_its_pods_is_sent_to_a_third_only_to_be_ended() {
    let dies = PROCESSES_LOST_MAX as usize;
    for (accept, dying) in ["application/json", "application/x-ndjson"].into_iter().flat_map(|accept| [(accept, dies), (accept, dies + 1)])
    {
        let trust = Trust::new();
        // No message has such a name in it, as it may have "one" (in "done").
        let names = ["pod-1", "pod-2", "pod-3", "pod-4"];
        let pods = join_all(names.map(|name| trust.pod(name, 9))).await;
        let (_folder, directory) = directory(&trust, &pods.iter().collect::<Vec<_>>()).await;
        let client = serve(&trust, directory.clone()).await;
        create(&client).await;
        let deaths = Arc::new(AtomicUsize::new(0));
        for pod in &pods {
            pod.answers.lock().unwrap().push_back(Answer::DiesAmong(Arc::clone(&deaths), dying));
        }
        let told = client.request("POST", EVAL).header("accept", accept).json(&json!({"code": "1"})).send().await.unwrap();
        let body = told.text().await.unwrap();
        let mut tried: Vec<bool> = pods.iter().flat_map(|pod| pod.evals()).map(|call| call.lost).collect();
        tried.sort_unstable();
        assert_eq!(tried, [false, false, true], "{dying} die");
        assert!(pods.iter().all(|pod| pod.evals().len() <= 1), "each has it once");
        let ended = pods.iter().filter(|pod| pod.evals().iter().any(|call| call.lost)).any(|pod| body.contains(pod.name));
        assert_eq!((body.contains("OutcomeUnknown"), ended), (dying > dies, dying == dies), "{body}");
        // The others serve, the session itself among them.
        let (status, body) = client.json("POST", EVAL, json!({"code": "2"})).await;
        let next = |pod: &&Arc<FakePod>| pod.evals().iter().any(|call| call.eval.code == "2" && !call.lost);
        assert_eq!((status, body["preview"].as_str()), (200, pods.iter().find(next).map(|pod| pod.name)), "{body}");
    }
}

#[tokio::test]
async fn a_retry_does_not_reach_another_session_of_the_name() {
    let trust = Trust::new();
    let pod = trust.pod("one", 9).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let client = serve(&trust, Arc::new(Different(directory, Recreated(Arc::clone(&pod))))).await;
    create(&client).await;
    pod.answers.lock().unwrap().push_back(Answer::Refuse(ErrorCode::SessionGone));
    let (status, body) = client.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (404, Some("SessionNotFound")), "{body}");
    assert_eq!(pod.evals().len(), 1, "the cell was for the session that is gone");
}
