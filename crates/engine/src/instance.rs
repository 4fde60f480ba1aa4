//! One session's running heap.
use crate::{Budget, CellSource, Delta, EngineError, EngineErrorCode, Image, InterruptHandle, OpResult, Turn};

/// One session's heap. `Send`; its futures yield to the runtime while code runs.
pub struct Instance {
    interrupt: InterruptHandle,
}

impl Instance {
    /// Runs a cell until it ends or awaits the world. A cell that was still pending is abandoned: its end is never reported.
    pub async fn eval(&mut self, _cell: &CellSource, _budget: &Budget) -> Result<Turn, EngineError> {
        Err(EngineError::Poisoned)
    }
    /// Delivers the answer of operation `op` and runs what waits for it. An unknown `op` does nothing.
    pub async fn deliver(&mut self, _op: u64, _result: &OpResult, _budget: &Budget) -> Result<Turn, EngineError> {
        Err(EngineError::Poisoned)
    }
    /// Ends the pending cell, if there is one, with `code`. Its promise may still settle; nothing reports it.
    pub async fn abandon(&mut self, _code: EngineErrorCode, _budget: &Budget) -> Result<Turn, EngineError> {
        Err(EngineError::Poisoned)
    }
    /// What changed since the last [`Self::mark_committed`], or since create or restore.
    pub fn delta(&mut self) -> Delta {
        Delta { memory_pages: 0, globals: crate::Globals::new(), host: crate::HostState::default(), pages: Vec::new() }
    }
    /// The state of the last [`Self::delta`] is stored now: the next delta is relative to it.
    pub fn mark_committed(&mut self) {}
    /// The whole state.
    pub fn image(&mut self) -> Image {
        Image { memory_pages: 0, globals: crate::Globals::new(), host: crate::HostState::default(), pages: Default::default() }
    }
    /// Bytes allocated in the JavaScript heap at the end of the last turn; of linear memory before the first.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        0
    }
    /// A handle with which another task interrupts a running cell.
    #[must_use]
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.interrupt.clone()
    }
}
