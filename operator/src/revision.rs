//! An API server that was put back to an earlier state. A watch that began before goes on from a revision that is not there yet and hears nothing
//! more, so all of them begin anew.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use dormouse_crds::session::KernelSession;
use futures::{Stream, StreamExt as _, stream};
use kube::{Api, api::ListParams};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often the API server is asked for its revision.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How soon it is asked again when it has gone back, and when it has not said: a watch begins at a revision that none of the objects need have.
const LOOK_SOON: Duration = Duration::from_secs(2);
/// How long it may take to say it.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// What is known of the API server's revisions, and who begins anew when they go back.
#[derive(Debug)]
pub struct Revisions {
    /// The highest that was seen since the API server went back last.
    highest: Mutex<u128>,
    rollbacks: watch::Sender<u64>,
}

impl Default for Revisions {
    fn default() -> Self {
        Self { highest: Mutex::default(), rollbacks: watch::Sender::new(0) }
    }
}

impl Revisions {
    /// Takes down the revision of an object that a watch told of.
    pub fn saw(&self, resource_version: Option<&str>) {
        if let Some(version) = resource_version.and_then(|version| version.parse::<u128>().ok()) {
            let mut highest = self.lock();
            *highest = version.max(*highest);
        }
    }

    /// What `begin` begins, once more each time that the API server has gone back.
    pub fn renewed<S>(&self, begin: impl Fn() -> S + Send + 'static) -> impl Stream<Item = S::Item> + Send + 'static
    where
        S: Stream + Send + 'static,
        S::Item: Send,
    {
        let state = (begin().boxed(), self.rollbacks.subscribe(), begin);
        stream::unfold(state, |(mut watch, mut rollbacks, begin)| async move {
            loop {
                tokio::select! {
                    biased;
                    () = gone_back(&mut rollbacks) => watch = begin().boxed(),
                    item = watch.next() => return item.map(|item| (item, (watch, rollbacks, begin))),
                }
            }
        })
    }

    /// Looks at the API server's revision until `shutdown`. Any of `apis` tells it.
    pub async fn run(&self, apis: Vec<Api<KernelSession>>, shutdown: CancellationToken) {
        let Some(api) = apis.into_iter().next() else { return };
        let mut pause = Duration::ZERO;
        while shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            pause = if self.look(&api).await { LOOK_EVERY } else { LOOK_SOON };
        }
    }

    /// Looks at it once: a list that names no resourceVersion tells the revision as etcd has it now. The answer is whether it was told, and not gone back.
    pub async fn look(&self, api: &Api<KernelSession>) -> bool {
        let before = *self.lock();
        let found = match tokio::time::timeout(LOOK_TIMEOUT, api.list_metadata(&ListParams::default().limit(1))).await {
            Ok(Ok(list)) => list.metadata.resource_version.and_then(|version| version.parse().ok()),
            Ok(Err(error)) => {
                tracing::debug!(%error, "the revision of the API server is not known");
                return false;
            }
            Err(_) => {
                tracing::debug!("the API server does not tell its revision in time");
                return false;
            }
        };
        found.is_some_and(|found| self.compare(before, found))
    }

    /// Compares a revision, which was asked for when `before` was the highest, with that. The answer is whether it is none that went back.
    fn compare(&self, before: u128, found: u128) -> bool {
        let mut highest = self.lock();
        if found >= before {
            *highest = found.max(*highest);
            return true;
        }
        *highest = found;
        drop(highest);
        tracing::warn!(before, found, "the API server has gone back: everything is read anew");
        self.rollbacks.send_modify(|times| *times += 1);
        false
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, u128> {
        self.highest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends when the API server has gone back.
async fn gone_back(rollbacks: &mut watch::Receiver<u64>) {
    if rollbacks.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
#[path = "revision_tests.rs"]
mod tests;
