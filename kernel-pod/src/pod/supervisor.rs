//! Slots for sessions, and what else a session needs of those who started it.

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

impl Shared {
    /// Asks a session that has nothing to do for its slot.
    pub(super) async fn put_to_sleep(&self, uid: &str) {
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

    fn no_memory(&self, uid: &str) -> ApiError {
        self.short_of_memory();
        self.host.reports.waiting(uid);
        self.host.environment.memory.exhausted()
    }

    fn ended(&self, uid: &str, task: &Handle) {
        self.registry.remove(uid, task);
    }

    fn pass_on(self: Arc<Self>, assignment: &Assignment, message: Message) {
        drop(Pod { shared: self }.send(assignment, message));
    }
}
