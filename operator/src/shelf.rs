//! Where the sessions of a namespace are kept that have left etcd: groups in the operator's own store, beside all tenants' prefixes.
//!
//! What a record says becomes an API object again. So it is kept where the credentials of no tenant's process reach, which only the operator's own store
//! can promise.

use std::sync::Arc;

use dormouse_control::archive::{Archived, ArchivedPage, PAGE_BYTES_MAX};
use dormouse_lifecycle::{
    archive::{Group, GroupError, Kept, Refused, STORED_BYTES_MAX, group_of},
    keys,
};
use dormouse_store::{Condition, ListFrom, PutError, SnapshotStore, StoreError};
use futures::StreamExt as _;
use kube::Client;

use crate::{
    config::StorageArgs,
    storage::{self, StorageError, Stores},
};

/// Attempts to change a group that others change.
const ATTEMPTS_MAX: u32 = 16;
/// Groups that a page reads at most: of a namespace with few sessions in each, pages have fewer sessions than were asked for.
const GROUPS_READ_MAX: u16 = 64;
/// Groups that a page reads at the same time.
const GROUPS_IN_FLIGHT_MAX: usize = 4;

/// Why the archive does not do what it is asked. Try again, but for what it refuses.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store of the archive cannot be opened.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A group is not what was written.
    #[error(
        "the object {key} of the archive cannot be read: {error}. Put an earlier version of it back, or remove it: its sessions are lost then"
    )]
    Group {
        /// Its key.
        key: String,
        /// Why.
        error: GroupError,
    },
    /// A group cannot be written: nothing has changed.
    #[error("the object {key} of the archive cannot be written: {error}")]
    Unwritten {
        /// Its key.
        key: String,
        /// Why.
        error: GroupError,
    },
    /// A session is not taken: it stays what it is.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A group changes all the time.
    #[error("a group of the archive has changed {ATTEMPTS_MAX} times while it was to be changed")]
    Restless,
    /// A record cannot be written or read.
    #[error("a session cannot be written to the archive, or read from it: {0}")]
    Record(#[from] serde_json::Error),
}

/// The archive of a namespace.
#[derive(Clone)]
pub struct Shelf {
    /// The operator's own store.
    pub store: Arc<dyn SnapshotStore>,
    /// Before every key of the store: empty, or ending in `/`.
    pub store_prefix: String,
    prefix: String,
}

impl Shelf {
    /// That of `cluster`'s namespace `tenant` in a store.
    #[must_use]
    pub fn new(store: Arc<dyn SnapshotStore>, store_prefix: &str, cluster: &str, tenant: &str) -> Self {
        Self { store, prefix: keys::archive(store_prefix, cluster, tenant), store_prefix: store_prefix.to_owned() }
    }

    /// That of `namespace`, if the operator has a store of its own.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn of(client: &Client, stores: &Stores, own: &StorageArgs, namespace: &str) -> Result<Option<Self>, ShelfError> {
        if storage::target(None, own).is_err() {
            return Ok(None);
        }
        let opened = stores.open(client, own, namespace, None).await?;
        Ok(Some(Self::new(opened.store, &opened.prefix, own.cluster.as_deref().unwrap_or_default(), namespace)))
    }

    fn key(&self, group: &str) -> String {
        format!("{}{group}", self.prefix)
    }

    async fn read(&self, key: &str) -> Result<(Group, Condition), ShelfError> {
        let Some(object) = self.store.get_within(key, STORED_BYTES_MAX as u64).await? else {
            return Ok((Group::default(), Condition::Absent));
        };
        let group = Group::decode(&object.bytes).map_err(|error| ShelfError::Group { key: key.to_owned(), error })?;
        Ok((group, Condition::Matches(object.etag)))
    }

    /// Puts it if it is still as it was read. `false`: it is not, or nobody knows.
    async fn write(&self, key: &str, group: &Group, condition: Condition) -> Result<bool, ShelfError> {
        let bytes = group.encode().map_err(|error| ShelfError::Unwritten { key: key.to_owned(), error })?;
        match self.store.put(key, bytes, condition).await {
            Ok(_) => Ok(true),
            Err(PutError::Refused | PutError::Conflicted | PutError::Unknown(_)) => Ok(false),
            Err(PutError::Failed(error)) => Err(error.into()),
        }
    }

    /// Puts a session there, in place of what is kept of the same one.
    ///
    /// # Errors
    /// See [`ShelfError`].
    pub async fn put(&self, session: &Archived) -> Result<(), ShelfError> {
        let (name, key) = (&session.key.name, self.key(&group_of(&session.key.name)));
        let kept = Kept { uid: session.uid.clone(), record: dormouse_lifecycle::Json::of(session)? };
        for _ in 0..ATTEMPTS_MAX {
            let (mut group, condition) = self.read(&key).await?;
            group.put(name, kept.clone())?;
            if self.write(&key, &group, condition).await? {
                return Ok(());
            }
        }
        Err(ShelfError::Restless)
    }

    /// Removes the session of this name, if it is the one with this identity.
    ///
    /// # Errors
    /// See [`ShelfError`].
    pub async fn remove(&self, name: &str, uid: &str) -> Result<(), ShelfError> {
        let key = self.key(&group_of(name));
        for _ in 0..ATTEMPTS_MAX {
            let (mut group, condition) = self.read(&key).await?;
            if !group.remove(name, uid) || self.write(&key, &group, condition).await? {
                return Ok(());
            }
        }
        Err(ShelfError::Restless)
    }

    /// The session of this name.
    ///
    /// # Errors
    /// See [`ShelfError`].
    pub async fn find(&self, name: &str) -> Result<Option<Archived>, ShelfError> {
        let (group, _) = self.read(&self.key(&group_of(name))).await?;
        Ok(group.get(name).map(|kept| kept.record.read()).transpose()?)
    }

    /// A page of the sessions, behind what the page before named: `limit` at most.
    ///
    /// # Errors
    /// See [`ShelfError`].
    pub async fn page(&self, after: Option<&str>, limit: usize) -> Result<ArchivedPage, ShelfError> {
        let (mut page, mut bytes) = (ArchivedPage::default(), 0);
        let (begun, name) =
            after.map_or(("", None), |after| after.split_once('/').map_or((after, None), |(group, name)| (group, Some(name))));
        let listed = self.store.list_page(&self.prefix, ListFrom::After(&self.key(begun)), Some(GROUPS_READ_MAX)).await?;
        let (mut groups, listed_all) = (listed.keys, listed.next.is_none());
        if name.is_some() {
            groups.insert(0, self.key(begun));
        }
        let read = |key: String| async move { (self.read(&key).await.map(|(group, _)| group), key) };
        let mut groups = futures::stream::iter(groups).map(read).buffered(GROUPS_IN_FLIGHT_MAX);
        let mut last = None;
        while let Some((group, key)) = groups.next().await {
            let (group, id) = (group?, key.strip_prefix(&self.prefix).unwrap_or_default());
            let from = name.filter(|_| id == begun);
            for (name, kept) in group.after(from) {
                if page.sessions.len() >= limit || bytes >= PAGE_BYTES_MAX {
                    page.next = last;
                    return Ok(page);
                }
                last = Some(format!("{id}/{name}"));
                bytes += kept.record.text().len();
                match kept.record.read() {
                    Ok(session) => page.sessions.push(session),
                    // One that cannot be read hides no other.
                    Err(error) => tracing::error!(key, name, %error, "a session in the archive cannot be read; it is left out"),
                }
            }
            // The whole group is behind.
            last = Some(id.to_owned());
        }
        page.next = last.filter(|_| !listed_all);
        Ok(page)
    }

    /// Removes what is left of groups in which nobody is.
    ///
    /// # Errors
    /// See [`ShelfError`].
    pub async fn clear(&self) -> Result<(), ShelfError> {
        for key in self.store.list(&self.prefix).await? {
            self.store.delete(&key).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "shelf_tests.rs"]
mod tests;
