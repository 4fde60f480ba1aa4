//! Pages of very many archived sessions: the real operator on a real MinIO, asked as a gateway asks it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant},
};

use dormouse_control::{
    archive::{Archived, ArchivedPage, FindCall, PageCall},
    session::Key,
};
use dormouse_lifecycle::{
    archive::{Group, group_of},
    keys,
};
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    tls::{Identity, PeerClient, Process as Peer, TlsFiles},
};
use dormouse_store::{Condition, SnapshotStore as _};
use dormouse_testkit::{process::free_port, soak};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;
use support::{Cluster, SYSTEM};

/// What an operator that has told of all of them may have more than one that has told of none, in bytes.
const GROWTH_BYTES_MAX: u64 = 96 << 20;
/// Sessions that are looked for by their names.
const FOUND: usize = 200;
const PUTS_IN_FLIGHT: usize = 16;

fn name(number: u64) -> String {
    format!("session-{number:07}")
}

/// As large as most are.
fn archived(number: u64) -> serde_json::Value {
    let status = json!({
        "conditions": [
            { "type": "Ready", "status": "True", "reason": "Hibernated", "message": "Asleep; a request wakes it.",
                "lastTransitionTime": "2026-01-01T00:00:00Z" },
            { "type": "Hibernated", "status": "True", "reason": "Hibernated", "message": "It holds no slot.",
                "lastTransitionTime": "2026-01-01T00:00:00Z" },
        ],
        "lastEpoch": 3, "heap": "1.4Mi", "cells": number, "lastActiveTime": "2026-01-01T00:00:00Z",
        "snapshot": { "epoch": 3, "sequence": 9, "bytes": 15_000, "engineDigest": "e".repeat(64), "time": "2026-01-01T00:00:00Z" },
    });
    let archived = Archived {
        key: Key::new("team", name(number)),
        uid: format!("00000000-0000-4000-8000-{number:012}"),
        labels: [("app".to_owned(), "notebook".to_owned()), ("user".to_owned(), format!("u{number}"))].into(),
        annotations: BTreeMap::new(),
        created_time: Some("2026-01-01T00:00:00Z".to_owned()),
        archived_time: "2026-01-02T00:00:00Z".to_owned(),
        spec: serde_json::from_value(json!({ "archiveAfterSeconds": 86_400, "toolBrokerRef": { "name": "tools" } })).unwrap(),
        status: serde_json::from_value(status).unwrap(),
    };
    json!({ "uid": archived.uid, "record": archived })
}

/// Puts so many sessions into the archive, group by group.
async fn fill(cluster: &Cluster, sessions: u64) {
    let uid = cluster.server.kubectl(&["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"]).unwrap();
    let prefix = keys::archive("", &uid, "team");
    let mut groups: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for number in 0..sessions {
        groups.entry(group_of(&name(number))).or_default().push(number);
    }
    let puts = futures::stream::iter(groups).map(|(group, numbers)| {
        let key = format!("{prefix}{group}");
        async move {
            let of: BTreeMap<String, serde_json::Value> = numbers.into_iter().map(|number| (name(number), archived(number))).collect();
            let group: Group = serde_json::from_value(json!({ "format": 1, "sessions": of })).unwrap();
            cluster.bucket.put(&key, group.encode().unwrap(), Condition::Absent).await
        }
    });
    puts.buffer_unordered(PUTS_IN_FLIGHT).try_for_each(|_| async { Ok(()) }).await.unwrap();
}

struct Gateway {
    client: PeerClient,
    address: String,
}

impl Gateway {
    async fn ask<T: serde::de::DeserializeOwned>(&self, path: &str, call: &impl serde::Serialize) -> (T, Duration) {
        let began = Instant::now();
        let operator = Identity::new(Peer::Operator, SYSTEM, "operator");
        let answer = self.client.request(reqwest::Method::POST, &operator, &self.address, path).json(call).send().await.unwrap();
        let answer = answer.error_for_status().unwrap().json().await.unwrap();
        (answer, began.elapsed())
    }

    /// All names, and how long each page took.
    async fn all(&self, limit: usize) -> (HashSet<String>, Vec<Duration>) {
        let (mut names, mut took, mut after) = (HashSet::new(), Vec::new(), None);
        loop {
            let call = PageCall { namespace: "team".to_owned(), after, limit };
            let (page, elapsed): (ArchivedPage, _) = self.ask("/v1/archive/list", &call).await;
            took.push(elapsed);
            for session in page.sessions {
                assert!(names.insert(session.key.name.clone()), "{} is told twice", session.key.name);
            }
            after = page.next;
            if after.is_none() {
                return (names, took);
            }
        }
    }
}

fn part(took: &mut [Duration], of_thousand: usize) -> f64 {
    took.sort_unstable();
    took[(took.len() * of_thousand / 1_000).min(took.len() - 1)].as_secs_f64() * 1e3
}

/// The most memory that the operator has had.
fn peak(cluster: &Cluster) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", cluster.operator.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_very_many_archived_sessions_take_no_memory_that_grows_with_them() {
    let sessions = soak::count(20_000, 1_000_000);
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let listen = format!("--archive-listen={address}");
    let cluster = Cluster::start(&[&listen, "--orphan-sweep-interval-seconds=0"]).await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), SYSTEM);
    cluster.until("the operator has an authority", async || secrets.get_opt("dormouse-ca").await.unwrap().is_some()).await;
    fill(&cluster, sessions).await;
    let secret = secrets.get("dormouse-ca").await.unwrap().data.unwrap();
    let text = |key: &str| String::from_utf8(secret[key].0.clone()).unwrap();
    let ca = Ca::from_pem(&text("ca.crt"), &text("ca.key")).unwrap();
    let pem = ca.issue(&[Identity::new(Peer::Gateway, SYSTEM, "gateway").dns_name()], LEAF_VALIDITY).unwrap();
    let gateway = Gateway { client: PeerClient::new(TlsFiles::from_pem(&pem).unwrap()).unwrap(), address: address.clone() };
    cluster.until("the operator answers", async || tokio::net::TcpStream::connect(&address).await.is_ok()).await;

    let before = peak(&cluster);
    let (mut figures, mut slowest) = (Vec::new(), 0.0_f64);
    for limit in [500, 100] {
        let (names, mut took) = gateway.all(limit).await;
        assert_eq!(names.len() as u64, sessions);
        let (p50, p99, pages) = (part(&mut took, 500), part(&mut took, 990), took.len());
        slowest = slowest.max(p99);
        figures.push(format!("{pages} pages of {limit}: p50 {p50:.1} ms, p99 {p99:.1} ms"));
    }
    let mut took = Vec::new();
    for number in (0..sessions).step_by(usize::try_from(sessions).unwrap() / FOUND) {
        let call = FindCall { key: Key::new("team", name(number)) };
        let (found, elapsed): (Option<Archived>, _) = gateway.ask("/v1/archive/find", &call).await;
        assert_eq!(found.unwrap().status.cells, Some(number));
        took.push(elapsed);
    }
    figures.push(format!("one by its name: p50 {:.1} ms, p99 {:.1} ms", part(&mut took, 500), part(&mut took, 990)));
    let grown = peak(&cluster).saturating_sub(before);
    soak::report(&format!("{sessions} archived sessions: {}; the operator grew by {} MiB", figures.join("; "), grown >> 20));
    assert!(grown < GROWTH_BYTES_MAX, "{} MiB more for {sessions} sessions", grown >> 20);
    assert!(!soak::is_whole() || slowest <= soak::PAGE_P99_MS_MAX, "p99 of a page: {slowest:.1} ms");
}
