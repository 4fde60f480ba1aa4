//! What gives memory to every process: whoever links this crate has it.

/// With glibc's a cell took a third more processor time: what one thread frees was another's, and they wait for each other's arenas
/// (docs/notes/benchmarks.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
