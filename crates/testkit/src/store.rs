//! A store in memory that counts what is asked of it, and fails when it is told to.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use bytes::Bytes;
use dormouse_store::{Condition, ETag, Memory, Object, PutError, SnapshotStore, StoreError};

/// A store whose faults a test switches on.
#[derive(Debug)]
pub struct Faulty {
    inner: Memory,
    /// Whether requests for a key count.
    counted: fn(&str) -> bool,
    /// How often others have a turn while something is put.
    turns: usize,
    gets: AtomicUsize,
    puts: AtomicUsize,
    others: AtomicUsize,
    /// The next head PUT happens, and its reply is lost.
    pub lose_reply: AtomicBool,
    /// PUTs happen, and their replies are lost.
    pub lose_replies: AtomicBool,
    /// The next PUT happens, and from then on nothing is answered, not even that.
    pub falls: AtomicBool,
    /// Every condition is ignored.
    pub ignore_conditions: AtomicBool,
    /// No GET and no PUT is answered.
    pub down: AtomicBool,
}

impl Default for Faulty {
    fn default() -> Self {
        Self::counting(|_| true)
    }
}

impl Faulty {
    /// One that counts requests for keys of a kind only.
    #[must_use]
    pub fn counting(counted: fn(&str) -> bool) -> Self {
        Self {
            inner: Memory::new(),
            counted,
            turns: 0,
            gets: AtomicUsize::new(0),
            puts: AtomicUsize::new(0),
            others: AtomicUsize::new(0),
            lose_reply: AtomicBool::new(false),
            lose_replies: AtomicBool::new(false),
            falls: AtomicBool::new(false),
            ignore_conditions: AtomicBool::new(false),
            down: AtomicBool::new(false),
        }
    }

    /// A PUT takes its time, in which other tasks have so many turns.
    #[must_use]
    pub fn slow(self, turns: usize) -> Self {
        Self { turns, ..self }
    }

    /// GETs so far, refused ones included.
    #[must_use]
    pub fn gets(&self) -> usize {
        self.gets.load(SeqCst)
    }

    /// PUTs so far, likewise.
    #[must_use]
    pub fn puts(&self) -> usize {
        self.puts.load(SeqCst)
    }

    /// Requests of any kind so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.gets() + self.puts() + self.others.load(SeqCst)
    }

    fn count(&self, of: &AtomicUsize, key: &str) {
        of.fetch_add(usize::from((self.counted)(key)), SeqCst);
    }

    fn unavailable(reason: &str) -> StoreError {
        StoreError::Unavailable { operation: "reach", endpoint: "test".to_owned(), reason: reason.to_owned() }
    }

    fn answers(&self) -> Result<(), StoreError> {
        if self.down.load(SeqCst) { Err(Self::unavailable("it is down")) } else { Ok(()) }
    }
}

#[async_trait::async_trait]
impl SnapshotStore for Faulty {
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
        self.count(&self.gets, key);
        self.answers()?;
        self.inner.get(key).await
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
        self.count(&self.puts, key);
        self.answers()?;
        for _ in 0..self.turns {
            tokio::task::yield_now().await;
        }
        let condition = if self.ignore_conditions.load(SeqCst) { Condition::None } else { condition };
        let put = self.inner.put(key, bytes, condition).await;
        if self.falls.swap(false, SeqCst) {
            self.down.store(true, SeqCst);
        }
        let lost =
            self.lose_replies.load(SeqCst) || self.down.load(SeqCst) || (key.ends_with("/head") && self.lose_reply.swap(false, SeqCst));
        if lost { Err(PutError::Unknown(Self::unavailable("the reply was lost"))) } else { put }
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.count(&self.others, key);
        self.inner.delete(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.count(&self.others, prefix);
        self.inner.list(prefix).await
    }
}
