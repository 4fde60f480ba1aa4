//! Hostile depth: parser, checker and printer recurse once per level of the source, and a stack that overflows ends the whole process.

use crate::syntax_error::SyntaxError;

/// Bytes that a cell's source may have.
pub const SOURCE_BYTES_MAX: usize = 1 << 20;
/// Levels of brackets that a cell may nest.
pub const NESTING_MAX: usize = 2_000;
/// Bytes of source that cannot recurse deeper than an ordinary thread's stack holds.
const SHALLOW_BYTES_MAX: usize = 256;
/// Stack for longer sources: four times what the deepest of [`crate::LEVELS_MAX`] and [`NESTING_MAX`] levels takes, which is 64 MiB. Address
/// space only; a page is taken when touched.
const STACK_BYTES: usize = 256 << 20;

/// Refuses what no stack could hold.
pub(crate) fn admit(source: &str) -> Result<(), SyntaxError> {
    if source.len() > SOURCE_BYTES_MAX {
        let message =
            format!("the cell has {} bytes; at most {SOURCE_BYTES_MAX} are allowed, so split it into several cells", source.len());
        return Err(SyntaxError::at(source, 0, message));
    }
    let mut depth = 0_usize;
    for (at, byte) in source.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth > NESTING_MAX {
            return Err(SyntaxError::at(source, at, format!("brackets are nested deeper than {NESTING_MAX} levels")));
        }
    }
    Ok(())
}

/// Runs `work` where the recursion over `source` fits.
pub(crate) fn with_stack<T: Send>(source: &str, work: impl FnOnce() -> Result<T, SyntaxError> + Send) -> Result<T, SyntaxError> {
    if source.len() <= SHALLOW_BYTES_MAX {
        return work();
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("cell-compiler".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|error| SyntaxError::at(source, 0, format!("there is no memory to compile the cell: {error}")))?;
        thread.join().unwrap_or_else(|_| Err(SyntaxError::at(source, 0, "the compiler failed on this cell; write it differently")))
    })
}
