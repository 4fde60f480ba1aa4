//! Events of a stream, whole: long ones come in several frames, and have room for that.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dormouse_protocol::{
    ApiError, ErrorCode,
    event::{Event, EventBody, PROTOCOL_VERSION},
};
use dormouse_service::room::{Holding, SMALL_BYTES_MAX, json_weight};
use serde::Deserialize;

use super::desk::Desk;
use crate::{rooms::Rooms, stream::Frames};

/// Largest event that a door takes apart, in bytes, with what its values take.
pub(crate) const EVENT_BYTES_MAX: usize = 32 << 20;
/// How long it takes until a session whose events ended is followed again.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);
/// Bytes of an event before its payload, and that field's name.
const HEAD_BYTES_MAX: usize = 4 << 10;
const PAYLOAD: &[u8] = b"\"payload\":";

/// Reads events.
pub(crate) struct Events {
    frames: Frames,
    rest: BytesMut,
    /// Of `rest`, how much has been looked through: a long event comes in many frames.
    searched: usize,
    rooms: Rooms,
    /// Who they are for.
    user: String,
    /// What the event takes that was read last.
    room: Holding,
    /// Whether one that cannot be read whole is told of as an error.
    tells: bool,
    ended: bool,
}

impl Events {
    /// Events for a client: one that cannot be read whole ends them with an event that says why.
    pub(crate) fn new(desk: &Desk, frames: Frames) -> Self {
        let (rooms, user) = (desk.app.rooms.clone(), desk.caller.user.clone());
        let room = rooms.answer_to(&user);
        Self { frames, rest: BytesMut::new(), searched: 0, rooms, user, room, tells: true, ended: false }
    }

    /// Events that are only looked at: one that cannot be read whole ends them, and who looks begins again.
    pub(crate) fn looking(desk: &Desk, frames: Frames) -> Self {
        Self { tells: false, ..Self::new(desk, frames) }
    }

    /// What the last event takes of the room for answers: whoever passes it on keeps that until it has left.
    pub(crate) fn room(&self) -> &Holding {
        &self.room
    }

    /// The next event, as its line; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        if self.room.is_large() {
            self.room = self.rooms.answer_to(&self.user);
        }
        while !self.ended {
            let unseen = self.rest.get(self.searched..).unwrap_or_default();
            if let Some(at) = unseen.iter().position(|byte| *byte == b'\n') {
                let end = self.searched + at;
                self.searched = 0;
                let mut line = self.rest.split_to(end + 1);
                if line.len() > SMALL_BYTES_MAX {
                    // What follows is not to keep the memory of a long line.
                    self.rest = BytesMut::from(self.rest.as_ref());
                }
                line.truncate(end);
                return match self.fits(json_weight(&line)).await {
                    Ok(()) => Some(line.freeze()),
                    Err(error) => self.instead(&line, error),
                };
            }
            self.searched = self.rest.len();
            let Some(frame) = self.frames.recv().await else { break };
            if let Err(error) = self.fits(self.rest.len() + frame.bytes.len()).await {
                let begin = std::mem::take(&mut self.rest);
                return self.instead(&begin, error);
            }
            self.rest.extend_from_slice(&frame.bytes);
        }
        None
    }

    async fn fits(&self, bytes: usize) -> Result<(), ApiError> {
        if bytes <= EVENT_BYTES_MAX {
            return self.room.grow_to(bytes).await;
        }
        let message = format!(
            "an event has more than {EVENT_BYTES_MAX} bytes, with 32 for each value in it: put what is large into a file, or read it over HTTP"
        );
        Err(ApiError::new(ErrorCode::OutputLimitError, message))
    }

    fn instead(&mut self, begin: &[u8], error: ApiError) -> Option<Bytes> {
        self.ended = true;
        self.frames.close();
        if self.tells { instead(begin, error) } else { None }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    session_id: String,
    seq: u64,
}

/// What is told in place of an event that begins so. A client that goes on behind it misses nothing.
fn instead(begin: &[u8], error: ApiError) -> Option<Bytes> {
    let near = begin.get(..begin.len().min(HEAD_BYTES_MAX)).unwrap_or_default();
    let head = near.windows(PAYLOAD.len()).position(|window| window == PAYLOAD).and_then(|at| near.get(..at)).unwrap_or_default();
    let Head { session_id, seq } = serde_json::from_slice(&[head, PAYLOAD, b"0}"].concat()).unwrap_or_default();
    let body = EventBody::Error { code: error.code, message: error.message };
    let event = Event { protocol_version: PROTOCOL_VERSION, session_id, seq: seq.saturating_sub(1), body };
    serde_json::to_vec(&event).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_place_of_an_event_stands_why_and_from_where_to_go_on() {
        let begin = format!(r#"{{"protocolVersion":1,"sessionId":"s_1","seq":7,"type":"log","payload":{{"text":"{}"#, "x".repeat(9000));
        let told = instead(begin.as_bytes(), ApiError::new(ErrorCode::CapacityExhausted, "later")).unwrap();
        let event: Event = serde_json::from_slice(&told).unwrap();
        assert_eq!((event.session_id.as_str(), event.seq), ("s_1", 6));
        assert!(matches!(event.body, EventBody::Error { code: ErrorCode::CapacityExhausted, .. }));
    }
}
