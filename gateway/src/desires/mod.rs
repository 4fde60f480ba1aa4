//! Wakes that no client asked for: first starts, `spec.operatingMode`, timers that are due, specs that changed.
//!
//! Every gateway runs this over every session, and leaves each to the one that is the first for it ([`crate::peers`]); who of them places a session is decided by
//! the compare-and-swap, and an order that a second gateway repeats changes nothing at the pod. What is remembered here only spares requests: losing it
//! loses nothing. No record says that a broker was told of an expiry, so each gateway tells it; the broker knows what it has had.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use dormouse_control::session::is_live;
pub use dormouse_control::wakes::{Need, Order, PAUSE_MAX, PAUSE_MIN, decide, pause};
use dormouse_control::wakes::{expiry_to_tell, fruitless};
use dormouse_protocol::{ApiError, ErrorCode};
use jiff::{SignedDuration, Timestamp};
use tokio::{sync::broadcast::error::RecvError, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    directory::{Change, Key, Record},
    lifetimes,
    metrics::{GatewayMetrics, Source},
    peers::Peers,
    router::Router,
    service::hibernate_once,
};

/// Orders under way at a time.
pub const ORDERS_MAX: usize = 1_024;
/// Those of one namespace: pods that hang hold up their own namespace only.
pub const ORDERS_OF_NAMESPACE_MAX: usize = 32;
/// A message that nobody took waits for so many pauses of a wake: nobody waits for it, and every session that has expired would look for a broker that is
/// not there.
const PAUSES_OF_A_MESSAGE: u32 = 10;
/// How often a directory that is not complete yet is looked at.
const SYNC_POLL: Duration = Duration::from_millis(200);
/// Longest time that the loop sleeps, so that a clock that was set does not strand a timer.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What is remembered of a session.
#[derive(Debug, Default)]
struct Memory {
    uid: String,
    /// The generation that was looked at last.
    generation: i64,
    /// The generation that its pod is known to have.
    in_force: Option<i64>,
    /// An order is under way.
    busy: bool,
    /// It waits for an order of its namespace to end.
    waits: bool,
    failures: u32,
    /// Whether others were left the time to do what it needs now.
    left: bool,
    /// No order before this time.
    not_before: Option<Timestamp>,
    /// The last order failed because no pod had room.
    roomless: bool,
    /// The expiry that its ToolBroker is being told of, or was.
    expiry: Option<Timestamp>,
    /// Whether it was.
    expiry_told: bool,
}

struct Done {
    key: Key,
    uid: String,
    generation: i64,
    order: Order,
    outcome: Result<(), ApiError>,
}

struct Desires {
    router: Router,
    metrics: GatewayMetrics,
    peers: Peers,
    memories: BTreeMap<Key, Memory>,
    /// When to look at a session again.
    due: BTreeSet<(Timestamp, Key)>,
    orders: JoinSet<Done>,
    /// By namespace, what is under way and what waits.
    turns: BTreeMap<String, Turns>,
}

/// The orders of one namespace.
#[derive(Debug, Default)]
struct Turns {
    running: usize,
    waiting: VecDeque<Key>,
}

/// Runs until `shutdown`.
pub async fn run(router: Router, metrics: GatewayMetrics, peers: Peers, shutdown: CancellationToken) {
    let directory = Arc::clone(router.directory());
    let mut changes = directory.changes();
    while !directory.pending().is_empty() {
        let synced = shutdown.run_until_cancelled(tokio::time::sleep(SYNC_POLL)).await;
        if synced.is_none() {
            return;
        }
    }
    let mut desires =
        Desires { router, metrics, peers, memories: BTreeMap::new(), due: BTreeSet::new(), orders: JoinSet::new(), turns: BTreeMap::new() };
    desires.look_at_all();
    loop {
        desires.look_at_due();
        let pause = desires.until_due();
        tokio::select! {
            // What was ordered is bounded, changes are not.
            biased;
            () = shutdown.cancelled() => return,
            Some(done) = desires.orders.join_next() => match done {
                Ok(done) => desires.done(done),
                Err(error) => tracing::error!(%error, "an order was cut off"),
            },
            change = changes.recv() => match change {
                Ok(Change::Session(key)) => desires.look(&key),
                Ok(Change::Pods) => desires.look_at_roomless(),
                Ok(Change::Quotas(_)) => {}
                Err(RecvError::Lagged(_)) => desires.look_at_all(),
                Err(RecvError::Closed) => return,
            },
            () = tokio::time::sleep(pause) => {}
        }
    }
}

impl Memory {
    /// Whether the session has expired, and its ToolBroker was not told of it by this process.
    fn owes(&mut self, record: &Record, now: Timestamp) -> bool {
        let expiry = expiry_to_tell(record, now);
        if expiry.is_some() && self.expiry != expiry {
            (self.expiry, self.expiry_told) = (expiry, false);
        }
        expiry.is_some() && !self.expiry_told
    }

    /// Leaves others so much time from `now` on.
    fn leave(&mut self, wait: Duration, now: Timestamp) {
        if !wait.is_zero() {
            self.not_before = self.not_before.max(after(now, wait));
        }
    }
}

impl Desires {
    fn look_at_all(&mut self) {
        for record in self.router.directory().list(None) {
            self.look(&record.key);
        }
        let router = self.router.clone();
        self.memories.retain(|key, _| router.directory().get(key).is_some());
    }

    /// A pod has come or changed: whoever found no room tries again at once.
    fn look_at_roomless(&mut self) {
        let roomless: Vec<Key> = self.memories.iter().filter(|(_, memory)| memory.roomless).map(|(key, _)| key.clone()).collect();
        for key in roomless {
            if let Some(memory) = self.memories.get_mut(&key) {
                memory.not_before = None;
            }
            self.look(&key);
        }
    }

    fn look_at_due(&mut self) {
        let now = self.router.clock().now();
        while self.orders.len() < ORDERS_MAX
            && let Some((time, key)) = self.due.first().cloned()
            && time <= now
        {
            self.due.remove(&(time, key.clone()));
            self.look(&key);
        }
    }

    fn until_due(&self) -> Duration {
        let next = self
            .due
            .first()
            .map_or(LOOK_AGAIN, |(time, _)| Duration::try_from(time.duration_since(self.router.clock().now())).unwrap_or_default());
        // With every order slot taken, the next to end wakes the loop.
        if self.orders.len() >= ORDERS_MAX { LOOK_AGAIN } else { next.min(LOOK_AGAIN) }
    }

    fn look(&mut self, key: &Key) {
        let Some(record) = self.router.directory().get(key) else {
            self.memories.remove(key);
            return;
        };
        let memory = self.memories.entry(key.clone()).or_default();
        if memory.uid != record.uid {
            *memory = Memory { uid: record.uid.clone(), ..Memory::default() };
        }
        if memory.generation != record.generation {
            // The user changed their mind: old failures say nothing about the new wish.
            (memory.generation, memory.failures, memory.not_before, memory.left) = (record.generation, 0, None, false);
        }
        note_in_force(memory, &record);
        if memory.busy {
            return;
        }
        let now = self.router.clock().now();
        let need = match (decide(&record, memory.in_force, now), memory.owes(&record, now)) {
            (Need::Nothing | Need::At(_), true) => Need::Now(Order::TellExpiry),
            (need, _) => need,
        };
        let is_new = !std::mem::replace(&mut memory.left, matches!(need, Need::Now(_)));
        if is_new && memory.left {
            memory.leave(self.peers.wait(&memory.uid), now);
        }
        match need {
            Need::Nothing => {}
            Need::At(time) => drop(self.due.insert((time, key.clone()))),
            Need::Now(order) => match memory.not_before.filter(|not_before| now < *not_before) {
                Some(not_before) => drop(self.due.insert((not_before, key.clone()))),
                None if self.orders.len() >= ORDERS_MAX => drop(self.due.insert((now, key.clone()))),
                None if self.waits_for_its_turn(key) => {}
                None => self.order(&record, order),
            },
        }
    }

    /// Whether the session's namespace has as many orders as it may: then it is looked at again when one of them ends.
    fn waits_for_its_turn(&mut self, key: &Key) -> bool {
        let Some(turns) = self.turns.get_mut(&key.namespace).filter(|turns| turns.running >= ORDERS_OF_NAMESPACE_MAX) else { return false };
        if let Some(memory) = self.memories.get_mut(key)
            && !std::mem::replace(&mut memory.waits, true)
        {
            turns.waiting.push_back(key.clone());
        }
        true
    }

    /// An order of the namespace has ended: who waits is looked at.
    fn end_turn(&mut self, namespace: &str) {
        let Some(turns) = self.turns.get_mut(namespace) else { return };
        turns.running = turns.running.saturating_sub(1);
        while let Some(turns) = self.turns.get_mut(namespace).filter(|turns| turns.running < ORDERS_OF_NAMESPACE_MAX)
            && let Some(next) = turns.waiting.pop_front()
        {
            if let Some(memory) = self.memories.get_mut(&next) {
                memory.waits = false;
            }
            self.look(&next);
            if self.orders.len() >= ORDERS_MAX {
                break;
            }
        }
        if self.turns.get(namespace).is_some_and(|turns| turns.running == 0 && turns.waiting.is_empty()) {
            self.turns.remove(namespace);
        }
    }

    fn order(&mut self, record: &Record, order: Order) {
        self.turns.entry(record.key.namespace.clone()).or_default().running += 1;
        if let Some(memory) = self.memories.get_mut(&record.key) {
            memory.busy = true;
        }
        tracing::debug!(session = %record.key, ?order, "a session needs something that nobody asked for");
        let (router, key, uid, generation) = (self.router.clone(), record.key.clone(), record.uid.clone(), record.generation);
        self.orders.spawn(async move {
            let outcome = match order {
                Order::Wake(cause) => wake(&router, &key, cause.into()).await,
                Order::Hibernate => hibernate_once(&router, &key).await.map(drop),
                Order::End => lifetimes::end(&router, &key).await,
                Order::TellExpiry => lifetimes::tell_expiry(&router, &key).await,
            };
            Done { key, uid, generation, order, outcome }
        });
    }

    fn done(&mut self, done: Done) {
        let source = match done.order {
            Order::Wake(cause) => cause.into(),
            Order::Hibernate => Source::Mode,
            Order::End | Order::TellExpiry => Source::Expiry,
        };
        self.metrics.desire(source, done.outcome.is_ok());
        let namespace = done.key.namespace.clone();
        self.remember(done);
        self.end_turn(&namespace);
    }

    fn remember(&mut self, done: Done) {
        let Some(memory) = self.memories.get_mut(&done.key).filter(|memory| memory.uid == done.uid) else { return };
        memory.busy = false;
        memory.roomless = matches!(&done.outcome, Err(error) if error.code == ErrorCode::CapacityExhausted);
        let pause = match done.outcome {
            Ok(()) if done.order == Order::TellExpiry => {
                (memory.failures, memory.expiry_told) = (0, true);
                PAUSE_MIN
            }
            Ok(()) => {
                memory.failures = 0;
                memory.in_force = Some(memory.in_force.unwrap_or(0).max(done.generation));
                // What it does once it is live may be the end of each process that has it: then not of one every few seconds.
                let record = self.router.directory().get(&done.key);
                record.map_or(PAUSE_MIN, |record| pause(fruitless(&record.status).saturating_sub(1)))
            }
            Err(error) => {
                memory.failures += 1;
                if memory.failures == 1 {
                    tracing::warn!(session = %done.key, order = ?done.order, %error, "an order failed; it is tried again");
                }
                let pauses = if done.order == Order::TellExpiry { PAUSES_OF_A_MESSAGE } else { 1 };
                pause(memory.failures).saturating_mul(pauses)
            }
        };
        if let Some(not_before) = after(self.router.clock().now(), pause) {
            memory.not_before = Some(not_before);
            // Status may be there before the answer, or never: look again either way.
            self.due.insert((not_before, done.key));
        }
    }
}

/// The time so long after `now`.
fn after(now: Timestamp, wait: Duration) -> Option<Timestamp> {
    now.saturating_add(SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX)).ok()
}

async fn wake(router: &Router, key: &Key, source: Source) -> Result<(), ApiError> {
    router.wake(key, source).await.map(drop)
}

/// The generation of a live session's spec at its pod: the higher of what an order of this gateway has told it and of what the status says, which another
/// gateway may have told. Too low a number costs one order that changes nothing.
fn note_in_force(memory: &mut Memory, record: &Record) {
    if is_live(&record.status) {
        let ready = record.status.conditions.iter().find(|condition| condition.type_ == dormouse_crds::condition::READY);
        let told = ready.and_then(|ready| ready.observed_generation);
        memory.in_force = memory.in_force.max(told).or(Some(record.generation));
    }
}
