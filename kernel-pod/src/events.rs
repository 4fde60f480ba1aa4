//! A session's event log: a bounded ring in memory, and those who follow it.
//!
//! The position (`seq`) rides in the head, the events do not: a replay reaches back as far as this process has seen the session.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use dormouse_protocol::event::{Event, EventBody, PROTOCOL_VERSION};
use tokio::sync::broadcast;

/// Events that are kept for replay.
const RETAINED_EVENTS_MAX: usize = 1024;

/// Events that a slow follower may lag behind before it is cut off.
const FOLLOWER_EVENTS_MAX: usize = 1024;

/// How far a restore jumps ahead of the stored position, so that events that were shown but never committed keep their numbers to themselves.
pub(crate) const RESTORE_SEQ_GAP: u64 = 1 << 16;

/// The log of one session. Shared between its actor, which writes, and the streams that read.
#[derive(Debug)]
pub(crate) struct EventLog {
    session_id: String,
    inner: Mutex<Inner>,
    live: broadcast::Sender<Event>,
}

#[derive(Debug)]
struct Inner {
    seq: u64,
    ring: VecDeque<Event>,
}

impl EventLog {
    /// An empty log of the session with this public id.
    pub(crate) fn new(session_id: String) -> Self {
        let (live, _) = broadcast::channel(FOLLOWER_EVENTS_MAX);
        Self { session_id, inner: Mutex::new(Inner { seq: 0, ring: VecDeque::new() }), live }
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
        if inner.ring.len() == RETAINED_EVENTS_MAX {
            inner.ring.pop_front();
        }
        inner.ring.push_back(event.clone());
        // Under the lock, so that a follower sees every event either in its replay or live, and never twice. No follower is no fault.
        let _ = self.live.send(event.clone());
        event
    }

    /// What is retained behind `after`, and everything that comes.
    pub(crate) fn follow(&self, after: u64) -> (Vec<Event>, broadcast::Receiver<Event>) {
        let inner = self.lock();
        let replay = inner.ring.iter().filter(|event| event.seq > after).cloned().collect();
        (replay, self.live.subscribe())
    }
}
