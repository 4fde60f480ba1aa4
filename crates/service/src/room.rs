//! Room for what is large and read whole, a body or an answer: of all together only so many bytes at a time, from the first byte that is too many until
//! it is done with. What is small waits for nobody.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use dormouse_protocol::{ApiError, ErrorCode};
use futures::{StreamExt as _, stream};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::memory::Memory;

/// Bytes up to which something is small.
pub const SMALL_BYTES_MAX: usize = 128 << 10;
/// How often something large is in memory until it is done with: as it came, as a value, as it is passed on, and what a buffer has too much.
const COPIES: u64 = 6;
/// The part of a process's memory that one room may promise, with all copies, in parts of a hundred. Two such rooms full keep out nothing small
/// (see [`crate::memory`]).
const MEMORY_PERCENT: u64 = 20;
/// The part of a room that one caller may have, in parts of a hundred: the rest is for others, whatever he does. One thing may be larger.
const CALLER_PERCENT: u32 = 50;
/// How long something waits for its turn that turns out to be large.
pub const WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes that are handed over at once to be sent. What a peer does not take yet is kept by whoever sends it, out of reach of everything here.
const PIECE_BYTES: usize = 64 << 10;

tokio::task_local! {
    static HOLDING: Holding;
}

/// All the room of one kind. Clones are the same.
#[derive(Debug, Clone)]
pub struct Room {
    kib: Arc<Semaphore>,
    kib_max: u32,
    memory: Memory,
    /// What each caller may still take, of those who hold some.
    callers: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
}

impl Room {
    /// Room for `bytes_max` of what is large, as it comes.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self::within(Memory::unlimited(), bytes_max)
    }

    /// The same, but no more than a fifth of this memory, where its copies are promised, too.
    #[must_use]
    pub fn within(memory: Memory, bytes_max: u64) -> Self {
        let share = memory.limit().map_or(u64::MAX, |limit| limit / 100 * MEMORY_PERCENT / COPIES);
        let kib_max = u32::try_from(bytes_max.min(share) >> 10).unwrap_or(u32::MAX).max(1);
        Self { kib: Arc::new(Semaphore::new(kib_max as usize)), kib_max, memory, callers: Arc::default() }
    }

    /// Bytes that nobody holds.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        (self.kib.available_permits() as u64) << 10
    }

    /// Something that holds nothing of it yet.
    #[must_use]
    pub fn holding(&self) -> Holding {
        Holding(Arc::new(Shared { room: self.clone(), held: Mutex::default() }))
    }

    fn kib_of_caller(&self) -> u32 {
        (self.kib_max / 100 * CALLER_PERCENT).max(1)
    }

    fn share(&self, caller: &str) -> Arc<Semaphore> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = callers.get(caller).and_then(Weak::upgrade) {
            return share;
        }
        callers.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.kib_of_caller() as usize));
        callers.insert(caller.to_owned(), Arc::downgrade(&share));
        share
    }
}

/// What one thing, or one request, holds of a room. Clones are the same; the last one gives it back.
#[derive(Debug, Clone)]
pub struct Holding(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    room: Room,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    permit: Option<OwnedSemaphorePermit>,
    kib: u32,
    /// Whose it is, where somebody said.
    caller: Option<String>,
    share: Option<Share>,
    promised: Option<(Memory, u64)>,
}

/// The caller's part of the room, and what of it is held here.
#[derive(Debug)]
struct Share {
    of: Arc<Semaphore>,
    kib: u32,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some((memory, bytes)) = &self.promised {
            memory.give_back(*bytes);
        }
    }
}

impl Holding {
    /// That of the task.
    #[must_use]
    pub fn current() -> Option<Self> {
        HOLDING.try_with(Clone::clone).ok()
    }

    /// Does `work` as the task of this.
    pub async fn around<F: Future>(self, work: F) -> F::Output {
        HOLDING.scope(self, work).await
    }

    /// Counts what it will hold as this caller's, who has no more than half of the room with all that is his, or one thing that is larger.
    pub fn count_for(&self, caller: &str) {
        self.lock().caller = Some(caller.to_owned());
    }

    /// Whether it holds anything.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.lock().kib > 0
    }

    /// Waits until there is room for at most so many bytes, which are held once: for the task's own timeout.
    pub async fn wait_for(&self, bytes_max: usize) {
        if self.is_large() {
            return;
        }
        let kib = self.kib(bytes_max);
        // It is never closed.
        if let Ok(permit) = Arc::clone(&self.0.room.kib).acquire_many_owned(kib).await {
            drop(self.add(permit, kib));
        }
    }

    /// Holds room for so many bytes in all, in steps that double. What is larger than all the room takes all of it.
    ///
    /// # Errors
    /// `CapacityExhausted`: others, or other requests of this caller, hold it. Only what holds nothing yet waits until they do not, for [`WAIT_MAX`].
    pub async fn grow_to(&self, bytes: usize) -> Result<(), ApiError> {
        if bytes <= SMALL_BYTES_MAX {
            return Ok(());
        }
        let kib = self.kib(bytes.checked_next_power_of_two().unwrap_or(usize::MAX));
        let more = kib.saturating_sub(self.lock().kib);
        if more == 0 {
            return Ok(());
        }
        // Whoever holds some and waits for more keeps others who do the same waiting.
        let until = Instant::now() + if more == kib { WAIT_MAX } else { Duration::ZERO };
        let of_share = kib.min(self.0.room.kib_of_caller());
        let share = self.share().map(|(share, has)| (share, of_share.saturating_sub(has)));
        let shared = match share {
            Some((share, more)) => Some(take(share, more, until).await.ok_or_else(full)?),
            None => None,
        };
        let permit = take(Arc::clone(&self.0.room.kib), more, until).await.ok_or_else(full)?;
        let promise = (u64::from(more) << 10) * COPIES;
        if !self.0.room.memory.take(promise) {
            return Err(full());
        }
        let mut held = self.add(permit, more);
        held.promised.get_or_insert_with(|| (self.0.room.memory.clone(), 0)).1 += promise;
        if let (Some(share), Some(shared)) = (&mut held.share, shared) {
            join(&mut share.permit, shared);
            share.kib = of_share;
        }
        Ok(())
    }

    /// The answer that was read whole: the room is given back when its peer has taken it but for a piece.
    #[must_use]
    pub fn until_sent(self, response: Response) -> Response {
        if !self.is_large() {
            return response;
        }
        response.map(|body| {
            let pieces = body.into_data_stream().flat_map(|data| match data {
                Ok(bytes) => stream::iter(pieces(bytes)).map(Ok).left_stream(),
                Err(error) => stream::iter([Err(error)]).right_stream(),
            });
            Body::from_stream(pieces.inspect(move |_| {
                // The stream has it as long as it lasts.
                let _ = &self;
            }))
        })
    }

    /// Holds what `other` does, which holds nothing any more.
    pub fn take_over(&self, other: &Self) {
        if Arc::ptr_eq(&self.0, &other.0) {
            return;
        }
        let mut taken = std::mem::take(&mut *other.lock());
        if let Some(permit) = taken.permit.take() {
            let mut held = self.add(permit, taken.kib);
            if held.share.is_none() {
                held.share = taken.share.take();
            }
            if let Some((memory, promise)) = taken.promised.take() {
                held.promised.get_or_insert((memory, 0)).1 += promise;
            }
        }
    }

    fn add(&self, permit: OwnedSemaphorePermit, kib: u32) -> std::sync::MutexGuard<'_, Held> {
        let mut held = self.lock();
        held.kib += kib;
        join(&mut held.permit, permit);
        held
    }

    /// The caller's part of the room, and what of it is held here.
    fn share(&self) -> Option<(Arc<Semaphore>, u32)> {
        let mut held = self.lock();
        let Held { caller, share, .. } = &mut *held;
        if let (None, Some(caller)) = (&share, &caller) {
            *share = Some(Share { of: self.0.room.share(caller), kib: 0, permit: None });
        }
        share.as_ref().map(|share| (Arc::clone(&share.of), share.kib))
    }

    fn kib(&self, bytes: usize) -> u32 {
        u32::try_from(bytes >> 10).unwrap_or(u32::MAX).clamp(1, self.0.room.kib_max)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn take(kib: Arc<Semaphore>, count: u32, until: Instant) -> Option<OwnedSemaphorePermit> {
    if until <= Instant::now() {
        return kib.try_acquire_many_owned(count).ok();
    }
    tokio::time::timeout_at(until, kib.acquire_many_owned(count)).await.ok()?.ok()
}

fn join(held: &mut Option<OwnedSemaphorePermit>, more: OwnedSemaphorePermit) {
    match held {
        Some(held) => held.merge(more),
        none => *none = Some(more),
    }
}

fn full() -> ApiError {
    let message = format!(
        "what is larger than {} KiB and read whole has its room here, which others, or your other requests, have taken: send the request again later, with the same idempotency key, \
         or read what is large in parts",
        SMALL_BYTES_MAX >> 10
    );
    ApiError::new(ErrorCode::CapacityExhausted, message)
}

/// What JSON takes once it is read: its text, and for each of its values as much as one takes by itself.
#[must_use]
pub fn json_weight(text: &[u8]) -> usize {
    const VALUE_BYTES: usize = 32;
    if text.len() <= SMALL_BYTES_MAX {
        return text.len();
    }
    let (mut values, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b',' | b':' | b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    text.len().saturating_add(values.saturating_mul(VALUE_BYTES))
}

fn pieces(mut bytes: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| bytes.split_to(bytes.len().min(PIECE_BYTES))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = 32 << 20;

    #[tokio::test]
    async fn what_does_not_fit_waits_until_an_answer_was_sent() {
        let room = Room::new(ALL);
        let whole = room.holding();
        whole.wait_for(usize::MAX).await;
        assert_eq!(room.free_bytes(), 0);
        let second = room.holding();
        let mut waits = Box::pin(second.clone().around(async { Holding::current().unwrap().wait_for(1).await }));
        assert!(futures::poll!(&mut waits).is_pending());
        // Of its own it takes no more.
        whole.wait_for(usize::MAX).await;
        let answer = vec![b'x'; PIECE_BYTES * 2 + 1];
        let mut sent = whole.until_sent(Response::new(Body::from(answer))).into_body().into_data_stream();
        for bytes in [PIECE_BYTES, PIECE_BYTES, 1] {
            assert!(futures::poll!(&mut waits).is_pending(), "it is not sent yet");
            assert_eq!(sent.next().await.unwrap().unwrap().len(), bytes);
        }
        assert!(sent.next().await.is_none());
        drop(sent);
        waits.await;
        assert_eq!(room.free_bytes(), ALL - 1024);
    }

    #[tokio::test(start_paused = true)]
    async fn what_grows_is_promised_and_refused_where_others_have_the_room() {
        let memory = Memory::with_reading(1_000 << 20, || Some(0));
        let room = Room::within(memory.clone(), ALL);
        let (first, second) = (room.holding(), room.holding());
        first.grow_to(SMALL_BYTES_MAX).await.unwrap();
        assert!(!first.is_large() && memory.promised() == 0, "what is small holds nothing");
        for bytes in [SMALL_BYTES_MAX + 1, 1 << 20, (9 << 20) + 1] {
            first.grow_to(bytes).await.unwrap();
        }
        assert_eq!((room.free_bytes(), memory.promised()), (ALL - (16 << 20), (16 << 20) * COPIES));
        second.grow_to(16 << 20).await.unwrap();
        assert!(memory.has_room(), "a full room keeps nothing small out");
        let third = room.holding();
        third.take_over(&second);
        assert!(third.is_large() && !second.is_large());
        second.take_over(&third);
        drop(third);
        let refused = room.holding().grow_to(SMALL_BYTES_MAX + 1).await.unwrap_err();
        assert_eq!((refused.code, refused.retryable), (ErrorCode::CapacityExhausted, true));
        drop(first);
        room.holding().grow_to(16 << 20).await.unwrap();
        drop(second);
        assert_eq!((room.free_bytes(), memory.promised()), (ALL, 0));
        room.holding().grow_to(usize::MAX >> 1).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_has_half_of_the_room_and_others_find_the_rest() {
        let room = Room::new(ALL);
        let of = |caller: &str| {
            let holding = room.holding();
            holding.count_for(caller);
            holding
        };
        let hers: Vec<_> = std::iter::repeat_with(|| of("her")).take(3).collect();
        hers[0].grow_to(8 << 20).await.unwrap();
        let most = u64::from(room.kib_of_caller()) << 10;
        let left = most - (8 << 20);
        hers[1].grow_to(4 << 20).await.unwrap();
        assert!(left < 8 << 20, "a second one that is as large does not fit: {left}");
        let refused = hers[2].grow_to(4 << 20).await.unwrap_err();
        assert_eq!((refused.code, room.free_bytes()), (ErrorCode::CapacityExhausted, ALL - (12 << 20)));
        of("him").grow_to(8 << 20).await.unwrap();
        drop(hers);
        assert_eq!(room.free_bytes(), ALL);
        let all = of("her");
        all.grow_to(usize::MAX >> 1).await.unwrap();
        assert_eq!(room.free_bytes(), 0, "one thing may be larger");
        assert!(of("her").grow_to(1 << 20).await.is_err());
        drop(all);
        of("third").grow_to(1 << 20).await.unwrap();
        assert_eq!(room.callers.lock().unwrap().len(), 1, "who holds nothing is forgotten");
    }

    #[test]
    fn many_small_values_weigh_more_than_their_text() {
        let text = |inner: &str| format!("[{}]", vec![inner; 1 << 20].join(","));
        let numbers = text("0");
        assert!(json_weight(numbers.as_bytes()) >= numbers.len() + (32 << 20));
        let one = format!(r#"{{"a":"{}"}}"#, r#",[\"{\\"#.repeat(1 << 17));
        assert_eq!(json_weight(one.as_bytes()), one.len() + 2 * 32, "what stands in a text is none");
        assert_eq!(json_weight(b"[0,0]"), 5, "what is small is not looked at");
    }

    #[tokio::test]
    async fn a_small_process_has_a_small_room() {
        let room = Room::within(Memory::with_reading(30 << 20, || Some(0)), ALL);
        assert_eq!(room.free_bytes() >> 10, 1023);
        let used_up = Memory::with_reading(30 << 20, || Some(29 << 20));
        let refused = Room::within(used_up, ALL).holding().grow_to(1 << 20).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::CapacityExhausted);
    }
}
