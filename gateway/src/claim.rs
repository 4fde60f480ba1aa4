//! Calls that make a session live: each leaves beside the write of its assignment (`kernels::unwritten`).

use std::sync::Arc;

use dormouse_protocol::{
    ApiError,
    kernel::{Assignment, SessionReport},
};
use futures::future::{Either, select};

use crate::{
    directory::{KernelPod, Key, Record},
    expiry::refuse_expired,
    in_flight::{Asleep, InFlight},
    kernels::{KernelError, Unwritten, writing},
    metrics::Source,
    quota::admit_wake,
    router::{Located, Route, Router},
    single_flight::Flight,
};

impl Router {
    /// Sends a call that makes the session live. When it has to be placed first, the call leaves with the assignment that is being written. What it is told
    /// last is whether the request is only to be ended ([`dormouse_lifecycle::attempts::Attempts::is_to_end`]).
    pub async fn send_claiming<T, F>(
        &self,
        in_flight: &mut InFlight,
        key: &Key,
        call: impl Fn(KernelPod, Assignment, Option<Unwritten>, bool) -> F,
    ) -> Result<(T, Route), ApiError>
    where
        F: Future<Output = Result<T, KernelError>>,
    {
        refuse_expired(self, key).await?;
        admit_wake(self, key).await?;
        loop {
            let (route, called) = match self.locate(key, in_flight).await? {
                Located::Found(route) => {
                    let called = call(route.pod.clone(), route.assignment(), None, in_flight.attempts.is_to_end()).await;
                    (route, called)
                }
                Located::Free(route, flight) => match self.send_beside(in_flight, route, flight, &call).await? {
                    Some(sent) => sent,
                    None => continue,
                },
            };
            match called {
                Ok(answer) => {
                    self.answered();
                    return Ok((answer, route));
                }
                Err(error) => self.failed(in_flight, &route, error).await?,
            }
        }
    }

    /// Sends a call beside the write of its assignment. `None` when that is not what was written: then the call never was.
    async fn send_beside<T, F>(
        &self,
        in_flight: &InFlight,
        mut route: Route,
        flight: Flight<String>,
        call: &impl Fn(KernelPod, Assignment, Option<Unwritten>, bool) -> F,
    ) -> Result<Option<(Route, Result<T, KernelError>)>, ApiError>
    where
        F: Future<Output = Result<T, KernelError>>,
    {
        let (writing, unwritten) = writing();
        let calling = Box::pin(call(route.pod.clone(), route.assignment(), Some(unwritten), in_flight.attempts.is_to_end()));
        let write = Box::pin(self.write(&route, in_flight));
        // The call first: it has the longer way.
        let (written, called) = match select(calling, write).await {
            // Only a failure comes before the write is done: what it says of the pod counts if the pod is the one that status has.
            Either::Left((called, write)) => (write.await?, Either::Right(called)),
            Either::Right((written, calling)) => (written?, Either::Left(calling)),
        };
        drop(flight);
        let Some(record) = written else { return Ok(None) };
        // The same spec: what was written was compared with what was read.
        route.record = Arc::new(Record { spec: route.record.spec.clone(), left_out: false, ..Record::clone(&record) });
        writing.done();
        let called = match called {
            Either::Left(calling) => calling.await,
            Either::Right(called) => called,
        };
        Ok(Some((route, called)))
    }

    /// Makes a session live.
    pub async fn wake(&self, key: &Key, source: Source) -> Result<(SessionReport, Route), ApiError> {
        let mut in_flight = InFlight::new(Asleep::Refuse, source);
        let woken = self.send_claiming(&mut in_flight, key, |pod, assignment, unwritten, _| async move {
            self.kernels().wake(&pod, &assignment, unwritten).await
        });
        woken.await
    }
}
