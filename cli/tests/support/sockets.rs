//! Sockets of a `dormouse dev`, and what a notebook says over one.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use super::Dev;

/// How long a message may take.
pub const PATIENCE: Duration = Duration::from_secs(120);

const SESSIONS: &str = "/v1/namespaces/default/sessions";

pub type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

pub async fn connect(dev: &Dev, path: &str) -> Socket {
    let address = format!("ws://{}{path}", dev.server.trim_start_matches("http://"));
    connect_async(address).await.unwrap().0
}

pub async fn send(socket: &mut Socket, message: Value) {
    socket.send(Message::Text(message.to_string().into())).await.unwrap();
}

pub async fn next(socket: &mut Socket) -> Value {
    loop {
        let came = tokio::time::timeout(PATIENCE, socket.next()).await.expect("it answers").unwrap().unwrap();
        if let Message::Text(text) = came {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

/// What comes, up to the first message that `ends`.
pub async fn until(socket: &mut Socket, ends: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut heard = Vec::new();
    loop {
        heard.push(next(socket).await);
        if heard.last().is_some_and(&ends) {
            return heard;
        }
    }
}

/// Sends a message, and answers with the first one after it that `ends`.
pub async fn ask(socket: &mut Socket, message: Value, ends: impl Fn(&Value) -> bool) -> Value {
    send(socket, message).await;
    until(socket, ends).await.pop().unwrap()
}

/// Makes the session `s`.
pub async fn create(dev: &Dev, spec: Value) {
    let made = super::http().post(format!("{}{SESSIONS}", dev.server)).json(&json!({ "name": "s", "spec": spec })).send().await.unwrap();
    assert_eq!(made.status(), 201);
}

/// Whether a message is of this kind.
pub fn is(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |message| message["msg_type"] == kind
}

/// A message of a notebook.
pub fn request(id: &str, kind: &str, content: Value) -> Value {
    let header = json!({ "msg_id": id, "msg_type": kind, "session": "mine", "username": "me", "version": "5.3", "date": "" });
    json!({ "channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content, "buffers": [] })
}

/// The one with which it runs a cell.
pub fn execute(id: &str, code: &str) -> Value {
    request(
        id,
        "execute_request",
        json!({ "code": code, "silent": false, "store_history": true, "user_expressions": {}, "allow_stdin": false }),
    )
}

/// Where the notebook of a session connects.
pub async fn notebook(dev: &Dev, session: &str) -> String {
    let body = json!({ "name": "dormouse", "env": { "KERNEL_DORMOUSE_SESSION": session } });
    let made = super::http().post(format!("{}/api/kernels", dev.server)).json(&body).send().await.unwrap();
    let kernel: Value = made.json().await.unwrap();
    format!("/api/kernels/{}/channels?session_id=mine", kernel["id"].as_str().unwrap())
}
