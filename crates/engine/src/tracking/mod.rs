//! Which pages of a linear memory have changed.
//!
//! A commit looks at those that the system says were written, and finds by comparison which of them differ ([`differences`]). Only Linux says it
//! ([`system`]); elsewhere, and with the feature `portable`, every page is compared.

mod differences;
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), path = "portable.rs")]
mod system;

use std::{
    future::{Future, poll_fn},
    ops::Range,
    pin::pin,
};

use wasmtime::{Memory, Store};

pub(crate) use differences::{Base, Look, Tracker, ZERO};
use system::System;

use crate::PAGE_BYTES;

/// What is protected and noted as one. A page of WebAssembly, so a memory's size is a multiple of it.
const CHUNK_BYTES: usize = 64 << 10;
const PAGES_PER_CHUNK: usize = CHUNK_BYTES / PAGE_BYTES;

/// Pages that differ from the base from which on a memory is armed: to look at fewer at each commit costs less than the faults that tell
/// which have changed.
const ARMED_PAGES_MIN: usize = 512;

/// What is known of the writes to one linear memory.
pub(crate) struct Writes {
    system: Option<System>,
    /// What was read last, as long as it holds: a page becomes the instance's own by a fault only, of a thread that writes the memory, and
    /// [`Self::watch`] and [`Self::note`] are around whatever does that.
    own: Option<Own>,
}

/// The pages that are the instance's own, of a memory of so many.
struct Own {
    of_pages: usize,
    numbers: Vec<usize>,
}

impl Writes {
    /// Of the only memory of this store, with which it goes; `bytes_max` is what the memory may grow to.
    pub(crate) fn of<T: 'static>(store: &mut Store<T>, memory: Memory, bytes_max: usize) -> Self {
        Self { system: System::of(store, memory, bytes_max), own: None }
    }

    /// The pages of a memory of so many that may differ from the base.
    pub(crate) fn ever(&self, pages: usize) -> Vec<usize> {
        self.own(pages).unwrap_or_else(|| (0..pages).collect())
    }

    /// The pages that are the instance's own. `None` where the system does not say.
    pub(crate) fn own(&self, pages: usize) -> Option<Vec<usize>> {
        self.system.as_ref()?.written(0..pages)
    }

    /// The pages that may have changed since the last commit: of an armed memory those of opened chunks, else all that were ever written.
    pub(crate) fn since_commit(&mut self, pages: usize) -> Vec<usize> {
        let Some(system) = &self.system else { return (0..pages).collect() };
        let ever = |pages: Range<usize>| system.written(pages.clone()).unwrap_or_else(|| pages.collect());
        let armed = system.armed();
        if armed.is_empty() {
            if let Some(own) = self.own.as_ref().filter(|own| own.of_pages == pages) {
                return own.numbers.clone();
            }
            let numbers = ever(0..pages);
            self.own = system::counts_faults().then(|| Own { of_pages: pages, numbers: numbers.clone() });
            return numbers;
        }
        let of_chunk = |chunk: usize| chunk * PAGES_PER_CHUNK..(chunk + 1) * PAGES_PER_CHUNK;
        let mut suspects = ever(0..armed.start * PAGES_PER_CHUNK);
        suspects.extend(armed.clone().filter(|chunk| system.is_open(*chunk)).flat_map(of_chunk));
        suspects.extend(ever(armed.end * PAGES_PER_CHUNK..pages));
        suspects
    }

    /// Runs code that may write the memory.
    pub(crate) async fn watch<T>(&mut self, code: impl Future<Output = T>) -> T {
        let mut code = pin!(code);
        poll_fn(|context| self.note(|| code.as_mut().poll(context))).await
    }

    /// Does what may write the memory, on this thread.
    pub(crate) fn note<T>(&mut self, write: impl FnOnce() -> T) -> T {
        if self.own.is_none() {
            return write();
        }
        let before = system::faults();
        let written = write();
        if system::faults() != before {
            self.own = None;
        }
        written
    }

    /// A commit has come: from now on it counts what is written. `own` pages of `bytes` differ from the base; the first `free_bytes` are written outside of
    /// turns too. Not while code runs.
    pub(crate) fn committed(&self, own: usize, bytes: usize, free_bytes: usize) {
        if let Some(system) = &self.system
            && (own >= ARMED_PAGES_MIN || !system.armed().is_empty())
        {
            system.arm(free_bytes.div_ceil(CHUNK_BYTES)..bytes / CHUNK_BYTES);
        }
    }

    /// Gives pages that are as in the base back to the system. Not while code runs.
    pub(crate) fn give_back(&mut self, pages: Range<usize>) {
        self.own = None;
        if let Some(system) = &self.system {
            system.give_back(pages);
        }
    }
}
