//! One binary for every target: `DORMOUSE_FUZZ_TARGET` names it. To link the product once is what a machine with two cores can afford.
#![no_main]

use std::sync::LazyLock;

use dormouse_conformance::fuzzed::{TARGETS, Target};
use peak_alloc::PeakAlloc;

/// Counts what is allocated, and the most that was at once: what nests is measured by it.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let wanted = std::env::var("DORMOUSE_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    found.map(|(_, target)| *target).unwrap_or_else(|| panic!("DORMOUSE_FUZZ_TARGET names no target: {wanted:?}"))
});

// The first input compiles the engine, which on a busy machine may take longer than an input may: so that one comes before the clock runs.
libfuzzer_sys::fuzz_target!(init: TARGET(&[]), |data: &[u8]| TARGET(data));
