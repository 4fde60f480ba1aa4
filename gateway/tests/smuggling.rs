//! Requests whose end two readers may see at different places, sent as bytes to the gateway's own listener. None of them makes it take as a request
//! what was a body, or answer an honest request that follows with somebody else's answer.

use std::{sync::Arc, time::Duration};

use crate::support::{Trust, directory};
use dormouse_gateway::Gateway;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

/// Longer than an answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Vectors, at least.
const VECTORS_MIN: usize = 50;
const PATH: &str = "/v1/namespaces/default/sessions";

/// A request under this id.
fn request(id: &str) -> String {
    format!("GET {PATH} HTTP/1.1\r\nHost: gateway\r\nX-Request-Id: {id}\r\n\r\n")
}

/// What must never be taken for a request.
fn hidden() -> String {
    request("smuggled")
}

/// A POST with these header lines, and this body.
fn post(lines: &str, body: &str) -> String {
    format!("POST {PATH} HTTP/1.1\r\nHost: gateway\r\nX-Request-Id: vector\r\nContent-Type: application/json\r\n{lines}\r\n{body}")
}

/// A body in chunks: `{}`, and then what `end` says.
fn chunks(end: &str) -> String {
    format!("2\r\n{{}}\r\n{end}")
}

fn vectors() -> Vec<(String, String)> {
    let hidden = hidden();
    let length = hidden.len();
    let mut vectors = Vec::new();
    let mut add = |name: &str, bytes: String| vectors.push((name.to_owned(), bytes));
    // A length and chunks: one reader takes the one, another the other.
    let both = format!("0\r\n\r\n{hidden}");
    for (name, lines) in [
        ("length then chunks", format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", both.len())),
        ("chunks then length", format!("Transfer-Encoding: chunked\r\nContent-Length: {}\r\n", both.len())),
        ("length 0 and chunks", "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n".to_owned()),
        (
            "chunks twice and length",
            format!("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\nContent-Length: {}\r\n", both.len()),
        ),
    ] {
        add(name, post(&lines, &both));
    }
    // Chunks in disguise: a reader that does not see through it takes the length.
    for disguise in [
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        "Transfer-Encoding:\u{b}chunked",
        "Transfer-Encoding:\u{c}chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: chunked;q=0",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding:\r\n chunked",
        " Transfer-Encoding: chunked",
        "X: x\n Transfer-Encoding: chunked",
        "Transfer_Encoding: chunked",
        "Transfer-Encoding: chun\u{0}ked",
        "Transfer-Encoding: CHUNKED",
        "Transfer-Encoding: chunked ",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding\u{0}: chunked",
        "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
        "X: x\r\rTransfer-Encoding: chunked",
    ] {
        add(disguise, post(&format!("Content-Length: {}\r\n{disguise}\r\n", both.len()), &both));
    }
    // Lengths that are read in two ways.
    for lines in [
        format!("Content-Length: 0\r\nContent-Length: {length}"),
        format!("Content-Length: {length}\r\nContent-Length: 0"),
        format!("Content-Length: 0, {length}"),
        format!("Content-Length: {length}, {length}"),
        format!("Content-Length: +{length}"),
        format!("Content-Length: -{length}"),
        format!("Content-Length: 0x{length:x}"),
        format!("Content-Length: {length}.0"),
        format!("Content-Length: {length} 0"),
        format!("Content-Length : {length}"),
        format!("Content-Length:\r\n {length}"),
        format!("Content-Length: {length}\u{0}"),
        format!("Content-Length: 18446744073709551616{length}"),
        format!("Content-Length: 1e2\r\nX-Length: {length}"),
        "Content-Length: ".to_owned(),
    ] {
        add(&lines, post(&format!("{lines}\r\n"), &hidden));
    }
    // Chunks whose ends are read in two ways.
    for (name, end) in [
        ("a size that overflows", format!("10000000000000002\r\n{{}}\r\n0\r\n\r\n{hidden}")),
        ("a size with a sign", format!("+2\r\n{{}}\r\n0\r\n\r\n{hidden}")),
        ("a size with a prefix", format!("0x2\r\n{{}}\r\n0\r\n\r\n{hidden}")),
        ("a size with a space", format!("2 \n{{}}\r\n0\r\n\r\n{hidden}")),
        ("no size", format!("\r\n{{}}\r\n0\r\n\r\n{hidden}")),
        ("lines without CR", format!("2\n{{}}\n0\n\n{hidden}")),
        ("an extension with LF", format!("2;x\n{hidden}\r\n{{}}\r\n0\r\n\r\n")),
        ("a chunk that is longer than it says", format!("2\r\n{{}}xx\r\n0\r\n\r\n{hidden}")),
        ("CR alone", format!("2\r{{}}\r0\r\r{hidden}")),
        ("a trailer that is a length", format!("2\r\n{{}}\r\n0\r\nContent-Length: {length}\r\n\r\n{hidden}")),
    ] {
        add(name, post("Transfer-Encoding: chunked\r\n", &end));
    }
    // What is before the body, or belongs to another version.
    let get = |lines: &str| format!("GET {PATH} HTTP/1.1\r\nHost: gateway\r\nX-Request-Id: vector\r\n{lines}\r\n");
    add("1.0 with chunks", post("Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n", &both).replace("HTTP/1.1", "HTTP/1.0"));
    add("a GET with a body", get(&format!("Content-Length: {length}\r\n")) + &hidden);
    add("a GET with chunks", get("Transfer-Encoding: chunked\r\n") + &chunks(&format!("{length:x}\r\n{hidden}\r\n0\r\n\r\n")));
    add("a body that is expected", post(&format!("Expect: 100-continue\r\nContent-Length: {length}\r\n"), &hidden));
    add("another protocol with a body", post(&format!("Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: {length}\r\n"), &hidden));
    add("a line that is folded", get(&format!("X: a\r\n b: GET / HTTP/1.1\r\nContent-Length: {length}\r\n")) + &hidden);
    add(
        "a head that ends with LF",
        format!("POST {PATH} HTTP/1.1\nHost: gateway\nX-Request-Id: vector\nContent-Length: {length}\n\n{hidden}"),
    );
    add("a path with a line in it", format!("GET {PATH}\r\nX: HTTP/1.1\r\nHost: gateway\r\nContent-Length: {length}\r\n\r\n{hidden}"));
    add("two hosts", get(&format!("Host: other\r\nContent-Length: {length}\r\n")) + &hidden);
    vectors
}

/// The ids of the answers that came, in order; `""` where one has none.
fn ids(answers: &str) -> Vec<String> {
    let heads = answers.split("HTTP/1.").skip(1).filter(|head| !head.starts_with("1 100") && !head.starts_with("0 100"));
    heads
        .map(|head| {
            let line = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("x-request-id: ").map(str::to_owned));
            line.unwrap_or_default()
        })
        .collect()
}

#[tokio::test]
async fn no_request_is_read_in_two_ways() {
    let trust = Trust::new();
    let (_folder, directory) = directory(&trust, &[]).await;
    let gateway = Gateway::new(directory, trust.kernels(), Arc::new(dormouse_gateway::auth::loopback::Loopback::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let until = shutdown.clone();
    tokio::spawn(async move { gateway.serve(listener, until).await });
    let vectors = vectors();
    assert!(vectors.len() >= VECTORS_MIN, "{}", vectors.len());
    let mut wrong = Vec::new();
    for (name, bytes) in vectors {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The gateway may have closed it before all of it has left.
        let _ = stream.write_all(bytes.as_bytes()).await;
        let _ = stream.write_all(request("honest").as_bytes()).await;
        // Whoever still waits for a body hears that there is no more.
        let _ = stream.shutdown().await;
        let mut answers = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answers)).await;
        assert!(read.is_ok(), "{name:?}: the connection stays open");
        let answers = String::from_utf8_lossy(&answers).into_owned();
        let ids = ids(&answers);
        let expected: [&[&str]; 4] = [&[], &[""], &["vector"], &["vector", "honest"]];
        let answered_right = expected.iter().any(|expected| ids == *expected) || ids == ["vector", ""];
        if !answered_right {
            wrong.push(format!("{name:?}: {ids:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} vectors: {wrong:#?}", wrong.len());
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all((request("first") + &request("second")).as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answers = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answers)).await.unwrap().unwrap();
    assert_eq!(ids(&answers), ["first", "second"], "and honest ones are answered, one after the other");
    shutdown.cancel();
}
