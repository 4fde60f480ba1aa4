//! The journal of unsafe calls in an object store: what outlives this process, and what several replicas share.
//!
//! `lifecycle::calls` decides; here pages are read and put. Changes of one session that come while a PUT is under way wait and go into the next
//! one together. A PUT whose outcome is unknown is resolved by reading: an intent with the name of this attempt is this attempt's.

mod page;
mod slot;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dormouse_lifecycle::{
    SessionKey,
    calls::{Admission, CallPage, Decision, Refusal, Undecided},
    keys,
};
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{ToolAnswer, ToolCall},
};
use dormouse_seal::Seal;
use dormouse_service::Ids;
use dormouse_store::{Condition, ETag, PutError, SnapshotStore, probe};
use tokio::{
    sync::{OnceCell, oneshot},
    time::Instant,
};

pub(crate) use self::slot::Standing;
use self::{
    page::{close, damaged, keys_error, open, refused, unreadable},
    slot::{Change, Queued, Said, Slot, Wanted, let_go},
};
use crate::{meters::Meters, recent};

/// Sessions whose page is kept in memory; one that is not in use goes when there are more.
const PAGES_MAX: usize = 1_024;
/// Bytes of answers on pages that are kept in memory. The largest page that is not in use goes when there are more, and is read again when it is asked for.
const PAGES_BYTES_MAX: usize = 64 << 20;
/// Attempts to read and put a page before the store is called unavailable. Replicas that meet at one session need some, too.
const ATTEMPTS_MAX: u32 = 8;
/// Wait before the second attempt; doubled each time.
const WAIT_FIRST: Duration = Duration::from_millis(10);
/// How often an outcome is offered to the store before the answer goes out without it.
const SETTLE_ROUNDS_MAX: u32 = 3;
/// How often it is looked whether another broker's attempt has its outcome, at first and later.
const POLL_FIRST: Duration = Duration::from_millis(20);
const POLL_MAX: Duration = Duration::from_secs(1);
/// Bytes of what brokers call a session at most: its pool's name and its uid.
const UID_BYTES_MAX: usize = 96;
/// Digits of what tells this process from all others.
const BOOT_DIGITS: usize = 16;

/// Where a broker stores what outlives it: the journal of calls, its audit, what models have cost, messages that are to be delivered.
#[derive(Clone)]
pub struct BrokerStore {
    /// The store.
    pub store: Arc<dyn SnapshotStore>,
    /// Before every key.
    pub prefix: String,
    /// The namespace, which is the tenant.
    pub namespace: String,
    /// The ToolBroker's name.
    pub broker: String,
    /// Encrypts pages, if the pool has keys.
    pub seal: Arc<Seal>,
}

impl std::fmt::Debug for BrokerStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrokerStore").field("prefix", &self.prefix).field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ledger {
    place: BrokerStore,
    probed: OnceCell<()>,
    boot: String,
    attempts: AtomicU64,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
    meters: Meters,
}

/// The word that a call may be made, or what came of it before.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// Make it, and settle it under this name.
    Make(String),
    /// It was made.
    Answered(ToolAnswer),
}

/// A call that may do harm when it is made twice: how one whose outcome nobody knows is dealt with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NonIdempotent {
    /// How long the attempt of another broker may take to have an outcome.
    pub(crate) wait: Duration,
    /// Whether the service makes two calls of one idempotency key once.
    pub(crate) honours_key: bool,
}

impl Ledger {
    pub(crate) fn new(place: BrokerStore, meters: Meters, ids: &Ids) -> Self {
        let boot = ids.digits(BOOT_DIGITS);
        Self { place, probed: OnceCell::new(), boot, attempts: AtomicU64::new(0), slots: Mutex::default(), meters }
    }

    /// A name that no other attempt has.
    fn attempt(&self) -> String {
        format!("{}-{}", self.boot, self.attempts.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether the store keeps its promises; asked until it has said so once.
    pub(crate) async fn probe(&self) -> Result<(), ApiError> {
        let prefix = keys::tenant_prefix(&self.place.prefix, &self.place.namespace);
        let asked = self.probed.get_or_try_init(|| async {
            // Whoever has the keys is asked before the first call, too.
            self.place.seal.writer().await.map_err(|error| keys_error(&error))?;
            probe::conditional_writes(self.place.store.as_ref(), &prefix).await.map_err(|error| {
                let code = if error.is_proof() { ErrorCode::StorageUnsafe } else { ErrorCode::StorageUnavailable };
                ApiError::new(code, format!("the journal of calls cannot be stored: {error}"))
            })
        });
        asked.await.copied()
    }

    /// Asks for the word to make a call. Waits while another broker makes it.
    ///
    /// # Errors
    /// `SessionGone` for an epoch that is over, `OutcomeUnknown` when the call must not be made and has no answer, `Conflict` when its number is another's, `SnapshotCorrupt` for a page that is not
    /// believed, `StorageUnavailable` when that is not to be learned now: then it was not made.
    pub(crate) async fn admit(&self, call: &ToolCall, non_idempotent: NonIdempotent) -> Result<Admitted, ApiError> {
        self.probe().await?;
        let slot = self.slot(&call.session_uid)?;
        let unsent = lock(&slot.unsent).get(&call.call).cloned();
        let attempt = unsent.unwrap_or_else(|| self.attempt());
        let mut wanted = Wanted {
            epoch: call.epoch,
            call: call.call,
            settled_below: call.settled_below,
            page: call.page.clone(),
            repeated: call.repeated && !non_idempotent.honours_key,
            fingerprint: recent::fingerprint(call),
            attempt,
            take_over: None,
        };
        let (mut deadline, mut poll) = (Instant::now() + non_idempotent.wait, POLL_FIRST);
        let mut met: Option<String> = None;
        loop {
            let Said::Admission(admission) = self.apply(&slot, Change::Admit(Box::new(wanted.clone()))).await? else {
                return Err(unavailable("the page said nothing about the call"));
            };
            match admission {
                Admission::Make => {
                    lock(&slot.unsent).remove(&call.call);
                    return Ok(Admitted::Make(wanted.attempt));
                }
                Admission::Answered(answer) => {
                    return serde_json::from_value(answer).map(Admitted::Answered).map_err(|_| unreadable(call.call));
                }
                Admission::Refused(refusal) => return Err(refused(call.call, refusal)),
                Admission::UnderWay { attempt } => {
                    if met.as_ref() != Some(&attempt) {
                        deadline = Instant::now() + non_idempotent.wait;
                    }
                    // An attempt of this process that its memory does not know is long over.
                    let over = attempt.starts_with(&self.boot) || Instant::now() >= deadline;
                    match (over, non_idempotent.honours_key) {
                        (true, false) => return Err(refused(call.call, Refusal::Unknown)),
                        (true, true) => wanted.take_over = Some(attempt.clone()),
                        (false, _) => {
                            tokio::time::sleep(poll).await;
                            poll = (poll * 2).min(POLL_MAX);
                            *slot.page.lock().await = None;
                        }
                    }
                    met = Some(attempt);
                }
            }
        }
    }

    /// The page of a session as it is stored now: another replica may have been told.
    async fn read_again(&self, uid: &str) -> Result<Arc<Slot>, ApiError> {
        self.probe().await?;
        let slot = self.slot(uid)?;
        *slot.page.lock().await = None;
        Ok(slot)
    }

    /// Writes down that a call waits for somebody; answers what is known of it.
    ///
    /// # Errors
    /// There is no room, or the page cannot be stored now.
    pub(crate) async fn park(&self, call: &ToolCall) -> Result<Standing, ApiError> {
        let slot = self.read_again(&call.session_uid).await?;
        let park = Change::Park { call: call.call, epoch: call.epoch, fingerprint: recent::fingerprint(call), attempt: self.attempt() };
        match self.apply(&slot, park).await? {
            Said::Standing(standing) => Ok(standing),
            Said::Unparked(refusal) => Err(refused(call.call, refusal)),
            _ => Err(unavailable("the page said nothing about the call")),
        }
    }

    /// Whether a call was told to wait for somebody.
    ///
    /// # Errors
    /// The page cannot be read, or is not believed.
    pub(crate) async fn is_parked(&self, call: &ToolCall) -> Result<bool, ApiError> {
        let slot = self.read_again(&call.session_uid).await?;
        let look = Change::LookParked { call: call.call, fingerprint: recent::fingerprint(call) };
        Ok(self.apply(&slot, look).await? == Said::Parked(true))
    }

    /// What is known of a call that waits or has waited, as stored now.
    ///
    /// # Errors
    /// The page cannot be read, or is not believed.
    pub(crate) async fn standing(&self, uid: &str, call: u64) -> Result<Standing, ApiError> {
        let slot = self.read_again(uid).await?;
        match self.apply(&slot, Change::Look { call }).await? {
            Said::Standing(standing) => Ok(standing),
            _ => Ok(Standing::default()),
        }
    }

    /// Writes down what was decided about a call, unless something was; answers what stands.
    ///
    /// # Errors
    /// There is no room, the call is over or of another epoch, or the page cannot be stored now.
    pub(crate) async fn decide(&self, uid: &str, call: u64, decision: Decision) -> Result<Decision, ApiError> {
        self.probe().await?;
        let slot = self.slot(uid)?;
        match self.apply(&slot, Change::Decide { call, decision: Box::new(decision.clone()) }).await? {
            Said::Standing(standing) => Ok(standing.decision.unwrap_or(decision)),
            Said::Undecided(refused) => {
                let code = match refused {
                    Undecided::TooLarge => ErrorCode::SizeAdmissionError,
                    Undecided::TooMany => ErrorCode::SessionBusy,
                    Undecided::Over => ErrorCode::ApprovalUsed,
                    Undecided::AnotherEpoch { .. } => ErrorCode::ApprovalMismatch,
                };
                Err(ApiError::new(code, refused.to_string()))
            }
            _ => Err(unavailable("the page said nothing about the decision")),
        }
    }

    /// Stores what came of an attempt. When the store does not take it, the answer is still the answer: only a repeated call at another broker,
    /// or after this one's end, will hear that nobody knows.
    pub(crate) async fn settle(&self, call: &ToolCall, attempt: String, answer: &Arc<ToolAnswer>) {
        let Ok(slot) = self.slot(&call.session_uid) else { return };
        let change = Change::Settle { call: call.call, attempt, answer: Arc::clone(answer) };
        for _ in 0..SETTLE_ROUNDS_MAX {
            match self.apply(&slot, change.clone()).await {
                Ok(_) => return,
                Err(error) => tracing::warn!(session_uid = call.session_uid, call = call.call, %error, "an outcome is not stored yet"),
            }
        }
        self.meters.unstored.inc();
    }

    /// Has the change stored, alone or together with others.
    async fn apply(&self, slot: &Slot, change: Change) -> Result<Said, ApiError> {
        let (told, mut hears) = oneshot::channel();
        lock(&slot.queue).push(Queued { change, told });
        let mut page = slot.page.lock().await;
        // Whoever had the page before may have taken this change along.
        if let Ok(result) = hears.try_recv() {
            return result;
        }
        let batch = std::mem::take(&mut *lock(&slot.queue));
        match self.store(slot, &mut page, &batch).await {
            Ok(decided) => batch.into_iter().zip(decided).for_each(|(queued, said)| drop(queued.told.send(Ok(said)))),
            Err(error) => {
                *page = None;
                for Queued { change, told } in batch {
                    slot.note_unsent(change);
                    let _ = told.send(Err(error.clone()));
                }
            }
        }
        slot.bytes.store(page.as_ref().map_or(0, |(page, _)| page.answers_bytes()), Ordering::Relaxed);
        drop(page);
        let_go(&lock(&self.slots), PAGES_BYTES_MAX);
        hears.await.unwrap_or_else(|_| Err(unavailable("the change was lost")))
    }

    /// Reads, decides, puts; again when somebody else was first or nobody knows.
    async fn store(&self, slot: &Slot, known: &mut Option<(CallPage, Option<ETag>)>, batch: &[Queued]) -> Result<Vec<Said>, ApiError> {
        let (key, store) = (slot.session.calls(), &self.place.store);
        let (mut wait, mut last) = (WAIT_FIRST, String::new());
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 0 {
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
            let fresh = known.is_none();
            if fresh {
                match store.get(&key).await {
                    Ok(None) => *known = Some((CallPage::new(&slot.session), None)),
                    Ok(Some(object)) => *known = Some((open(&self.place.seal, object.bytes, slot).await?, Some(object.etag))),
                    Err(error) => {
                        last = error.to_string();
                        if error.is_transient() {
                            continue;
                        }
                        return Err(unavailable(&last));
                    }
                }
            }
            let Some((page, etag)) = known.as_ref() else { continue };
            let mut anchors = batch.iter().filter_map(|queued| queued.change.known_page());
            match anchors.clone().try_for_each(|anchor| page.believe(anchor)) {
                Ok(()) if anchors.any(|anchor| page.is_another(anchor)) => {
                    tracing::warn!(
                        key,
                        "the page of calls that the session knows is not there: calls that may have been made are not made again"
                    );
                }
                Ok(()) => {}
                Err(error) if fresh => return Err(damaged(&error, slot)),
                // Another broker has stored a later one.
                Err(_) => {
                    *known = None;
                    continue;
                }
            }
            *lock(&slot.seen) = Some(page.anchor());
            let mut next = page.clone();
            let decided: Vec<Said> = batch.iter().map(|queued| queued.change.apply(&mut next)).collect();
            if next == *page {
                // An intent that stands on a page read earlier may have been overtaken by another epoch since.
                if fresh || !decided.contains(&Said::Admission(Admission::Make)) {
                    return Ok(decided);
                }
                *known = None;
                continue;
            }
            let bytes = close(&self.place.seal, &mut next, slot).await?;
            let condition = etag.clone().map_or(Condition::Absent, Condition::Matches);
            let timer = self.meters.stored.start_timer();
            let put = store.put(&key, bytes, condition).await;
            timer.observe_duration();
            match put {
                Ok(etag) => {
                    *lock(&slot.seen) = Some(next.anchor());
                    *known = Some((next, Some(etag)));
                    return Ok(decided);
                }
                Err(PutError::Failed(error)) if !error.is_transient() => return Err(unavailable(&error.to_string())),
                Err(error) => {
                    last = error.to_string();
                    *known = None;
                }
            }
        }
        Err(unavailable(&last))
    }

    /// The anchor of the page of a session that was stored or seen last; `None` for one that this process has not seen.
    pub(crate) fn anchor(&self, uid: &str) -> Option<String> {
        let slots = lock(&self.slots);
        slots.get(uid).and_then(|slot| lock(&slot.seen).clone())
    }

    fn slot(&self, uid: &str) -> Result<Arc<Slot>, ApiError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let plain = !uid.is_empty() && uid.len() <= UID_BYTES_MAX && uid.bytes().all(is_plain);
        if !plain {
            return Err(ApiError::new(ErrorCode::InvalidRequest, "sessionUid is no uid of an object"));
        }
        let mut slots = lock(&self.slots);
        if slots.len() >= PAGES_MAX && !slots.contains_key(uid) {
            // A page can be read again; attempts without the word are worth more.
            let idle = slots.iter().find(|(_, slot)| Arc::strong_count(slot) == 1 && lock(&slot.unsent).is_empty());
            let idle = idle.or_else(|| slots.iter().find(|(_, slot)| Arc::strong_count(slot) == 1)).map(|(uid, _)| uid.clone());
            idle.and_then(|uid| slots.remove(&uid));
        }
        let (store_prefix, tenant) = (self.place.prefix.clone(), self.place.namespace.clone());
        let (pool, own) = keys::of_broker_name(uid);
        let session = || SessionKey { store_prefix, tenant, pool: pool.to_owned(), uid: own.to_owned(), name: String::new() };
        let slot = slots.entry(uid.to_owned()).or_insert_with(|| Arc::new(Slot::new(session())));
        Ok(Arc::clone(slot))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unavailable(reason: &str) -> ApiError {
    ApiError::new(ErrorCode::StorageUnavailable, format!("the journal of calls cannot be stored: {reason}"))
}
