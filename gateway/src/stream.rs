//! Event streams that outlive the pod they come from: a stream that breaks is taken up again where it broke.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use dormouse_lifecycle::attempts::pause;
use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::EvalRequest,
    event::{Event, EventBody, PROTOCOL_VERSION},
    kernel::{EvalCall, EventsCall},
    session::session_id,
};
use futures::StreamExt as _;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    directory::Key,
    in_flight::{Asleep, InFlight, means_elsewhere},
    kernels::{KernelError, Lines, Piece},
    metrics::Source,
    router::{Route, Router},
};

/// Lines that a slow client may be behind before its pod has to wait.
pub const LINES_QUEUED_MAX: usize = 64;
/// A stream in which nothing happens says so this often: what lies between client and gateway need not take it for dead.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes of an event before its payload.
const HEAD_BYTES_MAX: usize = 4 << 10;
/// While a followed session has no process, the directory is looked at this often at least.
const PLACE_POLL: Duration = Duration::from_secs(5);

/// How lines are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One JSON object a line.
    Ndjson,
    /// Server-sent events, with `seq` as the id.
    Sse,
}

/// Bytes that wait for a slow client before its pod has to wait.
pub const QUEUED_BYTES_MAX: usize = 128 << 10;

/// Frames on their way to a client.
pub type Frames = mpsc::Receiver<Frame>;

/// Bytes for a client, and the room that they take in its queue.
#[derive(Debug)]
pub struct Frame {
    /// The bytes.
    pub bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

/// A queue to a client: bounded by its bytes and by its frames.
#[derive(Clone)]
struct Queue {
    frames: mpsc::Sender<Frame>,
    room: Arc<Semaphore>,
}

impl Queue {
    fn new() -> (Self, Frames) {
        let (frames, receiver) = mpsc::channel(LINES_QUEUED_MAX);
        (Self { frames, room: Arc::new(Semaphore::new(QUEUED_BYTES_MAX)) }, receiver)
    }

    /// Sends if there is room; leaves it if there is none.
    fn try_send(&self, bytes: Bytes) -> Result<(), Closed> {
        let Ok(room) = u32::try_from(bytes.len()) else { return Ok(()) };
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(room) else { return Ok(()) };
        match self.frames.try_send(Frame { bytes, _room: room }) {
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Closed),
        }
    }

    async fn send(&self, bytes: Bytes) -> Result<(), Closed> {
        // One that is larger than the whole queue waits until that is empty.
        let room = u32::try_from(bytes.len().min(QUEUED_BYTES_MAX)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(room).await.map_err(|_| Closed)?;
        self.frames.send(Frame { bytes, _room: room }).await.map_err(|_| Closed)
    }
}

/// What of an event's line the gateway looks at.
#[derive(Debug, Deserialize)]
struct Head {
    seq: u64,
    #[serde(rename = "type")]
    type_: String,
    #[serde(default)]
    payload: Payload,
}

#[derive(Debug, Default, Deserialize)]
struct Payload {
    code: Option<ErrorCode>,
    message: Option<String>,
}

impl Head {
    fn read(line: &[u8]) -> Result<Self, KernelError> {
        serde_json::from_slice(line).map_err(|error| KernelError::Garbled(error.to_string()))
    }

    /// What stands before the payload, which is the last of an event's fields.
    fn begin(begin: &[u8]) -> Result<Self, KernelError> {
        let field = b"\"payload\":";
        let near = begin.get(..begin.len().min(HEAD_BYTES_MAX)).unwrap_or_default();
        let at = near.windows(field.len()).position(|window| window == field);
        let head = at.and_then(|at| near.get(..at)).ok_or_else(|| KernelError::Garbled("a long line that is no event".to_owned()))?;
        Self::read(&[head, b"\"payload\":{}}"].concat())
    }
}

/// Reads on to the end of a line that the client has seen before.
async fn skip(lines: &mut Lines) -> Result<(), KernelError> {
    while let Some(piece) = lines.next().await {
        match piece? {
            Piece::More(_) => {}
            Piece::End => return Ok(()),
            Piece::Line(_) | Piece::Begin(_) => break,
        }
    }
    Err(KernelError::CutOff)
}

/// The client's end: what it has seen, and how it wants to see it.
#[derive(Clone)]
struct Client {
    queue: Queue,
    framing: Framing,
    last_seq: u64,
    /// The id of the session whose events it sees.
    session: String,
}

/// The client has gone, or the gateway stops.
struct Closed;

impl Client {
    async fn send(&mut self, seq: u64, line: &[u8]) -> Result<(), Closed> {
        self.last_seq = self.last_seq.max(seq);
        self.queue.send(frame(self.framing, seq, line)).await
    }

    /// Waits for what comes next, and lets the client know that somebody does.
    async fn beating<T>(&mut self, next: impl Future<Output = T>) -> Result<T, Closed> {
        let mut next = std::pin::pin!(next);
        loop {
            tokio::select! {
                biased;
                came = &mut next => return Ok(came),
                () = tokio::time::sleep(HEARTBEAT_INTERVAL) => self.beat()?,
            }
        }
    }

    /// A heartbeat is no entry of the log and repeats the last `seq`. A client that does not read needs none.
    fn beat(&self) -> Result<(), Closed> {
        let (session_id, seq) = (self.session.clone(), self.last_seq);
        let event = Event { protocol_version: PROTOCOL_VERSION, session_id, seq, body: EventBody::Heartbeat {} };
        let line = serde_json::to_vec(&event).map_err(|_| Closed)?;
        self.queue.try_send(frame(self.framing, seq, &line))
    }

    /// Sends a line whose first bytes have come; the others follow. A client that has seen half a line sees no other one.
    async fn send_long(&mut self, seq: u64, begin: &[u8], lines: &mut Lines) -> Result<(), Closed> {
        self.last_seq = self.last_seq.max(seq);
        self.queue.send(before(self.framing, seq, begin).freeze()).await?;
        while let Some(piece) = lines.next().await {
            match piece {
                Ok(Piece::More(bytes)) => self.queue.send(bytes).await?,
                Ok(Piece::End) => return self.queue.send(Bytes::from_static(after(self.framing))).await,
                Ok(Piece::Line(_) | Piece::Begin(_)) | Err(_) => break,
            }
        }
        Err(Closed)
    }

    /// Tells why a stream ends early. Carries the last `seq` again, so that a client that goes on after it misses nothing.
    async fn send_error(&mut self, error: &ApiError) {
        let body = EventBody::Error { code: error.code, message: error.message.clone() };
        let event = Event { protocol_version: PROTOCOL_VERSION, session_id: self.session.clone(), seq: self.last_seq, body };
        if let Ok(line) = serde_json::to_vec(&event) {
            // A client that has gone needs no reason.
            let _ = self.send(self.last_seq, &line).await;
        }
    }
}

fn frame(framing: Framing, seq: u64, line: &[u8]) -> Bytes {
    let mut frame = before(framing, seq, line);
    frame.extend_from_slice(after(framing));
    frame.freeze()
}

/// A frame up to the end of what there is of its line.
fn before(framing: Framing, seq: u64, line: &[u8]) -> BytesMut {
    let mut frame = BytesMut::with_capacity(line.len() + 40);
    if framing == Framing::Sse {
        frame.extend_from_slice(format!("id: {seq}\ndata: ").as_bytes());
    }
    frame.extend_from_slice(line);
    frame
}

fn after(framing: Framing) -> &'static [u8] {
    match framing {
        Framing::Ndjson => b"\n",
        Framing::Sse => b"\n\n",
    }
}

/// Runs a cell and streams its events up to `final`. An error here comes before the first event.
pub async fn eval(router: &Router, key: &Key, eval: EvalRequest, request_id: String) -> Result<Frames, ApiError> {
    Cell { router: router.clone(), key: key.clone(), eval, request_id, run: false }.begin().await
}

/// The same of a cell that is a run: the first event comes when it is stored that the cell will run to its end, whoever waits.
pub async fn run(router: &Router, key: &Key, eval: EvalRequest, request_id: String) -> Result<Frames, ApiError> {
    Cell { router: router.clone(), key: key.clone(), eval, request_id, run: true }.begin().await
}

/// A cell whose events are streamed.
struct Cell {
    router: Router,
    key: Key,
    eval: EvalRequest,
    request_id: String,
    run: bool,
}

impl Cell {
    async fn begin(self) -> Result<Frames, ApiError> {
        let mut in_flight = InFlight::new(Asleep::Refuse, Source::Request);
        let (lines, route) = self.open(&mut in_flight).await?;
        let (queue, receiver) = Queue::new();
        let client = Client { queue, framing: Framing::Ndjson, last_seq: 0, session: session_id(&route.record.uid) };
        tokio::spawn(self.pump(in_flight, client, lines, route));
        Ok(receiver)
    }

    async fn open(&self, in_flight: &mut InFlight) -> Result<(Lines, Route), ApiError> {
        let opened = self.router.send_claiming(in_flight, &self.key, |pod, assignment, unwritten| async move {
            let call = EvalCall { assignment, eval: self.eval.clone(), request_id: self.request_id.clone(), run: self.run };
            self.router.kernels().eval_events(&pod, &call, unwritten).await
        });
        opened.await
    }

    /// Forwards until the end; a stream that breaks is opened again with the same idempotency key.
    async fn pump(self, mut in_flight: InFlight, mut client: Client, mut lines: Lines, mut route: Route) {
        loop {
            let broke = match forward(&mut lines, &mut client).await {
                Ok(()) | Err(Broke::Closed) => return,
                Err(Broke::Kernel(error)) => error,
            };
            let again = async {
                self.router.failed(&mut in_flight, &route, broke).await?;
                self.open(&mut in_flight).await
            };
            match client.beating(again).await {
                Ok(Ok(opened)) => (lines, route) = opened,
                Ok(Err(error)) => return client.send_error(&error).await,
                Err(Closed) => return,
            }
        }
    }
}

enum Broke {
    Closed,
    Kernel(KernelError),
}

impl From<Closed> for Broke {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

/// Forwards the events of a cell. What the client has seen before a break is left out, but for the end, which it cannot have seen.
async fn forward(lines: &mut Lines, client: &mut Client) -> Result<(), Broke> {
    while let Some(piece) = client.beating(lines.next()).await? {
        let line = match piece.map_err(Broke::Kernel)? {
            Piece::Line(line) => line,
            Piece::Begin(begin) => {
                let head = Head::begin(&begin).map_err(Broke::Kernel)?;
                let is_end = matches!(head.type_.as_str(), "error" | "final");
                if is_end || head.seq > client.last_seq {
                    client.send_long(head.seq, &begin, lines).await?;
                } else {
                    skip(lines).await.map_err(Broke::Kernel)?;
                }
                if is_end {
                    return Ok(());
                }
                continue;
            }
            Piece::More(_) | Piece::End => return Err(Broke::Kernel(KernelError::CutOff)),
        };
        let head = Head::read(&line).map_err(Broke::Kernel)?;
        match (head.type_.as_str(), head.payload.code) {
            ("error", Some(code)) if means_elsewhere(code) => {
                let message = head.payload.message.unwrap_or_default();
                return Err(Broke::Kernel(KernelError::Refused(ApiError::new(code, message))));
            }
            ("error" | "final", _) => return Ok(client.send(head.seq, &line).await?),
            _ if head.seq > client.last_seq => client.send(head.seq, &line).await?,
            _ => {}
        }
    }
    Err(Broke::Kernel(KernelError::CutOff))
}

/// What a client wants to see of a session's events.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Only events with a greater `seq`; `None` for all that are kept.
    pub after: Option<u64>,
    /// Whether to go on with live events after the replay.
    pub follow: bool,
    /// How.
    pub framing: Framing,
}

/// Streams a session's events. Does not keep it awake, and does not wake it again when it has gone to sleep.
pub async fn events(router: &Router, key: &Key, wanted: Wanted, shutdown: CancellationToken) -> Result<Frames, ApiError> {
    let sent = router.send(key, Asleep::Accept, Source::Request, |pod, assignment| async move {
        router.kernels().events(&pod, &EventsCall { assignment, after: wanted.after, follow: wanted.follow }).await
    });
    let (lines, route) = sent.await?;
    let (queue, receiver) = Queue::new();
    let session = session_id(&route.record.uid);
    let follower = Follower {
        router: router.clone(),
        key: key.clone(),
        uid: route.record.uid.clone(),
        client: Client { queue, framing: wanted.framing, last_seq: wanted.after.unwrap_or(0), session },
        wanted,
    };
    tokio::spawn(async move { shutdown.run_until_cancelled(follower.pump(lines, route.placement.epoch)).await });
    Ok(receiver)
}

/// A client that follows a session.
struct Follower {
    router: Router,
    key: Key,
    uid: String,
    client: Client,
    wanted: Wanted,
}

impl Follower {
    async fn pump(mut self, mut lines: Lines, mut epoch: u64) {
        loop {
            let gone = self.client.queue.frames.clone();
            let forwarded = tokio::select! {
                biased;
                () = gone.closed() => return,
                forwarded = self.forward(&mut lines) => forwarded,
            };
            let ended_well = match forwarded {
                Ok(()) => true,
                Err(Broke::Closed) => return,
                Err(Broke::Kernel(error)) => {
                    tracing::debug!(session = %self.key, %error, "an event stream broke");
                    false
                }
            };
            if ended_well && !self.wanted.follow {
                return;
            }
            let mut client = self.client.clone();
            let reopened = tokio::select! {
                biased;
                () = gone.closed() => return,
                reopened = client.beating(self.reopen(epoch)) => reopened,
            };
            let Ok(reopened) = reopened else { return };
            match reopened {
                Ok(opened) => (lines, epoch) = opened,
                Err(error) => return self.client.send_error(&error).await,
            }
        }
    }

    async fn forward(&mut self, lines: &mut Lines) -> Result<(), Broke> {
        while let Some(piece) = self.client.beating(lines.next()).await? {
            let line = match piece.map_err(Broke::Kernel)? {
                Piece::Line(line) => line,
                Piece::Begin(begin) => {
                    let head = Head::begin(&begin).map_err(Broke::Kernel)?;
                    if head.seq > self.client.last_seq {
                        self.client.send_long(head.seq, &begin, lines).await?;
                    } else {
                        skip(lines).await.map_err(Broke::Kernel)?;
                    }
                    continue;
                }
                Piece::More(_) | Piece::End => return Err(Broke::Kernel(KernelError::CutOff)),
            };
            let head = Head::read(&line).map_err(Broke::Kernel)?;
            // A heartbeat is no entry of the log and repeats the last `seq`.
            if head.seq > self.client.last_seq || head.type_ == "heartbeat" {
                self.client.send(head.seq, &line).await?;
            }
        }
        Ok(())
    }

    /// Waits for the process that has the session next; the one that had it at `epoch` may still be it.
    async fn reopen(&mut self, epoch: u64) -> Result<(Lines, u64), ApiError> {
        let directory = Arc::clone(self.router.directory());
        let mut changes = directory.changes();
        let (mut failed_epoch, mut attempts) = (epoch.saturating_sub(1), 0);
        loop {
            let record = self.router.find(&self.key).await?;
            if record.uid != self.uid {
                return Err(ApiError::new(ErrorCode::SessionNotFound, "the session was deleted; another has its name"));
            }
            if let Some(route) = self.router.placed(&record, failed_epoch) {
                // Behind what has been seen, if anything was.
                let after = if self.client.last_seq == 0 { self.wanted.after } else { Some(self.client.last_seq) };
                let call = EventsCall { assignment: route.assignment(), after, follow: self.wanted.follow };
                match self.router.kernels().events(&route.pod, &call).await {
                    Ok(lines) => return Ok((lines, route.placement.epoch)),
                    Err(KernelError::Refused(refusal)) if !means_elsewhere(refusal.code) => return Err(refusal),
                    Err(KernelError::Refused(_)) => failed_epoch = route.placement.epoch,
                    Err(error) => tracing::debug!(session = %self.key, %error, "an event stream cannot be taken up yet"),
                }
                attempts += 1;
                tokio::time::sleep(pause(attempts)).await;
            } else {
                // A change, a lag and the end of the wait mean the same: look again.
                let _ = tokio::time::timeout(PLACE_POLL, changes.recv()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> (Client, Frames) {
        let (queue, receiver) = Queue::new();
        (Client { queue, framing: Framing::Ndjson, last_seq: 0, session: "s_1".to_owned() }, receiver)
    }

    fn lines(lines: &[&'static str]) -> Lines {
        let lines: Vec<_> = lines.iter().map(|line| Ok(Piece::Line(Bytes::from_static(line.as_bytes())))).collect();
        futures::stream::iter(lines).boxed()
    }

    #[tokio::test]
    async fn a_stream_that_is_taken_up_again_repeats_nothing_and_loses_no_end() {
        let (mut client, mut frames) = client();
        let first = [r#"{"seq":1,"type":"log","payload":{}}"#, r#"{"seq":2,"type":"log","payload":{}}"#];
        assert!(matches!(forward(&mut lines(&first), &mut client).await, Err(Broke::Kernel(KernelError::CutOff))));
        let second = [r#"{"seq":2,"type":"log","payload":{}}"#, r#"{"seq":2,"type":"final","payload":{"ok":true}}"#];
        assert!(forward(&mut lines(&second), &mut client).await.is_ok());
        drop(client);
        let mut seen = Vec::new();
        while let Some(frame) = frames.recv().await {
            let head = Head::read(&frame.bytes).unwrap();
            seen.push((head.seq, head.type_));
        }
        assert_eq!(seen, [(1, "log".to_owned()), (2, "log".to_owned()), (2, "final".to_owned())]);
    }

    #[tokio::test]
    async fn an_error_that_means_elsewhere_is_not_the_clients() {
        let (mut client, mut frames) = client();
        let gone = [r#"{"seq":1,"type":"error","payload":{"code":"SessionGone","message":"draining"}}"#];
        let broke = forward(&mut lines(&gone), &mut client).await;
        assert!(matches!(broke, Err(Broke::Kernel(KernelError::Refused(refusal))) if refusal.code == ErrorCode::SessionGone));
        drop(client);
        assert!(frames.recv().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_in_which_nothing_happens_says_so_at_most_every_15_seconds() {
        let (mut client, mut frames) = client();
        let began = tokio::time::Instant::now();
        let events = [r#"{"seq":7,"type":"log","payload":{}}"#, r#"{"seq":8,"type":"final","payload":{"ok":true}}"#];
        let slow = futures::stream::iter(events).then(|line| async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(Piece::Line(Bytes::from_static(line.as_bytes())))
        });
        let forwarding = tokio::spawn(async move { forward(&mut slow.boxed(), &mut client).await.is_ok() });
        let (mut last, mut beats, mut kinds) = (began, 0, Vec::new());
        while let Some(frame) = frames.recv().await {
            let now = tokio::time::Instant::now();
            assert!(now - last <= Duration::from_secs(15), "{:?}", now - last);
            last = now;
            let head = Head::read(&frame.bytes).unwrap();
            if head.type_ == "heartbeat" {
                beats += 1;
                assert_eq!(head.seq, if kinds.is_empty() { 0 } else { 7 }, "it repeats the last position");
            } else {
                kinds.push(head.type_);
            }
        }
        assert!(forwarding.await.unwrap() && beats >= 8, "{beats}");
        assert_eq!(kinds, ["log", "final"]);
    }

    fn long(seq: u64, end: bool) -> Lines {
        let begin =
            format!(r#"{{"protocolVersion":1,"sessionId":"s_1","seq":{seq},"type":"final","payload":{{"text":"{}"#, "x".repeat(300_000));
        let mut pieces = vec![Ok(Piece::Begin(begin.into())), Ok(Piece::More(Bytes::from_static(b"\"}}")))];
        pieces.extend(end.then_some(Ok(Piece::End)));
        futures::stream::iter(pieces).boxed()
    }

    /// What a client sees that reads to the end.
    async fn read(mut frames: Frames) -> Vec<u8> {
        let mut seen = Vec::new();
        while let Some(frame) = frames.recv().await {
            seen.extend_from_slice(&frame.bytes);
        }
        seen
    }

    #[tokio::test]
    async fn a_long_line_arrives_as_it_left() {
        let (mut client, frames) = client();
        let reading = tokio::spawn(read(frames));
        assert!(forward(&mut long(3, true), &mut client).await.is_ok());
        assert_eq!(client.last_seq, 3);
        drop(client);
        let seen = reading.await.unwrap();
        assert!(seen.ends_with(b"xx\"}}\n"));
        assert_eq!(Head::read(seen.trim_ascii_end()).unwrap().type_, "final");
    }

    #[tokio::test]
    async fn a_long_line_that_breaks_ends_the_stream() {
        let (mut client, frames) = client();
        tokio::spawn(read(frames));
        assert!(matches!(forward(&mut long(3, false), &mut client).await, Err(Broke::Closed)));
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_sent_so_many_bytes_and_no_more() {
        let (mut client, mut frames) = client();
        let line = vec![b'x'; QUEUED_BYTES_MAX / 4];
        let mut sent = 0;
        while futures::FutureExt::now_or_never(client.send(sent, &line)).is_some() {
            sent += 1;
        }
        assert_eq!(sent, 3, "lines, each with its newline");
        drop(frames.recv().await);
        assert!(futures::FutureExt::now_or_never(client.send(sent, &line)).is_some());
    }

    #[test]
    fn sse_frames_carry_the_sequence_as_their_id() {
        assert_eq!(frame(Framing::Sse, 7, b"{}"), "id: 7\ndata: {}\n\n");
    }
}
