//! How sessions begin, end and are counted: the real binary, over the real store.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::support::{Dev, Said};
use serde_json::Value;

/// How long anything may take on a machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_secs(60);

fn usage(dev: &Dev) -> Value {
    let said = dev.command(&["usage", "-o", "json"], "");
    assert!(said.status.success(), "{}", said.err);
    serde_json::from_str(&said.out).unwrap()
}

/// Asks until it is so: each question is a process of its own, which is pause enough.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
    }
}

#[test]
fn what_was_used_is_counted_once_over_kills_and_deletions() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let key = dev.command(&["keys", "create", "app"], "");
    assert!(key.status.success(), "{}", key.err);
    dev.eval("let n = 1; n");
    let with_key = dev.command(&["--token", key.out.trim(), "eval", "--session", "s", "n"], "");
    assert!(with_key.status.success(), "{}", with_key.err);
    let used = usage(&dev);
    assert_eq!((&used["total"]["evals"], &used["items"][0]["keys"]["app"]["evals"]), (&2.into(), &1.into()), "{used}");
    dev.kill();

    let dev = Dev::start(data.path(), &[]);
    dev.eval("n");
    until("what the killed process committed is counted", || usage(&dev)["total"]["evals"] == 3);
    assert!(dev.command(&["sessions", "delete", "s"], "").status.success());
    until("the session is gone", || !dev.command(&["sessions", "get", "s"], "").status.success());
    assert_eq!(usage(&dev)["total"]["evals"], 3, "a deleted session has used what it used");
    assert!(dev.terminate().success());

    let dev = Dev::start(data.path(), &[]);
    dev.eval("1");
    let used = usage(&dev);
    assert_eq!(used["total"]["evals"], 4, "{used}");
    let by_key = dev.command(&["usage", "--by", "key"], "");
    assert!(by_key.out.contains("app"), "{}", by_key.out);
}

const MANIFEST: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: boot}
data: {main.ts: 'globalThis.greet = (name: string) => `hello ${name}`'}
---
apiVersion: dormouse.dev/v1alpha1
kind: KernelSession
metadata: {name: s}
spec: {bootstrap: {configMapRef: {name: boot, key: main.ts}}}
---
apiVersion: dormouse.dev/v1alpha1
kind: KernelSession
metadata: {name: lost}
spec: {bootstrap: {configMapRef: {name: nothing, key: main.ts}}}
---
apiVersion: dormouse.dev/v1alpha1
kind: KernelSession
metadata: {name: mortal}
spec: {ttl: {activeSeconds: 2, retainedSeconds: 10}}
---
apiVersion: dormouse.dev/v1alpha1
kind: KernelQuota
metadata: {name: team}
spec: {sessions: 4, evalsPerSecond: 1000}
";

#[test]
fn sessions_begin_with_code_of_a_config_map_expire_and_are_counted_against_a_quota() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("manifest.yaml");
    std::fs::write(&file, MANIFEST).unwrap();
    let dev = Dev::start(data.path(), &["--session", file.to_str().unwrap()]);
    let eval = |session: &str, code: &str| dev.command(&["eval", "--session", session, code], "");
    assert_eq!(dev.eval("greet('you')"), "'hello you'");
    assert!(dev.command(&["reset", "s"], "").status.success());
    assert_eq!(dev.eval("greet('you')"), "'hello you'", "it begins as a new one does");
    let lost = eval("lost", "1");
    assert!(!lost.status.success() && lost.err.contains("no ConfigMap `nothing`"), "{}", lost.err);

    assert!(eval("mortal", "let n = 1").status.success());
    until("it goes to sleep", || {
        let shown = dev.command(&["sessions", "get", "mortal", "-o", "json"], "");
        !shown.status.success() || shown.out.contains("\"state\":\"Hibernated\"")
    });
    let expired = eval("mortal", "n");
    assert!(expired.err.contains("SessionExpired") || expired.err.contains("SessionNotFound"), "{}{}", expired.out, expired.err);
    until("it is deleted", || !dev.command(&["sessions", "get", "mortal"], "").status.success());

    assert!(dev.command(&["sessions", "create", "third"], "").status.success());
    assert!(dev.command(&["sessions", "create", "fourth"], "").status.success());
    let fifth = dev.command(&["sessions", "create", "fifth"], "");
    assert!(!fifth.status.success() && fifth.err.contains("QuotaExceeded"), "{}", fifth.err);
    assert!(dev.command(&["sessions", "create", "third"], "").status.success(), "one that exists is answered");
}

/// A server that answers every request with 100 bytes. It ends with the test's process.
fn far_side() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.windows(4).any(|window| window == b"\r\n\r\n") {
                match connection.read(&mut buffer).unwrap() {
                    0 => break,
                    read => request.extend_from_slice(&buffer[..read]),
                }
            }
            let body = "x".repeat(100);
            write!(connection, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\n{body}").unwrap();
        }
    });
    address
}

/// A quota of which nothing is left.
struct Spent {
    limit: &'static str,
    data: tempfile::TempDir,
    dev: Dev,
}

fn manifest(data: &Path) -> String {
    data.join("manifest.yaml").to_str().unwrap().to_owned()
}

fn started(data: &Path) -> Dev {
    let file = manifest(data);
    Dev::start(data, &["--broker", &file, "--session", &file])
}

/// Whether the quota refuses what was said.
fn is_refused(said: &Said, limit: &str) -> bool {
    let resource = limit.split(':').next().unwrap();
    !said.status.success() && said.err.contains("QuotaExceeded") && said.err.contains(resource)
}

/// A limit, and what uses it up and is refused then: in one session again and again, or in one after the other.
fn refused_by(limit: &'static str, code: &str, in_one: bool) -> Spent {
    let data = tempfile::tempdir().unwrap();
    let text = format!(
        "apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: net}}\n\
         spec: {{egress: {{allow: [{{host: '127.0.0.1:*', private: true}}]}}}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: s}}\n\
         spec: {{toolBrokerRef: {{name: net}}, egress: {{allow: [{{host: '127.0.0.1:*'}}]}}}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelQuota\nmetadata: {{name: team}}\nspec: {{{limit}}}\n"
    );
    std::fs::write(manifest(data.path()), text).unwrap();
    let dev = started(data.path());
    // What uses a limit up is let through as long as it is not: at its edge the last one was.
    let mut passed = 0;
    let mut said = dev.command(&["eval", "--session", "s", code], "");
    until(limit, || {
        if said.status.success() {
            passed += 1;
            let session = if in_one { "s".to_owned() } else { format!("s{passed}") };
            said = dev.command(&["eval", "--session", &session, code], "");
        }
        !said.status.success()
    });
    assert!(is_refused(&said, limit), "{limit}: {}", said.err);
    assert!(passed > 0, "{limit}: refused before anything was used: {}", said.err);
    Spent { limit, data, dev }
}

/// An hour of the clock, in which processor time counts; a day has whole ones.
fn hour() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3600
}

/// What is spent stays so when gateway and kernel pod end and others begin, by the first cell that they are sent.
fn refused_after_restarts(Spent { limit, data, mut dev }: Spent) {
    let begun = hour();
    let evals = usage(&dev)["total"]["evals"].clone();
    for by_force in [true, false] {
        if by_force {
            dev.kill();
        } else {
            assert!(dev.terminate().success());
        }
        dev = started(data.path());
        until("what was committed is counted", || usage(&dev)["total"]["evals"] == evals);
        let said = dev.command(&["eval", "--session", "s", "1"], "");
        assert!(is_refused(&said, limit) || hour() != begun, "{limit}, by force: {by_force}: {}{}", said.out, said.err);
    }
}

#[test]
fn each_limit_of_a_quota_lets_through_what_fits_and_refuses_what_does_not() {
    let far_side = far_side();
    refused_by("evalsPerSecond: 1", "1", true);
    refused_by("liveHeapBytes: 1000", "globalThis.much = 'x'.repeat(100_000)", false);
    refused_after_restarts(refused_by("storedBytes: 100", "1", true));
    refused_after_restarts(refused_by("cpuSecondsPerHour: 1", "for (let i = 0; i < 1e7; i++);", true));
    let fetches = format!("await (await fetch('http://{far_side}/')).text()");
    refused_after_restarts(refused_by("egressBytesPerDay: 250", &fetches, true));
}

#[test]
fn a_shell_is_told_what_can_be_completed() {
    let said = std::process::Command::new(env!("CARGO_BIN_EXE_dormouse")).args(["completions", "bash"]).output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(said.status.success() && text.contains("checkpoints") && text.contains("completions"));
}
