//! Where the cells that were typed are remembered.

use std::path::PathBuf;

use reedline::FileBackedHistory;

/// Cells that are remembered.
const ENTRIES_MAX: usize = 10_000;

/// The history file, in a folder that only this user can read; without a home, or where it cannot be written, one that ends with the process.
pub(super) fn open() -> Option<FileBackedHistory> {
    path().and_then(|path| FileBackedHistory::with_file(ENTRIES_MAX, path).ok()).or_else(|| FileBackedHistory::new(ENTRIES_MAX).ok())
}

fn path() -> Option<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;

    if let Some(file) = std::env::var_os("DORMOUSE_HISTORY") {
        return Some(file.into());
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    let folder = state.join("dormouse");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    Some(folder.join("history"))
}
