//! A stream of events as a body.

use axum::{
    body::Body as HttpBody,
    http::header,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use dormouse_crds::session::Ttl;
use dormouse_protocol::{ErrorCode, event::PROTOCOL_VERSION, session::Session};
use dormouse_seal::channel::Sealer;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    Config,
    shape::{Shaped, shaped},
};
use crate::{
    doors::{
        desk::Desk,
        lines::Events,
        sealed::{Envelope, Keys, ServerHello},
    },
    kernels::NDJSON,
    stream::Frames,
};

/// What `session_init` says.
pub(super) struct Begin {
    pub(super) session: Session,
    pub(super) ttl: Ttl,
    pub(super) config: Option<Config>,
    /// The `seq` behind which the events begin.
    pub(super) after: u64,
}

/// Events on their way to a client of this protocol.
pub(super) struct Stream {
    desk: Desk,
    hello: Option<ServerHello>,
    sealer: Option<Sealer>,
    events: Events,
}

impl Stream {
    pub(super) fn new(desk: Desk, keys: Option<Keys>, frames: Frames) -> Self {
        let (hello, sealer) = keys.map(|keys| (keys.hello, keys.sealer)).unzip();
        let events = Events::new(&desk, frames);
        Self { desk, hello, sealer, events }
    }

    /// The events up to `final`. Those of other clients' cells come between in a stream that is followed.
    pub(super) fn answer(self, begin: Option<Begin>) -> Response {
        let begin = begin.map(|begin| line(&self.first(&begin)));
        let lines = futures::stream::unfold((begin, Some(self)), |(begin, stream)| async move {
            if let Some(begin) = begin {
                return Some((Ok::<_, std::convert::Infallible>(begin), (None, stream)));
            }
            let mut stream = stream?;
            let (line, is_last) = stream.next().await?;
            Some((Ok(line), (None, (!is_last).then_some(stream))))
        });
        let headers = [
            (header::CONTENT_TYPE, NDJSON),
            (header::CACHE_CONTROL, "no-store"),
            (header::HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        (headers, HttpBody::from_stream(lines)).into_response()
    }

    fn first(&self, begin: &Begin) -> Value {
        let Begin { session, ttl, config, after } = begin;
        let seconds = i64::try_from(ttl.active_seconds).ok().filter(|seconds| *seconds > 0);
        let expires = seconds.and_then(|seconds| self.desk.app.router.clock().now().checked_add(SignedDuration::from_secs(seconds)).ok());
        let path = format!("/sessions/{}", session.id);
        let key_id = self.hello.as_ref().map(ServerHello::key_id);
        json!({
            "protocolVersion": PROTOCOL_VERSION, "sessionId": session.id, "seq": after, "type": "session_init",
            "payload": {
                "expiresAt": expires.map(|time| time.to_string()), "name": session.name, "config": config,
                "cancelUrl": format!("{path}/cancel"), "replayUrl": format!("{path}/stream"),
                "encryption": { "enabled": key_id.is_some(), "keyId": key_id, "serverHello": self.hello },
            },
        })
    }

    /// The next line, and whether it is the last.
    async fn next(&mut self) -> Option<(Bytes, bool)> {
        let event = self.events.next().await?;
        let Shaped { event, is_last } = shaped(&event, self.desk.app.router.clock().now())?;
        let Some(sealer) = &mut self.sealer else { return Some((line(&event), is_last)) };
        let about = |kind: &str, payload: Value| {
            let (session, seq) = (&event["sessionId"], &event["seq"]);
            json!({ "protocolVersion": PROTOCOL_VERSION, "sessionId": session, "seq": seq, "type": kind, "payload": payload })
        };
        Some(match Envelope::seal(sealer, event.to_string().as_bytes()) {
            Ok(envelope) => (line(&about("encrypted", json!(envelope))), is_last),
            Err(error) => {
                let payload = json!({ "code": ErrorCode::SizeAdmissionError, "message": format!("{error}, from this seq on") });
                (line(&about("error", payload)), true)
            }
        })
    }
}

fn line(event: &Value) -> Bytes {
    Bytes::from(format!("{event}\n"))
}
