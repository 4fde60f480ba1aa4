//! A proxy before an S3 service that loses, delays and answers wrongly, by a seed.
//!
//! One request a connection, so that a fault meets one request and no other. Each request is forwarded as it came: its signature holds, for it
//! names the proxy as the host it was sent to.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::random::Random;

/// Bytes of a request's head at most.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The longest delay.
const DELAY_MAX: Duration = Duration::from_millis(40);
/// How long a request that its client has given up takes at most to arrive.
const LATE_MAX: Duration = Duration::from_millis(300);

/// What is done to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It is not forwarded; the answer is 503.
    Unavailable,
    /// It takes place; the answer is 500.
    ErrorAfter,
    /// It is not forwarded; the connection breaks.
    Reset,
    /// It takes place; the connection breaks before the answer.
    LostReply,
    /// The connection breaks; it takes place some time later.
    Late,
    /// It takes place, and both ways take a while.
    Delay,
}

/// Which requests a fault meets, and how many of them.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What is done.
    pub fault: Fault,
    /// Of so many in a thousand.
    pub per_mille: u64,
    /// `PUT`, `GET`, …; empty for all.
    pub method: &'static str,
    /// What the path ends in; empty for all.
    pub path_end: &'static str,
}

impl Rule {
    /// A rule for every request.
    #[must_use]
    pub fn any(fault: Fault, per_mille: u64) -> Self {
        Self { fault, per_mille, method: "", path_end: "" }
    }
}

/// Requests that get no answer as long as their client waits for one: how a test knows where a process is when it kills it.
#[derive(Debug, Clone, Copy)]
pub struct Hold {
    /// `PUT`, `GET`, …
    pub method: &'static str,
    /// What the path ends in.
    pub path_end: &'static str,
    /// Which one of those to one path, from 1.
    pub nth: u32,
    /// Whether it takes place.
    pub forwarded: bool,
}

/// A running proxy. Dropping it ends it.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: String,
    down: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: Random,
    rules: Vec<Rule>,
    injected: BTreeMap<Fault, u64>,
    hold: Option<Hold>,
    /// By path, what [`Hold`] counts.
    met: BTreeMap<String, u32>,
    held: usize,
}

impl FaultProxy {
    /// Listens on loopback, and forwards to the `host:port` of `upstream`, an `http` URL.
    ///
    /// # Errors
    /// When the URL is another, or no port is free.
    pub async fn start(upstream: &str) -> Result<Self> {
        let upstream = upstream.strip_prefix("http://").context("the upstream is no http URL")?.trim_end_matches('/').to_owned();
        let state =
            State { random: Random::new(1), rules: Vec::new(), injected: BTreeMap::new(), hold: None, met: BTreeMap::new(), held: 0 };
        let shared = Arc::new(Shared { upstream, down: AtomicBool::new(false), state: Mutex::new(state) });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, task })
    }

    /// `http://127.0.0.1:PORT`
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Replaces the rules. The first one that meets a request counts.
    pub fn set(&self, seed: u64, rules: Vec<Rule>) {
        let mut state = self.shared.lock();
        (state.random, state.rules) = (Random::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1), rules);
    }

    /// Which requests are held from now on, before any rule; counts anew.
    pub fn hold(&self, hold: Option<Hold>) {
        let mut state = self.shared.lock();
        (state.hold, state.met, state.held) = (hold, BTreeMap::new(), 0);
    }

    /// How many are.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shared.lock().held
    }

    /// Whether every connection is closed as soon as it is open.
    pub fn set_down(&self, down: bool) {
        self.shared.down.store(down, Ordering::SeqCst);
    }

    /// How often each fault was done so far.
    #[must_use]
    pub fn injected(&self) -> BTreeMap<Fault, u64> {
        self.shared.lock().injected.clone()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, request: &Request) -> Option<Fault> {
        let mut state = self.lock();
        let rules = state.rules.clone();
        let fault = rules.iter().find(|rule| rule.meets(request) && state.random.below(1000) < rule.per_mille)?.fault;
        *state.injected.entry(fault).or_default() += 1;
        Some(fault)
    }

    /// Whether the request is to be held, and takes place before.
    fn holds(&self, request: &Request) -> Option<bool> {
        let mut state = self.lock();
        let hold = state.hold.filter(|hold| request.method == hold.method && request.path.ends_with(hold.path_end))?;
        let met = state.met.entry(request.path.clone()).or_default();
        *met += 1;
        (*met == hold.nth).then_some(hold.forwarded)
    }

    async fn pause(&self, max: Duration) {
        let pause = self.lock().random.duration(max);
        tokio::time::sleep(pause).await;
    }

    /// The whole answer.
    async fn forward(&self, request: &Request) -> Result<Vec<u8>> {
        let mut upstream = TcpStream::connect(&self.upstream).await?;
        // A service that refuses a condition answers and closes before it has read the body: an error that comes behind the answer is none.
        let sent = upstream.write_all(&request.bytes).await;
        let mut answer = Vec::new();
        let read = upstream.read_to_end(&mut answer).await;
        if answer.is_empty() {
            sent?;
            read?;
            bail!("the upstream closed without an answer");
        }
        Ok(answer)
    }
}

impl Rule {
    fn meets(&self, request: &Request) -> bool {
        (self.method.is_empty() || request.method == self.method) && request.path.ends_with(self.path_end)
    }
}

/// A request that was read whole, as it will be forwarded.
struct Request {
    method: String,
    path: String,
    bytes: Vec<u8>,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A connection that ends in between is what this proxy is for.
            let _ = serve(client, &shared).await;
        });
    }
}

async fn serve(mut client: TcpStream, shared: &Shared) -> Result<()> {
    if shared.down.load(Ordering::SeqCst) {
        return Ok(());
    }
    let request = read_request(&mut client).await?;
    if let Some(forwarded) = shared.holds(&request) {
        if forwarded {
            shared.forward(&request).await?;
        }
        shared.lock().held += 1;
        // Until the client goes away.
        while client.read_buf(&mut Vec::with_capacity(1)).await? > 0 {}
        return Ok(());
    }
    let answer = match shared.draw(&request) {
        None => shared.forward(&request).await?,
        Some(Fault::Unavailable) => error(503, "SlowDown"),
        Some(Fault::Reset) => return Ok(()),
        Some(Fault::ErrorAfter) => {
            shared.forward(&request).await?;
            error(500, "InternalError")
        }
        Some(Fault::LostReply) => {
            shared.forward(&request).await?;
            return Ok(());
        }
        Some(Fault::Late) => {
            drop(client);
            shared.pause(LATE_MAX).await;
            shared.forward(&request).await?;
            return Ok(());
        }
        Some(Fault::Delay) => {
            shared.pause(DELAY_MAX).await;
            let answer = shared.forward(&request).await?;
            shared.pause(DELAY_MAX).await;
            answer
        }
    };
    client.write_all(&answer).await?;
    client.shutdown().await?;
    Ok(())
}

fn error(status: u16, code: &str) -> Vec<u8> {
    let body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>injected</Message></Error>");
    let head = format!("HTTP/1.1 {status} {code}\r\ncontent-type: application/xml\r\ncontent-length: {}\r\nconnection: close", body.len());
    format!("{head}\r\n\r\n{body}").into_bytes()
}

/// Reads a request with its body, and makes its connection end with its answer.
async fn read_request(client: &mut TcpStream) -> Result<Request> {
    let mut bytes = Vec::with_capacity(4 << 10);
    let head_bytes = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        ensure!(bytes.len() < HEAD_BYTES_MAX && client.read_buf(&mut bytes).await? > 0, "no request");
    };
    let mut body = bytes.split_off(head_bytes);
    let head = String::from_utf8(bytes).context("a request's head is text")?;
    let mut lines = head.trim_end().split("\r\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let (mut kept, mut length) = (vec![first.clone()], 0);
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse::<usize>().context("content-length")?,
            "transfer-encoding" => bail!("chunked requests are not forwarded"),
            "expect" => client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?,
            _ => {}
        }
        if !matches!(name.to_ascii_lowercase().as_str(), "expect" | "connection") {
            kept.push(line.to_owned());
        }
    }
    while body.len() < length {
        ensure!(client.read_buf(&mut body).await? > 0, "a request that breaks off");
    }
    kept.push("connection: close\r\n\r\n".to_owned());
    let mut forwarded = kept.join("\r\n").into_bytes();
    forwarded.extend_from_slice(&body);
    let mut words = first.split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    Ok(Request { method, path, bytes: forwarded })
}
