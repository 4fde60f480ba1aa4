//! What a ToolBroker's Secret leaves behind in a fleet of real processes: in the memory of the kernel pod and the gateway, in metrics, logs, objects
//! and events of the cluster, nothing.

use std::{fs::File, os::unix::fs::FileExt as _};

use crate::support::{
    attacks::{self, patient},
    fleet::{Fleet, TENANT},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use dormouse_protocol::eval::EvalRequest;
use dormouse_testkit::soak;
use memchr::memmem;
use serde_json::{Value, json};

/// Calls of one cell.
const CELL_CALLS: u64 = 50;
/// What the cells themselves send, and is found where they run.
const MARKER: &str = "what-the-cell-itself-has-written";
/// Read at a time of a process's memory.
const CHUNK_BYTES: usize = 4 << 20;

/// What is called, in turn: with each kind of credentials, and in each way that a call can end.
const CALLS: [&str; 10] = [
    "callTool('show', args)",
    "callTool('refuse', args)",
    "callTool('nothing', args)",
    "callTool('stuck', args)",
    "callTool('show-header', args)",
    "callTool('show-basic', args)",
    "callTool('show-oauth', args)",
    "callTool('show-hook', args)",
    "callTool('sign', args)",
    "Promise.all([callTool('whisper', args), host.subLM({ model: 'lab', prompt: args.text })])",
];
/// How many of them fail.
const FAILING: u64 = 3;

/// A secret as it may be told, in itself and as base64 wherever it stands.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let shifted = |shift: usize| {
        let coded = BASE64_STANDARD.encode([&vec![0; shift], secret.as_bytes()].concat());
        // Of base64 both ends depend on what is beside them.
        coded.as_bytes()[4..coded.len() - 4].to_vec()
    };
    let mut forms = vec![secret.as_bytes().to_vec()];
    if let Some(key) = secret.strip_prefix("whsec_") {
        forms.extend([key.as_bytes().to_vec(), BASE64_STANDARD.decode(key).unwrap()]);
    }
    forms.extend((0..3).map(shifted));
    forms
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_a_broker_is_in_the_memory_of_kernel_pod_or_gateway() {
    let (outside, _) = attacks::outside().await;
    let fleet = Fleet::start(&outside).await;
    let (client, calls) = (fleet.client(), soak::count(200, 10_000));
    attacks::create(&client, "s", json!({})).await;
    let all = CALLS.map(|call| format!("args => {call}")).join(", ");
    let (mut made, mut good) = (0, 0);
    while made < calls {
        let code = format!(
            "globalThis.got = await Promise.allSettled(Array.from({{ length: {CELL_CALLS} }}, (_, n) => [{all}][n % {}]({{ text: '{MARKER}' }}))); \
             console.log(got.map(it => JSON.stringify(it.value ?? it.reason.message)).join('\\n')); got.filter(it => it.status === 'fulfilled').length",
            CALLS.len()
        );
        let cell = EvalRequest { code, idempotency_key: Some(format!("c{made}")), ..EvalRequest::default() };
        let result = patient(|| client.eval("s", &cell)).await;
        assert!(result.ok, "{:?}", result.error);
        good += result.value.as_ref().and_then(Value::as_u64).unwrap();
        made += CELL_CALLS;
    }
    assert_eq!(good, made / CALLS.len() as u64 * (CALLS.len() as u64 - FAILING), "each kind of call was made");

    let issued = [("access token", attacks::TOKEN), ("hook's answer", attacks::SIGNED)].map(|(what, text)| (what, text.to_owned()));
    let secrets: Vec<(&str, String)> = fleet.secrets.iter().cloned().chain(issued).collect();
    let needles: Vec<(&str, Vec<u8>)> =
        secrets.iter().flat_map(|(what, secret)| forms(secret).into_iter().map(|form| (*what, form))).collect();
    let mut wanted: Vec<&[u8]> = needles.iter().map(|(_, form)| form.as_slice()).collect();
    wanted.push(MARKER.as_bytes());
    let broker = found(fleet.broker.process.id(), &wanted);
    assert!(broker[0], "the search finds what is there: the broker has its Secret");
    for shared in [&fleet.kernel, &fleet.gateway] {
        let found = found(shared.process.id(), &wanted);
        let secret: Vec<&str> = needles.iter().zip(&found).filter(|(_, found)| **found).map(|((what, _), _)| *what).collect();
        assert!(secret.is_empty(), "the memory of the {} holds {secret:?}", shared.name);
        assert!(*found.last().unwrap() || shared.name == "gateway", "a cell's own text is in the memory of its pod");
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
        for (what, form) in &needles {
            assert!(memmem::find(text.as_bytes(), form).is_none(), "{what} is in {place}");
        }
    }
    soak::report(&format!(
        "{made} calls with {} kinds of secrets: none in the memory of kernel pod and gateway, in logs, metrics, events and objects",
        secrets.len()
    ));
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
