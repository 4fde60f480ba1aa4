//! Which pages of a linear memory have changed.
//!
//! A commit looks at those that the system says were written, and finds by comparison which of them differ ([`differences`]). Only Linux says it
//! ([`system`]); elsewhere, and with the feature `portable`, every page is compared.

mod differences;
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), path = "portable.rs")]
mod system;

use std::ops::Range;

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
pub(crate) struct Writes(Option<System>);

impl Writes {
    /// Of the only memory of this store, with which it goes; `bytes_max` is what the memory may grow to.
    pub(crate) fn of<T: 'static>(store: &mut Store<T>, memory: Memory, bytes_max: usize) -> Self {
        Self(System::of(store, memory, bytes_max))
    }

    /// The pages of a memory of so many that may differ from the base.
    pub(crate) fn ever(&self, pages: usize) -> Vec<usize> {
        self.known(0..pages).unwrap_or_else(|| (0..pages).collect())
    }

    /// The pages that are the instance's own. `None` where the system does not say.
    pub(crate) fn own(&self, pages: usize) -> Option<Vec<usize>> {
        self.known(0..pages)
    }

    fn known(&self, pages: Range<usize>) -> Option<Vec<usize>> {
        self.0.as_ref()?.written(pages)
    }

    /// The pages that may have changed since the last commit: of an armed memory those of opened chunks, else all that were ever written.
    pub(crate) fn since_commit(&self, pages: usize) -> Vec<usize> {
        let Some(system) = self.0.as_ref().filter(|system| !system.armed().is_empty()) else { return self.ever(pages) };
        let ever = |pages: Range<usize>| self.known(pages.clone()).unwrap_or_else(|| pages.collect());
        let of_chunk = |chunk: usize| chunk * PAGES_PER_CHUNK..(chunk + 1) * PAGES_PER_CHUNK;
        let armed = system.armed();
        let mut suspects = ever(0..armed.start * PAGES_PER_CHUNK);
        suspects.extend(armed.clone().filter(|chunk| system.is_open(*chunk)).flat_map(of_chunk));
        suspects.extend(ever(armed.end * PAGES_PER_CHUNK..pages));
        suspects
    }

    /// A commit has come: from now on it counts what is written. `own` pages of `bytes` differ from the base; the first `free_bytes` are written outside of
    /// turns too. Not while code runs.
    pub(crate) fn committed(&self, own: usize, bytes: usize, free_bytes: usize) {
        if let Some(system) = &self.0
            && (own >= ARMED_PAGES_MIN || !system.armed().is_empty())
        {
            system.arm(free_bytes.div_ceil(CHUNK_BYTES)..bytes / CHUNK_BYTES);
        }
    }

    /// Gives pages that are as in the base back to the system. Not while code runs.
    pub(crate) fn give_back(&self, pages: Range<usize>) {
        if let Some(system) = &self.0 {
            system.give_back(pages);
        }
    }
}
