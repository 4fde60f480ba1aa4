//! What each step of a session's life costs the API server, whoever writes it: the four processes on a real one, whose audit log is read.

use std::collections::BTreeMap;

use dormouse_protocol::eval::EvalRequest;
use dormouse_testkit::{soak, wait::eventually};
use serde_json::json;

use crate::support::{
    attacks,
    fleet::{Fleet, TENANT, written},
};

/// Until the operator and a gateway have had time for whatever they do without being asked: each has renewed its lease twice, or has none.
async fn a_while(fleet: &Fleet) {
    let from = fleet.server.writes().unwrap().len();
    let renewed = async || {
        let all = fleet.server.writes().unwrap();
        all.iter().skip(from).filter(|write| write.resource == "leases").count() >= 2
    };
    eventually("leases are renewed", renewed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_of_every_process_is_one_that_a_step_costs() {
    const NEW: usize = 10;
    /// The object, its placement, and its status: it runs, it has stored something, it sleeps, and what was merely later.
    const NEW_WRITES_MAX: usize = 6;
    const WAKES: usize = 30;
    let fleet = Fleet::start(&attacks::outside().await.0).await;
    let client = fleet.client();
    let cell = |code: &str| EvalRequest { code: code.to_owned(), ..EvalRequest::default() };
    let slept = async |name: &str| {
        client.hibernate(name).await.unwrap();
        let wait = ["wait", "--for=condition=Hibernated", "kernelsession", name, "-n", TENANT, "--timeout=60s"];
        fleet.server.kubectl(&wait).unwrap();
    };
    attacks::create(&client, "old", json!({})).await;
    client.eval("old", &cell("1")).await.unwrap();
    slept("old").await;
    a_while(&fleet).await;

    let since = fleet.server.writes().unwrap().len();
    for number in 0..NEW {
        let name = format!("new-{number}");
        attacks::create(&client, &name, json!({})).await;
        client.eval(&name, &cell("1")).await.unwrap();
        slept(&name).await;
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
