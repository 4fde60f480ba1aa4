//! Whether a store keeps its word on conditional writes. Everything that a commit promises rests on it, so it is asked before a store is used.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use uuid::{Timestamp, Uuid};

use crate::{Condition, ETag, PutError, SnapshotStore, StoreError};

/// Writers that race for one key.
const RACERS: usize = 8;
/// Keys that are raced for at the same time, in each of the two kinds of race.
const RACE_KEYS: usize = 3;
/// Bytes that each of them writes: more than a server reads of a request before it looks at the rest, so that it stands between the condition and the
/// end of the body.
const RACER_BYTES: usize = 64 << 10;
/// Rounds after which a race that nobody won is a fault.
const ROUNDS_MAX: usize = 4;

/// A probe that began so long before another one has ended, even where the clocks of the two machines differ by a lot.
const LITTER_AGE: Duration = Duration::from_secs(3_600);

/// Why a store may not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreUnsafe {
    /// `If-None-Match: *` over an existing object succeeded.
    #[error("the object store ignores If-None-Match: it replaced an object that was to be created only if absent")]
    IgnoresAbsent,
    /// `If-Match` with an ETag that is not there succeeded.
    #[error("the object store ignores If-Match: it replaced an object whose ETag was another")]
    IgnoresMatch,
    /// `If-Match` on a key without an object created one.
    #[error("the object store ignores If-Match: it created an object that was to be replaced only if present")]
    MatchCreates,
    /// A condition that holds was refused.
    #[error("the object store refuses conditional writes whose condition holds ({what})")]
    RefusesTrue {
        /// Which.
        what: &'static str,
    },
    /// A read gave something else than the last write.
    #[error("the object store does not read back what was just written")]
    StaleRead,
    /// More than one of several writers was told that its condition held.
    #[error("the object store's conditional writes are not atomic: {winners} of {RACERS} writers that raced for one key all succeeded")]
    NotAtomic {
        /// How many.
        winners: usize,
    },
    /// No writer ever won a race.
    #[error("the object store lets none of {RACERS} writers that race for one key succeed")]
    NobodyWins,
    /// The probe could not be made.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StoreUnsafe {
    /// Whether the store is proved unsafe, and not merely out of reach.
    #[must_use]
    pub fn is_proof(&self) -> bool {
        !matches!(self, Self::Store(_))
    }
}

/// Probes `store` with objects of its own under `prefix` (ending in `/`), which it removes again; with them goes what probes left there that were cut
/// off an hour ago or earlier.
///
/// # Errors
/// Why the store may not be used.
pub async fn conditional_writes(store: &dyn SnapshotStore, prefix: &str) -> Result<(), StoreUnsafe> {
    let (folder, id) = (format!("{prefix}probe/"), Uuid::now_v7());
    let sequence_key = format!("{folder}{}/sequence", id.simple());
    let race_keys: Vec<String> = (0..RACE_KEYS).map(|n| format!("{folder}{}/race-{n}", id.simple())).collect();
    let result = probe(store, &sequence_key, &race_keys).await;
    let own = race_keys.into_iter().chain([sequence_key]);
    let litter = store.list(&folder).await.unwrap_or_default().into_iter().filter(|key| is_litter(key, &folder, id));
    join_all(own.chain(litter).map(|key| async move { store.delete(&key).await })).await;
    result
}

/// Whether the key is of a probe that was cut off: its id tells when it began.
fn is_litter(key: &str, folder: &str, now: Uuid) -> bool {
    let id = key.strip_prefix(folder).and_then(|rest| Uuid::try_parse(rest.split('/').next()?).ok());
    let seconds = |id: Uuid| id.get_timestamp().as_ref().map(Timestamp::to_unix);
    let (Some((began, _)), Some((now, _))) = (id.and_then(seconds), seconds(now)) else { return false };
    now.saturating_sub(began) >= LITTER_AGE.as_secs()
}

async fn probe(store: &dyn SnapshotStore, sequence_key: &str, race_keys: &[String]) -> Result<(), StoreUnsafe> {
    sequence(store, sequence_key).await?;
    join_all(race_keys.iter().map(|key| race(store, key))).await.into_iter().collect()
}

/// One writer, every condition.
async fn sequence(store: &dyn SnapshotStore, key: &str) -> Result<(), StoreUnsafe> {
    let [one, two, three] = [b"one", b"two", b"3rd"].map(|text| Bytes::from_static(text));
    if accepted(store.put(key, one.clone(), Condition::Matches("\"0123456789abcdef0123456789abcdef\"".to_owned())).await)?.is_some() {
        return Err(StoreUnsafe::MatchCreates);
    }
    let first =
        accepted(store.put(key, one.clone(), Condition::Absent).await)?.ok_or(StoreUnsafe::RefusesTrue { what: "If-None-Match" })?;
    if accepted(store.put(key, two.clone(), Condition::Absent).await)?.is_some() {
        return Err(StoreUnsafe::IgnoresAbsent);
    }
    read_back(store, key, &one, &first).await?;
    let second = accepted(store.put(key, two.clone(), Condition::Matches(first.clone())).await)?
        .ok_or(StoreUnsafe::RefusesTrue { what: "If-Match" })?;
    if accepted(store.put(key, three, Condition::Matches(first)).await)?.is_some() {
        return Err(StoreUnsafe::IgnoresMatch);
    }
    read_back(store, key, &two, &second).await
}

async fn read_back(store: &dyn SnapshotStore, key: &str, bytes: &Bytes, etag: &ETag) -> Result<(), StoreUnsafe> {
    match store.get(key).await? {
        Some(object) if object.bytes == bytes && object.etag == *etag => Ok(()),
        _ => Err(StoreUnsafe::StaleRead),
    }
}

/// `Some` if the write was done, `None` if it was refused.
fn accepted(result: Result<ETag, PutError>) -> Result<Option<ETag>, StoreError> {
    match result {
        Ok(etag) => Ok(Some(etag)),
        Err(PutError::Refused | PutError::Conflicted) => Ok(None),
        Err(PutError::Unknown(error) | PutError::Failed(error)) => Err(error),
    }
}

/// Several writers, one key: first for who creates it, then for who replaces it.
async fn race(store: &dyn SnapshotStore, key: &str) -> Result<(), StoreUnsafe> {
    let created = contend(store, key, Condition::Absent).await?;
    contend(store, key, Condition::Matches(created)).await?;
    Ok(())
}

async fn contend(store: &dyn SnapshotStore, key: &str, condition: Condition) -> Result<ETag, StoreUnsafe> {
    for _ in 0..ROUNDS_MAX {
        let bodies: Vec<Bytes> = (0..RACERS).map(|n| body(n, &condition)).collect();
        let replies = store.race(key, bodies.clone(), condition.clone()).await;
        let mut winners = Vec::new();
        for (body, reply) in bodies.iter().zip(replies) {
            if let Some(etag) = accepted(reply)? {
                winners.push((body, etag));
            }
        }
        match winners.as_slice() {
            // All were turned away as being in each other's way: nothing is changed, so the race can be run again.
            [] => {}
            [(body, etag)] => {
                read_back(store, key, body, etag).await?;
                return Ok(etag.clone());
            }
            many => return Err(StoreUnsafe::NotAtomic { winners: many.len() }),
        }
    }
    Err(StoreUnsafe::NobodyWins)
}

/// What the racer `n` writes: no two write the same.
fn body(n: usize, condition: &Condition) -> Bytes {
    let mut body = format!("{n} {condition:?}").into_bytes();
    body.resize(RACER_BYTES, b'.');
    body.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, Object};

    /// Checks, lets others in, and then writes.
    struct CheckThenWrite(Memory);

    #[async_trait::async_trait]
    impl SnapshotStore for CheckThenWrite {
        async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
            self.0.get(key).await
        }
        async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
            let now = self.0.get(key).await?.map(|object| object.etag);
            let holds = match &condition {
                Condition::None => true,
                Condition::Absent => now.is_none(),
                Condition::Matches(etag) => now.as_ref() == Some(etag),
            };
            tokio::task::yield_now().await;
            if holds { self.0.put(key, bytes, Condition::None).await } else { Err(PutError::Refused) }
        }
        async fn delete(&self, key: &str) -> Result<(), StoreError> {
            self.0.delete(key).await
        }
        async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
            self.0.list(prefix).await
        }
    }

    /// Does not know one of the two conditions.
    struct Ignores {
        memory: Memory,
        absent: bool,
    }

    #[async_trait::async_trait]
    impl SnapshotStore for Ignores {
        async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
            self.memory.get(key).await
        }
        async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
            let ignored = matches!(condition, Condition::Absent) == self.absent;
            self.memory.put(key, bytes, if ignored { Condition::None } else { condition }).await
        }
        async fn delete(&self, key: &str) -> Result<(), StoreError> {
            self.memory.delete(key).await
        }
        async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
            self.memory.list(prefix).await
        }
    }

    #[tokio::test]
    async fn a_safe_store_passes_and_is_left_clean() {
        let store = Memory::new();
        conditional_writes(&store, "t/a/").await.unwrap();
        assert!(store.list("").await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn what_a_probe_left_that_was_cut_off_goes_after_an_hour_and_not_before() {
        let (store, now) = (Memory::new(), std::time::UNIX_EPOCH.elapsed().unwrap());
        let begun = |ago: Duration| {
            let began = now - ago;
            let id = Uuid::new_v7(Timestamp::from_unix(uuid::NoContext, began.as_secs(), began.subsec_nanos()));
            format!("t/a/probe/{}/race-1", id.simple())
        };
        let (old, young) = (begun(LITTER_AGE), begun(LITTER_AGE - Duration::from_secs(60)));
        let stays = [young, "t/a/probe/strange".to_owned(), "t/a/s/x".to_owned(), "t/b/probe/of-another-tenant/race-1".to_owned()];
        for key in stays.iter().chain([&old]) {
            store.put(key, Bytes::from_static(b"x"), Condition::None).await.unwrap();
        }
        conditional_writes(&store, "t/a/").await.unwrap();
        let mut left = store.list("").await.unwrap();
        left.sort();
        let mut expected = stays.to_vec();
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn a_probe_is_litter_at_an_hour_to_the_second() {
        let id = |second| Uuid::new_v7(Timestamp::from_unix(uuid::NoContext, second, 0));
        let (began, hour) = (1_800_000_000, LITTER_AGE.as_secs());
        let key = format!("probe/{}/sequence", id(began).simple());
        assert!(!is_litter(&key, "probe/", id(began + hour - 1)));
        assert!(is_litter(&key, "probe/", id(began + hour)));
        assert!(!is_litter(&key, "probe/", id(began - hour)), "of a machine whose clock is ahead");
    }

    #[tokio::test]
    async fn a_store_that_checks_and_then_writes_is_refused_by_the_race() {
        let error = conditional_writes(&CheckThenWrite(Memory::new()), "").await.unwrap_err();
        assert!(matches!(error, StoreUnsafe::NotAtomic { winners } if winners > 1), "{error}");
        assert!(error.is_proof());
    }

    #[tokio::test]
    async fn a_store_without_one_of_the_conditions_is_refused_by_name() {
        let absent = conditional_writes(&Ignores { memory: Memory::new(), absent: true }, "").await.unwrap_err();
        assert!(matches!(absent, StoreUnsafe::IgnoresAbsent), "{absent}");
        let matches = conditional_writes(&Ignores { memory: Memory::new(), absent: false }, "").await.unwrap_err();
        assert!(matches!(matches, StoreUnsafe::MatchCreates), "{matches}");
    }
}
