//! Removes what is stored of sessions and ToolBrokers that do not exist any more, and what is older than it is kept.

use std::collections::{BTreeSet, HashSet};

use dormouse_lifecycle::{
    SessionKey,
    clusters::{Clusters, Left, Verdict},
    keys,
    orphans::{Age, Leftovers, Listed, MESSAGES_KEPT_DAYS, Orphan, USAGE_KEPT_DAYS},
};
use dormouse_store::{ListFrom, SnapshotStore, StoreError};
use futures::{StreamExt as _, TryStreamExt as _};

use crate::{EraseError, clusters::TenantPrefix, erase, remove_keys};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Sessions that are erased at the same time.
const ERASED_IN_FLIGHT_MAX: usize = 4;

/// Why a sweep ended early. What it has removed is gone, and the next one does the rest.
#[derive(Debug, thiserror::Error)]
pub enum OrphansError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A session could not be erased.
    #[error(transparent)]
    Erase(#[from] EraseError),
    /// Who knows which sessions there are did not say.
    #[error("it is not known which sessions there are: {0}")]
    Sessions(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What is swept.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Before every key: empty, or ending in `/`.
    pub store_prefix: &'a str,
    /// One tenant, or all.
    pub tenant: Option<&'a str>,
    /// Of which tenants: others are another process's to sweep.
    pub is_ours: &'a (dyn Fn(&str) -> bool + Sync),
    /// The time, in milliseconds since the Unix epoch.
    pub now_ms: i64,
}

/// What there is, those under deletion included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The uids of sessions.
    pub sessions: HashSet<String>,
    /// Tenants and names of ToolBrokers.
    pub brokers: HashSet<(String, String)>,
}

impl Scope<'_> {
    fn age(&self) -> Age {
        let before = |days: u32| self.now_ms.saturating_sub(i64::from(days).saturating_mul(DAY_MS));
        let day = jiff::Timestamp::from_millisecond(before(USAGE_KEPT_DAYS)).unwrap_or_default().strftime("%Y-%m-%d").to_string();
        Age { messages_ms: before(MESSAGES_KEPT_DAYS), usage_day: day }
    }

    fn prefix(&self) -> String {
        let all = || keys::tenants_prefix(self.store_prefix);
        self.tenant.map_or_else(all, |tenant| keys::tenant_prefix(self.store_prefix, tenant))
    }
}

/// What came of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Sessions that were erased.
    pub sessions: u64,
    /// Their objects that had been listed.
    pub objects: u64,
    /// Objects that were older than they are kept, or of ToolBrokers that are gone.
    pub leftovers: u64,
    /// Tenants in which sessions are not known and were left alone: why, and how many.
    pub left: Vec<(String, Left, u64)>,
}

/// Erases what `cluster` stored of sessions that are not any more, of ToolBrokers that are not, and what is older than it is kept. `known` answers what
/// there is, and is called when the store was listed: see [`dormouse_lifecycle::orphans`] for why that order matters, and what is looked at after it.
///
/// # Errors
/// See [`OrphansError`]: call it again some time.
pub async fn sweep<F>(store: &dyn SnapshotStore, scope: Scope<'_>, cluster: &str, known: F) -> Result<Swept, OrphansError>
where
    F: AsyncFnOnce() -> Result<Known, Box<dyn std::error::Error + Send + Sync>>,
{
    let (listed, leftovers) = list(store, scope).await?;
    let mut swept = Swept::default();
    let only_shared: BTreeSet<&str> = leftovers.tenants().collect();
    if listed.is_empty() && only_shared.is_empty() {
        return Ok(swept);
    }
    let known = known().await.map_err(OrphansError::Sessions)?;
    let unknown = listed.unknown(&known.sessions);
    let with_sessions: HashSet<&str> = unknown.iter().map(|(tenant, _)| *tenant).collect();
    let others = only_shared.into_iter().filter(|tenant| !with_sessions.contains(tenant)).map(|tenant| (tenant, Vec::new()));
    for (tenant, orphans) in unknown.iter().cloned().chain(others) {
        let place = TenantPrefix { store_prefix: scope.store_prefix.to_owned(), tenant: tenant.to_owned() };
        let (stored, condition) = place.read(store).await?;
        // What is no session's goes where sessions would: nobody else's is there.
        if stored.as_ref().is_some_and(|stored| stored.is_alone(cluster) && stored.accounted) {
            let brokers = known.brokers.iter().filter(|(of, _)| of == tenant).map(|(_, broker)| broker.as_str()).collect();
            let gone = leftovers.of(tenant, &brokers);
            swept.leftovers += gone.len() as u64;
            remove_keys(store, gone.into_iter().map(str::to_owned)).await?;
        }
        match Clusters::judge(stored.as_ref(), cluster, orphans.is_empty()) {
            Verdict::Nothing => {}
            // Should it be refused, somebody came in between: the next sweep sees who.
            Verdict::Account(clusters) => drop(place.write(store, &clusters, condition).await?),
            Verdict::Leave(why) => swept.left.push((tenant.to_owned(), why, orphans.len() as u64)),
            Verdict::Collect => {
                let collected = collect(store, &place, orphans).await?;
                swept.sessions += collected.len() as u64;
                swept.objects += collected.iter().sum::<u64>();
            }
        }
    }
    Ok(swept)
}

/// What is stored. Of the keys, which may be millions, only one part of the listing is held at a time. What is left of somebody else's tenant with which a part
/// ends is not listed.
async fn list(store: &dyn SnapshotStore, scope: Scope<'_>) -> Result<(Listed, Leftovers), StoreError> {
    let (prefix, age) = (scope.prefix(), scope.age());
    let (mut listed, mut leftovers) = (Listed::default(), Leftovers::default());
    let (mut next, mut past) = (None, None);
    loop {
        let from = past.as_deref().map_or(ListFrom::next(next.as_deref()), ListFrom::After);
        let mut page = store.list_page(&prefix, from, None).await?;
        let last = page.keys.last().and_then(|key| keys::tenant_of(scope.store_prefix, key));
        past = last.filter(|tenant| !(scope.is_ours)(tenant)).map(|tenant| keys::past_tenant(scope.store_prefix, tenant));
        page.keys.retain(|key| keys::tenant_of(scope.store_prefix, key).is_some_and(scope.is_ours));
        listed.add(scope.store_prefix, &page.keys);
        leftovers.add(scope.store_prefix, &page.keys, &age);
        next = page.next;
        if next.is_none() {
            return Ok((listed, leftovers));
        }
    }
}

/// By the same road as a deletion, so that a process which is still at work meets the tombstone. Answers how many objects each had that is gone now.
async fn collect(store: &dyn SnapshotStore, place: &TenantPrefix, orphans: Vec<Orphan>) -> Result<Vec<u64>, EraseError> {
    let collected = futures::stream::iter(orphans)
        .map(|orphan| async move {
            let keys = keys_of(place, &orphan);
            if is_archived(store, &keys).await? {
                return Ok::<_, EraseError>(None);
            }
            for key in &keys {
                erase(store, key).await?;
            }
            Ok(Some(orphan.objects))
        })
        .buffer_unordered(ERASED_IN_FLIGHT_MAX);
    collected.try_filter_map(async |objects| Ok(objects)).try_collect().await
}

/// Whether it was archived since the listing, and is unknown for that reason.
async fn is_archived(store: &dyn SnapshotStore, keys: &[SessionKey]) -> Result<bool, StoreError> {
    for key in keys {
        let [own, _] = key.archived();
        if store.get(&own).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where an orphan is: a hostile pod of another pool may have put something there under its uid.
fn keys_of(place: &TenantPrefix, orphan: &Orphan) -> Vec<SessionKey> {
    let key = |pool: &str| SessionKey {
        store_prefix: place.store_prefix.clone(),
        tenant: place.tenant.clone(),
        pool: pool.to_owned(),
        uid: orphan.uid.clone(),
        name: String::new(),
    };
    orphan.pools.iter().map(|pool| key(pool)).collect()
}

#[cfg(test)]
#[path = "orphans_tests.rs"]
mod tests;
