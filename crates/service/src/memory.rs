//! How much memory a process may use and does use, and whether there is room for more: what is not admitted cannot get the process killed.
//!
//! Two measures hold together. *Promised* is what somebody asked for and may come to use: taken before, given back after. *Used* is what the system
//! says, which knows all the rest: answers under way, queues, events, native memory. Without a limit there is always room.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    extract::{Request, State},
    http::header::CONTENT_LENGTH,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use dormouse_protocol::{ApiError, ErrorCode};

use crate::error::ApiErrorResponse;

/// Parts of a hundred of the limit: of what is used, up to which new work is admitted, and promises are made; and the same of what is promised in all.
/// The last of it is promised only to who has little ([`Memory::take_fairly`]).
const ADMITTED_PERCENT: u64 = 80;
const PROMISES_MADE_PERCENT: u64 = 90;
const ADMITTED_PROMISED_PERCENT: u64 = 40;
const PROMISED_TO_MOST_PERCENT: u64 = 45;
const PROMISED_PERCENT: u64 = 50;

/// How long a reading is good for, and how much may be promised on it.
const READING_AGE_MAX: Duration = Duration::from_millis(10);
const READING_BYTES_MAX: u64 = 8 << 20;

/// A body up to so many bytes is small. How often a larger one that is read whole is in memory until its request is answered: as it came, parsed, and
/// on its way to somebody else.
const SMALL_BODY_BYTES_MAX: u64 = 64 << 10;
const BODY_COPIES: u64 = 6;

/// Where a control group's limit stands: version 2, then 1.
const CGROUP_FILES: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
/// A limit above this is none.
const LIMIT_BYTES_MAX: u64 = 1 << 50;

/// What the system says that the process uses, if it says it.
pub type Reading = fn() -> Option<u64>;

/// How much memory the process may use.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct MemoryArgs {
    /// Bytes of memory that this process may use. Absent: what its control group may, if that has a limit.
    #[arg(long = "memory-bytes", env = "DORMOUSE_MEMORY_BYTES")]
    pub memory_bytes: Option<u64>,
}

/// The memory of the process. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Memory(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    limit: u64,
    reading: Reading,
    state: Mutex<Account>,
}

#[derive(Debug, Default)]
struct Account {
    promised: u64,
    used: u64,
    read_at: Option<Instant>,
    promised_since: u64,
}

impl Memory {
    /// Without a limit.
    #[must_use]
    pub fn unlimited() -> Self {
        Self(None)
    }

    /// What the flag says, else what the process's control group says.
    #[must_use]
    pub fn of_process(args: &MemoryArgs) -> Self {
        match args.memory_bytes.or_else(cgroup_limit) {
            Some(limit) => Self::with_reading(limit, resident),
            None => Self::unlimited(),
        }
    }

    /// `limit` bytes, of which `reading` tells what is used.
    #[must_use]
    pub fn with_reading(limit: u64, reading: Reading) -> Self {
        Self(Some(Arc::new(Inner { limit, reading, state: Mutex::default() })))
    }

    /// The limit in bytes, if there is one.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.0.as_ref().map(|inner| inner.limit)
    }

    /// Bytes that are promised.
    #[must_use]
    pub fn promised(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.lock().promised)
    }

    /// Whether new work is admitted.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.0.as_ref().is_none_or(|inner| {
            let mut known = inner.lock();
            inner.look(&mut known);
            known.used + known.promised_since <= inner.part(ADMITTED_PERCENT) && known.promised <= inner.part(ADMITTED_PROMISED_PERCENT)
        })
    }

    /// Bytes that new work may take before none is admitted any more.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.0.as_ref().map_or(u64::MAX, |inner| {
            let mut known = inner.lock();
            inner.look(&mut known);
            let unused = inner.part(ADMITTED_PERCENT).saturating_sub(known.used + known.promised_since);
            unused.min(inner.part(ADMITTED_PROMISED_PERCENT).saturating_sub(known.promised))
        })
    }

    /// Forgets the last reading, because much was freed since.
    pub fn look_again(&self) {
        if let Some(inner) = &self.0 {
            inner.lock().read_at = None;
        }
    }

    /// What each of `sharers` would have if what is promised were shared equally.
    #[must_use]
    pub fn share(&self, sharers: u32) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.lock().share(sharers))
    }

    /// Promises `bytes` more. False: there is no room for them.
    #[must_use]
    pub fn take(&self, bytes: u64) -> bool {
        self.take_up_to(bytes, |_| PROMISED_PERCENT)
    }

    /// Promises `bytes` more to one of `sharers`, who `has` some. The last tenth of what may be promised is for those who stay within their share: so
    /// whoever takes all there is leaves something to those who need a little.
    #[must_use]
    pub fn take_fairly(&self, bytes: u64, has: u64, sharers: u32) -> bool {
        self.take_up_to(bytes, |known| if has + bytes <= known.share(sharers) { PROMISED_PERCENT } else { PROMISED_TO_MOST_PERCENT })
    }

    fn take_up_to(&self, bytes: u64, percent: impl FnOnce(&Account) -> u64) -> bool {
        let Some(inner) = &self.0 else { return true };
        let mut known = inner.lock();
        if known.promised_since + bytes > READING_BYTES_MAX {
            known.read_at = None;
        }
        inner.look(&mut known);
        let fits = known.promised + bytes <= inner.part(percent(&known))
            && known.used + known.promised_since + bytes <= inner.part(PROMISES_MADE_PERCENT);
        if fits {
            known.promised += bytes;
            known.promised_since += bytes;
        }
        fits
    }

    /// Takes a promise back.
    pub fn give_back(&self, bytes: u64) {
        if let Some(inner) = &self.0 {
            let mut known = inner.lock();
            known.promised = known.promised.saturating_sub(bytes);
        }
    }

    /// What is answered where there is no room.
    #[must_use]
    pub fn exhausted(&self) -> ApiError {
        let limit = self.limit().unwrap_or(u64::MAX) >> 20;
        let message = format!("the memory of this process ({limit} MiB) is in use; nothing was done. Send the request again later");
        ApiError::new(ErrorCode::CapacityExhausted, message)
    }
}

impl Account {
    fn share(&self, sharers: u32) -> u64 {
        self.promised / u64::from(sharers.max(1))
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, Account> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn part(&self, percent: u64) -> u64 {
        self.limit / 100 * percent
    }

    /// Reads what is used, if the last reading is old.
    fn look(&self, known: &mut Account) {
        if known.read_at.is_some_and(|at| at.elapsed() < READING_AGE_MAX) {
            return;
        }
        if let Some(used) = (self.reading)() {
            (known.used, known.promised_since) = (used, 0);
        }
        known.read_at = Some(Instant::now());
    }
}

/// Answers a request with `CapacityExhausted` when there is no room for it. A layer before everything that reads a body, where bodies are read whole: what a
/// large one will take is promised until there is an answer, so that many that come at once are not all admitted before any was read.
pub async fn admit_whole(State(memory): State<Memory>, request: Request, next: Next) -> Response {
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok()).unwrap_or(0);
    let bytes = if announced > SMALL_BODY_BYTES_MAX { announced.saturating_mul(BODY_COPIES) } else { 0 };
    if !memory.has_room() || !memory.take(bytes) {
        return ApiErrorResponse(memory.exhausted()).into_response();
    }
    let promise = Promise { memory, bytes };
    let response = next.run(request).await;
    drop(promise);
    response
}

/// Given back when it is dropped: whoever asked may go before there is an answer.
struct Promise {
    memory: Memory,
    bytes: u64,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

fn cgroup_limit() -> Option<u64> {
    let limits = CGROUP_FILES.iter().filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok());
    limits.filter(|limit| *limit < LIMIT_BYTES_MAX).min()
}

/// Bytes of this process that only it has, as Linux tells them; elsewhere nobody does. What is mapped of a file in memory is not among them: an engine's
/// image is there once, and Linux tells it once for each instance that maps it.
#[must_use]
pub fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok())?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn promises_are_bounded_though_nothing_of_them_is_used() {
        let memory = Memory::with_reading(1_000 << 20, || Some(0));
        assert_eq!(memory.free_bytes(), 400 << 20);
        assert!(memory.take(400 << 20) && memory.has_room());
        assert!(!memory.take(101 << 20) && memory.take(100 << 20) && !memory.has_room());
        assert_eq!(memory.free_bytes(), 0);
        memory.give_back(500 << 20);
        assert_eq!(memory.promised(), 0);
        assert!(Memory::unlimited().take(u64::MAX));
    }

    #[test]
    fn the_last_tenth_of_promises_is_for_those_who_stay_within_their_share() {
        let memory = Memory::with_reading(1_000 << 20, || Some(0));
        assert!(memory.take_fairly(450 << 20, 0, 10), "one may have all but that");
        assert!(!memory.take_fairly(1, 450 << 20, 10));
        assert_eq!(memory.share(10), 45 << 20);
        assert!(!memory.take_fairly(1, 45 << 20, 10) && memory.take_fairly(1, (45 << 20) - 1, 10));
        assert!(memory.take_fairly((45 << 20) - 1, 1, 10) && !memory.take_fairly(6 << 20, 0, 10), "500 MiB are promised in all");
        assert!(Memory::unlimited().take_fairly(u64::MAX / 2, u64::MAX / 2, 0));
    }

    #[test]
    fn what_the_system_says_counts_whoever_uses_it() {
        static USED: AtomicU64 = AtomicU64::new(0);
        let memory = Memory::with_reading(1_000 << 20, || Some(USED.load(Ordering::SeqCst)));
        assert!(memory.has_room());
        USED.store(790 << 20, Ordering::SeqCst);
        memory.look_again();
        assert_eq!(memory.free_bytes(), 10 << 20);
        USED.store(801 << 20, Ordering::SeqCst);
        memory.look_again();
        assert!(!memory.has_room() && memory.take(9 << 20), "what runs may grow where nothing new begins");
        USED.store(895 << 20, Ordering::SeqCst);
        memory.look_again();
        assert!(!memory.take(9 << 20));
    }

    #[tokio::test]
    async fn large_bodies_are_promised_until_they_are_answered() {
        let memory = Memory::with_reading(1_000 << 20, || Some(0));
        let go = std::sync::Arc::new(tokio::sync::Notify::new());
        let answered = std::sync::Arc::clone(&go);
        let hang = async move |body: axum::body::Bytes| {
            answered.notified().await;
            body.len().to_string()
        };
        let layer = axum::middleware::from_fn_with_state(memory.clone(), admit_whole);
        let routes =
            axum::Router::new().route("/", axum::routing::post(hang)).layer(axum::extract::DefaultBodyLimit::disable()).layer(layer);
        let send = |bytes: usize| {
            let request = Request::post("/").header(CONTENT_LENGTH, bytes).body(axum::body::Body::from(vec![0; bytes])).unwrap();
            tower::ServiceExt::oneshot(routes.clone(), request)
        };
        let mut first = Box::pin(send(60 << 20));
        assert!(futures::poll!(&mut first).is_pending());
        assert_eq!(memory.promised(), (60 << 20) * BODY_COPIES);
        assert_eq!(send(30 << 20).await.unwrap().status(), 503, "no room for another");
        go.notify_one();
        assert_eq!(first.await.unwrap().status(), 200);
        assert_eq!(memory.promised(), 0);
        let gone = Box::pin(send(60 << 20));
        drop(gone);
        assert_eq!(memory.promised(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_says_what_the_process_uses() {
        let before = resident().unwrap();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(resident().unwrap() >= before + (60 << 20), "{} bytes more", block.len());
    }
}
