//! Files that survive a failure of power at any moment: whole, and there once they were said to be.
//!
//! A rename is seen at once and durable only when the folder is synced; a folder's own entry is durable when its parent is. [`Disk`] is what a
//! file system promises no more than, so that the order of these steps can be tried on one that loses everything else.

use std::{
    fs::File,
    io::{self, ErrorKind, Write as _},
    path::Path,
};

/// What is asked of a file system.
pub trait Disk {
    /// Whether there is a folder, which may not be durable yet.
    fn is_folder(&self, path: &Path) -> bool;
    /// Makes a folder in one that is there.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes or replaces a file, and syncs its bytes.
    fn write_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Gives a file another name, in place of what had that.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// The system's.
#[derive(Debug, Clone, Copy)]
pub struct System;

impl Disk for System {
    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn write_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Makes the file at `path` hold `bytes`, with the folders above it. Afterwards it does, whatever fails; until then it is what it was, whole.
/// One writer at a time: the new bytes lie beside it under a name of their own until they are complete.
///
/// # Errors
/// The file system's: the file is the old one or the new one.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_on(&System, path, bytes)
}

/// Makes a folder, and what is missing above it, each durable in its parent.
///
/// # Errors
/// The file system's.
pub fn make_folders(path: &Path) -> io::Result<()> {
    make_folders_on(&System, path)
}

/// [`replace`] on any disk.
///
/// # Errors
/// The disk's.
pub fn replace_on(disk: &impl Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = parent(path);
    make_folders_on(disk, folder)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = folder.join(name);
    disk.write_synced(&beside, bytes)?;
    disk.rename(&beside, path)?;
    disk.sync_folder(folder)
}

fn make_folders_on(disk: &impl Disk, path: &Path) -> io::Result<()> {
    if disk.is_folder(path) {
        return Ok(());
    }
    let above = parent(path);
    make_folders_on(disk, above)?;
    match disk.make_folder(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => other?,
    }
    disk.sync_folder(above)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
#[path = "durable_tests.rs"]
mod tests;
