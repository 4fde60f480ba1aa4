//! A session's events: those that wait for the commit that stores them, and those that are stored.
//!
//! An event has its number from the beginning, and is one of the session's when a commit has stored it: only then do those see it who follow the
//! session, so nothing that they see can be taken back, and numbers rise by one through every process. Whoever sent a cell sees its events as they
//! happen, under the number that they will have.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dormouse_lifecycle::Json;
use dormouse_lifecycle::segment::sha256_hex;
use dormouse_protocol::eval::{DroppedResult, EvalResult, EvalStats, Served};
use dormouse_protocol::event::{Event, EventBody, PROTOCOL_VERSION};
use dormouse_protocol::session::State;
use tokio::sync::broadcast;

/// Stored events that this process keeps at hand. Earlier ones are read from the store.
const AT_HAND_EVENTS_MAX: usize = 1024;

/// Bytes of text of stored events that this process keeps at hand.
const AT_HAND_BYTES_MAX: usize = 1 << 20;

/// Events that a slow follower may lag behind before it is cut off.
const FOLLOWER_EVENTS_MAX: usize = 1024;

/// Events that may wait for a commit.
const WAITING_EVENTS_MAX: usize = 1024;

/// Bytes of text of events that may wait for a commit.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Bytes of JSON of a cell's value that its end keeps in the log.
const VALUE_BYTES_MAX: usize = 16 << 10;

/// Makes events of a session.
#[derive(Debug, Clone)]
struct Form {
    session_id: String,
}

impl Form {
    fn event(&self, seq: u64, body: EventBody) -> Event {
        Event { protocol_version: PROTOCOL_VERSION, session_id: self.session_id.clone(), seq, body }
    }
}

/// The stored events of one session, as this process knows them. Shared between its actor, which adds to them, and the streams that read.
#[derive(Debug)]
pub(crate) struct EventLog {
    form: Form,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The number of the last that is stored; `None` as long as this process does not know.
    last: Option<u64>,
    /// The newest of them, without a gap.
    at_hand: VecDeque<Event>,
    bytes: usize,
    /// To those who follow, since somebody did: a channel has its room for all events at once, which few sessions need.
    live: Option<broadcast::Sender<Event>>,
}

/// What a follower begins with.
pub(crate) struct Followed {
    /// The number of the first event that this process has; `None`: it does not know of any. What is before it is in the store.
    pub known_from: Option<u64>,
    /// What it has behind the wanted number.
    pub replay: Vec<Event>,
    /// All that comes. It ends when events are stored that this process did not store.
    pub live: broadcast::Receiver<Event>,
}

impl EventLog {
    /// The log of the session with this public id, of which nothing is known.
    pub(crate) fn new(session_id: String) -> Self {
        Self { form: Form { session_id }, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the last event that is stored, as the head says. Those who have followed up to another one come again, and read what lies between.
    pub(crate) fn resume(&self, last: u64) {
        let mut inner = self.lock();
        if inner.last.is_some_and(|known| known != last) {
            (inner.at_hand, inner.bytes, inner.live) = (VecDeque::new(), 0, None);
        }
        inner.last = Some(last);
    }

    /// Tells events that a commit has stored, in their order.
    pub(crate) fn stored(&self, events: Vec<Event>) {
        let Some(first) = events.first().map(|event| event.seq) else { return };
        self.resume(first.saturating_sub(1));
        let mut inner = self.lock();
        for event in events {
            inner.last = Some(event.seq);
            inner.bytes += weight(&event.body);
            // Under the lock, so that a follower sees every event either in its replay or live, and never twice. No follower is no fault.
            if let Some(live) = &inner.live {
                let _ = live.send(event.clone());
            }
            inner.at_hand.push_back(event);
        }
        while inner.at_hand.len() > AT_HAND_EVENTS_MAX || inner.bytes > AT_HAND_BYTES_MAX {
            let Some(oldest) = inner.at_hand.pop_front() else { break };
            inner.bytes -= weight(&oldest.body);
        }
    }

    /// Whether somebody follows the session here.
    pub(crate) fn is_followed(&self) -> bool {
        self.lock().live.as_ref().is_some_and(|live| live.receiver_count() > 0)
    }

    /// What is at hand behind `after`, and everything that comes.
    pub(crate) fn follow(&self, after: u64) -> Followed {
        let mut inner = self.lock();
        let replay = inner.at_hand.iter().filter(|event| event.seq > after).cloned().collect();
        let known_from = inner.last.map(|last| inner.at_hand.front().map_or(last + 1, |first| first.seq));
        let live = inner.live.get_or_insert_with(|| broadcast::channel(FOLLOWER_EVENTS_MAX).0).subscribe();
        Followed { known_from, replay, live }
    }

    /// What those see who have seen events of a cell that runs again.
    pub(crate) fn restarted(&self) -> Event {
        let last = self.lock().last.unwrap_or(0);
        self.form.event(last, EventBody::Restarted {})
    }

    /// What the store has as the event of this number.
    pub(crate) fn read(&self, seq: u64, entry: &Json) -> Option<Event> {
        entry.read().ok().map(|body| self.form.event(seq, body))
    }

    /// Events that wait for a commit, behind the last that is stored.
    pub(crate) fn waiting(&self, after: u64, bodies: Vec<EventBody>) -> Waiting {
        let bytes = bodies.iter().map(weight).sum();
        Waiting { form: self.form.clone(), inner: Arc::new(Mutex::new(Queue { after, bodies, bytes, state: None })) }
    }
}

/// Events that wait for the commit that stores them. Clones share them: what a turn writes is added while it runs.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    form: Form,
    inner: Arc<Mutex<Queue>>,
}

#[derive(Debug)]
struct Queue {
    /// The number of the last that is stored.
    after: u64,
    bodies: Vec<EventBody>,
    bytes: usize,
    /// The state that was told last.
    state: Option<State>,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event; answers it as it will be.
    pub(crate) fn push(&self, body: EventBody) -> Event {
        let mut queue = self.lock();
        let event = self.form.event(queue.after + queue.bodies.len() as u64 + 1, body.clone());
        queue.bytes += weight(&body);
        queue.bodies.push(body);
        event
    }

    /// Adds the session's state, if it is another than the one that was told last.
    pub(crate) fn push_state(&self, state: State) -> Option<Event> {
        if self.lock().state.replace(state) == Some(state) {
            return None;
        }
        Some(self.push(EventBody::State { state }))
    }

    /// The number of the last event, stored or not.
    pub(crate) fn last(&self) -> u64 {
        let queue = self.lock();
        queue.after + queue.bodies.len() as u64
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().bodies.len()
    }

    /// Whether as many wait as may.
    pub(crate) fn is_full(&self) -> bool {
        let queue = self.lock();
        queue.bodies.len() >= WAITING_EVENTS_MAX || queue.bytes >= WAITING_BYTES_MAX
    }

    /// Those of the cell that is under way: what waits behind the last end.
    pub(crate) fn under_way(&self) -> Vec<Event> {
        let queue = self.lock();
        let begin = queue.bodies.iter().rposition(|body| matches!(body, EventBody::Final { .. })).map_or(0, |end| end + 1);
        (queue.after + 1..).zip(&queue.bodies).skip(begin).map(|(seq, body)| self.form.event(seq, body.clone())).collect()
    }

    /// What a commit stores of them now: all.
    pub(crate) fn entries(&self) -> Result<Vec<Json>, serde_json::Error> {
        self.lock().bodies.iter().map(Json::of).collect()
    }

    /// The first `count` are stored: they wait no longer.
    pub(crate) fn stored(&self, count: usize) -> Vec<Event> {
        let mut queue = self.lock();
        let count = count.min(queue.bodies.len());
        let told: Vec<EventBody> = queue.bodies.drain(..count).collect();
        let first = queue.after + 1;
        queue.after += told.len() as u64;
        queue.bytes = queue.bodies.iter().map(weight).sum();
        (first..).zip(told).map(|(seq, body)| self.form.event(seq, body)).collect()
    }

    /// The first `count` of them; none wait any more.
    pub(crate) fn take(&self, count: usize) -> Vec<EventBody> {
        let mut queue = self.lock();
        queue.bytes = 0;
        let mut bodies = std::mem::take(&mut queue.bodies);
        bodies.truncate(count);
        bodies
    }

    /// Puts events before those that wait.
    pub(crate) fn put_first(&self, bodies: Vec<EventBody>) {
        let mut queue = self.lock();
        queue.bytes += bodies.iter().map(weight).sum::<usize>();
        queue.bodies.splice(..0, bodies);
    }
}

/// A cell's end as the log keeps it: what it wrote and showed are events of their own, and of a large value it says that it was dropped.
pub(crate) fn end(result: &EvalResult) -> EventBody {
    let json = result.value.as_ref().map(serde_json::Value::to_string).filter(|json| json.len() > VALUE_BYTES_MAX);
    let dropped = json.map(|json| DroppedResult { bytes: json.len() as u64, sha256: sha256_hex(json.as_bytes()) });
    let value = if dropped.is_some() { None } else { result.value.clone() };
    let stats = EvalStats { served: Served::default(), ..result.stats.clone() };
    EventBody::Final { result: Box::new(EvalResult { value, dropped, console: Vec::new(), display: Vec::new(), stats, ..result.clone() }) }
}

/// About how many bytes an event holds; the same whenever it is asked.
fn weight(body: &EventBody) -> usize {
    const SMALL_BYTES: usize = 64;
    let json = |value: &serde_json::Value| value.to_string().len();
    let text = match body {
        EventBody::Stdout { text } | EventBody::Log { text, .. } => text.len(),
        EventBody::Display { data, .. } => data.len(),
        EventBody::Progress { note, .. } => note.len(),
        EventBody::ToolCall { args, .. } | EventBody::ApprovalRequired { args, .. } => json(args),
        EventBody::Final { result } => result.preview.len() + result.value.as_ref().map_or(0, json),
        EventBody::Error { message, .. } => message.len(),
        EventBody::ToolResultApplied { .. } | EventBody::State { .. } | EventBody::Heartbeat {} | EventBody::Restarted {} => 0,
    };
    SMALL_BYTES + text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> EventBody {
        EventBody::Log { level: "log".to_owned(), text: text.to_owned() }
    }

    fn seqs(events: &[Event]) -> Vec<u64> {
        events.iter().map(|event| event.seq).collect()
    }

    #[tokio::test]
    async fn a_follower_sees_what_is_stored_and_nothing_before() {
        let events = EventLog::new("s_1".to_owned());
        events.resume(0);
        let waiting = events.waiting(0, Vec::new());
        waiting.push(log("a"));
        waiting.push(log("b"));
        assert_eq!(seqs(&events.follow(0).replay), Vec::<u64>::new(), "nothing of it is stored");
        events.stored(waiting.stored(2));
        let Followed { known_from, replay, mut live } = events.follow(1);
        assert_eq!((known_from, seqs(&replay)), (Some(1), vec![2]));
        assert_eq!(waiting.push(log("c")).seq, 3);
        assert!(live.try_recv().is_err());
        events.stored(waiting.stored(1));
        assert_eq!(live.recv().await.unwrap().seq, 3);
    }

    #[tokio::test]
    async fn who_has_followed_up_to_another_number_comes_again() {
        let events = EventLog::new("s_1".to_owned());
        assert!(events.follow(0).known_from.is_none(), "nothing is known of the session yet");
        let mut early = events.follow(0).live;
        events.resume(7);
        assert!(matches!(early.try_recv(), Err(broadcast::error::TryRecvError::Empty)), "it goes on with what comes");
        // Another process has stored two.
        events.resume(9);
        assert!(matches!(early.try_recv(), Err(broadcast::error::TryRecvError::Closed)));
        assert_eq!(events.follow(8).known_from, Some(10), "the store has what lies before");
    }

    #[test]
    fn what_is_lost_leaves_its_numbers_to_what_comes() {
        let events = EventLog::new("s_1".to_owned());
        let waiting = events.waiting(4, Vec::new());
        assert_eq!([waiting.push(log("kept")).seq, waiting.push(log("lost")).seq], [5, 6]);
        let kept = waiting.take(1);
        let waiting = events.waiting(4, Vec::new());
        assert_eq!(waiting.push_state(State::Waking).unwrap().seq, 5);
        assert!(waiting.push_state(State::Waking).is_none(), "it is no other state");
        waiting.put_first(kept);
        assert_eq!((waiting.len(), waiting.push(log("new")).seq), (2, 7));
    }

    #[test]
    fn whoever_joins_a_cell_sees_what_waits_of_it_alone() {
        let waiting = EventLog::new("s_1".to_owned()).waiting(4, Vec::new());
        waiting.push(log("of an earlier cell"));
        assert_eq!(seqs(&waiting.under_way()), [5]);
        waiting.push(end(&result(serde_json::json!(1))));
        assert!(waiting.under_way().is_empty(), "that one has ended");
        waiting.push(log("of this one"));
        assert_eq!(seqs(&waiting.under_way()), [7]);
    }

    fn result(value: serde_json::Value) -> EvalResult {
        let result = serde_json::json!({
            "ok": true, "value": value, "valueType": "string", "preview": "", "cell": 1, "sequence": 1, "durable": true,
            "stats": { "durationMs": 0, "cpuMs": 0, "ticks": 0, "heapBytes": 0, "committedBytes": 0, "toolCalls": 0, "woke": "no" },
        });
        serde_json::from_value(result).unwrap()
    }

    #[test]
    fn an_end_says_that_its_value_was_dropped() {
        let of = |characters: usize| match end(&result(serde_json::json!("x".repeat(characters)))) {
            EventBody::Final { result } => (result.value.is_some(), result.dropped.map(|dropped| dropped.bytes)),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(VALUE_BYTES_MAX - 2), (true, None));
        assert_eq!(of(VALUE_BYTES_MAX - 1), (false, Some(VALUE_BYTES_MAX as u64 + 1)));
    }

    #[test]
    fn what_is_at_hand_and_what_waits_is_bounded() {
        let events = EventLog::new("s_1".to_owned());
        let waiting = events.waiting(0, Vec::new());
        for n in 0..WAITING_EVENTS_MAX {
            assert!(!waiting.is_full(), "{n}");
            waiting.push(log(""));
        }
        assert!(waiting.is_full());
        waiting.push(log(""));
        events.stored(waiting.stored(usize::MAX));
        assert_eq!((events.follow(0).replay.len(), events.follow(0).known_from), (AT_HAND_EVENTS_MAX, Some(2)));
        waiting.push(log(&"x".repeat(AT_HAND_BYTES_MAX - 100)));
        assert!(!waiting.is_full());
        waiting.push(log(&"x".repeat(100)));
        assert!(waiting.is_full());
        events.stored(waiting.stored(1));
        assert_eq!(events.follow(0).replay.len(), 1);
    }
}
