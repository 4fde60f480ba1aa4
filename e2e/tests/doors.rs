//! Clients of every kind at one session, each over two gateways in turns, while its pod is killed and its mode is patched: each cell runs once, and
//! whoever reads sees the end of each once.

use std::{collections::BTreeSet, time::Duration};

use dormouse_client::Client;
use dormouse_protocol::{eval::EvalRequest, event::EventBody, session::State};
use dormouse_testkit::wait::{PATIENCE, eventually};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{
    sync::watch::{self, Receiver, Sender},
    task::JoinSet,
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};

use crate::support::{
    attacks,
    fleet::{Fleet, TENANT},
};

const SESSION: &str = "doors";
/// How often the pod is killed, and the session put to sleep from outside.
const ATTACKS: usize = 3;
/// Before a cell is sent again.
const PAUSE: Duration = Duration::from_millis(20);
/// Events that a reader takes of one gateway.
const EVENTS_AT_ONCE: usize = 50;
/// How long one look at a run waits for its end, in seconds.
const LOOK_SECONDS: u64 = 20;

type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

/// Two gateways, and what opens them.
#[derive(Clone)]
struct Gateways {
    clients: [Client; 2],
    token: String,
}

impl Gateways {
    fn client(&self, turn: usize) -> &Client {
        &self.clients[turn % 2]
    }

    async fn socket(&self, turn: usize, path: &str) -> Option<Socket> {
        let address = self.client(turn).server().join(path).unwrap().to_string().replacen("http", "ws", 1);
        let mut request = address.into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {}", self.token).parse().unwrap());
        request.headers_mut().insert("dormouse-namespace", TENANT.parse().unwrap());
        Some(connect_async(request).await.ok()?.0)
    }
}

/// How a client runs its cells.
#[derive(Debug, Clone, Copy)]
enum Door {
    Plain,
    Streamed,
    Run,
    Frames,
    Notebook,
}

impl Door {
    /// The value of this client's cell under a key. `None`: it has to be sent again, which does nothing twice.
    async fn cell(self, at: &Gateways, turn: usize, key: &str) -> Option<u64> {
        let code = format!("(globalThis.counts ??= {{}}).{self:?} = (counts.{self:?} ?? 0) + 1");
        let cell = EvalRequest { code: code.clone(), idempotency_key: Some(key.to_owned()), ..EvalRequest::default() };
        let client = at.client(turn);
        match self {
            Self::Plain => client.eval(SESSION, &cell).await.ok()?.value?.as_u64(),
            Self::Streamed => {
                let mut events = std::pin::pin!(client.eval_events(SESSION, &cell).await.ok()?);
                loop {
                    if let EventBody::Final { result } = events.next().await?.ok()?.body {
                        return result.value?.as_u64();
                    }
                }
            }
            Self::Run => {
                let run = client.eval_later(SESSION, &cell).await.ok()?.run;
                client.wait_for_run(SESSION, &run, LOOK_SECONDS).await.ok()?.result?.value?.as_u64()
            }
            Self::Frames => {
                let mut socket = at.socket(turn, &format!("/ws?id={SESSION}")).await?;
                send(&mut socket, json!({ "t": "eval", "id": 1, "code": code, "idempotencyKey": key })).await?;
                loop {
                    let frame = next(&mut socket).await?;
                    if frame["id"] == 1 {
                        return frame["value"].as_u64();
                    }
                }
            }
            Self::Notebook => {
                let mut socket = at.socket(turn, &format!("/api/kernels/{SESSION}/channels?session_id=1")).await?;
                let header = json!({ "msg_id": key, "msg_type": "execute_request", "session": "1" });
                send(&mut socket, json!({ "channel": "shell", "header": header, "content": { "code": code } })).await?;
                let mut value = None;
                loop {
                    let message = next(&mut socket).await?;
                    match message["msg_type"].as_str() {
                        _ if message["parent_header"]["msg_id"] != key => {}
                        Some("execute_result") => {
                            value = message["content"]["data"]["text/plain"].as_str().and_then(|text| text.parse().ok())
                        }
                        Some("execute_reply") => return value,
                        _ => {}
                    }
                }
            }
        }
    }

    /// Counts until it is `over`; answers how many cells.
    async fn count(self, at: Gateways, over: Receiver<bool>, tell: Sender<u64>) -> u64 {
        let mut cells = 0;
        while !*over.borrow() {
            cells += 1;
            let key = format!("{self:?}-{cells}");
            let answered = async {
                let first = usize::try_from(cells).unwrap();
                for turn in first.. {
                    if let Some(value) = self.cell(&at, turn, &key).await {
                        assert_eq!(value, cells, "{key}: each cell runs once");
                        return;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            };
            tokio::time::timeout(PATIENCE, answered).await.unwrap_or_else(|_| panic!("{key} is answered"));
            tell.send_replace(cells);
        }
        cells
    }
}

async fn send(socket: &mut Socket, message: Value) -> Option<()> {
    socket.send(Message::Text(message.to_string().into())).await.ok()
}

async fn next(socket: &mut Socket) -> Option<Value> {
    loop {
        if let Message::Text(text) = socket.next().await?.ok()? {
            return serde_json::from_str(&text).ok();
        }
    }
}

/// Follows the session, and tells the keys of the cells that it has seen the end of.
async fn read(at: Gateways, tell: Sender<Vec<String>>) {
    let mut after = None;
    for turn in 0.. {
        let Ok(events) = at.client(turn).events(SESSION, after, true).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let mut events = std::pin::pin!(events.take(EVENTS_AT_ONCE));
        while let Some(Ok(event)) = events.next().await {
            if matches!(event.body, EventBody::Heartbeat {} | EventBody::Error { .. }) {
                continue;
            }
            assert_eq!(event.seq, after.map_or(1, |after| after + 1), "no event is left out or told twice");
            after = Some(event.seq);
            if let EventBody::Final { result } = event.body {
                tell.send_modify(|ends| ends.push(result.idempotency_key.unwrap_or_default()));
            }
        }
    }
}

/// Patches the session as its owner does with `kubectl`.
fn patch_mode(fleet: &Fleet, mode: &str) {
    let patch = json!({ "spec": { "operatingMode": mode } }).to_string();
    fleet.server.kubectl(&["patch", "kernelsession", SESSION, "-n", TENANT, "--type=merge", "-p", &patch]).unwrap();
}

/// Until each client has had one more cell answered.
async fn everybody_goes_on(told: &[Receiver<u64>]) {
    let before: Vec<u64> = told.iter().map(|told| *told.borrow()).collect();
    eventually("every client goes on", async || told.iter().zip(&before).all(|(told, before)| *told.borrow() > *before)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_door_of_two_gateways_serves_one_session_while_its_pod_is_killed_and_its_mode_is_patched() {
    let mut fleet = Fleet::start(&attacks::outside().await.0).await;
    let (_second, url) = fleet.second_gateway().await;
    let first = fleet.client();
    let second = Client::new(&url, TENANT, Some(&fleet.token)).unwrap();
    let at = Gateways { clients: [first.clone(), second], token: fleet.token.clone() };
    attacks::create(&first, SESSION, json!({})).await;
    let (over, _) = watch::channel(false);
    let (mut counting, mut reading, mut told) = (JoinSet::new(), JoinSet::new(), Vec::new());
    for door in [Door::Plain, Door::Streamed, Door::Run, Door::Frames, Door::Notebook] {
        let (tell, counted) = watch::channel(0);
        told.push(counted);
        counting.spawn(door.count(at.clone(), over.subscribe(), tell));
    }
    let (tell, ends) = watch::channel(Vec::new());
    reading.spawn(read(at.clone(), tell));
    for _ in 0..ATTACKS {
        everybody_goes_on(&told).await;
        fleet.kernel.kill();
        fleet.kernel.ready().await;
        everybody_goes_on(&told).await;
        patch_mode(&fleet, "Hibernated");
        eventually("it sleeps", async || first.get(SESSION).await.is_ok_and(|session| session.state == State::Hibernated)).await;
        patch_mode(&fleet, "Auto");
    }
    everybody_goes_on(&told).await;
    over.send_replace(true);
    let mut cells = 0;
    while let Some(counted) = counting.join_next().await {
        cells += usize::try_from(counted.expect("every value is right")).unwrap();
    }
    eventually("every cell is told of", async || ends.borrow().len() == cells).await;
    assert!(reading.try_join_next().is_none(), "the reader has found something wrong");
    assert_eq!(ends.borrow().iter().collect::<BTreeSet<_>>().len(), cells, "each end is told once");
}
