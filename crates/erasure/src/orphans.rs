//! Removes what is stored of sessions that do not exist any more.

use std::collections::HashSet;

use dormouse_lifecycle::{
    SessionKey,
    clusters::{Clusters, Left, Verdict},
    keys,
    orphans::{Listed, Orphan},
};
use dormouse_store::{SnapshotStore, StoreError};
use futures::{StreamExt as _, TryStreamExt as _};

use crate::{EraseError, clusters::TenantPrefix, erase};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope<'a> {
    /// Before every key: empty, or ending in `/`.
    pub store_prefix: &'a str,
    /// One tenant, or all.
    pub tenant: Option<&'a str>,
}

impl Scope<'_> {
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
    /// Tenants in which sessions are not known and were left alone: why, and how many.
    pub left: Vec<(String, Left, u64)>,
}

/// Erases what `cluster` stored of sessions that are not any more. `sessions` answers the uids of all that there are, those under deletion
/// included, and is called when the store was listed: see [`dormouse_lifecycle::orphans`] for why that order is the whole of it.
///
/// # Errors
/// See [`OrphansError`]: call it again some time.
pub async fn sweep<F>(store: &dyn SnapshotStore, scope: Scope<'_>, cluster: &str, sessions: F) -> Result<Swept, OrphansError>
where
    F: AsyncFnOnce() -> Result<HashSet<String>, Box<dyn std::error::Error + Send + Sync>>,
{
    let listed = list(store, scope).await?;
    let mut swept = Swept::default();
    if listed.is_empty() {
        return Ok(swept);
    }
    let known = sessions().await.map_err(OrphansError::Sessions)?;
    for (tenant, orphans) in listed.unknown(&known) {
        let place = TenantPrefix { store_prefix: scope.store_prefix.to_owned(), tenant: tenant.to_owned() };
        let (stored, condition) = place.read(store).await?;
        match Clusters::judge(stored.as_ref(), cluster, orphans.is_empty()) {
            Verdict::Nothing => {}
            // Should it be refused, somebody came in between: the next sweep sees who.
            Verdict::Account(clusters) => drop(place.write(store, &clusters, condition).await?),
            Verdict::Leave(why) => swept.left.push((tenant.to_owned(), why, orphans.len() as u64)),
            Verdict::Collect => {
                collect(store, &place, &orphans).await?;
                swept.sessions += orphans.len() as u64;
                swept.objects += orphans.iter().map(|orphan| orphan.objects).sum::<u64>();
            }
        }
    }
    Ok(swept)
}

/// What is stored of sessions. Of the keys, which may be millions, only one part of the listing is held at a time.
async fn list(store: &dyn SnapshotStore, scope: Scope<'_>) -> Result<Listed, StoreError> {
    let (prefix, mut listed, mut next) = (scope.prefix(), Listed::default(), None);
    loop {
        let page = store.list_page(&prefix, next.as_deref()).await?;
        listed.add(scope.store_prefix, &page.keys);
        next = page.next;
        if next.is_none() {
            return Ok(listed);
        }
    }
}

/// By the same road as a deletion, so that a process which is still at work meets the tombstone.
async fn collect(store: &dyn SnapshotStore, place: &TenantPrefix, orphans: &[Orphan]) -> Result<(), EraseError> {
    let key = |orphan: &Orphan| SessionKey {
        store_prefix: place.store_prefix.clone(),
        tenant: place.tenant.clone(),
        uid: orphan.uid.clone(),
        name: String::new(),
    };
    let keys: Vec<SessionKey> = orphans.iter().map(key).collect();
    futures::stream::iter(keys)
        .map(|key| async move { erase(store, &key).await })
        .buffer_unordered(ERASED_IN_FLIGHT_MAX)
        .try_collect()
        .await
}

#[cfg(test)]
#[path = "orphans_tests.rs"]
mod tests;
