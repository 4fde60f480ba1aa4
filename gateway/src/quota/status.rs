//! What the status of quotas says: it follows what is used, and is looked at when something of a namespace may have changed.
//!
//! Every gateway looks at the namespaces whose cells and wakes it admits. That sessions come, go and fall asleep, that the clock takes back what was
//! used, and how many cells began, is told by the one that counts for the namespace. All of them together write no more than
//! `control::writes::QuotaWrites` allows, and whose condition changes first ([`WriteQueue`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use dormouse_control::quota::{StatusUpdate, changes_condition, falls_after, status};
use dormouse_crds::quota::KernelQuotaSpec;
use futures::{StreamExt as _, stream};
use tokio::{sync::broadcast::error::RecvError, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    measure::measure,
    queue::{Waiting, WriteQueue},
};
use crate::{
    chain::chain,
    directory::{Change, Key},
    peers::{First, Peers},
    router::Router,
};

/// How often it is looked at namespaces of which something may have changed.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// After so long it is looked once more: a cell counts when it has ended, and a heap until its session sleeps.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Namespaces that are looked at at the same time: one whose pods hang holds up few others.
const LOOKS_MAX: usize = 8;

/// Runs until `shutdown`.
pub(crate) async fn run(router: Router, peers: Peers, shutdown: CancellationToken) {
    let queue = WriteQueue::default();
    let all = async {
        tokio::join!(
            note_changes(&router, peers.clone()),
            look_again_and_again(&router, &peers, &queue),
            write_in_turn(&router, &peers, &queue)
        )
    };
    shutdown.run_until_cancelled(all).await;
}

/// Whether it is this gateway that counts for the namespace.
fn counts(peers: &Peers, namespace: &str) -> bool {
    matches!(peers.first(namespace), First::Me(_))
}

/// Notes the namespaces for which this gateway counts and of which something changes.
async fn note_changes(router: &Router, mut peers: Peers) {
    let mut changes = router.directory().changes();
    note_all(router, &peers);
    loop {
        tokio::select! {
            change = changes.recv() => match change {
                Ok(Change::Session(key)) => note(router, &peers, &key.namespace),
                Ok(Change::Quotas(Some(namespace))) => note(router, &peers, &namespace),
                Ok(Change::Quotas(None)) | Err(RecvError::Lagged(_)) => note_all(router, &peers),
                Ok(Change::Pods) => {}
                Err(RecvError::Closed) => return,
            },
            () = peers.changed() => note_all(router, &peers),
        }
    }
}

fn note(router: &Router, peers: &Peers, namespace: &str) {
    if counts(peers, namespace) && router.directory().limits(namespace) != KernelQuotaSpec::default() {
        router.quotas().touch(namespace);
    }
}

fn note_all(router: &Router, peers: &Peers) {
    let namespaces: BTreeSet<String> = router.directory().quotas(None).iter().map(|quota| quota.key.namespace.clone()).collect();
    for namespace in namespaces {
        note(router, peers, &namespace);
    }
}

async fn look_again_and_again(router: &Router, peers: &Peers, queue: &WriteQueue) {
    // When to look at a namespace again of which nobody may tell anything.
    let mut again: BTreeMap<String, Instant> = BTreeMap::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = Instant::now();
        let mut looks: BTreeMap<String, bool> = again.extract_if(.., |_, at| *at <= now).map(|(namespace, _)| (namespace, false)).collect();
        looks.extend(router.quotas().take_touched().into_iter().map(|namespace| (namespace, true)));
        let looks = stream::iter(looks)
            .map(|(namespace, touched)| async move { (look(router, peers, queue, &namespace, touched).await, namespace) });
        let mut looks = std::pin::pin!(looks.buffer_unordered(LOOKS_MAX));
        while let Some((wait, namespace)) = looks.next().await {
            match wait {
                Some(wait) => again.insert(namespace, Instant::now() + wait),
                None => again.remove(&namespace),
            };
        }
    }
}

/// Has those quotas of the namespace wait to be written whose status does not say what is used. `touched`: that may change a moment later. The
/// answer is after how long to look again.
async fn look(router: &Router, peers: &Peers, queue: &WriteQueue, namespace: &str, touched: bool) -> Option<Duration> {
    let (directory, clock) = (router.directory(), router.clock());
    let limits = directory.limits(namespace);
    if limits == KernelQuotaSpec::default() {
        queue.replace(namespace, BTreeMap::new());
        return None;
    }
    let mut used = measure(router, namespace, &limits, Duration::ZERO).await;
    let now = clock.now();
    let mut waits: Vec<Duration> = touched.then_some(AGAIN_AFTER).into_iter().collect();
    if counts(peers, namespace) {
        used.evals_per_second = Some(router.quotas().of(namespace).most_cells(now.as_millisecond()));
        waits.extend(falls_after(&limits, &used, now));
    }
    let mut waiting = BTreeMap::new();
    for quota in directory.quotas(Some(namespace)) {
        match status(&quota.limits, quota.generation, &quota.status, used, now) {
            StatusUpdate::Current => {}
            StatusUpdate::After(wait) => waits.push(wait),
            StatusUpdate::Write(next) => {
                let changes_condition = changes_condition(&quota.status, &next);
                let written = quota.status.time.as_deref().and_then(|time| time.parse().ok());
                waiting.insert(quota.key.clone(), Waiting { changes_condition, written, used });
            }
        }
    }
    queue.replace(namespace, waiting);
    waits.into_iter().min()
}

async fn write_in_turn(router: &Router, peers: &Peers, queue: &WriteQueue) {
    loop {
        queue.turn(u32::try_from(peers.count()).unwrap_or(u32::MAX)).await;
        // Who has nothing to tell any more takes no turn.
        while let Some((key, waiting)) = queue.take_first() {
            if write(router, &key, waiting.used).await {
                break;
            }
        }
    }
}

/// Writes the status of a quota, if it does not say yet that so much is used. The answer is whether that was tried.
async fn write(router: &Router, key: &Key, used: KernelQuotaSpec) -> bool {
    let directory = router.directory();
    let Some(quota) = directory.quotas(Some(&key.namespace)).into_iter().find(|quota| quota.key == *key) else { return false };
    let next = match status(&quota.limits, quota.generation, &quota.status, used, router.clock().now()) {
        StatusUpdate::Current => return false,
        // Another gateway has written it meanwhile: when it may be written again, the next look says.
        StatusUpdate::After(_) => {
            router.quotas().touch(&key.namespace);
            return false;
        }
        StatusUpdate::Write(next) => *next,
    };
    match directory.write_quota(&quota, next).await {
        Ok(()) => router.metrics().quota_status_written(),
        // Who else has written it may have told the same.
        Err(error) => {
            tracing::debug!(quota = %quota.key, error = %chain(&error), "the status of a quota is not written; it is tried again");
            router.quotas().touch(&key.namespace);
        }
    }
    true
}
