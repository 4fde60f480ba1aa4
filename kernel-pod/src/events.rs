//! A session's event log: a bounded ring in memory, and those who follow it.
//!
//! The position (`seq`) rides in the head, the events do not: a replay reaches back as far as this process has seen the session.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use dormouse_protocol::event::{Event, EventBody, PROTOCOL_VERSION};
use tokio::sync::broadcast;

/// Events that are kept for replay.
const RETAINED_EVENTS_MAX: usize = 1024;

/// Bytes of text that are kept for replay.
const RETAINED_BYTES_MAX: usize = 1 << 20;

/// Events that a slow follower may lag behind before it is cut off.
const FOLLOWER_EVENTS_MAX: usize = 1024;

/// How far a restore jumps ahead of the stored position, so that events that were shown but never committed keep their numbers to themselves.
pub(crate) const RESTORE_SEQ_GAP: u64 = 1 << 16;

/// The log of one session. Shared between its actor, which writes, and the streams that read.
#[derive(Debug)]
pub(crate) struct EventLog {
    session_id: String,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    seq: u64,
    ring: VecDeque<Event>,
    bytes: usize,
    /// To those who follow, since somebody did: a channel has its room for all events at once, which few sessions need.
    live: Option<broadcast::Sender<Event>>,
}

impl EventLog {
    /// An empty log of the session with this public id.
    pub(crate) fn new(session_id: String) -> Self {
        Self { session_id, inner: Mutex::new(Inner { seq: 0, ring: VecDeque::new(), bytes: 0, live: None }) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The position of the last event.
    pub(crate) fn seq(&self) -> u64 {
        self.lock().seq
    }

    /// Goes on behind `seq` at least.
    pub(crate) fn resume_after(&self, seq: u64) {
        let mut inner = self.lock();
        inner.seq = inner.seq.max(seq);
    }

    /// Appends an event and hands it to the followers.
    pub(crate) fn publish(&self, body: EventBody) -> Event {
        let mut inner = self.lock();
        inner.seq += 1;
        let event = Event { protocol_version: PROTOCOL_VERSION, session_id: self.session_id.clone(), seq: inner.seq, body };
        inner.bytes += weight(&event.body);
        inner.ring.push_back(event.clone());
        while inner.ring.len() > RETAINED_EVENTS_MAX || inner.bytes > RETAINED_BYTES_MAX {
            let Some(oldest) = inner.ring.pop_front() else { break };
            inner.bytes -= weight(&oldest.body);
        }
        // Under the lock, so that a follower sees every event either in its replay or live, and never twice. No follower is no fault.
        if let Some(live) = &inner.live {
            let _ = live.send(event.clone());
        }
        event
    }

    /// What is retained behind `after`, and everything that comes.
    pub(crate) fn follow(&self, after: u64) -> (Vec<Event>, broadcast::Receiver<Event>) {
        let mut inner = self.lock();
        let replay = inner.ring.iter().filter(|event| event.seq > after).cloned().collect();
        let live = inner.live.get_or_insert_with(|| broadcast::channel(FOLLOWER_EVENTS_MAX).0);
        (replay, live.subscribe())
    }
}

/// About how many bytes an event holds; the same whenever it is asked.
fn weight(body: &EventBody) -> usize {
    const SMALL_BYTES: usize = 64;
    let json = |value: &serde_json::Value| value.to_string().len();
    let text = match body {
        EventBody::Stdout { text } | EventBody::Log { text, .. } => text.len(),
        EventBody::Display { data, .. } => data.len(),
        EventBody::Progress { note, .. } => note.len(),
        EventBody::ToolCall { args, .. } => json(args),
        EventBody::Final { result } => {
            let console: usize = result.console.iter().map(|line| line.text.len()).sum();
            let display: usize = result.display.iter().map(|display| display.data.len()).sum();
            console + display + result.preview.len() + result.value.as_ref().map_or(0, json)
        }
        EventBody::Error { message, .. } => message.len(),
        EventBody::ToolResultApplied { .. } | EventBody::State { .. } | EventBody::Heartbeat {} => 0,
    };
    SMALL_BYTES + text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> EventBody {
        EventBody::Log { level: "log".to_owned(), text: text.to_owned() }
    }

    #[tokio::test]
    async fn a_follower_sees_every_event_once_and_in_order() {
        let events = EventLog::new("s_1".to_owned());
        events.publish(log("a"));
        events.publish(log("b"));
        let (replay, mut live) = events.follow(1);
        events.publish(log("c"));
        assert_eq!(replay.iter().map(|event| event.seq).collect::<Vec<_>>(), vec![2]);
        assert_eq!(live.recv().await.unwrap().seq, 3);
        events.resume_after(100);
        assert_eq!(events.publish(log("d")).seq, 101);
    }

    /// A channel's room for all events would be half as much again as the rest of a live session.
    #[test]
    fn a_log_that_nobody_follows_has_no_channel() {
        let events = EventLog::new("s_1".to_owned());
        events.publish(log("a"));
        assert!(events.lock().live.is_none());
        let (_replay, _live) = events.follow(0);
        assert!(events.lock().live.is_some());
    }

    #[test]
    fn what_is_kept_is_bounded_by_count_and_by_bytes() {
        let events = EventLog::new("s_1".to_owned());
        for _ in 0..RETAINED_EVENTS_MAX + 10 {
            events.publish(log(""));
        }
        assert_eq!(events.follow(0).0.len(), RETAINED_EVENTS_MAX);
        events.publish(log(&"x".repeat(RETAINED_BYTES_MAX - 100)));
        assert_eq!(events.follow(0).0.len(), 1);
    }
}
