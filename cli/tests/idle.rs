//! What sockets cost on which nothing happens.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use support::Dev;

/// Memory of the process that an idle socket may take, in KiB.
const SOCKET_KIB_MAX: u64 = 9;
/// Sockets, where as many files may be open.
const SOCKETS: u64 = 10_000;
/// Sockets before it is measured, so that what they share is there.
const SOCKETS_BEFORE: u64 = 500;

fn connect(dev: &Dev, name: &str) -> TcpStream {
    let host = dev.server.trim_start_matches("http://");
    let mut socket = TcpStream::connect(host).unwrap();
    let head = format!(
        "GET /ws?id={name} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: \
         dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: dormouse.v1\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
    socket
}

/// A `ping` in a masked frame, and its answer: what one cost that was used once and is idle again counts.
fn ping(socket: &mut TcpStream) {
    let frame = &br#"{"t":"ping","id":1}"#[..];
    // In one piece: a second one would wait until the first is acknowledged.
    let head = [0x81, 0x80 | u8::try_from(frame.len()).unwrap(), 0, 0, 0, 0];
    socket.write_all(&[&head[..], frame].concat()).unwrap();
    let mut head = [0; 2];
    socket.read_exact(&mut head).unwrap();
    let mut answer = vec![0; usize::from(head[1])];
    socket.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"{"), "{answer:?}");
}

/// How many files a process may have open.
fn files_max() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap_or(u64::MAX)
}

#[test]
fn an_idle_socket_costs_little_memory() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let count = SOCKETS.min(files_max().saturating_sub(SOCKETS_BEFORE + 200));
    if count < 1_000 {
        eprintln!("SKIPPED idle sockets: a process may open {} files here", files_max());
        return;
    }
    let open = |count: u64| {
        let open = |n| {
            let mut socket = connect(&dev, &format!("idle-{n}"));
            ping(&mut socket);
            socket
        };
        (0..count).map(open).collect::<Vec<_>>()
    };
    let before = open(SOCKETS_BEFORE);
    let empty = dev.resident_kib();
    let sockets = open(count);
    let each = dev.resident_kib().saturating_sub(empty) / count;
    assert!(each <= SOCKET_KIB_MAX, "{each} KiB each of {count}");
    drop((before, sockets));
}
