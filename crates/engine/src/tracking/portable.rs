//! Systems that note no writes, as far as this crate knows: there is no value of [`System`].

use std::ops::Range;

use wasmtime::{Memory, Store};

/// What the system notes of one linear memory.
#[derive(Clone)]
pub(crate) enum System {}

impl System {
    /// Nothing.
    pub(crate) fn of<T: 'static>(_: &mut Store<T>, _: Memory, _: usize) -> Option<Self> {
        None
    }

    /// See the module.
    pub(crate) fn written(&self, _: Range<usize>) -> Option<Vec<usize>> {
        match *self {}
    }

    /// See the module.
    pub(crate) fn armed(&self) -> Range<usize> {
        match *self {}
    }

    /// See the module.
    pub(crate) fn is_open(&self, _: usize) -> bool {
        match *self {}
    }

    /// See the module.
    pub(crate) fn arm(&self, _: Range<usize>) {
        match *self {}
    }

    /// See the module.
    pub(crate) fn give_back(&self, _: Range<usize>) {
        match *self {}
    }
}

/// There is nothing that faults could tell of.
pub(crate) fn counts_faults() -> bool {
    false
}

/// See [`counts_faults`].
pub(crate) fn faults() -> u64 {
    0
}
