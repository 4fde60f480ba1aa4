//! What compiling a cell takes of a pod, whatever its text: memory, stack and processor time.

use dormouse_conformance::fuzzed::nesting;
use dormouse_testkit::soak;
use peak_alloc::PeakAlloc;

/// Counts what is allocated, and the most that was at once: what nests is measured by it.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// One test, because what is measured is the whole process's. Mixtures are a target of `fuzz_corpus`.
#[test]
fn no_construct_at_any_size_takes_more_than_a_compilation_may() {
    let inputs = nesting::every_construct(soak::is_whole());
    assert!(inputs.len() as u64 > soak::count(3_500, 10_500));
    let failed = inputs.iter().filter(|input| std::panic::catch_unwind(|| nesting::nesting(input)).is_err());
    assert_eq!(failed.count(), 0, "what they were is said above");
}
