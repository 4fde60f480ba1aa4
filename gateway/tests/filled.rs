//! Everything at once that fills a gateway: it stays small, and serves who behaves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use dormouse_gateway::BODY_BYTES_MAX;
use serde_json::json;
use support::{Answer, Trust, directory, serve_whole};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

/// As in the program.
#[global_allocator]
static ALLOCATOR: dormouse_service::Allocator = dormouse_service::Allocator;

const SESSIONS: &str = "/v1/namespaces/default/sessions";
/// Cells whose answers nobody reads.
const UNREAD: usize = 150;
/// What each of them answers: outputs of 64 MiB, each character written as six.
const ANSWER_MEBIBYTES: usize = 384;
/// Connections that send half a request.
const HALVES: usize = 500;
/// Bodies that lack their last byte.
const DRIPPING: usize = 200;
/// Of those, how many of one caller there is room for.
const DRIPPING_HELD: usize = 1;
/// Cells at doors whose answers nobody reads, and what each of them answers.
const AT_DOORS: usize = 60;
const DOOR_MEBIBYTES: usize = 30;
/// Longer than all of that takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
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

/// Sends a request whose end never comes, and returns when it is refused.
async fn drip(address: String, head: String, body: &'static [u8]) {
    let (mut reads, mut writes) = TcpStream::connect(&address).await.unwrap().into_split();
    let writing = async {
        if writes.write_all(head.as_bytes()).await.is_ok() && writes.write_all(body).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let mut first = [0; 12];
    tokio::select! {
        () = writing => {}
        // Without a status, what was sent met a connection that its refusal had closed.
        read = reads.read_exact(&mut first) => assert!(read.is_err() || &first == b"HTTP/1.1 503", "{}", String::from_utf8_lossy(&first)),
    }
}

/// Waits until all but `held` of these have ended.
async fn all_but(held: usize, all: &mut JoinSet<()>) {
    let ended = async {
        while all.len() > held {
            all.join_next().await.unwrap().unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap_or_else(|_| panic!("{} are held", all.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_drip_take_their_room_and_no_more() {
    let trust = Trust::new();
    let pod = trust.pod("a", 10).await;
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let (client, stop) = serve_whole(&trust, directory).await;
    let address = client.base.strip_prefix("http://").unwrap().to_owned();
    client.json("POST", SESSIONS, json!({"name": "a"})).await;
    let eval = format!("{SESSIONS}/a/eval");
    let (begin, rest) = (br#"{"code":""#, vec![b' '; BODY_BYTES_MAX - 1]);
    let body: &'static [u8] = [&begin[..], rest.get(begin.len()..).unwrap()].concat().leak();
    let mut dripping = JoinSet::new();
    for number in 0..DRIPPING {
        let length = if number % 2 == 0 { format!("content-length: {BODY_BYTES_MAX}") } else { "transfer-encoding: chunked".to_owned() };
        let chunk = if number % 2 == 0 { String::new() } else { format!("{BODY_BYTES_MAX:x}\r\n") };
        let head = format!("POST {eval} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n{length}\r\n\r\n{chunk}");
        dripping.spawn(drip(address.clone(), head, body));
    }
    all_but(DRIPPING_HELD, &mut dripping).await;
    // What is small waits for nobody, and what is large is told why.
    let (status, body) = client.json("POST", &eval, json!({"code": "1"})).await;
    assert_eq!((status, body["ok"].as_bool()), (200, Some(true)), "{body}");
    // Of one caller who drips, one body of the largest is held: his next one finds no room, and half of all is left for others.
    let large = json!({"code": " ".repeat(BODY_BYTES_MAX - 100)});
    let (status, body) = client.json("POST", &eval, large.clone()).await;
    assert_eq!((status, body["error"]["code"].as_str()), (503, Some("CapacityExhausted")), "{body}");
    let (status, body) = client.json("POST", &eval, json!({"code": " ".repeat(200 << 10)})).await;
    assert_eq!((status, body["ok"].as_bool()), (200, Some(true)), "{body}");
    let resident = resident_bytes();
    assert!(resident <= RESIDENT_BYTES_MAX, "{} MiB are resident", resident >> 20);
    dripping.shutdown().await;
    let (status, body) = client.json("POST", &eval, large).await;
    assert_eq!((status, body["ok"].as_bool()), (200, Some(true)), "{body}");
    stop.cancel();
}

/// Sends a request, or frames, and returns when it is told that there is no room for the answer. Reads no more of one that has begun.
async fn ask(address: String, sent: Vec<u8>) {
    const FIRST_BYTES: usize = 64 << 10;
    let mut stream = TcpStream::connect(&address).await.unwrap();
    stream.write_all(&sent).await.unwrap();
    let mut first = Vec::new();
    while first.len() < FIRST_BYTES {
        assert_ne!(stream.read_buf(&mut first).await.unwrap(), 0, "{}", String::from_utf8_lossy(&first));
        if String::from_utf8_lossy(&first).contains("CapacityExhausted") {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// An eval at a door: as one message, as a stream, or over a socket.
fn at_door(number: usize, address: &str) -> Vec<u8> {
    let common = format!("HTTP/1.1\r\nhost: {address}\r\n");
    if number % 3 == 2 {
        let keys = "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
        let head = format!("GET {SESSIONS}/a/ws {common}{keys}\r\nsec-websocket-protocol: dormouse.v1\r\n\r\n");
        let text = br#"{"t":"eval","id":1,"code":"1"}"#;
        // Masked with zeros.
        let frame = [0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
        return [head.as_bytes(), &frame, text].concat();
    }
    let mut params = json!({"name": "eval", "arguments": {"session": "a", "code": "1"}});
    if number % 3 == 1 {
        params["_meta"] = json!({"progressToken": 1});
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let head = "accept: application/json, text/event-stream\r\ncontent-type: application/json";
    format!("POST /mcp {common}{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_doors_read_whole_take_their_room_and_no_more() {
    let trust = Trust::new();
    let pod = trust.pod("a", 10).await;
    pod.answers.lock().unwrap().extend(std::iter::repeat_n(Answer::Large(DOOR_MEBIBYTES), AT_DOORS));
    let (_folder, directory) = directory(&trust, &[&pod]).await;
    let (client, stop) = serve_whole(&trust, directory).await;
    let address = client.base.strip_prefix("http://").unwrap().to_owned();
    client.json("POST", SESSIONS, json!({"name": "a"})).await;
    let mut asking = JoinSet::new();
    for number in 0..AT_DOORS {
        asking.spawn(ask(address.clone(), at_door(number, &address)));
    }
    all_but(1, &mut asking).await;
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "eval", "arguments": {"session": "a", "code": "1"}}});
    let (_, small) = client.json("POST", "/mcp", call.clone()).await;
    assert_eq!(small["result"]["structuredContent"]["ok"].as_bool(), Some(true), "{small}");
    let resident = resident_bytes();
    assert!(resident <= RESIDENT_BYTES_MAX, "{} MiB are resident", resident >> 20);
    asking.shutdown().await;
    pod.answers.lock().unwrap().push_back(Answer::Large(1));
    let (_, large) = client.json("POST", "/mcp", call).await;
    assert_eq!(large["result"]["structuredContent"]["preview"].as_str().map(str::len), Some(1 << 20));
    stop.cancel();
}
