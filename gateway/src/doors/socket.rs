//! What every WebSocket of a door does: it is pinged when nothing happens, ends with the gateway and with its credentials, and a client that reads
//! nothing is let go.

use std::time::Duration;

use axum::extract::{
    FromRequestParts as _, Request,
    ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade},
};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_seal::channel::{Opener, Sealer};
use dormouse_service::room::Holding;
use futures::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_tungstenite::tungstenite;
use tokio_util::sync::CancellationToken;

use super::{desk::Desk, sealed};
use crate::{DRAIN_TIMEOUT, auth::review::Review, body::BODY_BYTES_MAX, problem::Problem};

/// Bytes that a socket reads at a time. Each socket has so many, idle or not; what is longer takes more reads.
const READ_BUFFER_BYTES: usize = 1 << 10;
/// A socket on which nothing happens is pinged this often.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// How long a client may read nothing of what waits for it.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// Closed because the gateway stops.
const GOING_AWAY: u16 = 1001;
/// Closed because a frame is not text.
const NOT_TEXT: u16 = 1003;
/// Closed because a frame breaks the protocol.
const BROKEN: u16 = 1002;
/// Closed because text is not UTF-8.
const NOT_UTF8: u16 = 1007;
/// Closed because a message is too long.
const TOO_LONG: u16 = 1009;
/// Closed because its credentials are not good any more.
const POLICY: u16 = 1008;
/// Closed because nobody can say whether its credentials are good still.
const LATER: u16 = 1013;

/// The upgrade that a request asks for.
pub(super) async fn upgrade(desk: &Desk, request: Request) -> Result<WebSocketUpgrade, Problem> {
    let (mut parts, _) = request.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &desk.app).await.map_err(|rejection| {
        let message = format!("this path speaks WebSocket (RFC 6455) over HTTP/1.1: {rejection}");
        Problem(ApiError::new(ErrorCode::InvalidRequest, message))
    })?;
    Ok(upgrade.read_buffer_size(READ_BUFFER_BYTES).max_message_size(BODY_BYTES_MAX).max_frame_size(BODY_BYTES_MAX))
}

/// A message on its way to a client, and the room that it takes until it is written. In a box: a queue has room for dozens from the beginning.
pub(super) struct Outgoing(Box<(Message, Option<Holding>)>);

impl From<Message> for Outgoing {
    fn from(message: Message) -> Self {
        Self(Box::new((message, None)))
    }
}

impl Outgoing {
    /// A text, and the room of what it is made from.
    pub(super) fn text(value: &serde_json::Value, room: Option<&Holding>) -> Self {
        Self(Box::new((Message::Text(value.to_string().into()), room.filter(|room| room.is_large()).cloned())))
    }
}

/// Where messages to a client go.
pub(super) type Out = mpsc::Sender<Outgoing>;

/// A socket that is served.
pub(super) struct Connection {
    incoming: SplitStream<WebSocket>,
    out: Out,
    writing: JoinHandle<()>,
    shutdown: CancellationToken,
    /// Opens the client's frames, where they are sealed.
    opener: Option<Box<Opener>>,
    /// Whether the gateway stops.
    leaves: bool,
}

/// How a socket is served.
pub(super) struct Serving {
    /// Messages that may wait for a slow client.
    pub(super) queued_max: usize,
    /// The keys of frames that are sealed.
    pub(super) keys: Option<(Box<Sealer>, Box<Opener>)>,
}

impl Connection {
    /// Serves a socket. What is sent is written, as long as the credential is good.
    pub(super) fn open(socket: WebSocket, desk: &Desk, serving: Serving) -> (Self, Out) {
        let (sink, incoming) = socket.split();
        let (out, outgoing) = mpsc::channel(serving.queued_max);
        let (sealer, opener) = serving.keys.unzip();
        let writing = tokio::spawn(write(sink, outgoing, sealer, desk.review.clone()));
        (Self { incoming, out: out.clone(), writing, shutdown: desk.app.shutdown.clone(), opener, leaves: false }, out)
    }

    /// The next text of the client. `None`: it has left, or has to.
    pub(super) async fn next(&mut self) -> Option<Utf8Bytes> {
        let frame = loop {
            let came = tokio::select! {
                came = self.incoming.next() => came,
                () = self.shutdown.cancelled() => {
                    self.leaves = true;
                    return None;
                }
                () = self.out.closed() => return None,
            };
            match came {
                Some(Ok(Message::Text(text))) => match self.opener.as_mut().map(|opener| sealed::open(opener, &text)) {
                    None => return Some(text),
                    Some(Ok(opened)) => return Some(opened.into()),
                    Some(Err(told)) => break told,
                },
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Binary(_))) => break close(NOT_TEXT, "frames are JSON in text"),
                Some(Err(error)) => match fault(error) {
                    Some(told) => break told,
                    None => return None,
                },
                Some(Ok(Message::Close(_))) | None => return None,
            }
        };
        let _ = self.out.send(Message::Close(Some(frame)).into()).await;
        None
    }

    /// Ends the cells of a client, and closes. Whoever else may send than `cells` must have ended. When the gateway stops, the cells that run or wait
    /// have the time that requests have; otherwise nobody hears of them any more, and what has begun goes on in its session.
    pub(super) async fn end(self, mut cells: JoinHandle<()>) {
        let mut have_ended = false;
        if self.leaves {
            let ending = async {
                tokio::select! {
                    _ = &mut cells => true,
                    () = self.out.closed() => false,
                }
            };
            have_ended = tokio::time::timeout(DRAIN_TIMEOUT, ending).await.unwrap_or(false);
        }
        if !have_ended {
            cells.abort();
            let _ = cells.await;
        }
        self.close().await;
    }

    /// Waits for the cells of a client, who may have left: then nothing is sent any more, and the cells go on. When the gateway stops, they have the time
    /// that requests have.
    pub(super) async fn outlive(&mut self, mut cells: JoinHandle<()>) {
        if !self.leaves {
            // Ends the writing, though the cells could send.
            let _ = self.out.send(Message::Close(None).into()).await;
            tokio::select! {
                _ = &mut cells => return,
                () = self.shutdown.cancelled() => {}
            }
        }
        if tokio::time::timeout(DRAIN_TIMEOUT, &mut cells).await.is_err() {
            cells.abort();
            let _ = cells.await;
        }
    }

    /// Waits until all is written that was sent, and the client's close is answered. Nobody else may send any more.
    pub(super) async fn close(self) {
        if self.leaves {
            let _ = self.out.send(Message::Close(Some(close(GOING_AWAY, "the gateway stops: connect again"))).into()).await;
        }
        drop(self.out);
        let _ = self.writing.await;
    }
}

/// What a client is told whose frame cannot be read; nothing where nobody is there to be told.
fn fault(error: axum::Error) -> Option<CloseFrame> {
    match *error.into_inner().downcast::<tungstenite::Error>().ok()? {
        tungstenite::Error::Utf8(_) => Some(close(NOT_UTF8, "text is UTF-8")),
        tungstenite::Error::Capacity(_) => Some(close(TOO_LONG, "a message has at most 8 MiB")),
        tungstenite::Error::Protocol(_) => Some(close(BROKEN, "a frame is as RFC 6455 has it")),
        _ => None,
    }
}

/// What a client is told whose credential is over.
fn refusal(over: &ApiError) -> CloseFrame {
    match over.code {
        ErrorCode::Unauthenticated => close(POLICY, "the credentials are not good any more"),
        _ => close(LATER, "the credentials cannot be looked at again: connect later"),
    }
}

fn close(code: u16, reason: &'static str) -> CloseFrame {
    CloseFrame { code, reason: reason.into() }
}

async fn write(
    mut sink: SplitSink<WebSocket, Message>,
    mut outgoing: mpsc::Receiver<Outgoing>,
    mut sealer: Option<Box<Sealer>>,
    mut review: Review,
) {
    loop {
        let next = review.until(tokio::time::timeout(PING_INTERVAL, outgoing.recv())).await;
        let next = match next {
            Ok(next) => review.look().await.map(|()| next),
            over => over,
        };
        let (message, room) = match next {
            Ok(Ok(Some(Outgoing(sent)))) => *sent,
            Ok(Ok(None)) => break,
            Ok(Err(_)) => (Message::Ping(Default::default()), None),
            Err(over) => (Message::Close(Some(refusal(&over))), None),
        };
        let message = match (&message, &mut sealer) {
            (Message::Text(text), Some(sealer)) => match sealed::seal(sealer, text) {
                Ok(text) => Message::Text(text.into()),
                Err(told) => Message::Close(Some(told)),
            },
            _ => message,
        };
        let last = matches!(message, Message::Close(_));
        let sending = tokio::time::timeout(SEND_TIMEOUT, sink.send(message));
        let sent = if last { Ok(sending.await) } else { review.until(sending).await };
        match sent {
            Ok(Ok(Ok(()))) if !last => drop(room),
            Ok(_) => break,
            // Within a message no close can be sent.
            Err(_) => return,
        }
    }
    // Answers a close, or sends one.
    let _ = tokio::time::timeout(SEND_TIMEOUT, sink.close()).await;
}
