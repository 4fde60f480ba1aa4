//! Leader election by a Lease: of several operators one works, and the others wait.
//!
//! A holder renews every quarter of the lease's duration and gives up when it could not for three quarters, so it has stopped before another may
//! begin. Times of other holders' clocks are not compared with ours: a lease is taken over when it was *seen* unchanged for its duration.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Name of the Lease.
pub const LEASE: &str = "dormouse-operator";
/// How long a holder may be silent before another takes over.
const DURATION: Duration = Duration::from_secs(20);
/// How often the holder says that it is there.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// How long a holder that cannot renew goes on.
const RENEW_DEADLINE: Duration = Duration::from_secs(15);
/// How long one attempt to renew may take, and the pause before the next.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);
const ATTEMPT_AGAIN: Duration = Duration::from_millis(250);
/// How often the others look.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What a candidate knows of the Lease.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    holder: String,
    renewed: Option<MicroTime>,
    at: Instant,
}

/// A candidate, or the leader.
#[derive(Clone)]
pub struct Leader {
    api: Api<Lease>,
    identity: String,
}

impl std::fmt::Debug for Leader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leader").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The lease was lost: the process must end, as another one may be at work.
#[derive(Debug, thiserror::Error)]
#[error("the lease {LEASE} could not be renewed for {RENEW_DEADLINE:?}: {last}")]
pub struct Lost {
    last: String,
}

impl Leader {
    /// A candidate of this name.
    #[must_use]
    pub fn new(client: Client, namespace: &str, identity: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), identity: identity.to_owned() }
    }

    /// Waits until the lease is ours. `looked` is called each time that the API server told who holds it. `false`: cancelled before that.
    pub async fn acquire(&self, shutdown: &CancellationToken, looked: impl Fn(&str)) -> bool {
        let mut seen = None;
        loop {
            match self.try_acquire(&mut seen).await {
                Ok(true) => return true,
                Ok(false) => looked(seen.as_ref().map_or("nobody", |seen| seen.holder.as_str())),
                Err(error) => tracing::warn!(%error, "cannot read or take the lease"),
            }
            tokio::select! {
                () = shutdown.cancelled() => return false,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn try_acquire(&self, seen: &mut Option<Seen>) -> Result<bool, kube::Error> {
        let Some(lease) = self.api.get_opt(LEASE).await? else {
            return won(self.api.create(&PostParams::default(), &self.claim(None)).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        let same = seen.as_ref().is_some_and(|seen| seen.holder == holder && seen.renewed == spec.renew_time);
        if !same {
            *seen = Some(Seen { holder: holder.clone(), renewed: spec.renew_time, at: Instant::now() });
        }
        let expired = seen.as_ref().is_some_and(|seen| seen.at.elapsed() >= DURATION);
        if !may_take(&holder, &self.identity, expired) {
            return Ok(false);
        }
        won(self.api.replace(LEASE, &PostParams::default(), &self.claim(Some(lease))).await)
    }

    /// Renews for ever.
    ///
    /// # Errors
    /// [`Lost`] when it could not be renewed in time, or another holds it.
    pub async fn hold(&self) -> Result<std::convert::Infallible, Lost> {
        let (mut renewed, mut pause) = (Instant::now(), RENEW_EVERY);
        loop {
            tokio::time::sleep(pause).await;
            let left = RENEW_DEADLINE.saturating_sub(renewed.elapsed());
            let last = match tokio::time::timeout(left.min(ATTEMPT_MAX), self.renew()).await {
                Ok(Ok(true)) => {
                    (renewed, pause) = (Instant::now(), RENEW_EVERY);
                    continue;
                }
                Ok(Ok(false)) => return Err(Lost { last: "another process holds it".to_owned() }),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            tracing::warn!(error = last, "cannot renew the lease");
            pause = ATTEMPT_AGAIN;
            if renewed.elapsed() + pause >= RENEW_DEADLINE {
                return Err(Lost { last });
            }
        }
    }

    async fn renew(&self) -> Result<bool, kube::Error> {
        let lease = self.api.get(LEASE).await?;
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        if holder != self.identity {
            return Ok(false);
        }
        self.api.replace(LEASE, &PostParams::default(), &self.claim(Some(lease))).await.map(|_| true)
    }

    /// Gives the lease back, so that the next operator need not wait for it to expire. Call it when all work has stopped.
    pub async fn release(&self) {
        let released = async {
            let mut lease = self.api.get(LEASE).await?;
            if let Some(spec) = lease.spec.as_mut().filter(|spec| spec.holder_identity.as_deref() == Some(&self.identity)) {
                spec.holder_identity = None;
                self.api.replace(LEASE, &PostParams::default(), &lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        if let Ok(Err(error)) = tokio::time::timeout(RENEW_EVERY, released).await {
            tracing::warn!(%error, "cannot give the lease back; another operator takes over when it expires");
        }
    }

    /// The lease as ours; `from` carries the resourceVersion that makes the write conditional.
    fn claim(&self, from: Option<Lease>) -> Lease {
        let now = MicroTime(Timestamp::now());
        let mut lease =
            from.unwrap_or_else(|| Lease { metadata: ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() }, spec: None });
        let old = lease.spec.take().unwrap_or_default();
        let ours = old.holder_identity.as_deref() == Some(&self.identity);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: if ours { old.acquire_time } else { Some(now.clone()) },
            renew_time: Some(now),
            lease_transitions: Some(old.lease_transitions.unwrap_or(0).saturating_add(i32::from(!ours))),
            ..LeaseSpec::default()
        });
        lease
    }
}

/// Whether a candidate may write itself into a lease.
fn may_take(holder: &str, identity: &str, expired: bool) -> bool {
    holder.is_empty() || holder == identity || expired
}

/// Of concurrent candidates the API server lets one through; the others meet a conflict.
fn won(result: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use axum::{
        body::Body,
        http::{Request, Response},
    };
    use serde_json::json;

    use super::*;

    /// The leader by an API server that does not answer the requests of these numbers, and how many came.
    fn leader(is_silent: fn(usize) -> bool) -> (Leader, Arc<AtomicUsize>) {
        let requests = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&requests);
        let service = tower::service_fn(move |_: Request<kube::client::Body>| {
            let silent = is_silent(counted.fetch_add(1, Ordering::SeqCst));
            async move {
                if silent {
                    std::future::pending::<()>().await;
                }
                let (metadata, spec) = (json!({ "name": LEASE, "namespace": "system" }), json!({ "holderIdentity": "a" }));
                let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec });
                Ok::<_, std::convert::Infallible>(Response::new(Body::from(lease.to_string())))
            }
        });
        (Leader::new(Client::new(service, "system"), "system", "a"), requests)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_not_answered_does_not_lose_the_lease() {
        // To renew takes two requests, and each time one before them is not answered.
        let (leader, requests) = leader(|number| number % 3 == 0);
        let held = tokio::time::timeout(DURATION * 10, leader.hold()).await;
        assert!(held.is_err(), "{held:?}");
        assert!(requests.load(Ordering::SeqCst) > 30);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gets_no_answer_stops_in_time() {
        let (leader, requests) = leader(|_| true);
        let begun = Instant::now();
        let lost = leader.hold().await.unwrap_err();
        assert!(begun.elapsed() <= RENEW_DEADLINE, "{lost} after {:?}", begun.elapsed());
        assert!(requests.load(Ordering::SeqCst) >= 2, "it tried again");
    }

    #[test]
    fn a_lease_is_taken_when_free_ours_or_expired() {
        assert!(may_take("", "a", false));
        assert!(may_take("a", "a", false));
        assert!(!may_take("b", "a", false));
        assert!(may_take("b", "a", true));
    }

    #[test]
    fn a_holder_stops_before_another_may_begin() {
        assert!(RENEW_DEADLINE < DURATION && RENEW_EVERY + ATTEMPT_MAX < RENEW_DEADLINE);
    }
}
