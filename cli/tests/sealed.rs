//! Encrypted sockets and streams, opened and sealed by another implementation: Node's. Skipped by name where there is no Node.

use std::process::Command;

use crate::support::Dev;
use serde_json::{Value, json};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sealed.mjs");

/// What the client says after a case.
fn client(dev: &Dev, case: &str) -> Value {
    let said = Command::new("node").args(["--no-warnings", "--experimental-websocket", SCRIPT, &dev.server, case]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{case}: {out}{err}"))
}

/// A server, where there is a Node to be its client.
fn dev(data: &tempfile::TempDir) -> Option<Dev> {
    let has =
        Command::new("node").args(["--experimental-websocket", "-e", "process.exit(typeof WebSocket === 'function' ? 0 : 1)"]).output();
    if !has.is_ok_and(|has| has.status.success()) {
        eprintln!("SKIPPED sealed: there is no `node` with WebSocket (20.10 or later)");
        return None;
    }
    Some(Dev::start(data.path(), &[]))
}

#[test]
fn a_client_with_other_cryptography_seals_and_opens_a_socket() {
    let data = tempfile::tempdir().unwrap();
    let Some(dev) = dev(&data) else { return };
    let said = client(&dev, "good");
    assert_eq!((&said["value"], &said["console"]), (&json!(42), &json!("between us")), "{said}");
    let seen: Vec<_> = said["seen"].as_array().unwrap().iter().map(|kind| kind.as_str().unwrap()).collect();
    assert!(seen[0] == "create-result" && seen.contains(&"log"), "{seen:?}");
}

#[test]
fn a_frame_that_is_not_the_next_as_it_was_sealed_ends_the_socket_and_says_why() {
    let data = tempfile::tempdir().unwrap();
    let Some(dev) = dev(&data) else { return };
    for (case, code, reason) in [
        ("no-hello", 4001, "clientHello: "),
        ("bad-key", 4001, "clientHello: the public key"),
        ("plain", 4002, "a frame is {\"t\":\"encrypted\""),
        ("altered", 4002, "it was altered"),
        ("truncated", 4002, "it was altered or cut off"),
        ("other-direction", 4002, "it was altered"),
        ("other-key", 4002, "it is sealed with another key"),
        ("replayed", 4003, "it is not the next message"),
        ("reordered", 4003, "it is not the next message"),
    ] {
        let said = client(&dev, case);
        assert_eq!(said["closed"], code, "{case}: {said}");
        assert!(said["reason"].as_str().unwrap().starts_with(reason), "{case}: {said}");
    }
}

#[test]
fn a_stream_is_sealed_from_its_first_event_and_when_it_is_taken_up() {
    let data = tempfile::tempdir().unwrap();
    let Some(dev) = dev(&data) else { return };
    assert_eq!(client(&dev, "stream"), json!({ "result": [1, 2], "logs": [1, 1], "same": true, "refused": 400 }));
}
