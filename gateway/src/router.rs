//! From a session's name to the process that runs it: the one way that every request, and every wake that nobody asked for, takes.
//!
//! Status says where a session should be; a pod says whether it is so. When they disagree, or the pod is gone, the router names another pod
//! by compare-and-swap with the next epoch and sends the same call again. That is safe because storage, not this, decides who may commit.
//!
//! A call that makes a session live does not wait for that write: it leaves beside it, and the pod answers once the write is confirmed.

mod admission;
mod placing;

use std::{future::Future, sync::Arc};

use dormouse_crds::session::Placement;
use dormouse_lifecycle::attempts::{Failure, Next};
use dormouse_protocol::{ApiError, ErrorCode, kernel::Assignment};
use dormouse_service::{Clock, Ids};

use crate::{
    auth::Authenticator,
    directory::{Directory, DirectoryError, KernelPod, Key, Record},
    in_flight::{Asleep, InFlight, Refusal, deadly, exhausted, failure, unknown},
    kernels::{KernelError, Kernels, anchor, assignment},
    metrics::{AttemptOutcome, GatewayMetrics, Source},
    placement::Loads,
    problem::of_directory,
    quotas::Quotas,
    single_flight::SingleFlight,
    tally::Tally,
};

pub(crate) use placing::Located;
pub use placing::{FINALIZER_TIMEOUT, ROOM_POLL};

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
                if let (Failure::NoRoom, KernelError::Refused(refusal)) = (met, error) {
                    in_flight.refusal = Some(Refusal { pod: pod.clone(), message: refusal.message });
                }
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
}
