//! The folder that `--data` names belongs to one process at a time.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::Path,
};

use anyhow::{Context as _, bail};

/// The file whose lock is the folder's.
const LOCK_FILE: &str = ".lock";

/// Makes the folder, and holds it for as long as the answer lives: the system releases the lock of a process that was killed.
pub(super) fn lock(data: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(data).with_context(|| format!("cannot make {}", data.display()))?;
    let path = data.join(LOCK_FILE);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("another `dormouse dev` uses {}: end it, or name another folder with --data", data.display())
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}
