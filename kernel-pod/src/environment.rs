//! What a pod takes from its machine and a simulation gives it instead.

use std::sync::Arc;

use dormouse_engine::Growth;
use dormouse_service::{Clock, Ids, memory::Memory};
use tokio::task::JoinError;

use crate::scheduler;

/// The clock, the threads, the names and the memory of a pod.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// What time it is.
    pub clock: Clock,
    /// Where work runs.
    pub threads: Threads,
    /// Where its boot, its commits and its objects have their names from.
    pub ids: Ids,
    /// The memory of the process.
    pub memory: Memory,
}

/// The process's memory as the engine asks for it, for a pod of so many slots.
#[must_use]
pub fn growth(memory: Memory, slots: u32) -> Arc<dyn Growth> {
    #[derive(Debug)]
    struct OfProcess {
        memory: Memory,
        slots: u32,
    }
    impl Growth for OfProcess {
        fn take(&self, has: u64, bytes: u64) -> bool {
            self.memory.take_fairly(bytes, has, self.slots)
        }
        fn give_back(&self, bytes: u64) {
            self.memory.give_back(bytes);
        }
    }
    Arc::new(OfProcess { memory, slots })
}

/// Where the work of a pod runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Threads {
    /// Sessions take turns ([`crate::scheduler`]), work that takes long where it may block.
    #[default]
    Own,
    /// Everything where it is awaited.
    Inline,
}

impl Threads {
    /// Does work that takes long.
    ///
    /// # Errors
    /// It has panicked, or the runtime ends.
    pub(crate) async fn blocking<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
        match self {
            Self::Own => tokio::task::spawn_blocking(work).await,
            Self::Inline => Ok(work()),
        }
    }

    /// The same, and the task that asks pays for it with its share of the processor.
    ///
    /// # Errors
    /// As [`Self::blocking`].
    pub(crate) async fn charged<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
        let Self::Own = self else { return self.blocking(work).await };
        let timed = move || {
            let began = std::time::Instant::now();
            (work(), began.elapsed())
        };
        let (done, took) = self.blocking(timed).await?;
        scheduler::charge(took);
        Ok(done)
    }
}
