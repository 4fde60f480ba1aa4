//! What sockets cost behind the gateway's certificate, on which nothing happens.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    sync::Arc,
};

use dormouse_gateway::{Gateway, auth::loopback::Loopback};
use dormouse_service::{ca::Ca, tls::DoorCertificate};
use support::{Trust, directory};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// As in the program.
#[global_allocator]
static ALLOCATOR: dormouse_service::Allocator = dormouse_service::Allocator;

/// Memory that an idle socket may take, in bytes.
const SOCKET_BYTES_MAX: u64 = 18 << 10;
/// Sockets, where as many files may be open.
const SOCKETS: u64 = 10_000;
/// Sockets before it is measured, so that what they share is there.
const SOCKETS_BEFORE: u64 = 500;

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn files_max() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap_or(u64::MAX)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_socket_behind_a_certificate_costs_little_memory() {
    let count = SOCKETS.min(files_max().saturating_sub(SOCKETS_BEFORE + 200));
    if count < 1_000 {
        return eprintln!("SKIPPED idle sockets: a process may open {} files here", files_max());
    }
    let folder = tempfile::tempdir().unwrap();
    let pem = Ca::generate().unwrap().issue(&["localhost".to_owned()], std::time::Duration::from_secs(3_600)).unwrap();
    for (file, text) in [("ca.crt", &pem.ca), ("tls.crt", &pem.cert), ("tls.key", &pem.key)] {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let trust = Trust::new();
    let (_data, directory) = directory(&trust, &[]).await;
    let gateway = Gateway::new(directory, trust.kernels(), Arc::new(Loopback::default()))
        .with_certificate(DoorCertificate::load(folder.path()).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { gateway.serve(listener, CancellationToken::new()).await });

    let each = tokio::task::spawn_blocking(move || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/idle.py");
        let mut command = Command::new("python3");
        command.args([script, &address.to_string(), &SOCKETS_BEFORE.to_string(), &count.to_string()]).arg(folder.path().join("ca.crt"));
        let mut clients = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(clients.stdout.take().unwrap()).lines();
        let mut are_open = || assert_eq!(lines.next().unwrap().unwrap(), "open");
        let mut go_on = clients.stdin.take().unwrap();
        are_open();
        let before = resident_bytes();
        go_on.write_all(b"\n").unwrap();
        are_open();
        let each = resident_bytes().saturating_sub(before) / count;
        drop(go_on);
        assert!(clients.wait().unwrap().success());
        each
    });
    let each = each.await.unwrap();
    assert!(each <= SOCKET_BYTES_MAX, "{each} bytes each of {count}");
    eprintln!("{each} bytes each of {count}");
}
