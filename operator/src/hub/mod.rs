//! What all pods have reported. It decides nothing.

mod exhausted;
mod last_words;
mod room;
mod views;

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use dormouse_crds::session::{KernelSession, Placement};
use dormouse_protocol::kernel::{ReportLine, SessionReport};
use kube::runtime::reflector::ObjectRef;
use tokio::{sync::mpsc, time::Instant};

use self::{
    room::Room,
    views::{PoolLoad, Views, believe},
};

pub(crate) use self::views::PodView;

/// How long it is believed that a session waits for a slot: it is told again every second.
pub const WAITING_BELIEVED: Duration = Duration::from_secs(5);

/// What all pods reported.
#[derive(Debug)]
pub struct Hub {
    views: Mutex<Views>,
    pub(crate) sessions: mpsc::Sender<ObjectRef<KernelSession>>,
}

/// A pod as a session's reconciler sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct PodReport {
    /// The process that the stream is from.
    pub boot: String,
    /// Whether the stream is open; else this is the last that was heard.
    pub open: bool,
    /// Whether silence about a session means that the pod does not have it.
    pub complete: bool,
    /// The session's newest report.
    pub report: Option<SessionReport>,
}

/// A process that has a session which was placed elsewhere since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// Of its pod.
    pub pod_uid: String,
    /// The process.
    pub boot: String,
    /// Under which epoch it has the session.
    pub epoch: u64,
}

/// What a line changes for the pod's pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// Who holds or wants a slot.
    Load,
    /// The pod has told everything, or is another process.
    Picture,
}

impl Hub {
    /// An empty hub that tells `sessions` of changes, in a process that may use so many bytes of memory.
    #[must_use]
    pub fn new(sessions: mpsc::Sender<ObjectRef<KernelSession>>, memory_bytes: Option<u64>) -> Self {
        Self { views: Mutex::new(Views { room: Room::within(memory_bytes), ..Views::default() }), sessions }
    }

    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Views) -> T) -> T {
        f(&mut self.views.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the process that the pod of this uid runs, or ran last, told of a session of `pool`. A pod of another pool is not asked, whatever it tells.
    #[must_use]
    pub fn report_of(&self, pod_uid: &str, pool: &str, session_uid: &str) -> Option<PodReport> {
        self.with(|views| {
            let view = views.pods.get(pod_uid).filter(|view| view.pool == pool)?;
            let report = view.sessions.get(session_uid).cloned();
            let complete = view.open && view.complete && !view.lacking;
            Some(PodReport { boot: view.info.as_ref()?.boot.clone(), open: view.open, complete, report })
        })
    }

    /// The processes of `pool` that hold a slot for a session under an epoch below `below`; `owner` is the pod, by uid, whose it is.
    #[must_use]
    pub fn strays(&self, namespace: &str, pool: &str, session_uid: &str, owner: Option<&str>, below: u64) -> Vec<Stray> {
        let key = (namespace.to_owned(), pool.to_owned());
        self.with(|views| {
            let holders = views.pools.get(&key).and_then(|load| load.live.get(session_uid)).copied().unwrap_or_default();
            let owner = owner.and_then(|owner| views.pods.get(owner)?.sessions.get(session_uid));
            let by_owner = owner.is_some_and(|report| report.holds_slot && report.epoch >= below);
            // So no more than those of few sessions are looked for.
            if holders <= u32::from(by_owner) {
                return Vec::new();
            }
            let of_pool =
                views.pods.iter().filter(|(_, view)| view.open && (view.namespace.as_str(), view.pool.as_str()) == (namespace, pool));
            of_pool
                .filter_map(|(pod_uid, view)| {
                    let report = view.sessions.get(session_uid).filter(|report| report.holds_slot && report.epoch < below)?;
                    Some(Stray { pod_uid: pod_uid.clone(), boot: view.info.as_ref()?.boot.clone(), epoch: report.epoch })
                })
                .collect()
        })
    }

    /// How many sessions of a pod hold a slot, and how many do not.
    #[must_use]
    pub fn sessions_of(&self, pod_uid: &str) -> (u32, u32) {
        self.with(|views| {
            let Some(view) = views.pods.get(pod_uid) else { return (0, 0) };
            let (live, all) = (view.live(), u32::try_from(view.sessions.len()).unwrap_or(u32::MAX));
            (live, all.saturating_sub(live))
        })
    }

    /// Whether a pod has told everything.
    #[must_use]
    pub fn is_complete(&self, pod_uid: &str) -> bool {
        self.with(|views| views.pods.get(pod_uid).is_some_and(|view| view.open && view.complete))
    }

    /// Live sessions of a pool: those that hold a slot.
    #[must_use]
    pub fn live(&self, namespace: &str, pool: &str) -> u32 {
        let key = (namespace.to_owned(), pool.to_owned());
        let live = self.with(|views| views.pools.get(&key).map_or(0, |load| load.live.len()));
        u32::try_from(live).unwrap_or(u32::MAX)
    }

    /// How many sessions of a pool want a slot and have none: `count` is given those that wait, and whether a process has one or has failed to run it.
    pub fn waiting(&self, namespace: &str, pool: &str, count: impl FnOnce(Vec<String>, &dyn Fn(&str) -> bool) -> u32) -> u32 {
        let key = (namespace.to_owned(), pool.to_owned());
        self.with(|views| match views.pools.get_mut(&key) {
            None => count(Vec::new(), &|_| false),
            Some(load) => {
                let now = Instant::now();
                load.waiting.retain(|_, until| *until > now);
                load.requested.retain(|_, until| *until > now);
                let only_requested = load.requested.keys().filter(|uid| !load.waiting.contains_key(*uid));
                let waiting = load.waiting.keys().chain(only_requested).cloned().collect();
                let counted = count(waiting, &|uid| load.live.contains_key(uid) || load.failed.contains_key(uid));
                views.tidy(&key);
                counted
            }
        })
    }

    /// Whether anybody is known to wait: then that is to be looked at again soon.
    #[must_use]
    pub fn anybody_waits(&self, namespace: &str, pool: &str) -> bool {
        let key = (namespace.to_owned(), pool.to_owned());
        self.with(|views| views.pools.get(&key).is_some_and(PoolLoad::anybody_waits))
    }

    /// A session's status says that somebody waits for it, which may have no pod to say so. `None`: it says so no more, since there is a place. Its pod tells
    /// that it is live before long, or it has slept again before anybody followed what that tells.
    pub fn requested(&self, namespace: &str, pool: &str, uid: &str, believed: Option<Duration>) {
        let key = (namespace.to_owned(), pool.to_owned());
        self.with(|views| match believed {
            Some(believed) => {
                believe(&mut views.pools.entry(key).or_default().requested, uid.to_owned(), Instant::now() + believed);
            }
            None => {
                if let Some(until) = views.pools.get_mut(&key).and_then(|load| load.requested.get_mut(uid)) {
                    *until = (Instant::now() + WAITING_BELIEVED).min(*until);
                }
            }
        });
    }

    /// What the process of `placement`, which is gone, told last of a session, if it has told everything: then silence means that there was nothing.
    #[must_use]
    pub fn last_word(&self, placement: &Placement, session_uid: &str) -> Option<Option<SessionReport>> {
        self.with(|views| views.last_words.of(placement, session_uid))
    }

    /// Forgets it.
    pub fn forget_last_word(&self, pod_uid: &str, session_uid: &str) {
        self.with(|views| {
            if let Some((namespace, bytes)) = views.last_words.forget(pod_uid, session_uid) {
                views.room.change(&namespace, bytes, 0);
            }
        });
    }

    pub(crate) fn closed(&self, pod_uid: &str) {
        self.with(|views| {
            if let Some(view) = views.pods.get_mut(pod_uid) {
                (view.open, view.complete) = (false, false);
            }
        });
    }

    /// Has a session looked at.
    pub async fn tell(&self, namespace: &str, name: &str) {
        let _ = self.sessions.send(ObjectRef::new(name).within(namespace)).await;
    }

    /// Takes in a line.
    pub(crate) async fn take(&self, pod_uid: &str, namespace: &str, line: ReportLine) -> Effect {
        match line {
            ReportLine::Alive | ReportLine::Other => Effect::None,
            ReportLine::Picture => {
                self.with(|views| {
                    let Some(view) = views.pods.get_mut(pod_uid) else { return };
                    (view.complete, view.lacking) = (false, false);
                    view.unnamed = view.sessions.keys().cloned().collect();
                });
                Effect::None
            }
            ReportLine::Complete => {
                let gone = self.with(|views| {
                    let unnamed = views.pods.get_mut(pod_uid).map(|view| {
                        view.complete = true;
                        std::mem::take(&mut view.unnamed)
                    });
                    unnamed.into_iter().flatten().filter_map(|uid| views.drop_session(pod_uid, &uid, u64::MAX)).collect::<Vec<_>>()
                });
                for name in gone {
                    self.tell(namespace, &name).await;
                }
                Effect::Picture
            }
            ReportLine::Pod(info) => self.with(|views| if views.opened(pod_uid, info) { Effect::Picture } else { Effect::None }),
            // A pod reports for its own namespace only: what it says of others is not believed.
            ReportLine::Session(report) if report.namespace != namespace => Effect::None,
            ReportLine::Session(report) => {
                let name = report.name.clone();
                let Some(changed) = self.with(|views| views.take(pod_uid, *report)) else { return Effect::None };
                self.tell(namespace, &name).await;
                if changed { Effect::Load } else { Effect::None }
            }
            ReportLine::Forgotten { uid, epoch } => {
                let Some(name) = self.with(|views| views.drop_session(pod_uid, &uid, epoch)) else { return Effect::None };
                self.tell(namespace, &name).await;
                Effect::Load
            }
            ReportLine::Waiting { uid } => self.with(|views| {
                let Some((_, load, _)) = views.load(pod_uid) else { return Effect::None };
                if believe(&mut load.waiting, uid, Instant::now() + WAITING_BELIEVED) { Effect::Load } else { Effect::None }
            }),
            ReportLine::Drained => {
                self.with(|views| {
                    if let Some(view) = views.pods.get_mut(pod_uid) {
                        view.drained = view.complete;
                    }
                });
                Effect::None
            }
        }
    }
}

#[cfg(test)]
mod tests;
