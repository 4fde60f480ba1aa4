//! Generated files: a test of the crate that owns the source writes them with `UPDATE=1`, and compares them without.

use std::path::Path;

/// Writes the file where `UPDATE` is set.
///
/// # Panics
/// If the file is not `content`, and `UPDATE` is not set; or if it cannot be written.
pub fn is_current(path: &Path, content: &str) {
    if std::env::var_os("UPDATE").is_some() {
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(path, content));
        assert!(written.is_ok(), "{}: {written:?}", path.display());
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == content, "{} is stale: run `cargo xtask generate` and commit the file", path.display());
}
