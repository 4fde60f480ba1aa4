//! What gives memory to our processes.

/// The allocator that each program names as its own, beside its `main`:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: dormouse_service::Allocator = dormouse_service::Allocator;
/// # fn main() {}
/// ```
///
/// With glibc's a cell takes a third more processor time: what one thread frees was another's, and they wait for each other's arenas
/// (docs/notes/benchmarks.md).
pub use mimalloc::MiMalloc as Allocator;
