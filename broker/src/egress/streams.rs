//! Bodies that are open for sessions to read, part by part.
//!
//! They are connections, so they live here and nowhere else, and as long as they are read. A part that was answered last is answered again:
//! its answer may have been lost. A session that comes back too late, or to another process, is told that the rest is lost.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::Engine as _;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{BodyAnswer, BodyCall, CloseCall, ToolCall},
};
use prometheus::IntGauge;
use tokio::time::Instant;

use super::lock;
use crate::net::{Reader, network};

/// Open bodies of a broker. Each may have what was read of it before it was known to be large.
const OPEN_MAX: usize = 192;
/// Open bodies of one session.
const SESSION_OPEN_MAX: usize = 32;
/// Bytes of a part, at most.
const PART_BYTES_MAX: usize = 256 << 10;
/// How long a part may take to begin.
const PART_WAIT_MAX: Duration = Duration::from_secs(240);
/// How long a body stays open that nobody reads.
const UNREAD_MAX: Duration = Duration::from_secs(60);

type Key = (String, u64);

/// The open bodies. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    open: Arc<Mutex<HashMap<Key, Open>>>,
    gauge: IntGauge,
}

#[derive(Debug, Clone)]
struct Open {
    epoch: u64,
    last_read: Instant,
    /// Whether only its last part is left, in case that it is asked for again.
    over: bool,
    body: Arc<tokio::sync::Mutex<Body>>,
}

#[derive(Debug)]
struct Body {
    /// Absent once it is over.
    reader: Option<Reader>,
    /// The part that is answered next.
    next: u64,
    /// The part that was answered last.
    last: Option<BodyAnswer>,
}

impl Streams {
    pub(crate) fn new(gauge: IntGauge) -> Self {
        Self { open: Arc::default(), gauge }
    }

    /// Keeps a body open under its call's number.
    ///
    /// # Errors
    /// `QuotaExceeded` when too many are.
    pub(crate) fn open(&self, call: &ToolCall, reader: Reader) -> Result<(), ApiError> {
        let key = (call.session_uid.clone(), call.call);
        {
            let mut open = lock(&self.open);
            let own = |(uid, _): &Key| *uid == call.session_uid;
            if !make_room(&mut open, SESSION_OPEN_MAX, own) || !make_room(&mut open, OPEN_MAX, |_| true) {
                let message = format!(
                    "too many responses are open ({SESSION_OPEN_MAX} for a session, {OPEN_MAX} for a broker): read or cancel() the bodies of those before"
                );
                return Err(ApiError::new(ErrorCode::QuotaExceeded, message));
            }
            let body = Body { reader: Some(reader), next: 0, last: None };
            let body = Arc::new(tokio::sync::Mutex::new(body));
            open.insert(key.clone(), Open { epoch: call.epoch, last_read: Instant::now(), over: false, body });
            self.count(&open);
        }
        tokio::spawn(self.clone().close_unread(key));
        Ok(())
    }

    /// Closes a body once nobody has read it for too long.
    async fn close_unread(self, key: Key) {
        while let Some(again) = self.look(&key, Instant::now()) {
            tokio::time::sleep_until(again).await;
        }
    }

    /// Closes the body if it is unread for too long at this time; else, when to look again. `None`: it is closed.
    fn look(&self, key: &Key, now: Instant) -> Option<Instant> {
        let mut all = lock(&self.open);
        let open = all.get_mut(key)?;
        // A part that is being waited for is being read.
        if open.body.try_lock().is_err() {
            open.last_read = now;
        }
        let deadline = open.last_read + UNREAD_MAX;
        if now < deadline {
            return Some(deadline);
        }
        all.remove(key);
        self.count(&all);
        None
    }

    /// The part that is asked for.
    ///
    /// # Errors
    /// `SessionGone` for an epoch that is over.
    pub(crate) async fn read(&self, call: &BodyCall) -> Result<BodyAnswer, ApiError> {
        let key = (call.session_uid.clone(), call.stream);
        let Some(open) = self.touch(&key, call.epoch)? else { return Ok(BodyAnswer::Lost {}) };
        let mut body = open.body.lock().await;
        if call.part.checked_add(1) == Some(body.next) {
            return Ok(body.last.clone().unwrap_or(BodyAnswer::Lost {}));
        }
        if call.part != body.next {
            return Ok(BodyAnswer::Lost {});
        }
        let Some(reader) = &mut body.reader else { return Ok(BodyAnswer::Lost {}) };
        let answer = next_part(reader).await;
        let over = !matches!(answer, BodyAnswer::Part { last: false, .. });
        if over {
            body.reader = None;
        }
        body.next += 1;
        body.last = Some(answer.clone());
        drop(body);
        self.touch(&key, call.epoch)?;
        if let Some(open) = lock(&self.open).get_mut(&key) {
            open.over = over;
        }
        Ok(answer)
    }

    /// The body, marked as read now.
    fn touch(&self, key: &Key, epoch: u64) -> Result<Option<Open>, ApiError> {
        let mut all = lock(&self.open);
        let Some(open) = all.get_mut(key) else { return Ok(None) };
        if epoch < open.epoch {
            let message = format!("the session is at epoch {}; {epoch} is over", open.epoch);
            return Err(ApiError::new(ErrorCode::SessionGone, message));
        }
        open.epoch = epoch;
        open.last_read = Instant::now();
        Ok(Some(open.clone()))
    }

    /// Closes the body, unless a later epoch reads it.
    pub(crate) fn close(&self, call: &CloseCall) {
        let key = (call.session_uid.clone(), call.call);
        let mut open = lock(&self.open);
        if open.get(&key).is_some_and(|open| open.epoch <= call.epoch) {
            open.remove(&key);
            self.count(&open);
        }
    }

    fn count(&self, open: &HashMap<Key, Open>) {
        self.gauge.set(i64::try_from(open.len()).unwrap_or(i64::MAX));
    }
}

/// Whether there is room for one more of those that `counted` counts, once the one that has been over for longest is forgotten.
fn make_room(open: &mut HashMap<Key, Open>, max: usize, counted: impl Fn(&Key) -> bool) -> bool {
    if open.keys().filter(|key| counted(key)).count() < max {
        return true;
    }
    let over = open.iter().filter(|(key, open)| open.over && counted(key));
    let Some(oldest) = over.min_by_key(|(_, open)| open.last_read).map(|(key, _)| key.clone()) else { return false };
    open.remove(&oldest);
    true
}

/// What arrives next, and whatever is there with it.
async fn next_part(reader: &mut Reader) -> BodyAnswer {
    reader.fill(1, Instant::now() + PART_WAIT_MAX).await;
    if reader.has_some() {
        reader.fill(PART_BYTES_MAX, Instant::now()).await;
    }
    let bytes = reader.take(PART_BYTES_MAX);
    let last = reader.is_over();
    if bytes.is_empty() && !last {
        let waited = || network("UND_ERR_BODY_TIMEOUT", format!("nothing of the body arrived for {} s", PART_WAIT_MAX.as_secs()));
        return BodyAnswer::Failed(reader.failure().unwrap_or_else(waited));
    }
    BodyAnswer::Part { bytes: base64::engine::general_purpose::STANDARD.encode(bytes), last }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
