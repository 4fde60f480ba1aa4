//! Frames that break the protocol of WebSockets, as bytes: each ends its socket with the code that says why, and nothing of it is carried out.

use std::time::Duration;

use crate::support::{Trust, directory, serve};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Longer than an answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const MASK: [u8; 4] = [1, 2, 3, 4];
const FIN: u8 = 0x80;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A frame of a client, with the first byte as it is given.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match u8::try_from(payload.len()) {
        Ok(short) if short < 126 => bytes.push(0x80 | short),
        _ => {
            bytes.push(0x80 | 126);
            bytes.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
        }
    }
    bytes.extend(MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// A close with this code and reason.
fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    frame(FIN | CLOSE, &[&code.to_be_bytes(), reason].concat())
}

/// A frame that says how long it is, and no more of it.
fn announced(length: u64) -> Vec<u8> {
    [&[FIN | TEXT, 0x80 | 127], &length.to_be_bytes()[..], &MASK].concat()
}

async fn connect(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /ws?id=broken HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    stream
}

/// The next frame of the server: its opcode and its payload. `None`: it has closed the connection.
async fn next(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let first = tokio::time::timeout(PATIENCE, stream.read_u8()).await.expect("the socket ends").ok()?;
    assert_eq!(first & 0xf0, FIN, "the gateway sends whole frames");
    let length = match stream.read_u8().await.unwrap() {
        126 => usize::from(stream.read_u16().await.unwrap()),
        127 => usize::try_from(stream.read_u64().await.unwrap()).unwrap(),
        short => usize::from(short),
    };
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.unwrap();
    Some((first & 0x0f, payload))
}

/// What comes before the end, and the code with which the server closes, if it says one.
async fn end(stream: &mut TcpStream) -> (Vec<String>, Option<u16>) {
    let mut texts = Vec::new();
    while let Some((opcode, payload)) = next(stream).await {
        match opcode {
            TEXT => texts.push(String::from_utf8(payload).unwrap()),
            CLOSE => {
                // A client that has not closed does so now.
                let _ = stream.write_all(&close(1000, b"")).await;
                let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                assert_eq!(next(stream).await, None, "nothing comes after a close");
                return (texts, code);
            }
            _ => {}
        }
    }
    (texts, None)
}

async fn gateway() -> (tempfile::TempDir, String) {
    let trust = Trust::new();
    let (folder, directory) = directory(&trust, &[]).await;
    let client = serve(&trust, directory).await;
    (folder, client.base.trim_start_matches("http://").to_owned())
}

#[tokio::test]
async fn a_frame_that_breaks_the_protocol_ends_its_socket() {
    let (_folder, address) = gateway().await;
    let ping = br#"{"t":"ping"}"#;
    let unmasked = [&[FIN | TEXT, 12], &ping[..]].concat();
    let cases = [
        ("no mask", unmasked, 1002),
        ("reserved bit 1", frame(FIN | 0x40 | TEXT, ping), 1002),
        ("reserved bit 2", frame(FIN | 0x20 | TEXT, ping), 1002),
        ("reserved bit 3", frame(FIN | 0x10 | TEXT, ping), 1002),
        ("reserved opcode 3", frame(FIN | 3, ping), 1002),
        ("reserved opcode 7", frame(FIN | 7, ping), 1002),
        ("reserved opcode 11", frame(FIN | 11, ping), 1002),
        ("reserved opcode 15", frame(FIN | 15, ping), 1002),
        ("a ping in parts", frame(PING, b"x"), 1002),
        ("a pong in parts", frame(PONG, b"x"), 1002),
        ("a close in parts", frame(CLOSE, &1000_u16.to_be_bytes()), 1002),
        ("a long ping", frame(FIN | PING, &[b'x'; 126]), 1002),
        ("a long close", frame(FIN | CLOSE, &[&1000_u16.to_be_bytes()[..], &[b'x'; 124]].concat()), 1002),
        ("a close of one byte", frame(FIN | CLOSE, &[3]), 1002),
        ("more of nothing", frame(FIN, ping), 1002),
        ("a message within another", [frame(TEXT, ping), frame(FIN | TEXT, ping)].concat(), 1002),
        ("text that is not UTF-8", frame(FIN | TEXT, b"{\"t\":\"\xff\"}"), 1007),
        ("text that ends within a character", frame(FIN | TEXT, b"\xe2\x82"), 1007),
        ("half a surrogate", frame(FIN | TEXT, b"\xed\xa0\x80"), 1007),
        ("parts that are not UTF-8 together", [frame(TEXT, b"\xe2\x82"), frame(FIN, b"x")].concat(), 1007),
        ("binary", frame(FIN | BINARY, ping), 1003),
        ("a long message", announced((8 << 20) + 1), 1009),
        ("a longer one than there is", announced(u64::MAX), 1009),
    ];
    for (what, bytes, code) in cases {
        let mut stream = connect(&address).await;
        stream.write_all(&bytes).await.unwrap();
        assert_eq!(end(&mut stream).await, (Vec::new(), Some(code)), "{what}");
    }
}

#[tokio::test]
async fn a_close_is_answered_with_one() {
    let (_folder, address) = gateway().await;
    for (what, bytes, code) in [
        ("as usual", close(1000, b"done"), Some(1000)),
        ("leaving", close(1001, b""), Some(1001)),
        ("a code of an application", close(4999, b""), Some(4999)),
        ("without a code", frame(FIN | CLOSE, b""), None),
    ] {
        let mut stream = connect(&address).await;
        stream.write_all(&bytes).await.unwrap();
        assert_eq!(end(&mut stream).await, (Vec::new(), code), "{what}");
    }
    for (what, bytes) in [
        ("a code that is none", close(999, b"")),
        ("a code that is nobody's to send", close(1005, b"")),
        ("another", close(1006, b"")),
        ("a third", close(1015, b"")),
        ("a reason that is not UTF-8", close(1000, b"\xff")),
    ] {
        let mut stream = connect(&address).await;
        stream.write_all(&bytes).await.unwrap();
        let (texts, code) = end(&mut stream).await;
        assert!(texts.is_empty() && code.is_some_and(|code| matches!(code, 1002 | 1007)), "{what}: {code:?}");
    }
}

#[tokio::test]
async fn what_comes_in_parts_or_among_pings_is_one_message() {
    let (_folder, address) = gateway().await;
    let mut stream = connect(&address).await;
    let parts = [
        frame(TEXT, br#"{"t":"#),
        frame(FIN | PING, b"still there?"),
        frame(0, br#""ping","id":"#),
        frame(FIN | PONG, b"unasked"),
        frame(FIN, b"\"\xe2\x82\xac\"}"),
    ];
    stream.write_all(&parts.concat()).await.unwrap();
    assert_eq!(next(&mut stream).await, Some((PONG, b"still there?".to_vec())));
    let (opcode, answer) = next(&mut stream).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((opcode, answer), (TEXT, serde_json::json!({ "t": "ping-result", "id": "€", "ok": true })));
    // After a close nothing is carried out any more.
    stream.write_all(&[close(1000, b""), frame(FIN | TEXT, br#"{"t":"ping"}"#)].concat()).await.unwrap();
    assert_eq!(end(&mut stream).await.0, Vec::<String>::new());
}
