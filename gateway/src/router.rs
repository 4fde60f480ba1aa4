//! From a session's name to the process that runs it: the one way that every request, and every wake that nobody asked for, takes.
//!
//! Status says where a session should be; a pod says whether it is so. When they disagree, or the pod is gone, the router names another pod
//! by compare-and-swap with the next epoch and sends the same call again. That is safe because storage, not this, decides who may commit.
//!
//! A call that makes a session live does not wait for that write: it leaves beside it, and the pod answers once the write is confirmed.

use std::{future::Future, sync::Arc, time::Duration};

use dormouse_crds::session::{OperatingMode, Placement};
use dormouse_lifecycle::attempts::{Failure, Next};
use dormouse_protocol::{ApiError, ErrorCode, kernel::Assignment};
use dormouse_service::{Clock, Ids};
use tokio::{sync::broadcast::Receiver, time::Instant};

use crate::{
    auth::{Access, AuthError, Authenticator, Caller, Part, Verb},
    chain::chain,
    directory::{Change, Directory, DirectoryError, KernelPod, Key, Record},
    in_flight::{Asleep, InFlight, PLACING_TIMEOUT, deadly, exhausted, failure, unknown},
    kernels::{KernelError, Kernels, anchor, assignment},
    metrics::{AttemptOutcome, GatewayMetrics, Source},
    placement::Loads,
    problem::of_directory,
    quotas::Quotas,
    single_flight::{Flight, SingleFlight},
    tally::Tally,
};

/// How long a session may be without the finalizer that the operator adds, before a request for it gives up.
pub const FINALIZER_TIMEOUT: Duration = Duration::from_secs(30);
/// While nothing changes in the directory, pods are asked again this often: a slot that becomes free is no change there.
pub const ROOM_POLL: Duration = Duration::from_millis(300);

/// How often it is told that a session waits for a slot. The operator believes it for longer.
const WAITING_TOLD_EVERY: Duration = Duration::from_secs(1);

/// The way to sessions. Clones share everything.
#[derive(Clone)]
pub struct Router {
    directory: Arc<dyn Directory>,
    kernels: Kernels,
    loads: Arc<Loads>,
    flights: Arc<SingleFlight<String>>,
    metrics: GatewayMetrics,
    clock: Clock,
    ids: Ids,
    quotas: Quotas,
    tally: Tally,
    /// Who knows what those may do who are not here.
    authority: Option<Arc<dyn Authenticator>>,
}

/// A session and the process that should have it.
pub struct Route {
    /// The session.
    pub record: Arc<Record>,
    /// The process.
    pub placement: Placement,
    /// Its pod.
    pub pod: KernelPod,
    /// The session that it is forked from, if that exists.
    pub source: Option<Arc<Record>>,
    /// The code of its `spec.bootstrap.configMapRef`, where that is still to run.
    pub bootstrap: Option<String>,
}

impl Route {
    /// What to send there.
    #[must_use]
    pub fn assignment(&self) -> Assignment {
        debug_assert!(!self.record.left_out, "a pod is never sent a part of a spec");
        let source = self.source.as_deref();
        let mut spec = self.record.spec.for_pod();
        if let (Some(bootstrap), Some(code)) = (&mut spec.bootstrap, &self.bootstrap) {
            bootstrap.code.clone_from(code);
        }
        Assignment {
            spec,
            source_uid: source.map(|source| source.uid.clone()),
            source_anchor: source.and_then(anchor),
            ..assignment(&self.record, &self.placement)
        }
    }
}

/// What is known of a right.
enum Admission {
    /// It is there.
    Admitted,
    /// It cannot be asked about; this is the answer for whoever does not wait.
    Unknown(ApiError),
}

/// Where a session is, or where it could be.
pub(crate) enum Located {
    /// Status has it.
    Found(Route),
    /// Status does not have it yet. Nobody else in this process writes it meanwhile.
    Free(Route, Flight<String>),
}

impl Router {
    /// A router over `directory` and `kernels`.
    #[must_use]
    pub fn new(directory: Arc<dyn Directory>, kernels: Kernels, metrics: GatewayMetrics) -> Self {
        Self {
            directory,
            kernels,
            loads: Arc::default(),
            flights: Arc::default(),
            metrics,
            clock: Clock::system(),
            ids: Ids::random(),
            quotas: Quotas::default(),
            tally: Tally::default(),
            authority: None,
        }
    }

    /// The same, which asks about who named the ToolBroker of a session before it is placed.
    #[must_use]
    pub fn with_authority(self, authority: Arc<dyn Authenticator>) -> Self {
        Self { authority: Some(authority), ..self }
    }

    /// The same, with this to count by.
    #[must_use]
    pub(crate) fn with_tally(self, tally: Tally) -> Self {
        Self { tally, ..self }
    }

    /// What counts exactly.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The same with other names for what clients left unnamed.
    #[must_use]
    pub fn with_ids(self, ids: Ids) -> Self {
        Self { ids, ..self }
    }

    /// Where names come from.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// The same by another clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// What time it is.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// What is known of quotas.
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    /// What it counts by.
    pub(crate) fn metrics(&self) -> &GatewayMetrics {
        &self.metrics
    }

    /// Notes that a pod has answered a request.
    pub(crate) fn answered(&self) {
        self.metrics.attempt(AttemptOutcome::Answered);
    }

    /// The client of pods.
    #[must_use]
    pub fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// Sends `call` to the process that has the session, wherever that comes to be, until one answers.
    pub async fn send<T, F>(
        &self,
        key: &Key,
        asleep: Asleep,
        source: Source,
        call: impl Fn(KernelPod, Assignment) -> F,
    ) -> Result<(T, Route), ApiError>
    where
        F: Future<Output = Result<T, KernelError>>,
    {
        self.send_on(&mut InFlight::new(asleep, source), key, call).await
    }

    /// The same for a request that is under way already.
    pub async fn send_on<T, F>(
        &self,
        in_flight: &mut InFlight,
        key: &Key,
        call: impl Fn(KernelPod, Assignment) -> F,
    ) -> Result<(T, Route), ApiError>
    where
        F: Future<Output = Result<T, KernelError>>,
    {
        loop {
            let route = self.place(key, in_flight).await?;
            match call(route.pod.clone(), route.assignment()).await {
                Ok(answer) => {
                    self.answered();
                    return Ok((answer, route));
                }
                Err(error) => self.failed(in_flight, &route, error).await?,
            }
        }
    }

    /// Notes that a call failed, and pauses; an error here is the answer to the client.
    pub async fn failed(&self, in_flight: &mut InFlight, route: &Route, error: KernelError) -> Result<(), ApiError> {
        let (met, epoch) = (failure(&error), route.placement.epoch);
        self.metrics.attempt(match met {
            Failure::Refused => AttemptOutcome::Refused,
            Failure::Gone { .. } | Failure::NoRoom => AttemptOutcome::Gone,
            Failure::Unreachable | Failure::Lost => AttemptOutcome::Lost,
            Failure::Garbled => AttemptOutcome::Garbled,
        });
        let lives = in_flight.attempts.must_ask(met, epoch) && self.lives(route).await;
        let next = in_flight.attempts.after(met, epoch, lives);
        let pause = match (next, error) {
            (Next::Answer, KernelError::Refused(refusal)) => return Err(refusal),
            (Next::Answer | Next::Exhausted, error) => return Err(exhausted(&error)),
            (Next::Deadly, error) => return Err(deadly(&error)),
            (Next::Unknown, error) => return Err(unknown(&error)),
            (Next::End(pause), error) => {
                let (session, pod) = (&route.record.key, &route.pod.pod);
                tracing::warn!(%session, pod, epoch, %error, "a cell ends its kernel pods: it is sent to one more, to be ended");
                pause
            }
            (Next::Again(pause), error) => {
                let (session, pod, attempt) = (&route.record.key, &route.pod.pod, in_flight.attempts.failed());
                tracing::info!(%session, pod, epoch, attempt, lost_epoch = in_flight.attempts.lost_epoch(), %error, "a kernel pod did not answer");
                pause
            }
        };
        self.loads.forget(&route.pod);
        tokio::time::sleep(pause).await;
        // The cache may be behind; what comes of this is seen by `place`.
        let _ = self.directory.read(&route.record.key).await;
        Ok(())
    }

    /// Whether the process that was asked still answers as itself.
    async fn lives(&self, route: &Route) -> bool {
        match self.kernels.info(&route.pod).await {
            Ok(info) => info.boot == route.placement.boot && !info.draining,
            Err(_) => false,
        }
    }

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
                return Err(self.no_room(&record));
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
                    changed(&mut changes, in_flight.placing_until, || self.no_room(&record)).await?;
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

    /// The session that the request is for: not another one that has got its name meanwhile.
    pub(crate) async fn find_same(&self, key: &Key, in_flight: &mut InFlight) -> Result<Arc<Record>, ApiError> {
        let record = self.find(key).await?;
        in_flight.attempts.meet(&record.uid).map_err(|another| ApiError::new(ErrorCode::SessionNotFound, another.to_string()))?;
        Ok(record)
    }

    /// The session as the cache has it; a session that the cache does not have yet is asked for.
    pub async fn find(&self, key: &Key) -> Result<Arc<Record>, ApiError> {
        let record = match self.directory.get(key) {
            Some(record) => record,
            None => self.directory.read(key).await.map_err(|error| of_directory(error, key))?,
        };
        if record.deleting { Err(of_directory(DirectoryError::NotFound, key)) } else { Ok(record) }
    }

    /// The process that status names, if its pod exists and its epoch is above `lost_epoch`.
    #[must_use]
    pub fn placed(&self, record: &Arc<Record>, lost_epoch: u64) -> Option<Route> {
        self.route(record, record.status.placement.clone().filter(|placement| placement.epoch > lost_epoch)?)
    }

    /// The way to a process, if its pod exists.
    fn route(&self, record: &Arc<Record>, placement: Placement) -> Option<Route> {
        // Whatever status says: a session runs in its own pool, and a pod reads what its pool has stored.
        let pool = self.directory.pool_of(record);
        let pod = self.directory.pod(&record.key.namespace, &placement).filter(|pod| pod.pool == pool)?;
        let source = record.spec.source.as_ref().and_then(|it| self.directory.get(&Key::new(&record.key.namespace, &it.session)));
        let source = source.and_then(|source| self.source_for(record, source));
        Some(Route { record: Arc::clone(record), placement, pod, source, bootstrap: None })
    }

    /// `source`, if `record` can be forked from it: a pod reads what its pool has stored.
    pub(crate) fn source_for(&self, record: &Record, source: Arc<Record>) -> Option<Arc<Record>> {
        (!source.deleting && self.directory.pool_of(&source) == self.directory.pool_of(record)).then_some(source)
    }

    /// Waits until a pod of the session's pool is ready, which is made where there is none.
    pub(crate) async fn wait_for_pod(&self, record: &Record) -> Result<(), ApiError> {
        let (mut changes, until) = (self.directory.changes(), Instant::now() + PLACING_TIMEOUT);
        while !self.has_pod(record) {
            self.loads.tell_waiting(&self.directory, &self.kernels, record).await;
            changed(&mut changes, until, || self.no_room(record)).await?;
        }
        Ok(())
    }

    fn has_pod(&self, record: &Record) -> bool {
        self.directory.pods(&record.key.namespace, &record.spec.pool).iter().any(|pod| pod.ready)
    }

    fn no_room(&self, record: &Record) -> ApiError {
        let (namespace, pool) = (&record.key.namespace, &record.spec.pool);
        let why = if self.has_pod(record) {
            format!(
                "no kernel pod of pool `{pool}` in namespace `{namespace}` has a free slot and memory for it yet. The pool grows up to its maxPods"
            )
        } else {
            format!(
                "pool `{pool}` in namespace `{namespace}` has no kernel pod that is ready yet. One was asked for and may still be starting"
            )
        };
        let message = format!("{why}: send the request again; if it stays so, `kubectl describe kernelpool {pool}` says why");
        ApiError::new(ErrorCode::CapacityExhausted, message)
    }

    /// Whether who named the session's ToolBroker may use it still.
    async fn admit_broker(&self, record: &Arc<Record>) -> Result<Admission, ApiError> {
        let (Some(authority), Some(_)) = (&self.authority, &record.spec.tool_broker_ref) else { return Ok(Admission::Admitted) };
        // The cache may have left out who it was.
        let record = self.whole(record).await?;
        let Some(broker) = &record.spec.tool_broker_ref else { return Ok(Admission::Admitted) };
        let Some(named_by) = &broker.named_by else { return Ok(Admission::Admitted) };
        let access =
            Access { namespace: record.key.namespace.clone(), name: Some(broker.name.clone()), verb: Verb::Use, part: Part::Broker };
        let (user, name) = (&named_by.user, &broker.name);
        match authority.authorize(&Caller::absent(named_by), &access).await {
            Ok(()) => Ok(Admission::Admitted),
            Err(AuthError::Forbidden { .. }) => {
                let message = format!(
                    "`{user}`, who named the ToolBroker `{name}` for this session, may not use it any more: give them the verb use on it, or have \
                     somebody who has that take the session over, by a patch of spec.toolBrokerRef.namedBy to null"
                );
                Err(ApiError::new(ErrorCode::Forbidden, message).with_detail("path", "spec.toolBrokerRef"))
            }
            Err(error) => {
                tracing::warn!(session = %record.key, error = %chain(&error), "whether a ToolBroker may be used is not known; it is asked again");
                let message =
                    format!("whether `{user}` may use the ToolBroker `{name}` cannot be asked at the moment: send the request again");
                Ok(Admission::Unknown(ApiError::new(ErrorCode::StorageUnavailable, message)))
            }
        }
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

fn admit(record: &Record, asleep: Asleep) -> Result<(), ApiError> {
    if asleep == Asleep::Refuse && record.spec.operating_mode == OperatingMode::Hibernated {
        let message = "the session's spec.operatingMode is Hibernated: set it to Auto or Running, then send the request again";
        return Err(ApiError::new(ErrorCode::Conflict, message));
    }
    Ok(())
}

fn not_adopted(key: &Key) -> ApiError {
    let message = format!("session `{}` has no finalizer after {} s: is the operator running?", key.name, FINALIZER_TIMEOUT.as_secs());
    ApiError::new(ErrorCode::CapacityExhausted, message)
}
