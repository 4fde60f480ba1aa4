//! Pools whose pods run one session each: no session comes to another's pod, and what sleeps is read by the pool's reader.

use std::sync::{Arc, atomic::Ordering};

use dormouse_gateway::{
    Directory as _, Gateway, auth::loopback::Loopback, directory::Key, history, in_flight::PLACING_TIMEOUT, service, usage,
};
use dormouse_protocol::ErrorCode;
use dormouse_testkit::wait::eventually;
use serde_json::json;

use super::{
    EVAL, SESSIONS, create,
    directories::{Dedicated, Different, READER},
};
use crate::support::{Client, FakePod, Trust, directory, pass, serve};

/// A gateway before a dedicated pool of two pods and a reader.
struct Strict {
    trust: Trust,
    pods: [Arc<FakePod>; 2],
    reader: Arc<FakePod>,
    directory: Arc<Different<Dedicated>>,
    client: Client,
    _folder: tempfile::TempDir,
}

impl Strict {
    async fn new() -> Self {
        let trust = Trust::new();
        let pods = [trust.pod("strict-1", 1).await, trust.pod("strict-2", 1).await];
        let reader = trust.pod(READER, 0).await;
        let [one, two] = &pods;
        let (folder, directory) = directory(&trust, &[one, two, &reader]).await;
        let directory = Arc::new(Different(directory, Dedicated::default()));
        let client = serve(&trust, directory.clone()).await;
        create(&client).await;
        Self { trust, pods, reader, directory, client, _folder: folder }
    }

    /// What the operator and its pods are to be.
    fn pool(&self) -> &Dedicated {
        &self.directory.1
    }

    /// The pod that has the session `a`, and the other one that could.
    fn own_and_other(&self) -> (&FakePod, &FakePod) {
        let placement = self.directory.get(&a()).unwrap().status.placement.clone().expect("it has a place");
        let (one, two): (&FakePod, &FakePod) = (&self.pods[0], &self.pods[1]);
        if placement.pod == one.name { (one, two) } else { (two, one) }
    }

    fn uid(&self) -> String {
        self.directory.get(&a()).unwrap().uid.clone()
    }

    async fn read(&self, what: &str) {
        let (status, body) = self.client.get(&format!("{SESSIONS}/a/{what}")).await;
        assert_eq!(status, 200, "{what}: {body}");
    }

    async fn wake(&self) {
        let (status, body) = self.client.json("POST", &format!("{SESSIONS}/a/wake"), json!({})).await;
        assert_eq!((status, body["state"].as_str()), (200, Some("Idle")), "{body}");
    }
}

fn a() -> Key {
    Key::new("default", "a")
}

#[tokio::test]
async fn what_sleeps_is_read_by_the_reader_and_wakes_in_a_pod_that_runs() {
    let strict = Strict::new().await;
    for what in ["journal", "checkpoints", "checkpoints/diff?from=1", "approvals", "runs"] {
        strict.read(what).await;
    }
    let read = ["/v1/stored/journal", "/v1/stored/checkpoints", "/v1/stored/difference", "/v1/stored/approvals", "/v1/runs/look"];
    assert_eq!(strict.reader.reads(), read);
    let (status, body) = strict.client.get("/v1/namespaces/default/usage").await;
    assert_eq!(status, 200, "{body}");
    assert!(body["missing"].as_array().is_none_or(Vec::is_empty), "{body}");
    assert_eq!(strict.reader.reads().last().map(String::as_str), Some("/v1/usage/stored"));
    assert_eq!(strict.directory.get(&a()).unwrap().status.placement, None, "nothing was woken");
    strict.wake().await;
    let (own, _) = strict.own_and_other();
    assert_eq!(own.wakes.lock().unwrap().len(), 1);
    for pod in &strict.pods {
        assert_eq!(pod.reads(), [""; 0], "{} runs sessions", pod.name);
        assert!(pod.paths.lock().unwrap().iter().any(|path| path == "/v1/usage/live"), "{} tells what its own uses", pod.name);
    }
    let asked = strict.reader.paths.lock().unwrap().clone();
    let runs = ["/v1/info", "/v1/wake", "/v1/eval", "/v1/usage/live"];
    assert!(!asked.iter().any(|path| runs.contains(&path.as_str())), "it runs nothing: {asked:?}");
}

#[tokio::test]
async fn a_session_is_read_where_it_runs_and_never_in_the_pod_of_another() {
    let strict = Strict::new().await;
    strict.wake().await;
    let (own, other) = strict.own_and_other();
    strict.read("journal").await;
    assert_eq!((own.reads(), strict.reader.reads().len()), (vec![], 1), "the operator has not given it the session yet");
    strict.pool().give(own, &strict.uid());
    strict.read("journal").await;
    assert_eq!((own.reads().len(), strict.reader.reads().len()), (1, 1));
    // It may have become another's before this gateway heard of it.
    own.reads_nothing.store(true, Ordering::SeqCst);
    strict.read("journal").await;
    assert_eq!((own.reads().len(), strict.reader.reads().len()), (2, 2));
    strict.pool().give(own, "another");
    strict.read("journal").await;
    assert_eq!((own.reads().len(), strict.reader.reads().len()), (2, 3));
    assert_eq!(other.reads(), [""; 0]);
}

#[tokio::test]
async fn no_cell_is_sent_to_a_pod_that_was_given_to_another_session() {
    let strict = Strict::new().await;
    strict.wake().await;
    let (own, other) = strict.own_and_other();
    // Whatever status says.
    strict.pool().give(own, "another");
    let (status, body) = strict.client.json("POST", EVAL, json!({"code": "1"})).await;
    assert_eq!((status, body["preview"].as_str()), (200, Some(other.name)), "{body}");
    assert_eq!((own.evals().len(), other.evals()[0].assignment.epoch), (0, 2));
}

#[tokio::test]
async fn a_session_whose_process_is_gone_is_not_placed_again_in_the_pod_that_has_had_it() {
    let strict = Strict::new().await;
    strict.wake().await;
    let (own, other) = strict.own_and_other();
    strict.pool().give(own, &strict.uid());
    // A process that lives is asked twice before it is believed.
    own.wake_refusals.lock().unwrap().extend([ErrorCode::SessionGone; 2]);
    strict.wake().await;
    assert_eq!((own.wakes.lock().unwrap().len(), other.wakes.lock().unwrap().len()), (3, 1), "whatever room it says that it has");
}

#[tokio::test]
async fn a_pod_that_says_it_is_free_and_was_given_away_gets_nothing_and_who_waits_is_told_by_the_reader() {
    let strict = Strict::new().await;
    for pod in &strict.pods {
        strict.pool().give(pod, "another");
    }
    let (client, uid) = (strict.client.clone(), strict.uid());
    let waiting = tokio::spawn(async move { client.json("POST", EVAL, json!({"code": "1"})).await });
    eventually("the reader tells who waits", async || strict.reader.waiting.lock().unwrap().contains(&uid)).await;
    let [taken, free] = &strict.pods;
    strict.pool().replace(free);
    let (status, body) = waiting.await.unwrap();
    assert_eq!((status, body["preview"].as_str()), (200, Some(free.name)), "{body}");
    assert_eq!(taken.paths.lock().unwrap().iter().filter(|path| *path != "/v1/report").count(), 0, "what it says of itself is not asked");
    assert!(strict.pods.iter().all(|pod| pod.waiting.lock().unwrap().is_empty()));
}

#[tokio::test]
async fn a_session_whose_pods_get_no_credentials_for_it_hears_what_they_say() {
    const REFUSALS: usize = 200;
    let strict = Strict::new().await;
    for pod in &strict.pods {
        pod.wake_refusals.lock().unwrap().extend([ErrorCode::CapacityExhausted; REFUSALS]);
    }
    let gateway = Gateway::new(strict.directory.clone(), strict.trust.kernels(), Arc::new(Loopback::default()));
    let router = gateway.router().clone();
    let waking = tokio::spawn(async move { service::wake(&router, &a()).await });
    let wakes = || strict.pods.iter().map(|pod| pod.wakes.lock().unwrap().len()).sum::<usize>();
    eventually("it is tried elsewhere", async || wakes() > 1).await;
    pass(PLACING_TIMEOUT).await;
    let refused = waking.await.unwrap().unwrap_err();
    assert_eq!(refused.code, ErrorCode::CapacityExhausted);
    let said = strict.pods.iter().any(|pod| refused.message.ends_with(&format!("Kernel pod {} could not take it: as told", pod.name)));
    assert!(said, "{refused}");
    assert!(wakes() < REFUSALS);
}

#[tokio::test]
async fn what_sleeps_cannot_be_read_before_the_reader_is_ready_and_who_asks_hears_so() {
    let strict = Strict::new().await;
    strict.pool().unread.store(true, Ordering::SeqCst);
    let gateway = Gateway::new(strict.directory.clone(), strict.trust.kernels(), Arc::new(Loopback::default()));
    let used = usage::used(gateway.router(), "default", vec!["2026-01-01".to_owned()]).await;
    assert!(used.missing.len() == 1 && used.missing[0].ends_with("see why its reader is not ready"), "{:?}", used.missing);
    tokio::time::pause();
    let refused = history::journal(gateway.router(), &a(), 0, None).await.unwrap_err();
    tokio::time::resume();
    assert_eq!(refused.code, ErrorCode::CapacityExhausted);
    assert!(refused.message.starts_with("the reader of pool `default` in namespace `default`"), "{refused}");
    assert!(refused.message.contains("send the request again"), "{refused}");
    for pod in strict.pods.iter().chain([&strict.reader]) {
        assert!(pod.reads().is_empty() && pod.waiting.lock().unwrap().is_empty(), "{}: no pod more would help", pod.name);
    }
    strict.pool().unread.store(false, Ordering::SeqCst);
    assert!(history::journal(gateway.router(), &a(), 0, None).await.is_ok());
    assert_eq!(strict.reader.reads(), ["/v1/stored/journal"]);
}
