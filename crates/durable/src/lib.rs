//! Files that survive a failure of power at any moment: whole, and there once they were said to be.
//!
//! A rename is seen at once and durable only when the folder is synced; a folder's own entry is durable when its parent is. [`Disk`] promises no
//! more than a file system does, so that the order of these steps can be tried on one that loses everything else.

use std::{
    fmt::Debug,
    fs::File,
    io::{self, ErrorKind, Write as _},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// What changes a file system. What was changed is seen at once by whoever reads files and folders, which nobody needs a disk for.
pub trait Disk: Debug + Send + Sync {
    /// Makes a folder in one that is there.
    ///
    /// # Errors
    /// The file system's; so are those of all others.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes or replaces a file, and syncs its bytes.
    ///
    /// # Errors
    /// What was written of it stays.
    fn write_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Gives a file another name, in place of what had that.
    ///
    /// # Errors
    /// Nothing has changed.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, which nothing has.
    ///
    /// # Errors
    /// Nothing has changed.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes a name away from a file.
    ///
    /// # Errors
    /// Nothing has changed.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder that is empty.
    ///
    /// # Errors
    /// Nothing has changed: it is not empty, for one.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// They may be, or not.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// The system's.
#[derive(Debug, Clone, Copy)]
pub struct System;

impl System {
    /// The same, to be shared.
    #[must_use]
    pub fn shared() -> Arc<dyn Disk> {
        Arc::new(Self)
    }
}

impl Disk for System {
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

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Makes the file at `path` hold `bytes`, with the folders above it. Afterwards it does, whatever fails; until then it is what it was, whole.
/// One writer at a time: the new bytes lie beside it under a name of their own until they are complete.
///
/// # Errors
/// The disk's: the file is the old one or the new one.
pub fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = parent(path);
    make_folders(disk, folder)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = folder.join(name);
    disk.write_synced(&beside, bytes)?;
    disk.rename(&beside, path)?;
    disk.sync_folder(folder)
}

/// Held while folders are made: a folder that is there, and not yet durable, is nobody else's to build on.
static MAKING: Mutex<()> = Mutex::new(());

/// Makes a folder, and what is missing above it, each durable in its parent, also if somebody else in this process is making it.
///
/// # Errors
/// The disk's.
pub fn make_folders(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    make_missing(disk, path)
}

fn make_missing(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = parent(path);
    make_missing(disk, above)?;
    match disk.make_folder(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        other => other?,
    }
    disk.sync_folder(above).inspect_err(|_| {
        // Else the next one would take it for durable.
        let _ = disk.remove_folder(path);
    })
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
