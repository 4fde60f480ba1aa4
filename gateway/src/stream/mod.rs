//! Event streams that outlive the pod they come from: a stream that breaks is taken up again where it broke.

mod cell;
mod follow;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use dormouse_protocol::{
    ApiError, ErrorCode,
    event::{Event, EventBody, PROTOCOL_VERSION},
};
use futures::StreamExt as _;
use serde::Deserialize;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, sleep_until},
};

pub use self::{
    cell::{eval, run},
    follow::{Wanted, events},
};
use crate::{
    auth::review::Review,
    kernels::{KernelError, Lines, Piece},
};

/// Lines that a slow client may be behind before its pod has to wait.
pub const LINES_QUEUED_MAX: usize = 64;
/// A stream in which nothing happens says so this often: what lies between client and gateway need not take it for dead.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes of an event before its payload.
const HEAD_BYTES_MAX: usize = 4 << 10;

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
    /// What it may see them by.
    review: Review,
}

/// The client has gone, or its credential is over.
struct Closed;

impl Client {
    async fn send(&mut self, seq: u64, line: &[u8]) -> Result<(), Closed> {
        self.queue_begin(seq, frame(self.framing, seq, line)).await
    }

    /// Sends the begin of a line, or all of it.
    async fn queue_begin(&mut self, seq: u64, bytes: Bytes) -> Result<(), Closed> {
        match self.review.until(self.queue.send(bytes)).await {
            Ok(sent) => sent?,
            Err(over) => return self.end(&over).await,
        }
        self.last_seq = self.last_seq.max(seq);
        Ok(())
    }

    /// Waits for what comes next, and lets the client know that somebody does.
    async fn beating<T>(&mut self, next: impl Future<Output = T>) -> Result<T, Closed> {
        let mut next = std::pin::pin!(next);
        let mut beat_at = Instant::now() + HEARTBEAT_INTERVAL;
        loop {
            if let Err(over) = self.review.look().await {
                return self.end(&over).await;
            }
            tokio::select! {
                biased;
                came = &mut next => return Ok(came),
                () = sleep_until(beat_at) => {
                    self.beat()?;
                    beat_at = Instant::now() + HEARTBEAT_INTERVAL;
                }
                () = self.review.due() => {}
            }
        }
    }

    /// Tells that the credential is over.
    async fn end<T>(&mut self, over: &ApiError) -> Result<T, Closed> {
        self.send_error(over).await;
        Err(Closed)
    }

    /// A heartbeat is no entry of the log and repeats the last `seq`. A client that does not read needs none.
    fn beat(&self) -> Result<(), Closed> {
        let (session_id, seq) = (self.session.clone(), self.last_seq);
        let event = Event { protocol_version: PROTOCOL_VERSION, session_id, seq, body: EventBody::Heartbeat {} };
        let line = serde_json::to_vec(&event).map_err(|_| Closed)?;
        self.queue.try_send(frame(self.framing, seq, &line))
    }

    /// Tells that what was shown behind `seq` does not hold. Whatever comes next is new to the client.
    async fn restart(&mut self, seq: u64) -> Result<(), Closed> {
        let event = Event { protocol_version: PROTOCOL_VERSION, session_id: self.session.clone(), seq, body: EventBody::Restarted {} };
        let line = serde_json::to_vec(&event).map_err(|_| Closed)?;
        self.last_seq = 0;
        self.queue.send(frame(self.framing, seq, &line)).await
    }

    /// Sends a line whose first bytes have come; the others follow. A client that has seen half a line sees no other one.
    async fn send_long(&mut self, seq: u64, begin: &[u8], lines: &mut Lines) -> Result<(), Closed> {
        self.queue_begin(seq, before(self.framing, seq, begin).freeze()).await?;
        // Nothing can be told within a line, so that a credential which ends there cuts the stream off.
        while let Some(piece) = self.review.until(lines.next()).await.map_err(|_| Closed)? {
            match piece {
                Ok(Piece::More(bytes)) => self.review.until(self.queue.send(bytes)).await.map_err(|_| Closed)??,
                Ok(Piece::End) => return self.queue.send(Bytes::from_static(after(self.framing))).await,
                Ok(Piece::Line(_) | Piece::Begin(_)) | Err(_) => break,
            }
        }
        Err(Closed)
    }

    /// Tells why a stream ends early. Carries the last `seq` again, so that a client that goes on after it misses nothing.
    async fn send_error(&self, error: &ApiError) {
        let body = EventBody::Error { code: error.code, message: error.message.clone() };
        let event = Event { protocol_version: PROTOCOL_VERSION, session_id: self.session.clone(), seq: self.last_seq, body };
        if let Ok(line) = serde_json::to_vec(&event) {
            // A client that has gone needs no reason.
            let _ = self.queue.send(frame(self.framing, self.last_seq, &line)).await;
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

/// Why nothing more is forwarded.
enum Broke {
    Closed,
    Kernel(KernelError),
}

impl From<Closed> for Broke {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}
