//! Asks pods that could run a session how they are, believes that for a second, and lets the core choose.

use std::sync::{Arc, Mutex, PoisonError};

use dormouse_control::placement::{self, PodNames, Search, Step, order};
use dormouse_crds::session::Placement;
use dormouse_protocol::kernel::WaitingCall;
use futures::future::join_all;

use crate::{
    chain::chain,
    directory::{Directory, KernelPod, Record},
    kernels::Kernels,
};

/// What this gateway believes of its pods.
#[derive(Debug, Default)]
pub struct Loads(Mutex<placement::Loads>);

impl Loads {
    /// The placement that comes next for `record`, under an epoch above `floor`, if some pod has room.
    pub async fn next(&self, directory: &Arc<dyn Directory>, kernels: &Kernels, record: &Record, floor: u64) -> Option<Placement> {
        // Also not on the one that was given to this very session: it has left that, or its process has ended.
        let pods = ordered(directory, record, |pod| pod.role.runs() && pod.given_to.is_none());
        let named: Vec<PodNames<'_>> = pods.iter().map(names).collect();
        let mut search = Search::new(record, &named, floor, now());
        loop {
            match self.with(|loads| search.step(loads, now())) {
                Step::Ask(places) => self.ask(kernels, places.iter().filter_map(|place| pods.get(*place))).await,
                Step::Found(placement) => return Some(placement),
                Step::Full => return None,
            }
        }
    }

    /// Lets the operator know that the session waits for room: by way of a pod, or of its status where there is none. Of a pool whose pods run one session
    /// each, by way of its reader, where no session's code could keep it back.
    pub async fn tell_waiting(&self, directory: &Arc<dyn Directory>, kernels: &Kernels, record: &Record) {
        let pods = ordered(directory, record, |pod| pod.role.runs() || pod.role.reads());
        let Some(pod) = pods.iter().find(|pod| pod.role.reads()).or_else(|| pods.first()) else {
            if let Err(error) = directory.request_wake(record).await {
                tracing::warn!(session = %record.key, error = %chain(&error), "it could not be written that a session waits for a pod");
            }
            return;
        };
        let call = WaitingCall { namespace: record.key.namespace.clone(), uid: record.uid.clone() };
        if let Err(error) = kernels.waiting(pod, &call).await {
            tracing::debug!(pod = pod.pod, %error, "a kernel pod was not told who waits");
        }
    }

    /// The pod is asked again before it is given anything.
    pub fn forget(&self, pod: &KernelPod) {
        self.with(|loads| loads.forget(&pod.uid));
    }

    async fn ask(&self, kernels: &Kernels, pods: impl Iterator<Item = &KernelPod>) {
        let asked = now();
        join_all(pods.map(|pod| async move {
            let info = kernels.info(pod).await;
            let info =
                info.inspect_err(|error| tracing::debug!(pod = pod.pod, %error, "a kernel pod does not answer and takes no session"));
            self.with(|loads| loads.answered(&pod.uid, info.ok(), asked, now()));
        }))
        .await;
        self.with(|loads| loads.forget_older(now()));
    }

    fn with<T>(&self, work: impl FnOnce(&mut placement::Loads) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The clock of the executor, which tests move.
fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}

fn names(pod: &KernelPod) -> PodNames<'_> {
    (&pod.uid, &pod.pod)
}

/// Those of the session's pool that are ready and fit, in the order in which they are asked.
fn ordered(directory: &Arc<dyn Directory>, record: &Record, fits: impl Fn(&KernelPod) -> bool) -> Vec<KernelPod> {
    let last = record.status.placement.as_ref().map(|last| last.pod_uid.as_str());
    let pods = directory.pods(&record.key.namespace, &record.spec.pool).into_iter();
    let mut pods: Vec<KernelPod> = pods.filter(|pod| pod.ready && fits(pod)).collect();
    order(&record.uid, last, &mut pods, names);
    pods
}
