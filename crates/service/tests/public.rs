//! Clients that send slowly, read slowly or only connect, over real connections.

use std::{net::SocketAddr, time::Duration};

use axum::{
    Router,
    body::Bytes,
    routing::{get, post},
};
use dormouse_service::public::{Door, Limits};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

/// Short enough to be waited for; a client that is meant to be served needs far less.
const SOON: Duration = Duration::from_millis(300);
/// What is never reached by what a test shows.
const LONG: Duration = Duration::from_secs(600);

fn limits() -> Limits {
    Limits { connections_max: 4, idle_timeout: LONG, body_grace: LONG, body_rate_min: 1, write_timeout: LONG, drain_timeout: SOON }
}

async fn served(limits: Limits) -> SocketAddr {
    opened(Door::new(limits), CancellationToken::new()).await
}

async fn opened(door: Door, shutdown: CancellationToken) -> SocketAddr {
    let router = Router::new()
        .route("/", get(|| async { "here" }))
        .route("/body", post(|body: Bytes| async move { body.len().to_string() }))
        .route("/large", get(|| async { vec![b'x'; 64 << 20] }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(door.serve(listener, router, shutdown));
    address
}

async fn connected(address: SocketAddr, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    stream
}

/// What comes until the connection is closed, by an end or by a reset.
async fn rest(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all).await;
    String::from_utf8_lossy(&all).into_owned()
}

async fn is_answered(address: SocketAddr) -> bool {
    rest(connected(address, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await).await.ends_with("here")
}

#[tokio::test]
async fn a_head_that_never_ends_is_not_waited_for() {
    let address = served(Limits { idle_timeout: SOON, ..limits() }).await;
    for sent in ["", "GET / HT", "GET / HTTP/1.1\r\nhost: a\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        assert!(!rest(connected(address, sent).await).await.contains("here"), "{sent:?}");
    }
    let mut dripping = connected(address, "GET / HTTP/1.1\r\n").await;
    while dripping.write_all(b"x: y\r\n").await.is_ok() {
        tokio::time::sleep(SOON / 10).await;
    }
    assert!(is_answered(address).await);
}

#[tokio::test]
async fn a_connection_that_asks_for_nothing_more_is_closed() {
    let address = served(Limits { idle_timeout: SOON, ..limits() }).await;
    let kept = connected(address, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(rest(kept).await.ends_with("here"));
}

#[tokio::test]
async fn a_body_that_drips_is_not_waited_for() {
    let address = served(Limits { body_grace: SOON, body_rate_min: 1_000, ..limits() }).await;
    let stream = connected(address, "POST /body HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 100000\r\n\r\n").await;
    let (mut reading, mut writing) = stream.into_split();
    let drip = tokio::spawn(async move {
        while writing.write_all(b"x").await.is_ok() {
            tokio::time::sleep(SOON / 30).await;
        }
    });
    let mut answer = Vec::new();
    let _ = reading.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
    drip.abort();
    let body = "x".repeat(10_000);
    let whole = format!("POST /body HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 10000\r\n\r\n{body}");
    assert!(rest(connected(address, &whole).await).await.ends_with("10000"));
}

#[tokio::test]
async fn an_answer_that_is_not_read_is_given_up() {
    let address = served(Limits { write_timeout: SOON, ..limits() }).await;
    let mut unread = connected(address, "GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await;
    unread.readable().await.unwrap();
    tokio::time::sleep(SOON * 3).await;
    let mut read = 0;
    let mut buffer = vec![0; 1 << 20];
    while let Ok(bytes) = unread.read(&mut buffer).await {
        if bytes == 0 {
            break;
        }
        read += bytes;
    }
    assert!(read < 64 << 20, "the whole answer waited");
}

#[tokio::test]
async fn of_too_many_connections_the_idlest_makes_room() {
    let address = served(limits()).await;
    let mut idle = Vec::new();
    for _ in 0..limits().connections_max {
        // Answered, so that the order of their last activity is that of their making.
        let mut stream = connected(address, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let mut answer = Vec::new();
        while !answer.ends_with(b"here") {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
        }
        idle.push(stream);
    }
    assert!(is_answered(address).await);
    assert_eq!(rest(idle.remove(0)).await, "");
    let mut newest = idle.pop().unwrap();
    newest.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(rest(newest).await.ends_with("here"));
}

/// What is answered until the first `here`.
async fn answered(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut all = String::new();
    while !all.ends_with("here") {
        let mut part = [0; 256];
        let read = stream.read(&mut part).await.unwrap();
        assert!(read > 0, "the connection ended before an answer: {all}");
        all += std::str::from_utf8(&part[..read]).unwrap();
    }
    all
}

#[tokio::test]
async fn who_leaves_still_serves_and_sends_everybody_elsewhere_before_it_closes() {
    let door = Door::new(limits());
    let (leaving, shutdown) = (door.leaving.clone(), CancellationToken::new());
    let address = opened(door, shutdown.clone()).await;
    let mut kept = TcpStream::connect(address).await.unwrap();
    let before = answered(&mut kept).await;
    assert!(!before.contains("connection: close"), "{before}");

    leaving.cancel();
    let last = answered(&mut kept).await;
    assert!(last.contains("connection: close"), "{last}");
    assert_eq!(rest(kept).await, "", "and it is closed");
    assert!(is_answered(address).await, "somebody who does not know yet");

    shutdown.cancel();
    let closed = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, closed).await.unwrap();
}
