//! Messages that wait, in the store, and the loop that tries them.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dormouse_lifecycle::{keys, orphans::MESSAGES_KEPT_DAYS};
use dormouse_protocol::ApiError;
use dormouse_service::{Clock, Ids};
use dormouse_store::{Condition, ETag};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

use super::message::{Lease, Leased, Message, Order, Sent, Verdict};
use crate::{BrokerStore, documents::DocumentError, meters::Meters};

/// Attempts under way at one time.
const IN_FLIGHT_MAX: usize = 32;
/// How long one who tries a message may take before another may.
const LEASE: Duration = Duration::from_secs(60);
/// How often it is looked for messages of other processes.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// When a message is looked at again that the store could not tell of.
const STORE_WAIT: Duration = Duration::from_secs(5);
/// How often old messages are removed.
const PRUNE_EVERY: Duration = Duration::from_secs(60 * 60);
/// Messages that wait at most; what comes beyond is refused until some are over.
const OPEN_MAX: usize = 50_000;
/// Messages that are kept when they are over.
const DONE_KEPT_MAX: usize = 5_000;
/// Old messages that are removed at one time.
const PRUNED_MAX: usize = 20_000;
/// Digits of what tells this process from others.
const BOOT_DIGITS: usize = 16;

/// When this process looks at the messages that it knows of.
#[derive(Debug, Default)]
struct Schedule {
    /// When each is looked at, in milliseconds since the Unix epoch; `None` while one is under way.
    times: HashMap<String, Option<i64>>,
    /// Those that have a time, by it.
    due: BTreeSet<(i64, String)>,
}

impl Schedule {
    fn set(&mut self, id: &str, at_ms: Option<i64>) {
        if let Some(Some(before)) = self.times.insert(id.to_owned(), at_ms) {
            self.due.remove(&(before, id.to_owned()));
        }
        self.due.extend(at_ms.map(|at_ms| (at_ms, id.to_owned())));
    }

    fn forget(&mut self, id: &str) {
        if let Some(Some(before)) = self.times.remove(id) {
            self.due.remove(&(before, id.to_owned()));
        }
    }

    /// One whose time has come: it is under way from now on.
    fn take_due(&mut self, now_ms: i64) -> Option<String> {
        let (_, id) = self.due.first().filter(|(at_ms, _)| *at_ms <= now_ms)?.clone();
        self.set(&id, None);
        Some(id)
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    place: BrokerStore,
    boot: String,
    clock: Clock,
    meters: Meters,
    known: Mutex<Schedule>,
    changed: Notify,
    slots: Arc<Semaphore>,
}

impl Queue {
    pub(crate) fn new(place: BrokerStore, ids: &Ids, clock: Clock, meters: Meters) -> Self {
        let slots = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        let inner = Inner { place, boot: ids.digits(BOOT_DIGITS), clock, meters, known: Mutex::default(), changed: Notify::new(), slots };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.inner.clock
    }

    /// The key of a message that waits.
    pub(crate) fn open_key(&self, id: &str) -> String {
        format!("{}{id}", self.open())
    }

    fn open(&self) -> String {
        let BrokerStore { prefix, namespace, broker, .. } = &self.inner.place;
        keys::webhooks_open(prefix, namespace, broker)
    }

    fn done(&self) -> String {
        let BrokerStore { prefix, namespace, broker, .. } = &self.inner.place;
        keys::webhooks_done(prefix, namespace, broker)
    }

    fn done_key(&self, message: &Message) -> String {
        format!("{}{}-{}", self.done(), keys::newest_first(message.created_ms), message.view.id)
    }

    pub(crate) async fn read(&self, key: &str) -> Result<Option<(Message, ETag)>, DocumentError> {
        self.inner.place.read(key).await
    }

    /// Stores a message that waits from now on. One that is there, or is over, stays as it is.
    pub(crate) async fn put(&self, message: &Message) -> Result<(), ApiError> {
        if self.read(&self.done_key(message)).await.map_err(ApiError::from)?.is_some() {
            return Ok(());
        }
        if self.lock().times.len() >= OPEN_MAX {
            let text = format!("{OPEN_MAX} messages wait to be delivered; the event is taken when some are over");
            return Err(ApiError::new(dormouse_protocol::ErrorCode::CapacityExhausted, text));
        }
        match self.inner.place.write(&self.open_key(&message.view.id), message, Condition::Absent).await {
            Ok(_) | Err(DocumentError::Changed) => self.look_at(&message.view.id, message.next_ms),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The keys of all messages, newest first as far as keys tell.
    pub(crate) async fn keys(&self, max: usize) -> Result<Vec<String>, ApiError> {
        let (open, done) = (self.open(), self.done());
        let waiting = self.inner.place.names(&open, max).await.map_err(ApiError::from)?;
        let over = self.inner.place.names(&done, max).await.map_err(ApiError::from)?;
        let of = |prefix: String, names: Vec<String>| names.into_iter().map(move |name| format!("{prefix}{name}"));
        Ok(of(open, waiting).chain(of(done, over)).collect())
    }

    /// Takes the right to try a message.
    pub(crate) async fn lease(&self, mut message: Message, etag: &ETag) -> Result<Order, DocumentError> {
        let now_ms = self.inner.clock.now_ms();
        if message.is_over() {
            // It was moved by one that ended before it could remove it here.
            self.inner.place.remove(&self.open_key(&message.view.id)).await?;
            return Ok(Order::Later(i64::MAX));
        }
        let held = message.lease.as_ref().filter(|lease| lease.by != self.inner.boot && lease.until_ms > now_ms);
        let later = held.map(|lease| lease.until_ms).or((message.next_ms > now_ms).then_some(message.next_ms));
        if let Some(later) = later {
            return Ok(Order::Later(later));
        }
        message.lease = Some(Lease { by: self.inner.boot.clone(), until_ms: now_ms.saturating_add(ms(LEASE)) });
        let key = self.open_key(&message.view.id);
        let etag = self.inner.place.write(&key, &message, Condition::Matches(etag.clone())).await?;
        Ok(Order::Now(Box::new(Leased { message, etag })))
    }

    /// Stores what came of an attempt. Answers when the message is to be looked at again.
    pub(crate) async fn settle(&self, leased: Box<Leased>, sent: Sent) -> Result<Option<i64>, DocumentError> {
        let Leased { mut message, etag } = *leased;
        message.note(sent.clone(), self.inner.clock.now_ms());
        let outcome = match (sent.verdict, message.is_over()) {
            (Verdict::Delivered, _) => "delivered",
            (_, true) => "failed",
            (_, false) => "again",
        };
        self.inner.meters.webhooks.with_label_values(&[outcome]).inc();
        let key = self.open_key(&message.view.id);
        if !message.is_over() {
            self.inner.place.write(&key, &message, Condition::Matches(etag)).await?;
            return Ok(Some(message.next_ms));
        }
        self.inner.place.write(&self.done_key(&message), &message, Condition::None).await?;
        self.inner.place.remove(&key).await?;
        Ok(None)
    }

    /// Has a message tried now. `None`: there is none of this id.
    pub(crate) async fn again(&self, id: &str) -> Result<Option<Message>, DocumentError> {
        let (key, now_ms) = (self.open_key(id), self.inner.clock.now_ms());
        if let Some((mut message, etag)) = self.read(&key).await? {
            message.begin_again(now_ms);
            self.inner.place.write(&key, &message, Condition::Matches(etag)).await?;
            self.look_at(id, now_ms);
            return Ok(Some(message));
        }
        let done = self.done();
        let names = self.inner.place.names(&done, usize::MAX).await?;
        let Some(name) = names.into_iter().find(|name| name.ends_with(&format!("-{id}"))) else { return Ok(None) };
        let old = format!("{done}{name}");
        let Some((mut message, _)) = self.read(&old).await? else { return Ok(None) };
        message.begin_again(now_ms);
        self.inner.place.write(&key, &message, Condition::Absent).await?;
        self.inner.place.remove(&old).await?;
        self.look_at(id, now_ms);
        Ok(Some(message))
    }

    fn look_at(&self, id: &str, at_ms: i64) {
        self.lock().set(id, Some(at_ms));
        self.inner.changed.notify_one();
    }

    /// Has what waits tried by `attempt`, for ever. It answers when the message of this id is to be looked at again, in milliseconds since the Unix epoch;
    /// `None`: it is over.
    pub(crate) async fn run<Tried>(&self, attempt: impl Fn(String) -> Tried)
    where
        Tried: Future<Output = Result<Option<i64>, DocumentError>> + Send + 'static,
    {
        let (mut look, mut prune) = (Instant::now(), Instant::now());
        loop {
            if Instant::now() >= look {
                self.look_for_others().await;
                look = Instant::now() + LOOK_EVERY;
            }
            if Instant::now() >= prune {
                self.prune().await;
                prune = Instant::now() + PRUNE_EVERY;
            }
            let now_ms = self.inner.clock.now_ms();
            loop {
                // The lock is not held while a place is waited for.
                let next = self.lock().take_due(now_ms);
                let Some(id) = next else { break };
                let Ok(slot) = Arc::clone(&self.inner.slots).acquire_owned().await else { return };
                let (queue, tried) = (self.clone(), attempt(id.clone()));
                tokio::spawn(async move {
                    queue.tried(&id, tried.await);
                    drop(slot);
                });
            }
            let next_ms = self.lock().due.first().map(|(at_ms, _)| *at_ms);
            let left_ms = next_ms.map(|at_ms| at_ms.saturating_sub(self.inner.clock.now_ms()));
            let wait = left_ms.map_or(LOOK_EVERY, |left_ms| Duration::from_millis(u64::try_from(left_ms).unwrap_or(0)));
            tokio::select! {
                () = self.inner.changed.notified() => {}
                () = tokio::time::sleep_until((Instant::now() + wait).min(look)) => {}
            }
        }
    }

    fn tried(&self, id: &str, tried: Result<Option<i64>, DocumentError>) {
        let next = match tried {
            Ok(next) => next.filter(|at| *at < i64::MAX),
            // Another process has it.
            Err(DocumentError::Changed) => Some(self.inner.clock.now_ms().saturating_add(1_000)),
            Err(error @ DocumentError::Damaged { .. }) => {
                tracing::error!(id, %error, "a message of a webhook cannot be delivered");
                None
            }
            Err(error) => {
                tracing::warn!(id, %error, "a message of a webhook waits for the store");
                Some(self.inner.clock.now_ms().saturating_add(ms(STORE_WAIT)))
            }
        };
        let mut known = self.lock();
        match (next, known.times.get(id)) {
            // Somebody has asked for it meanwhile.
            (_, Some(Some(_))) => {}
            (Some(at_ms), _) => known.set(id, Some(at_ms)),
            (None, _) => return known.forget(id),
        }
        drop(known);
        self.inner.changed.notify_one();
    }

    async fn look_for_others(&self) {
        let prefix = self.open();
        match self.inner.place.names(&prefix, OPEN_MAX).await {
            Ok(names) => {
                let now_ms = self.inner.clock.now_ms();
                let mut known = self.lock();
                for id in names {
                    if !known.times.contains_key(&id) {
                        known.set(&id, Some(now_ms));
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "messages of other brokers cannot be looked for now"),
        }
    }

    async fn prune(&self) {
        let prefix = self.done();
        let Ok(names) = self.inner.place.names(&prefix, DONE_KEPT_MAX + PRUNED_MAX).await else { return };
        let kept_ms = i64::from(MESSAGES_KEPT_DAYS) * 24 * 60 * 60 * 1_000;
        let oldest = keys::newest_first(self.inner.clock.now_ms().saturating_sub(kept_ms));
        let is_old = |name: &String| name.split('-').next().is_some_and(|time| time > oldest.as_str());
        for (_, name) in names.iter().enumerate().filter(|(at, name)| *at >= DONE_KEPT_MAX || is_old(name)) {
            if let Err(error) = self.inner.place.remove(&format!("{prefix}{name}")).await {
                tracing::warn!(%error, "an old message of a webhook stays");
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.inner.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
