//! Room for sessions, and what else a session needs of those who started it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dormouse_protocol::kernel::Assignment;
use dormouse_protocol::{ApiError, ErrorCode};
use tokio::sync::oneshot;

use super::{Pod, Shared};
use crate::session::{Handle, Message, Supervisor};
use crate::slots::Slot;

/// Idle sessions that are asked for their slot before a request is refused.
const EVICTIONS_MAX: usize = 4;

/// How long one of them may take to commit.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Rounds in which room in memory is made before a request is refused.
const RELIEFS_MAX: u32 = 8;

/// Idle sessions that are put to sleep in each.
const RELIEF_SESSIONS: usize = 8;

impl Shared {
    /// Room in memory for new work of a session, if need be that of copies and of idle sessions that hold more than their share, the largest first. A live
    /// one that holds no more than that has room as long as anything can be promised: it is in nobody's way.
    pub(crate) async fn room(&self, uid: &str) -> Result<(), ApiError> {
        let (memory, slots) = (&self.host.environment.memory, &self.host.slots);
        // To ask for nothing more takes nothing.
        let can_promise = || memory.take(0);
        let has_room = || memory.has_room() || can_promise() && slots.has_grown_at_most(uid, self.host.share());
        for _ in 0..RELIEFS_MAX {
            if has_room() {
                return Ok(());
            }
            self.host.cache.halve();
            let idle = slots.largest_idle(if can_promise() { self.host.share() + 1 } else { 0 });
            if idle.is_empty() {
                break;
            }
            for uid in idle.iter().take(RELIEF_SESSIONS) {
                self.put_to_sleep(uid).await;
            }
            // They leave copies.
            self.host.cache.halve();
            let _ = self.host.environment.threads.blocking(dormouse_engine::give_back_freed).await;
            memory.look_again();
        }
        memory.look_again();
        if has_room() { Ok(()) } else { Err(memory.exhausted()) }
    }

    /// Asks a session that has nothing to do for its slot.
    async fn put_to_sleep(&self, uid: &str) {
        let Some(handle) = self.registry.get(uid) else { return };
        let (reply, answer) = oneshot::channel();
        if handle.send(Message::Evict(reply)).is_ok() {
            let _ = tokio::time::timeout(EVICTION_TIMEOUT, answer).await;
        }
    }
}

#[async_trait]
impl Supervisor for Shared {
    async fn slot(&self, uid: &str) -> Result<Slot, ApiError> {
        self.room(uid).await?;
        let slots = &self.host.slots;
        for _ in 0..EVICTIONS_MAX {
            let idle = match slots.take(uid) {
                Ok(slot) => return Ok(slot),
                Err(idle) => idle,
            };
            let Some(uid) = idle.first() else { break };
            self.put_to_sleep(uid).await;
        }
        slots.take(uid).map_err(|_| {
            self.host.reports.waiting(uid);
            let message = format!("all {} slots of the pod run sessions that have work", slots.max());
            ApiError::new(ErrorCode::CapacityExhausted, message)
        })
    }

    fn ended(&self, uid: &str, task: &Handle) {
        self.registry.remove(uid, task);
    }

    fn pass_on(self: Arc<Self>, assignment: &Assignment, message: Message) {
        drop(Pod { shared: self }.send(assignment, message));
    }
}
