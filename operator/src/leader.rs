//! Leader election by Leases: of each shard one operator works, and the others wait.
//!
//! A holder renews every quarter of the lease's duration and gives up when it could not for three quarters, so it has stopped before another may
//! begin. Times of other holders' clocks are not compared with ours: a lease is taken over when it was *seen* unchanged for its duration.
//!
//! A lease says among how many shards its holder counts. Where the number changes, a namespace may be in two shards: so nobody takes a lease while one of
//! another number is held, and looks once more when it has taken it. Of two who do so at once, at least one sees the other.

use std::{collections::HashMap, time::Duration};

use dormouse_watch::Shard;
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, ObjectMeta, PostParams},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Name of the first shard's Lease; that of another ends in `-` and its number.
pub const LEASE: &str = "dormouse-operator";
/// Annotation of a Lease: among how many shards its holder counts. Absent: one.
pub const SHARDS: &str = "dormouse.dev/shards";
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

/// What a candidate knows of a Lease.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    renewed: (String, Option<MicroTime>),
    at: Instant,
}

/// The leases of an installation, as a candidate sees them.
#[derive(Debug, Default)]
struct Leases {
    found: HashMap<String, Lease>,
    seen: HashMap<String, Seen>,
}

/// Who wants to work.
#[derive(Clone)]
pub struct Candidate {
    api: Api<Lease>,
    identity: String,
    shards: u32,
}

/// Who works on a shard.
#[derive(Clone)]
pub struct Leader {
    candidate: Candidate,
    shard: Shard,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Candidate").field("identity", &self.identity).field("shards", &self.shards).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Leader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leader").field("candidate", &self.candidate).field("shard", &self.shard).finish()
    }
}

/// The lease was lost: the process must end, as another one may be at work.
#[derive(Debug, thiserror::Error)]
#[error("the lease {lease} could not be renewed for {RENEW_DEADLINE:?}: {last}")]
pub struct Lost {
    lease: String,
    last: String,
}

/// Name of a shard's Lease.
fn name_of(index: u32) -> String {
    if index == 0 { LEASE.to_owned() } else { format!("{LEASE}-{index}") }
}

fn is_ours(lease: &str) -> bool {
    let number = lease.strip_prefix(LEASE).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
    number.is_some_and(|number| number.is_empty() || number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

fn shards_of(lease: &Lease) -> u32 {
    lease.annotations().get(SHARDS).and_then(|shards| shards.parse().ok()).unwrap_or(1)
}

impl Leases {
    /// Takes down what there is now.
    fn look(&mut self, found: Vec<Lease>) {
        self.found = found.into_iter().map(|lease| (lease.name_any(), lease)).filter(|(name, _)| is_ours(name)).collect();
        self.seen.retain(|name, _| self.found.contains_key(name));
        for (name, lease) in &self.found {
            let renewed = (holder(lease).to_owned(), lease.spec.as_ref().and_then(|spec| spec.renew_time.clone()));
            let seen = self.seen.entry(name.clone()).or_insert_with(|| Seen { renewed: renewed.clone(), at: Instant::now() });
            if seen.renewed != renewed {
                *seen = Seen { renewed, at: Instant::now() };
            }
        }
    }

    /// Whether another than `identity` may be at work by a lease.
    fn is_held(&self, name: &str, identity: &str) -> bool {
        let expired = self.seen.get(name).is_some_and(|seen| seen.at.elapsed() >= DURATION);
        self.found.get(name).is_some_and(|lease| !may_take(holder(lease), identity, expired))
    }

    /// A holder who counts other shards.
    fn who_counts_others(&self, identity: &str, shards: u32) -> Option<&str> {
        let mut others = self.found.iter().filter(|(name, lease)| shards_of(lease) != shards && self.is_held(name, identity));
        others.next().map(|(_, lease)| holder(lease))
    }
}

impl Candidate {
    /// A candidate of this name for one of so many shards.
    #[must_use]
    pub fn new(client: Client, namespace: &str, identity: &str, shards: u32) -> Self {
        Self { api: Api::namespaced(client, namespace), identity: identity.to_owned(), shards }
    }

    /// Waits until a lease is ours. `looked` is called each time that the API server told who holds them. `None`: cancelled before that.
    pub async fn acquire(&self, shutdown: &CancellationToken, looked: impl Fn(&str)) -> Option<Leader> {
        let mut leases = Leases::default();
        loop {
            match self.try_acquire(&mut leases).await {
                Ok(Some(leader)) => return Some(leader),
                Ok(None) => looked(&leases.found.values().map(holder).collect::<Vec<_>>().join(", ")),
                Err(error) => tracing::warn!(%error, "cannot read or take a lease"),
            }
            tokio::select! {
                () = shutdown.cancelled() => return None,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn try_acquire(&self, leases: &mut Leases) -> Result<Option<Leader>, kube::Error> {
        leases.look(self.api.list(&ListParams::default()).await?.items);
        if let Some(other) = leases.who_counts_others(&self.identity, self.shards) {
            tracing::info!(holder = other, shards = self.shards, "standing by until nobody counts another number of shards");
            return Ok(None);
        }
        for index in 0..self.shards {
            let name = name_of(index);
            if leases.is_held(&name, &self.identity) || !self.take(&name, leases.found.get(&name).cloned()).await? {
                continue;
            }
            let leader = Leader { candidate: self.clone(), shard: Shard { index, of: self.shards } };
            leases.look(self.api.list(&ListParams::default()).await?.items);
            if leases.who_counts_others(&self.identity, self.shards).is_none() {
                return Ok(Some(leader));
            }
            leader.release().await;
            return Ok(None);
        }
        Ok(None)
    }

    /// Writes itself into a lease. Of concurrent candidates the API server lets one through; the others meet a conflict.
    async fn take(&self, name: &str, from: Option<Lease>) -> Result<bool, kube::Error> {
        let written = match &from {
            None => self.api.create(&PostParams::default(), &self.claim(name, None)).await,
            Some(_) => self.api.replace(name, &PostParams::default(), &self.claim(name, from)).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The lease as ours; `from` carries the resourceVersion that makes the write conditional.
    fn claim(&self, name: &str, from: Option<Lease>) -> Lease {
        let now = MicroTime(Timestamp::now());
        let mut lease =
            from.unwrap_or_else(|| Lease { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, spec: None });
        lease.annotations_mut().insert(SHARDS.to_owned(), self.shards.to_string());
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

impl Leader {
    /// What it works on.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.shard
    }

    fn lease(&self) -> String {
        name_of(self.shard.index)
    }

    /// Renews for ever.
    ///
    /// # Errors
    /// [`Lost`] when it could not be renewed in time, or another holds it.
    pub async fn hold(&self) -> Result<std::convert::Infallible, Lost> {
        let (mut renewed, mut pause) = (Instant::now(), RENEW_EVERY);
        let lost = |last| Lost { lease: self.lease(), last };
        loop {
            tokio::time::sleep(pause).await;
            let left = RENEW_DEADLINE.saturating_sub(renewed.elapsed());
            let last = match tokio::time::timeout(left.min(ATTEMPT_MAX), self.renew()).await {
                Ok(Ok(true)) => {
                    (renewed, pause) = (Instant::now(), RENEW_EVERY);
                    continue;
                }
                Ok(Ok(false)) => return Err(lost("another process holds it".to_owned())),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            tracing::warn!(error = last, "cannot renew the lease");
            pause = ATTEMPT_AGAIN;
            if renewed.elapsed() + pause >= RENEW_DEADLINE {
                return Err(lost(last));
            }
        }
    }

    async fn renew(&self) -> Result<bool, kube::Error> {
        let (Candidate { api, identity, .. }, name) = (&self.candidate, self.lease());
        let lease = api.get(&name).await?;
        if holder(&lease) != identity {
            return Ok(false);
        }
        api.replace(&name, &PostParams::default(), &self.candidate.claim(&name, Some(lease))).await.map(|_| true)
    }

    /// Gives the lease back, so that the next operator need not wait for it to expire. Call it when all work has stopped.
    pub async fn release(&self) {
        let (Candidate { api, identity, .. }, name) = (&self.candidate, self.lease());
        let released = async {
            let mut lease = api.get(&name).await?;
            if let Some(spec) = lease.spec.as_mut().filter(|spec| spec.holder_identity.as_ref() == Some(identity)) {
                spec.holder_identity = None;
                api.replace(&name, &PostParams::default(), &lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        if let Ok(Err(error)) = tokio::time::timeout(RENEW_EVERY, released).await {
            tracing::warn!(%error, "cannot give the lease back; another operator takes over when it expires");
        }
    }
}

/// Whether a candidate may write itself into a lease.
fn may_take(holder: &str, identity: &str, expired: bool) -> bool {
    holder.is_empty() || holder == identity || expired
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
        let candidate = Candidate::new(Client::new(service, "system"), "system", "a", 1);
        (Leader { candidate, shard: Shard::default() }, requests)
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
