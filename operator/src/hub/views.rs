//! What is kept of what pods have told, and what that comes to for their pools.

use std::collections::{HashMap, HashSet};

use dormouse_protocol::{
    kernel::{PodInfo, SessionReport},
    session::State,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    exhausted::Exhausted,
    last_words::{LastWords, Words},
    room::{Room, weight},
};

/// Bytes of lines that are kept of one pod. What it says of more sessions is not taken in.
pub(super) const KEPT_BYTES_MAX: usize = 32 << 20;

/// Sessions of a pool that are known to wait. More pods than for so many are not made at once.
const WAITING_KEPT_MAX: usize = 4_096;

/// What one pod reported.
#[derive(Debug)]
pub(crate) struct PodView {
    pub(crate) namespace: String,
    pub(crate) pool: String,
    pub(crate) open: bool,
    /// Whether it has told of all that it has.
    pub(crate) complete: bool,
    /// While a picture is on its way: what was there before and has not been named yet.
    pub(super) unnamed: HashSet<String>,
    /// Whether what it has told is the last of all its sessions, and all of that is kept.
    pub(super) drained: bool,
    /// Whether something that it has told is not kept.
    pub(super) lacking: bool,
    pub(crate) info: Option<PodInfo>,
    pub(crate) sessions: HashMap<String, SessionReport>,
    /// Bytes of those, about.
    pub(crate) bytes: usize,
    pub(crate) stop: CancellationToken,
}

/// What the pods of a pool come to.
#[derive(Debug, Default)]
pub(super) struct PoolLoad {
    /// Sessions that hold a slot, by uid: in how many pods.
    pub(super) live: HashMap<String, u32>,
    /// Sessions that cannot run.
    pub(super) failed: HashMap<String, u32>,
    /// Sessions that wait for a slot as pods tell it, and until when that is believed.
    pub(super) waiting: HashMap<String, Instant>,
    /// The same as their status says it.
    pub(super) requested: HashMap<String, Instant>,
    /// Pods that have no memory for another session.
    pub(super) exhausted: Exhausted,
}

#[derive(Debug, Default)]
pub(crate) struct Views {
    pub(crate) pods: HashMap<String, PodView>,
    pub(super) pools: HashMap<(String, String), PoolLoad>,
    pub(super) last_words: LastWords,
    pub(super) room: Room,
}

impl PodView {
    pub(crate) fn new(namespace: String, pool: String, stop: CancellationToken) -> Self {
        Self {
            namespace,
            pool,
            open: false,
            complete: false,
            unnamed: HashSet::new(),
            drained: false,
            lacking: false,
            info: None,
            sessions: HashMap::new(),
            bytes: 0,
            stop,
        }
    }

    /// How many of its sessions hold a slot.
    pub(super) fn live(&self) -> u32 {
        u32::try_from(self.sessions.values().filter(|report| report.holds_slot).count()).unwrap_or(u32::MAX)
    }
}

impl Views {
    pub(super) fn load(&mut self, pod_uid: &str) -> Option<(&mut PodView, &mut PoolLoad, &mut Room)> {
        let view = self.pods.get_mut(pod_uid)?;
        let load = self.pools.entry((view.namespace.clone(), view.pool.clone())).or_default();
        Some((view, load, &mut self.room))
    }

    /// Keeps a session's newest report. The answer is whether its slot's use has changed; `None` when the pod has said so much that this is not taken in.
    pub(super) fn take(&mut self, pod_uid: &str, report: SessionReport) -> Option<bool> {
        let (view, load, room) = self.load(pod_uid)?;
        let before = view.sessions.get(&report.uid);
        let bytes = view.bytes - before.map_or(0, weight) + weight(&report);
        view.unnamed.remove(&report.uid);
        if bytes > KEPT_BYTES_MAX || !room.admits(&view.namespace, view.bytes, bytes) {
            tracing::warn!(namespace = view.namespace, pool = view.pool, "kernel pods report more than is kept");
            view.lacking = true;
            return None;
        }
        room.change(&view.namespace, view.bytes, bytes);
        view.bytes = bytes;
        let held = before.is_some_and(|report| report.holds_slot);
        if let Some(before) = before {
            load.leave(before);
        }
        load.enter(&report);
        let holds = report.holds_slot;
        view.sessions.insert(report.uid.clone(), report);
        Some(held != holds)
    }

    /// Drops what the pod told of a session. Answers its name.
    pub(super) fn drop_session(&mut self, pod_uid: &str, uid: &str, epoch: u64) -> Option<String> {
        let (view, load, room) = self.load(pod_uid)?;
        view.sessions.get(uid).filter(|report| report.epoch <= epoch)?;
        let report = view.sessions.remove(uid)?;
        room.change(&view.namespace, weight(&report), 0);
        view.bytes = view.bytes.saturating_sub(weight(&report));
        load.leave(&report);
        Some(report.name)
    }

    pub(crate) fn remove(&mut self, pod_uid: &str) -> Option<PodView> {
        let (view, load, _) = self.load(pod_uid)?;
        view.sessions.values().for_each(|report| load.leave(report));
        load.exhausted.set(pod_uid, false);
        let mut view = self.pods.remove(pod_uid)?;
        self.tidy(&(view.namespace.clone(), view.pool.clone()));
        let now = Instant::now();
        for (namespace, bytes) in self.last_words.over(now) {
            self.room.change(&namespace, bytes, 0);
        }
        match view.info.as_ref().filter(|_| view.drained && !view.lacking) {
            Some(info) => {
                let sessions = std::mem::take(&mut view.sessions);
                self.last_words.keep(pod_uid, Words::new(&view.namespace, &info.boot, sessions, view.bytes, now));
            }
            None => self.room.change(&view.namespace, view.bytes, 0),
        }
        Some(view)
    }

    /// Forgets a pool that has no pod and that nobody waits for.
    pub(super) fn tidy(&mut self, pool: &(String, String)) {
        let waits = self.pools.get(pool).is_some_and(PoolLoad::anybody_waits);
        if !waits && !self.pods.values().any(|view| (&view.namespace, &view.pool) == (&pool.0, &pool.1)) {
            self.pools.remove(pool);
        }
    }

    pub(super) fn opened(&mut self, pod_uid: &str, info: PodInfo) -> bool {
        let Some((view, load, room)) = self.load(pod_uid) else { return false };
        let another = view.info.as_ref().is_none_or(|old| old.boot != info.boot);
        if another {
            view.sessions.values().for_each(|report| load.leave(report));
            view.sessions.clear();
            view.unnamed.clear();
            room.change(&view.namespace, view.bytes, 0);
            view.bytes = 0;
            (view.drained, view.lacking) = (false, false);
        }
        let differs = |old: &PodInfo| (old.draining, old.exhausted) != (info.draining, info.exhausted);
        let news = another || !view.open || view.info.as_ref().is_some_and(differs);
        load.exhausted.set(pod_uid, info.exhausted && !info.draining);
        view.open = true;
        view.info = Some(info);
        news
    }
}

impl PoolLoad {
    fn enter(&mut self, report: &SessionReport) {
        if let Some(count) = self.counts(report) {
            *count.entry(report.uid.clone()).or_default() += 1;
        }
        if report.holds_slot {
            self.waiting.remove(&report.uid);
            self.requested.remove(&report.uid);
        }
    }

    pub(super) fn anybody_waits(&self) -> bool {
        !self.waiting.is_empty() || !self.requested.is_empty()
    }

    fn leave(&mut self, report: &SessionReport) {
        let Some(counts) = self.counts(report) else { return };
        if let Some(count) = counts.get_mut(&report.uid) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&report.uid);
            }
        }
    }

    fn counts(&mut self, report: &SessionReport) -> Option<&mut HashMap<String, u32>> {
        match report.state {
            State::Failed => Some(&mut self.failed),
            _ if report.holds_slot => Some(&mut self.live),
            _ => None,
        }
    }
}

/// Notes until when it is believed that a session waits. The answer is whether that is new.
pub(super) fn believe(waiting: &mut HashMap<String, Instant>, uid: String, until: Instant) -> bool {
    if waiting.len() >= WAITING_KEPT_MAX && !waiting.contains_key(&uid) {
        return false;
    }
    let known = waiting.entry(uid);
    let new = matches!(known, std::collections::hash_map::Entry::Vacant(_));
    let believed = known.or_insert(until);
    *believed = until.max(*believed);
    new
}
