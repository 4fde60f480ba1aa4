//! Room in memory for new work: how it is made, and what others are told where it cannot be.

use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use dormouse_protocol::ApiError;
use tokio::time::Instant;

use super::Shared;
use crate::session::Supervisor as _;

/// Rounds in which room is made before a request is refused.
const RELIEFS_MAX: u32 = 8;

/// Idle sessions that are put to sleep in each.
const RELIEF_SESSIONS: usize = 8;

/// How often a pod that refused somebody looks for room.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long there must have been room before the pod counts as any other: all who wait come at once then.
const CALM_MIN: Duration = Duration::from_secs(5);

/// Whether the memory was short of late: when it had no room for a request last.
#[derive(Debug, Default)]
pub(super) struct Shortage(Mutex<Option<Instant>>);

impl Shortage {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is no room. The answer is whether that is new.
    fn note(&self) -> bool {
        self.lock().replace(Instant::now()).is_none()
    }

    /// Whether it lasts.
    pub(super) fn lasts(&self) -> bool {
        self.lock().is_some()
    }

    /// Ends it where there has been room for long enough. The answer is whether it has ended.
    fn end(&self) -> bool {
        self.lock().take_if(|last| last.elapsed() >= CALM_MIN).is_some()
    }
}

impl Shared {
    /// Room in memory for new work of a session. Where there is none, the session waits for it, and others are told that none comes here.
    pub(crate) async fn room(&self, uid: &str) -> Result<(), ApiError> {
        if self.make_room(Some(uid)).await { Ok(()) } else { Err(self.no_memory(uid)) }
    }

    /// Makes room, if need be that of copies and of idle sessions that hold more than their share, the largest first. A live session that holds no more than
    /// that has room as long as anything can be promised: it is in nobody's way. The answer is whether there is room for `uid`, or for anybody.
    async fn make_room(&self, uid: Option<&str>) -> bool {
        let (memory, slots) = (&self.host.environment.memory, &self.host.slots);
        // To ask for nothing more takes nothing.
        let can_promise = || memory.take(0);
        let holds_little = || uid.is_some_and(|uid| slots.has_grown_at_most(uid, self.host.share()));
        let has_room = || memory.has_room() || can_promise() && holds_little();
        for _ in 0..RELIEFS_MAX {
            if has_room() {
                return true;
            }
            let had_copies = self.host.cache.halve();
            let idle = slots.largest_idle(if can_promise() { self.host.share() + 1 } else { 0 });
            if idle.is_empty() && !had_copies {
                break;
            }
            for uid in idle.iter().take(RELIEF_SESSIONS) {
                self.put_to_sleep(uid).await;
            }
            // They leave copies.
            self.host.cache.halve();
            self.give_back_freed().await;
        }
        memory.look_again();
        has_room()
    }

    async fn give_back_freed(&self) {
        let _ = self.host.environment.threads.blocking(dormouse_engine::give_back_freed).await;
        self.host.environment.memory.look_again();
    }

    /// The slots that others are told to be used: while memory is short, all but those of the sessions for which it is enough, if they take as much as
    /// those that are live.
    pub(super) fn used_slots(&self) -> u32 {
        let (memory, slots) = (&self.host.environment.memory, &self.host.slots);
        let used = slots.used();
        if !self.shortage.lasts() {
            return used;
        }
        let fitting = u32::try_from(memory.free_bytes() / memory.share(used).max(1)).unwrap_or(u32::MAX);
        used.max(slots.max().saturating_sub(fitting))
    }

    /// Tells that the pod counts as full, until it has had room for a while. It looks for that itself: nobody comes who would have it do so.
    pub(super) fn short_of_memory(&self) {
        if !self.shortage.note() {
            return;
        }
        tracing::warn!("memory is short: the pod counts as full until there has been room for a while");
        self.host.reports.pod(self.info());
        let shared = Weak::clone(&self.me);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_INTERVAL).await;
                let Some(shared) = shared.upgrade() else { return };
                if shared.has_recovered().await {
                    return;
                }
            }
        });
    }

    /// Looks for room. The answer is whether there has been some for long enough, which others are told then.
    async fn has_recovered(&self) -> bool {
        if !self.make_room(None).await {
            self.give_back_freed().await;
        }
        if !self.host.environment.memory.has_room() {
            self.shortage.note();
            return false;
        }
        let recovered = self.shortage.end();
        if recovered {
            tracing::info!("there is room in memory again");
            self.host.reports.pod(self.info());
        }
        recovered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn memory_is_short_until_there_has_been_room_for_a_while() {
        let shortage = Shortage::default();
        assert!(!shortage.lasts() && !shortage.end());
        assert!(shortage.note() && !shortage.note(), "it begins once");
        tokio::time::advance(CALM_MIN / 2).await;
        assert!(!shortage.note());
        tokio::time::advance(CALM_MIN / 2).await;
        assert!(!shortage.end() && shortage.lasts(), "there was none in between");
        tokio::time::advance(CALM_MIN / 2).await;
        assert!(shortage.end() && !shortage.lasts() && !shortage.end(), "it ends once");
    }
}
