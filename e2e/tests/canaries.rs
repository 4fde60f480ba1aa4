//! What a ToolBroker's Secret leaves behind in a fleet of real processes: in the memory of the kernel pod and the gateway, in metrics, logs, objects
//! and events of the cluster, nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::{fs::File, os::unix::fs::FileExt as _};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use dormouse_protocol::eval::EvalRequest;
use dormouse_testkit::soak;
use memchr::memmem;
use serde_json::{Value, json};
use support::{
    attacks::{self, patient},
    fleet::{Fleet, TENANT},
};

/// Calls of one cell.
const CELL_CALLS: u64 = 50;
/// What the cells themselves send, and is found where they run.
const MARKER: &str = "what-the-cell-itself-has-written";
/// Read at a time of a process's memory.
const CHUNK_BYTES: usize = 4 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_a_broker_is_in_the_memory_of_kernel_pod_or_gateway() {
    let (outside, _) = attacks::outside().await;
    let fleet = Fleet::start(&outside).await;
    let (client, calls) = (fleet.client(), soak::count(200, 10_000));
    attacks::create(&client, "s", json!({})).await;
    let (mut made, mut good) = (0, 0);
    while made < calls {
        let code = format!(
            "globalThis.got = await Promise.allSettled(Array.from({{ length: {CELL_CALLS} }}, (_, n) => callTool(['show', 'refuse', 'nothing'][n % 3], \
             {{ text: '{MARKER}' }}))); console.log(got.map(it => JSON.stringify(it.value ?? it.reason.message)).join('\\n')); \
             got.filter(it => it.status === 'fulfilled').length"
        );
        let cell = EvalRequest { code, idempotency_key: Some(format!("c{made}")), ..EvalRequest::default() };
        let result = patient(|| client.eval("s", &cell)).await;
        assert!(result.ok, "{:?}", result.error);
        good += result.value.as_ref().and_then(Value::as_u64).unwrap();
        made += CELL_CALLS;
    }
    assert!(good > 0 && good < made, "{good} of {made}");

    let canary = fleet.canary.as_bytes();
    let coded = BASE64_STANDARD.encode(canary);
    // Of base64 the end depends on what follows.
    let needles = [canary, &coded.as_bytes()[..coded.len() - 4], MARKER.as_bytes()];
    let broker = found(fleet.broker.process.id(), &needles);
    assert!(broker[0], "the search finds what is there: the broker has its Secret");
    for shared in [&fleet.kernel, &fleet.gateway] {
        let found = found(shared.process.id(), &needles);
        assert_eq!(&found[..2], [false, false], "the memory of the {}", shared.name);
        assert!(found[2] || shared.name == "gateway", "a cell's own text is in the memory of its pod");
    }
    let events = json!({ "of": fleet.server.kubectl(&["get", "events", "-A", "-o", "json"]).unwrap() }).to_string();
    let objects = fleet
        .server
        .kubectl(&["get", "kernelsessions,toolbrokers,kernelpools,deployments,configmaps", "-n", TENANT, "-o", "json"])
        .unwrap();
    let mut places = vec![("events".to_owned(), events), ("objects".to_owned(), objects)];
    for shared in [&fleet.kernel, &fleet.gateway, &fleet.broker, &fleet.operator] {
        places.push((format!("the log of the {}", shared.name), shared.process.output()));
        places.push((format!("the metrics of the {}", shared.name), shared.metrics().await));
    }
    for (place, text) in &places {
        assert!(!text.is_empty(), "{place}");
        assert!(!text.contains(&fleet.canary) && !text.contains(&coded[..coded.len() - 4]), "the Secret is in {place}");
    }
    soak::report(&format!("{made} calls with a Secret: not in the memory of kernel pod and gateway, in logs, metrics, events and objects"));
}

/// Which of these a process has in memory.
fn found(pid: u32, needles: &[&[u8]]) -> Vec<bool> {
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let longest = needles.iter().map(|needle| needle.len()).max().unwrap();
    let (mut found, mut chunk) = (vec![false; needles.len()], vec![0; CHUNK_BYTES + longest]);
    for (start, end) in resident(pid) {
        let mut at = start;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap().min(chunk.len());
            // What cannot be read, as a device's, is not the process's own.
            let Ok(bytes) = memory.read_at(&mut chunk[..wanted], at) else { break };
            for (found, needle) in found.iter_mut().zip(needles) {
                *found = *found || memmem::find(&chunk[..bytes], needle).is_some();
            }
            at += u64::try_from(bytes.clamp(1, CHUNK_BYTES)).unwrap();
        }
    }
    found
}

/// Parts of a process's memory that can be read and of which something is there.
fn resident(pid: u32) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let (mut parts, mut current) = (Vec::new(), None);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-') {
            let readable = words.next().is_some_and(|rights| rights.starts_with('r'));
            let number = |text: &str| u64::from_str_radix(text, 16).ok();
            current = number(start).zip(number(end)).filter(|_| readable);
        } else if first == "Rss:"
            && words.next() != Some("0")
            && let Some(part) = current.take()
        {
            parts.push(part);
        }
    }
    parts
}
