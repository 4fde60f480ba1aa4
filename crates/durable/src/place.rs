//! The files themselves, past any log.

use std::{
    collections::BTreeSet,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;

use crate::{
    change::{Change, ChangeError},
    disk::{Disk, make_all_folders, make_folders},
};

/// Files that are written before a folder may be removed.
const WRITTEN_AT_ONCE: usize = 64;

/// A folder, and the files below it.
#[derive(Debug)]
pub(crate) struct Place {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    /// A folder that is in the way of none of them: where they are made.
    aside: PathBuf,
    /// Names of what is being made there.
    next: AtomicU64,
    /// Whoever writes files shares it; who removes empty folders has it alone.
    layout: RwLock<()>,
}

impl Place {
    pub(crate) fn new(disk: Arc<dyn Disk>, root: &Path, aside: PathBuf) -> Self {
        Self { disk, root: root.to_owned(), aside, next: AtomicU64::new(0), layout: RwLock::new(()) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn folder<'a>(&'a self, path: &'a Path) -> &'a Path {
        path.parent().unwrap_or(&self.root)
    }

    /// Each as its last bytes; durable, all of them. What a failure leaves half done is done again: the logs are still there.
    pub(crate) fn write_all(&self, logged: &[(String, Change)]) -> io::Result<()> {
        let mut folders = BTreeSet::new();
        for part in logged.chunks(WRITTEN_AT_ONCE) {
            let _layout = self.layout.read().unwrap_or_else(PoisonError::into_inner);
            let written: Vec<(PathBuf, &Bytes)> =
                part.iter().filter_map(|(name, change)| Some((self.path(name), change.as_ref()?))).collect();
            make_all_folders(self.disk.as_ref(), written.iter().map(|(path, _)| self.folder(path)))?;
            for (path, bytes) in written {
                // One that has another name, too, is another's file.
                if found(std::fs::metadata(&path))?.is_some_and(|about| about.nlink() > 1) {
                    self.disk.remove_file(&path)?;
                }
                self.disk.write_synced(&path, bytes)?;
                folders.insert(self.folder(&path).to_owned());
            }
        }
        for (name, _) in logged.iter().filter(|(_, change)| change.is_none()) {
            folders.extend(self.take_away(name)?);
        }
        for folder in folders {
            match self.disk.sync_folder(&folder) {
                // Its last file was removed since, and that is durable where it was.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                synced => synced?,
            }
        }
        Ok(())
    }

    /// Makes the file hold `bytes`.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), ChangeError> {
        self.write(name, |beside| self.disk.write_synced(beside, bytes))
    }

    /// Makes the file `to` hold what `from` holds: a file is only ever replaced whole, so neither name sees the other's changes. Whether there is one.
    pub(crate) fn copy(&self, from: &str, to: &str) -> Result<bool, ChangeError> {
        let from = self.path(from);
        let linked = self.write(to, |beside| match self.disk.link(&from, beside) {
            // Where the file system has no second names.
            Err(error) if error.kind() != ErrorKind::NotFound => self.disk.write_synced(beside, &std::fs::read(&from)?),
            linked => linked,
        });
        match linked {
            Err(ChangeError::Refused(error)) if error.kind() == ErrorKind::NotFound => Ok(false),
            linked => linked.map(|()| true),
        }
    }

    /// Removes the file, if there is one, and the folders that are empty then.
    pub(crate) fn remove(&self, name: &str) -> Result<(), ChangeError> {
        let folder = self.take_away(name).map_err(ChangeError::Refused)?;
        folder.map_or(Ok(()), |folder| self.disk.sync_folder(&folder).map_err(ChangeError::Unknown))
    }

    fn write(&self, name: &str, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), ChangeError> {
        let _layout = self.layout.read().unwrap_or_else(PoisonError::into_inner);
        let folder = self.put_in_place(name, make).map_err(ChangeError::Refused)?;
        // From here on it is seen, though a failure of power may still undo it.
        self.disk.sync_folder(&folder).map_err(ChangeError::Unknown)
    }

    /// Puts what `make` makes where the file belongs. Answers the folder, which is not synced.
    fn put_in_place(&self, name: &str, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
        let path = self.path(name);
        let folder = self.folder(&path);
        make_folders(self.disk.as_ref(), folder)?;
        let beside = self.aside.join(format!("new-{}", self.next.fetch_add(1, Ordering::Relaxed)));
        let placed = make(&beside).and_then(|()| self.disk.rename(&beside, &path));
        // A full disk must not be kept full by what did not fit. And of two names of one file, renaming one to the other leaves both.
        let removed = if beside.exists() { self.disk.remove_file(&beside) } else { Ok(()) };
        placed.and(removed).map(|()| folder.to_owned())
    }

    /// Removes a file and the folders that are empty then. Answers the folder in which a name has gone, which is not synced.
    fn take_away(&self, name: &str) -> io::Result<Option<PathBuf>> {
        let _layout = self.layout.write().unwrap_or_else(PoisonError::into_inner);
        let path = self.path(name);
        match self.disk.remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        }
        let above = path.ancestors().skip(1).take_while(|above| *above != self.root);
        let stays = above.into_iter().find(|above| self.disk.remove_folder(above).is_err());
        Ok(Some(stays.unwrap_or(&self.root).to_owned()))
    }

    /// The names of files that begin so.
    pub(crate) fn names(&self, prefix: &str) -> io::Result<Vec<String>> {
        // The part of the prefix up to its last slash is a folder: no need to walk the others.
        let start = prefix.rsplit_once('/').map_or_else(|| self.root.clone(), |(folder, _)| self.path(folder));
        let (mut names, mut folders) = (Vec::new(), vec![start]);
        while let Some(folder) = folders.pop() {
            for entry in found(std::fs::read_dir(&folder))?.into_iter().flatten() {
                let entry = entry?;
                let path = entry.path();
                if !entry.file_type()?.is_dir() {
                    let name = path.strip_prefix(&self.root).ok().and_then(Path::to_str);
                    names.extend(name.filter(|name| name.starts_with(prefix)).map(str::to_owned));
                } else if path != self.aside {
                    folders.push(path);
                }
            }
        }
        Ok(names)
    }
}

/// What there is; none where there is no such file.
pub(crate) fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}
