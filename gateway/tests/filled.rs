//! Everything at once that fills a gateway: it stays small, and serves who behaves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use serde_json::json;
use support::{Answer, Trust, directory, serve_whole};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const SESSIONS: &str = "/v1/namespaces/default/sessions";
/// Cells whose answers nobody reads.
const UNREAD: usize = 150;
/// What each of them answers: outputs of 64 MiB, each character written as six.
const ANSWER_MEBIBYTES: usize = 384;
/// Connections that send half a request.
const HALVES: usize = 500;
/// What the whole process may take: gateway, pods and clients of this test.
const RESIDENT_BYTES_MAX: u64 = 512 << 20;

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_filled_by_every_means_serves_others_and_stays_small() {
    let trust = Trust::new();
    let hostile = trust.pod("hostile", 1_000).await;
    hostile.answers.lock().unwrap().extend(std::iter::repeat_n(Answer::Large(ANSWER_MEBIBYTES), UNREAD));
    let (_folder, directory) = directory(&trust, &[&hostile]).await;
    let (client, stop) = serve_whole(&trust, directory).await;
    let address = client.base.strip_prefix("http://").unwrap().to_owned();
    // Specs as large as they may be, all in one listing.
    let code = "x".repeat(256 << 10);
    for number in 0..60 {
        let body = json!({"name": format!("large-{number}"), "spec": {"bootstrap": {"code": code}}});
        let (status, body) = client.json("POST", SESSIONS, body).await;
        assert_eq!(status, 201, "{body}");
    }
    client.json("POST", SESSIONS, json!({"name": "a"})).await;
    let mut held = Vec::new();
    for number in 0..UNREAD {
        let accept = if number % 2 == 0 { "application/x-ndjson" } else { "application/json" };
        let body = r#"{"code":"1"}"#;
        let request = format!(
            "POST {SESSIONS}/a/eval HTTP/1.1\r\nhost: {address}\r\naccept: {accept}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        // Its answer has begun, and is not read on.
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        held.push(stream);
    }
    for number in 0..HALVES {
        let half = if number % 2 == 0 {
            "GET / HTTP/1.1\r\nx: ".to_owned()
        } else {
            format!("POST {SESSIONS} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 8000000\r\n\r\n{{")
        };
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(half.as_bytes()).await.unwrap();
        held.push(stream);
    }
    let (status, page) = client.get(&format!("{SESSIONS}?limit=500")).await;
    assert_eq!(status, 200);
    assert!(page["items"].as_array().unwrap().len() < 60 && page["continue"].is_string(), "a page is bounded by its bytes, too");
    let (status, body) = client.json("POST", &format!("{SESSIONS}/a/eval"), json!({"code": "1"})).await;
    assert_eq!((status, body["ok"].as_bool()), (200, Some(true)), "{body}");
    let resident = resident_bytes();
    assert!(resident <= RESIDENT_BYTES_MAX, "{} MiB are resident", resident >> 20);
    drop(held);
    stop.cancel();
}
