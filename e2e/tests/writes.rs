//! What each step of a session's life costs the API server, whoever writes it: the four processes on a real one, whose audit log is read.

use std::collections::BTreeMap;

use dormouse_client::Client;
use dormouse_protocol::eval::{EvalRequest, Woke};
use dormouse_testkit::{apiserver::Write, soak, wait::eventually};
use serde_json::json;

use crate::support::{
    attacks,
    fleet::{Fleet, TENANT, written, written_of},
};

/// What the operator writes of a pool.
const POOL_OBJECTS: [&str; 7] = ["kernelpools", "deployments", "pods", "poddisruptionbudgets", "networkpolicies", "secrets", "events"];

/// Until the operator and a gateway have had time for whatever they do without being asked: each has renewed its lease twice, or has none.
async fn a_while(fleet: &Fleet) {
    let from = fleet.server.writes().unwrap().len();
    let renewed = async || {
        let all = fleet.server.writes().unwrap();
        all.iter().skip(from).filter(|write| write.resource == "leases").count() >= 2
    };
    eventually("leases are renewed", renewed).await;
}

fn cell(code: &str) -> EvalRequest {
    EvalRequest { code: code.to_owned(), ..EvalRequest::default() }
}

/// Makes a session that has run a cell, and whose status says that it sleeps.
async fn new_and_asleep(fleet: &Fleet, client: &Client, name: &str) {
    let first = cell("1");
    attacks::create(client, name, json!({})).await;
    attacks::patient(|| client.eval(name, &first)).await;
    client.hibernate(name).await.unwrap();
    let wait = ["wait", "--for=condition=Hibernated", "kernelsession", name, "-n", TENANT, "--timeout=60s"];
    fleet.server.kubectl(&wait).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_of_every_process_is_one_that_a_step_costs() {
    const NEW: usize = 10;
    /// The object, its placement, and its status: it runs, it has stored something, it sleeps, and what was merely later.
    const NEW_WRITES_MAX: usize = 6;
    const WAKES: usize = 30;
    let fleet = Fleet::start(&attacks::outside().await.0).await;
    let client = fleet.client();
    new_and_asleep(&fleet, &client, "old").await;
    a_while(&fleet).await;

    let since = fleet.server.writes().unwrap().len();
    for number in 0..NEW {
        new_and_asleep(&fleet, &client, &format!("new-{number}")).await;
    }
    a_while(&fleet).await;
    let new = written(&fleet, since);
    soak::report(&format!("{NEW} new sessions, one cell each, and asleep: {new:?}"));
    assert!(new.values().sum::<usize>() <= NEW * NEW_WRITES_MAX, "{new:?}");

    let since = fleet.server.writes().unwrap().len();
    for _ in 0..WAKES {
        client.eval("old", &cell("1")).await.unwrap();
        client.hibernate("old").await.unwrap();
    }
    client.eval("old", &cell("1")).await.unwrap();
    for _ in 0..100 {
        client.eval("old", &cell("1")).await.unwrap();
    }
    client.hibernate("old").await.unwrap();
    a_while(&fleet).await;
    assert_eq!(written(&fleet, since), BTreeMap::new(), "wakes in place, evals, and nothing at all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wake_in_another_pod_is_one_write_and_pods_that_come_and_go_cost_sessions_none() {
    const MOVED: usize = 10;
    const WAKES: usize = 5;
    /// It keeps the only slot of the first pod.
    const BUSY: &str = "busy";
    /// It shows that the gateway knows the second pod.
    const FIRST: &str = "first";
    // That sessions are merely busy is told of after this test.
    let fleet = Fleet::with_flags(&attacks::outside().await.0, 1, &["--status-interval-ms=3600000"]).await;
    let client = fleet.client();
    let names: Vec<String> = (0..MOVED).map(|number| format!("moved-{number}")).collect();
    for name in names.iter().map(String::as_str).chain([BUSY]) {
        new_and_asleep(&fleet, &client, name).await;
    }
    client.eval_later(BUSY, &cell("await sleep(3600_000)")).await.unwrap();
    let streams = async |count: usize| {
        let line = format!("dormouse_operator_report_streams {count}\n");
        eventually(&format!("the operator follows {count} pods"), async || fleet.operator.metrics().await.contains(&line)).await;
    };
    let second = fleet.another_kernel("second", 2).await;
    streams(2).await;
    new_and_asleep(&fleet, &client, FIRST).await;
    a_while(&fleet).await;

    let of_sessions = |write: &Write| write.object.starts_with(&format!("{TENANT}/moved-"));
    // Not what this test writes.
    let of_others = |write: &Write| {
        let kind = write.resource.split('/').next().unwrap_or_default();
        write.user.starts_with("system:serviceaccount:") && !of_sessions(write) && !POOL_OBJECTS.contains(&kind)
    };
    let since = fleet.server.writes().unwrap().len();
    for name in &names {
        let moved = client.eval(name, &cell("1")).await.unwrap();
        assert_eq!(moved.stats.woke, Woke::Storage, "{name} was asleep in the pod that is full");
        client.hibernate(name).await.unwrap();
    }
    a_while(&fleet).await;
    let gateway = BTreeMap::from([("dormouse-gateway: patch kernelsessions/status".to_owned(), MOVED)]);
    assert_eq!(written_of(&fleet, since, of_sessions), gateway, "a placement for each that moves");
    assert_eq!(written_of(&fleet, since, of_others), BTreeMap::new(), "and nothing else");

    let since = fleet.server.writes().unwrap().len();
    let wakes = async || {
        for _ in 0..WAKES {
            client.eval(&names[0], &cell("1")).await.unwrap();
            client.hibernate(&names[0]).await.unwrap();
        }
    };
    for (number, pod) in [(3, "third"), (4, "fourth")] {
        let mut comes = fleet.another_kernel(pod, number).await;
        streams(3).await;
        wakes().await;
        comes.end().await;
        fleet.server.kubectl(&["delete", "pod", pod, "-n", TENANT, "--force", "--grace-period=0"]).unwrap();
        streams(2).await;
        wakes().await;
    }
    a_while(&fleet).await;
    let all = |write: &Write| of_sessions(write) || of_others(write);
    assert_eq!(written_of(&fleet, since, all), BTreeMap::new(), "wakes in place while pods come and go");
    drop(second);
}
