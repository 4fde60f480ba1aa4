//! A pod whose way to a real MinIO loses, delays and answers wrongly.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::{World, assign, call, ready, try_eval, value};
use dormouse_kernel::Pod;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::session::State;
use dormouse_store::{S3, S3Options};
use dormouse_testkit::minio::Minio;
use dormouse_testkit::proxy::{Fault, FaultProxy, Rule};
use dormouse_testkit::soak;
use serde_json::json;

/// Sessions that commit at the same time.
const SESSIONS: u64 = 8;

const COUNT: &str = "globalThis.n = (globalThis.n ?? 0) + 1";

/// A MinIO, a proxy before it, and pods on either side of the proxy.
struct Behind {
    minio: Minio,
    proxy: FaultProxy,
    world: World,
}

impl Behind {
    async fn start() -> Self {
        let minio = Minio::start().await.unwrap();
        minio.create_bucket("sessions").await.unwrap();
        let proxy = FaultProxy::start(&minio.endpoint()).await.unwrap();
        Self { minio, proxy, world: World::default() }
    }

    /// A pod behind the proxy, whose store has passed its probe.
    async fn pod(&self, name: &str) -> Pod {
        let options = S3Options { endpoint: self.proxy.endpoint(), ..self.minio.options("sessions") };
        self.pod_over(name, &options).await
    }

    async fn pod_over(&self, name: &str, options: &S3Options) -> Pod {
        let pod = self.world.pod_over(name, Arc::new(S3::new(options)));
        ready(&pod).await;
        pod
    }

    /// Counts in `session` up to `count`, each cell under a key of its own, sent until it is answered. Answers how often it was sent again.
    async fn count_up(pod: Pod, session: String, count: u64) -> u64 {
        let on = assign(&pod, &session, 1);
        let mut again = 0;
        for n in 1..=count {
            let call = call(&on, COUNT, &format!("{session}-{n}"));
            let result = loop {
                match pod.eval(call.clone()).await {
                    Ok(result) => break result,
                    Err(error) => assert!(error.retryable, "{error}"),
                }
                again += 1;
            };
            assert_eq!(result.value, Some(json!(n)), "cell {n} of {session} was lost or ran twice");
        }
        again
    }

    /// What a pod that has never seen the session finds, past the proxy.
    async fn finds(&self, count: u64) {
        let fresh = self.pod_over("fresh", &self.minio.options("sessions")).await;
        for session in 0..SESSIONS {
            assert_eq!(value(&fresh, &assign(&fresh, &format!("s{session}"), 2), "n").await, json!(count));
        }
    }

    async fn count_up_everywhere(&self, pod: &Pod, count: u64) -> u64 {
        let counting = (0..SESSIONS).map(|session| tokio::spawn(Self::count_up(pod.clone(), format!("s{session}"), count)));
        futures::future::join_all(counting).await.into_iter().map(Result::unwrap).sum()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_over_a_bad_network_are_neither_lost_nor_doubled() {
    let behind = Behind::start().await;
    let pod = behind.pod("a").await;
    let faults = [Fault::Unavailable, Fault::ErrorAfter, Fault::Reset, Fault::LostReply, Fault::Late];
    let rules = faults.into_iter().map(|fault| Rule::any(fault, 20)).chain([Rule::any(Fault::Delay, 50)]).collect();
    behind.proxy.set(11, rules);
    let count = soak::count(240, 10_000) / SESSIONS;
    let again = behind.count_up_everywhere(&pod, count).await;
    behind.proxy.set(0, Vec::new());
    behind.finds(count).await;
    let injected = behind.proxy.injected();
    assert!(faults.iter().all(|fault| injected.contains_key(fault)), "{injected:?}");
    let commits = count * SESSIONS;
    soak::report(&format!("faulty network: {commits} commits, faults {injected:?}, {again} sent again by the client, 0 lost, 0 doubled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_to_head_puts_are_never_misjudged() {
    let behind = Behind::start().await;
    let pod = behind.pod("a").await;
    behind.proxy.set(12, vec![Rule { fault: Fault::LostReply, per_mille: 600, method: "PUT", path_end: "/head" }]);
    let wanted = soak::count(60, 1_000);
    // Each of them makes a bit more than one PUT: enough are lost.
    let count = (wanted / SESSIONS).max(8);
    behind.count_up_everywhere(&pod, count).await;
    behind.proxy.set(0, Vec::new());
    behind.finds(count).await;
    let lost = behind.proxy.injected().get(&Fault::LostReply).copied().unwrap_or(0);
    assert!(lost >= wanted, "only {lost} replies were lost");
    soak::report(&format!("lost replies: {lost} replies to head PUTs lost in {} commits, 0 misjudged", count * SESSIONS));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_out_of_reach_is_named_and_used_again_when_it_is_back() {
    let behind = Behind::start().await;
    let pod = behind.pod("a").await;
    let asleep = assign(&pod, "asleep", 1);
    value(&pod, &asleep, COUNT).await;
    pod.hibernate(asleep.clone()).await.unwrap();
    behind.proxy.set_down(true);
    let other = assign(&pod, "other", 2);
    let error = pod.wake(other.clone()).await.unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::StorageUnavailable, true), "{error}");
    assert!(error.message.contains("spec.storage"), "{error}");
    behind.proxy.set_down(false);
    assert_eq!(value(&pod, &other, COUNT).await, json!(1));
    assert_eq!(value(&pod, &asleep, COUNT).await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_cannot_reach_the_store_is_not_acked_and_not_lost() {
    let world = World::default();
    let pod = world.pod("a");
    let on = assign(&pod, "u1", 1);
    value(&pod, &on, COUNT).await;
    world.store.down.store(true, Ordering::SeqCst);
    let request = call(&on, COUNT, "once");
    let error = pod.eval(request.clone()).await.unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::StorageUnavailable, true), "{error}");
    // Nor does it wake: what is stored is what it is.
    assert_eq!(pod.eval(request.clone()).await.unwrap_err().code, ErrorCode::StorageUnavailable);
    crate::common::until(&pod, "u1", |report| report.state == State::Failed).await;
    world.store.down.store(false, Ordering::SeqCst);
    assert_eq!(pod.eval(request.clone()).await.unwrap().value, Some(json!(2)), "without a restart");
    assert_eq!(pod.eval(request).await.unwrap().value, Some(json!(2)));
    assert_eq!(try_eval(&pod, &on, "n").await.unwrap().value, Some(json!(2)));
}
