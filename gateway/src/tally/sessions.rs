//! Sessions that are being made: they count before the directory has them.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
    time::Duration,
};

use dormouse_service::Clock;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::CancellationToken;

use super::{Shared, Tally, lock, next_second};
use crate::{
    directory::{Change, Directory, Key},
    peers::First,
    quotas::{Held, Quotas},
};

/// Where it is asked whether a session may be made, and told that it was not.
pub(super) const MAKE_PATH: &str = "/v1/sessions/make";
pub(super) const UNMADE_PATH: &str = "/v1/sessions/unmade";

/// How long a session counts that another gateway makes, unless it is seen before.
const MADE_WITHIN: Duration = Duration::from_secs(30);

/// What is said of a session that is to be made.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Said {
    /// It may not, because so many there are; `null`: it may.
    pub(super) used: Option<u64>,
}

/// A session that counts while it is made.
#[derive(Debug)]
pub(crate) enum Making {
    /// Nothing limits it.
    Unlimited,
    /// Here, until this is dropped.
    Here(#[allow(dead_code, reason = "it counts until it is dropped")] Held),
    /// At the gateway that counts, until that has seen it or is told that it was not made.
    There(Arc<Shared>, Key),
}

impl Making {
    /// It was not made, and does not count any more.
    pub(crate) fn failed(self) {
        if let Self::There(shared, key) = self {
            tokio::spawn(async move {
                let _: Option<Said> = shared.asking.ask(&key.namespace, UNMADE_PATH, &key).await;
            });
        }
    }
}

impl Tally {
    /// Counts a session that is made now.
    ///
    /// # Errors
    /// It may not be: how many there are.
    pub(crate) async fn make(
        &self,
        key: &Key,
        limit: u64,
        quotas: &Quotas,
        directory: &dyn Directory,
        clock: Clock,
    ) -> Result<Making, u64> {
        let here = || quotas.make(directory, key, limit).map(Making::Here);
        let Some(shared) = &self.0 else { return here() };
        match shared.asking.peers.first(&key.namespace) {
            First::Me(since) => {
                next_second(since, clock).await;
                here()
            }
            First::Other(..) => match shared.asking.ask(&key.namespace, MAKE_PATH, key).await {
                Some(Said { used: None }) => Ok(Making::There(Arc::clone(shared), key.clone())),
                Some(Said { used: Some(used) }) => Err(used),
                None => here(),
            },
        }
    }
}

/// Sessions that other gateways make, and how each is told that it was not made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Others(Arc<Mutex<HashMap<Key, CancellationToken>>>);

impl Others {
    /// Counts a session that another gateway makes; `None`: this one is not the first for it.
    pub(super) async fn make(&self, key: Key, tally: &Tally, quotas: &Quotas, directory: Arc<dyn Directory>, clock: Clock) -> Option<Said> {
        let First::Me(since) = tally.0.as_ref()?.asking.peers.first(&key.namespace) else { return None };
        next_second(since, clock).await;
        // What it knows nothing of is not limited, or was not seen yet.
        let Some(limit) = directory.limits(&key.namespace).sessions else { return Some(Said { used: None }) };
        let changes = directory.changes();
        let held = match quotas.make(&*directory, &key, limit) {
            Ok(held) => held,
            Err(used) => return Some(Said { used: Some(used) }),
        };
        let unmade = CancellationToken::new();
        match lock(&self.0).entry(key.clone()) {
            // Of two that are made under one name one is refused by the directory: they count once.
            Entry::Occupied(_) => return Some(Said { used: None }),
            Entry::Vacant(entry) => {
                entry.insert(unmade.clone());
            }
        }
        let others = self.clone();
        tokio::spawn(async move {
            let made = unmade.run_until_cancelled(seen(&*directory, &key, changes));
            let _ = tokio::time::timeout(MADE_WITHIN, made).await;
            lock(&others.0).remove(&key);
            drop(held);
        });
        Some(Said { used: None })
    }

    /// It was not made.
    pub(super) fn unmade(&self, key: &Key) {
        if let Some(unmade) = lock(&self.0).remove(key) {
            unmade.cancel();
        }
    }
}

/// Until the directory has or had it.
async fn seen(directory: &dyn Directory, key: &Key, mut changes: Receiver<Change>) {
    while directory.get(key).is_none() {
        match changes.recv().await {
            Ok(Change::Session(changed)) if changed == *key => return,
            Err(RecvError::Closed) => return,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
        }
    }
}
