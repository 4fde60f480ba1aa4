//! Where a session is, and where it shall be when it is nowhere.

use std::{sync::Arc, time::Duration};

use dormouse_crds::session::Placement;
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::{sync::broadcast::Receiver, time::Instant};

use super::{
    Route, Router,
    admission::{Admission, admit},
};
use crate::{
    chain::chain,
    directory::{Change, DirectoryError, Key, Record, Role},
    in_flight::{InFlight, PLACING_TIMEOUT, Refusal},
    metrics::Source,
    problem::of_directory,
    single_flight::Flight,
};

/// How long a session may be without the finalizer that the operator adds, before a request for it gives up.
pub const FINALIZER_TIMEOUT: Duration = Duration::from_secs(30);
/// While nothing changes in the directory, pods are asked again this often: a slot that becomes free is no change there.
pub const ROOM_POLL: Duration = Duration::from_millis(300);

/// How often it is told that a session waits for a slot. The operator believes it for longer.
const WAITING_TOLD_EVERY: Duration = Duration::from_secs(1);

/// Where a session is, or where it could be.
pub(crate) enum Located {
    /// Status has it.
    Found(Route),
    /// Status does not have it yet. Nobody else in this process writes it meanwhile.
    Free(Route, Flight<String>),
}

impl Router {
    /// Where the session is, or where it shall be from now on.
    pub async fn place(&self, key: &Key, in_flight: &mut InFlight) -> Result<Route, ApiError> {
        loop {
            match self.locate(key, in_flight).await? {
                Located::Found(route) => return Ok(route),
                Located::Free(route, _flight) => drop(self.write(&route, in_flight).await?),
            }
        }
    }

    /// Where the session is, or where it could be.
    pub(crate) async fn locate(&self, key: &Key, in_flight: &mut InFlight) -> Result<Located, ApiError> {
        let record = self.find_same(key, in_flight).await?;
        admit(&record, in_flight.asleep)?;
        if let Some(mut route) = self.placed(&record, in_flight.attempts.lost_epoch()) {
            in_flight.looked = false;
            self.complete(&mut route, in_flight).await?;
            return Ok(Located::Found(route));
        }
        let flight = self.flights.enter(record.uid.clone()).await;
        let mut changes = self.directory.changes();
        let mut finalizer_until = None;
        let mut told_at: Option<Instant> = None;
        loop {
            let record = self.find_same(key, in_flight).await?;
            admit(&record, in_flight.asleep)?;
            if !record.finalizer {
                let until = *finalizer_until.get_or_insert_with(|| Instant::now() + FINALIZER_TIMEOUT);
                changed(&mut changes, until, || not_adopted(key)).await?;
                continue;
            }
            if let Some(mut route) = self.placed(&record, in_flight.attempts.lost_epoch()) {
                in_flight.looked = false;
                self.complete(&mut route, in_flight).await?;
                return Ok(Located::Found(route));
            }
            match self.admit_broker(&record).await? {
                Admission::Admitted => {}
                Admission::Unknown(error) => {
                    changed(&mut changes, in_flight.placing_until, || error).await?;
                    continue;
                }
            }
            if in_flight.looked && Instant::now() >= in_flight.placing_until {
                return Err(self.no_room(&record, in_flight));
            }
            in_flight.looked = true;
            let next = self.loads.next(&self.directory, &self.kernels, &record, in_flight.attempts.lost_epoch()).await;
            match next.and_then(|placement| self.route(&record, placement)) {
                Some(mut route) => {
                    self.complete(&mut route, in_flight).await?;
                    return Ok(Located::Free(route, flight));
                }
                None => {
                    if told_at.is_none_or(|told_at| told_at.elapsed() >= WAITING_TOLD_EVERY) {
                        self.loads.tell_waiting(&self.directory, &self.kernels, &record).await;
                        told_at = Some(Instant::now());
                    }
                    changed(&mut changes, in_flight.placing_until, || self.no_room(&record, in_flight)).await?;
                }
            }
        }
    }

    /// Writes the place of a session into status. `None`: somebody else was first, or nobody knows; the next look tells.
    pub(crate) async fn write(&self, route: &Route, in_flight: &InFlight) -> Result<Option<Arc<Record>>, ApiError> {
        let key = &route.record.key;
        let mut changes = self.directory.changes();
        match self.assign(&route.record, route.placement.clone(), in_flight.source).await {
            Err(DirectoryError::Unavailable(error)) => {
                tracing::warn!(session = %key, error = %chain(&*error), "a placement could not be written; it is tried again");
                changed(&mut changes, in_flight.placing_until, || of_directory(DirectoryError::Unavailable(error), key)).await?;
                // An answer here is in the cache; a failure shows again at the next try.
                let _ = self.directory.read(key).await;
                Ok(None)
            }
            outcome => outcome.map_err(|error| of_directory(error, key)),
        }
    }

    /// The process that status names, if its pod exists and its epoch is above `lost_epoch`.
    #[must_use]
    pub fn placed(&self, record: &Arc<Record>, lost_epoch: u64) -> Option<Route> {
        self.route(record, record.status.placement.clone().filter(|placement| placement.epoch > lost_epoch)?)
    }

    /// The way to a process, if its pod exists.
    fn route(&self, record: &Arc<Record>, placement: Placement) -> Option<Route> {
        // Whatever status says: a session runs in its own pool, a pod reads what its pool has stored, and no session comes to another's pod.
        let pool = self.directory.pool_of(record);
        let pod = self.directory.pod(&record.key.namespace, &placement).filter(|pod| pod.pool == pool && pod.may_have(&record.uid))?;
        let source = record.spec.source.as_ref().and_then(|it| self.directory.get(&Key::new(&record.key.namespace, &it.session)));
        let source = source.and_then(|source| self.source_for(record, source));
        Some(Route { record: Arc::clone(record), placement, pod, source, bootstrap: None })
    }

    /// `source`, if `record` can be forked from it: a pod reads what its pool has stored.
    pub(crate) fn source_for(&self, record: &Record, source: Arc<Record>) -> Option<Arc<Record>> {
        (!source.deleting && self.directory.pool_of(&source) == self.directory.pool_of(record)).then_some(source)
    }

    /// Waits until a pod of the session's pool is ready that tells what is stored. Where no pod is ready at all, one is made.
    pub(crate) async fn wait_for_reader(&self, record: &Record) -> Result<(), ApiError> {
        let (mut changes, until) = (self.directory.changes(), Instant::now() + PLACING_TIMEOUT);
        while !self.has_pod(record, Role::reads) {
            // One that lacks its reader only needs no pod more.
            if !self.has_pod(record, Role::runs) {
                self.loads.tell_waiting(&self.directory, &self.kernels, record).await;
            }
            changed(&mut changes, until, || self.no_reader(record)).await?;
        }
        Ok(())
    }

    /// Whether a pod of the session's pool is ready that does this.
    fn has_pod(&self, record: &Record, does: impl Fn(Role) -> bool) -> bool {
        self.directory.pods(&record.key.namespace, &record.spec.pool).iter().any(|pod| pod.ready && does(pod.role))
    }

    fn no_reader(&self, record: &Record) -> ApiError {
        if !self.has_pod(record, Role::runs) {
            return short_of_pods(record, &no_pod(record));
        }
        let (namespace, pool) = (&record.key.namespace, &record.spec.pool);
        let why =
            format!("the reader of pool `{pool}` in namespace `{namespace}`, which tells what sleeping sessions have stored, is not ready");
        short_of_pods(record, &why)
    }

    /// Why a request finds no place, and what the last pod said that could not take its session.
    fn no_room(&self, record: &Record, in_flight: &InFlight) -> ApiError {
        let (namespace, pool) = (&record.key.namespace, &record.spec.pool);
        let why = if self.has_pod(record, Role::runs) {
            format!(
                "no kernel pod of pool `{pool}` in namespace `{namespace}` has a free slot and memory for it yet. The pool grows up to its maxPods"
            )
        } else {
            no_pod(record)
        };
        let mut error = short_of_pods(record, &why);
        if let Some(Refusal { pod, message }) = &in_flight.refusal {
            error.message = format!("{}. Kernel pod {pod} could not take it: {message}", error.message);
        }
        error
    }

    /// Names the process for a session. A lost race is not an error: the caller looks again and follows the winner.
    async fn assign(&self, record: &Record, placement: Placement, source: Source) -> Result<Option<Arc<Record>>, DirectoryError> {
        let (pod, epoch) = (placement.pod.clone(), placement.epoch);
        match self.directory.assign(record, placement).await {
            Ok(record) => {
                self.metrics.placed(source);
                tracing::info!(session = %record.key, pod, epoch, source = source.label(), "placed");
                Ok(Some(record))
            }
            Err(DirectoryError::Conflict) => self.directory.read(&record.key).await.map(|_| None),
            Err(error) => Err(error),
        }
    }
}

fn no_pod(record: &Record) -> String {
    let (namespace, pool) = (&record.key.namespace, &record.spec.pool);
    format!("pool `{pool}` in namespace `{namespace}` has no kernel pod that is ready yet. One was asked for and may still be starting")
}

fn short_of_pods(record: &Record, why: &str) -> ApiError {
    let pool = &record.spec.pool;
    let message = format!("{why}: send the request again; if it stays so, `kubectl describe kernelpool {pool}` says why");
    ApiError::new(ErrorCode::CapacityExhausted, message)
}

/// Waits for a change in the directory, for [`ROOM_POLL`] at most; fails once `until` has passed.
async fn changed(changes: &mut Receiver<Change>, until: Instant, error: impl FnOnce() -> ApiError) -> Result<(), ApiError> {
    let now = Instant::now();
    if now >= until {
        return Err(error());
    }
    // A change, a lag, a closed channel and the end of the wait mean the same: look again.
    let waited = tokio::time::timeout(ROOM_POLL.min(until - now), changes.recv()).await;
    if matches!(waited, Ok(Err(tokio::sync::broadcast::error::RecvError::Closed))) {
        tokio::time::sleep(ROOM_POLL.min(until - now)).await;
    }
    while changes.try_recv().is_ok() {}
    Ok(())
}

fn not_adopted(key: &Key) -> ApiError {
    let message = format!("session `{}` has no finalizer after {} s: is the operator running?", key.name, FINALIZER_TIMEOUT.as_secs());
    ApiError::new(ErrorCode::CapacityExhausted, message)
}
