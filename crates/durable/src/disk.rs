//! A file system, as far as it promises anything.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    fs::File,
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
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
    /// Makes a file of so many zeros, synced, that can be written anywhere.
    ///
    /// # Errors
    /// What was written of it stays.
    fn make_log(&self, path: &Path, bytes: u64) -> io::Result<Arc<dyn LogFile>>;
}

/// A file that is written in parts.
pub trait LogFile: Debug + Send + Sync {
    /// Writes bytes there, which are not durable yet: a failure of power may leave any part of them.
    ///
    /// # Errors
    /// The file system's: part of them may be there.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Makes what was written durable.
    ///
    /// # Errors
    /// It may be, or not.
    fn sync(&self) -> io::Result<()>;
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

    fn make_log(&self, path: &Path, bytes: u64) -> io::Result<Arc<dyn LogFile>> {
        let mut file = File::create(path)?;
        io::copy(&mut io::repeat(0).take(bytes), &mut file)?;
        file.sync_all()?;
        Ok(Arc::new(file))
    }
}

impl LogFile for File {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
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
    make_all_folders(disk, [path])
}

/// The same for many: each folder is synced once.
pub(crate) fn make_all_folders<'a>(disk: &dyn Disk, paths: impl IntoIterator<Item = &'a Path>) -> io::Result<()> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut made = Vec::new();
    let done = paths.into_iter().try_for_each(|path| make_missing(disk, path, &mut made)).and_then(|()| {
        let above: BTreeSet<&Path> = made.iter().map(|path| parent(path)).collect();
        above.into_iter().try_for_each(|above| disk.sync_folder(above))
    });
    done.inspect_err(|_| {
        // Else the next one would take them for durable.
        for path in made.iter().rev() {
            let _ = disk.remove_folder(path);
        }
    })
}

fn make_missing(disk: &dyn Disk, path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    make_missing(disk, parent(path), made)?;
    match disk.make_folder(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => {
            other?;
            made.push(path.to_owned());
        }
    }
    Ok(())
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
