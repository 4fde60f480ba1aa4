//! What a KernelQuota refuses, and what its status says, on a real API server and over restarts of gateway and kernel pod.

use std::time::{SystemTime, UNIX_EPOCH};

use dormouse_client::Client;
use dormouse_protocol::{ErrorCode, eval::EvalRequest};
use dormouse_testkit::wait::eventually;
use serde_json::json;

use crate::support::{
    attacks::{self, patient},
    fleet::{Fleet, TENANT},
};

const SESSION: &str = "spends";
/// Takes a part of a second of processor time.
const SPIN: &str = "for (let i = 0; i < 1e7; i++);";

fn quota(fleet: &Fleet, name: &str, limits: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "apiVersion: dormouse.dev/v1alpha1\nkind: KernelQuota\nmetadata: {{name: {name}, namespace: {TENANT}}}\nspec: {{{limits}}}\n"
    );
    std::fs::write(file.path(), text).unwrap();
    fleet.server.kubectl(&["apply", "-f", file.path().to_str().unwrap()]).unwrap();
}

/// Until cells run again.
async fn withdraw(fleet: &Fleet, client: &Client, name: &str) {
    fleet.server.kubectl(&["delete", "kernelquota", name, "-n", TENANT]).unwrap();
    eventually("without the quota cells run", async || !is_refused(client, "1", "").await).await;
}

/// Whether a quota refuses the cell, for `resource`.
async fn is_refused(client: &Client, code: &str, resource: &str) -> bool {
    let cell = EvalRequest { code: code.to_owned(), ..EvalRequest::default() };
    patient(|| async {
        match client.eval(SESSION, &cell).await {
            Err(error) if error.code() == Some(ErrorCode::QuotaExceeded) => {
                assert!(error.to_string().contains(resource), "{error}");
                Ok(true)
            }
            outcome => outcome.map(|_| false),
        }
    })
    .await
}

fn exceeded(fleet: &Fleet, name: &str) -> String {
    let path = r#"jsonpath={.status.conditions[?(@.type=="Exceeded")].status}"#;
    fleet.server.kubectl(&["get", "kernelquota", name, "-n", TENANT, "-o", path]).unwrap()
}

fn used(fleet: &Fleet, name: &str, field: &str) -> String {
    fleet.server.kubectl(&["get", "kernelquota", name, "-n", TENANT, "-o", &format!("jsonpath={{.status.used.{field}}}")]).unwrap()
}

/// An hour of the clock, in which processor time counts.
fn hour() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3600
}

/// Another kernel pod's process, and another gateway.
async fn begin_anew(fleet: &mut Fleet) {
    fleet.kernel.end().await;
    fleet.kernel.kill();
    fleet.kernel.ready().await;
    fleet.gateway.kill();
    fleet.gateway.ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_spent_is_told_and_refused_by_those_that_have_just_begun_too() {
    let mut fleet = Fleet::start(&attacks::outside().await.0).await;
    let client = fleet.client();
    attacks::create(&client, SESSION, json!({})).await;

    let begun = hour();
    quota(&fleet, "time", "cpuSecondsPerHour: 1");
    eventually("a second of processor time is spent", async || is_refused(&client, SPIN, "cpuSecondsPerHour").await).await;
    eventually("that is told", async || exceeded(&fleet, "time") == "True" || hour() != begun).await;
    begin_anew(&mut fleet).await;
    assert!(is_refused(&client, "1", "cpuSecondsPerHour").await || hour() != begun, "the first cell is let through");
    withdraw(&fleet, &client, "time").await;

    // Status has what a session has stored once it sleeps.
    patient(|| client.hibernate(SESSION)).await;
    quota(&fleet, "room", "storedBytes: 1");
    eventually("the store is full", async || is_refused(&client, "1", "storedBytes").await).await;
    eventually("that is told", async || exceeded(&fleet, "room") == "True").await;
    assert_ne!(used(&fleet, "room", "storedBytes"), "");
    begin_anew(&mut fleet).await;
    assert!(is_refused(&client, "1", "storedBytes").await, "the first cell is let through");
    let counted = fleet.gateway.metrics().await;
    assert!(counted.contains(r#"dormouse_gateway_quota_refusals_total{limit="storedBytes"}"#), "{counted}");
    withdraw(&fleet, &client, "room").await;

    quota(&fleet, "rate", "evalsPerSecond: 1");
    eventually("more cells come than a second may have", async || is_refused(&client, "1", "evalsPerSecond").await).await;
    eventually("that is told", async || exceeded(&fleet, "rate") == "True").await;
    assert_eq!(used(&fleet, "rate", "evalsPerSecond"), "1");
    // Nobody sends anything meanwhile.
    let until = ["wait", "--for=condition=Exceeded=False", "kernelquota", "rate", "-n", TENANT, "--timeout=170s"];
    fleet.server.kubectl(&until).unwrap();
    assert_eq!(used(&fleet, "rate", "evalsPerSecond"), "0");
}
