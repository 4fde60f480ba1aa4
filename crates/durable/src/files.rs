//! Files below a folder, of which small ones may change often: a change is durable once it is in a log, and the file follows.
//!
//! To replace a file takes two syncs, and a third in a new folder; in a log it takes one, which all that wait share. What is in a log is in memory,
//! too, and is read from there. When a log is full, another begins, and what the first one has changed is written to files, each once, with its last
//! bytes; then that log goes. A large file is written at once, as [`replace`](crate::replace) does. Whoever opens the folder writes what logs still
//! hold to files first. So either a name is in a log, and what memory says of it holds, or its file is all there is.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    io::{self, ErrorKind},
    ops::Deref,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;

use crate::{
    disk::{Disk, make_all_folders, make_folders},
    log::{Change, Log, changes, record},
};

/// Bytes of a log. There are two at most.
pub const LOG_BYTES: u64 = 8 << 20;
/// Bytes of a file that goes through a log.
pub const LOGGED_BYTES_MAX: usize = 128 << 10;
/// Files that are written before a folder may be removed.
const WRITTEN_AT_ONCE: usize = 64;
/// Where logs lie, and files that are being written.
const LOGS: &str = ".log";

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Nothing has changed.
    #[error(transparent)]
    Refused(io::Error),
    /// It may be durable, or not. Whoever reads sees it.
    #[error(transparent)]
    Unknown(io::Error),
}

/// Files below a folder. Clones are the same. What is asked of it blocks; there is one change of a name at a time, which the caller sees to.
#[derive(Debug, Clone)]
pub struct Files {
    inner: Arc<Owned>,
}

/// What all clones share. When the last one goes, nothing writes files any more.
#[derive(Debug)]
struct Owned(Arc<Inner>);

impl Deref for Owned {
    type Target = Arc<Inner>;

    fn deref(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        drop(self.settle(self.lock()));
    }
}

#[derive(Debug)]
struct Inner {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    log_bytes: u64,
    state: Mutex<State>,
    /// A log was synced, or has gone.
    settled: Condvar,
    /// Names that are being written beside the files.
    next: AtomicU64,
    /// Whoever writes files shares it; who removes empty folders has it alone.
    layout: RwLock<()>,
}

#[derive(Debug, Default)]
struct State {
    /// None when the last one has failed, and no other could be made.
    log: Option<Log>,
    /// The number of the last log.
    number: u64,
    /// What the logs say, by name.
    logged: BTreeMap<String, Logged>,
    /// Logs before the last one are there.
    before: bool,
    /// Somebody writes what those say to files.
    writing: bool,
    /// How often that was begun.
    written: u64,
}

#[derive(Debug, Clone)]
struct Logged {
    change: Change,
    /// The last log that has it.
    number: u64,
}

impl Files {
    /// Opens the files below `root`, which is made when there is none. Files that logs have changed are written, if the disk has room.
    ///
    /// # Errors
    /// The disk's: nothing is lost.
    pub fn open(disk: Arc<dyn Disk>, root: &Path) -> io::Result<Self> {
        Self::open_with(disk, root, LOG_BYTES)
    }

    /// The same with smaller logs.
    ///
    /// # Errors
    /// Those of [`Files::open`].
    pub fn open_with(disk: Arc<dyn Disk>, root: &Path, log_bytes: u64) -> io::Result<Self> {
        let logs = root.join(LOGS);
        make_folders(disk.as_ref(), &logs)?;
        for entry in std::fs::read_dir(&logs)? {
            let entry = entry?;
            if number_of(&entry.file_name()).is_none() {
                disk.remove_file(&entry.path())?;
            }
        }
        let mut logged = BTreeMap::new();
        let numbers = numbers(&logs)?;
        let number = numbers.last().copied().unwrap_or_default();
        for number in numbers {
            let log = Bytes::from(std::fs::read(logs.join(number.to_string()))?);
            logged.extend(changes(&log).map(|(name, change)| (name, Logged { change, number })));
        }
        let inner = Inner {
            disk,
            root: root.to_owned(),
            log_bytes,
            state: Mutex::new(State { number, logged, before: true, ..State::default() }),
            settled: Condvar::new(),
            next: AtomicU64::new(0),
            layout: RwLock::new(()),
        };
        if let Err(error) = inner.write_all(&mut inner.lock()) {
            // On a full disk, say, it can be read. Who changes something tries again, and is told.
            inner.not_written(&error);
        }
        Ok(Self { inner: Arc::new(Owned(Arc::new(inner))) })
    }

    /// A file's bytes; none when there is no such file.
    ///
    /// # Errors
    /// The disk's.
    pub fn read(&self, name: &str) -> io::Result<Option<Bytes>> {
        loop {
            let written = {
                let state = self.inner.lock();
                if let Some(logged) = state.logged.get(name) {
                    return Ok(logged.change.clone());
                }
                state.written
            };
            let bytes = found(std::fs::read(self.inner.path(name)))?;
            // Else it may have been half written: it was not in a log then, and is in one, or was, now.
            if self.inner.lock().written == written {
                return Ok(bytes.map(Bytes::from));
            }
        }
    }

    /// How many bytes a file has; none when there is no such file.
    ///
    /// # Errors
    /// The disk's.
    pub fn bytes(&self, name: &str) -> io::Result<Option<u64>> {
        if let Some(logged) = self.inner.lock().logged.get(name) {
            return Ok(logged.change.as_ref().map(|bytes| bytes.len() as u64));
        }
        found(std::fs::metadata(self.inner.path(name))).map(|about| about.map(|about| about.len()))
    }

    /// The names that begin so, in no order.
    ///
    /// # Errors
    /// The disk's.
    pub fn names(&self, prefix: &str) -> io::Result<Vec<String>> {
        // First of all: what leaves the logs from here on is among the files.
        let logged: BTreeMap<String, bool> = {
            let state = self.inner.lock();
            let from = state.logged.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
            from.map(|(name, logged)| (name.clone(), logged.change.is_some())).collect()
        };
        let mut names = self.inner.files(prefix)?;
        names.retain(|name| !logged.contains_key(name));
        names.extend(logged.into_iter().filter_map(|(name, is_there)| is_there.then_some(name)));
        Ok(names)
    }

    /// Makes the file hold `bytes`, with the folders above it. Afterwards it does, whatever fails; until then it is what it was, whole.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn replace(&self, name: &str, bytes: Bytes) -> Result<(), ChangeError> {
        if bytes.len() <= LOGGED_BYTES_MAX && bytes.len() as u64 <= self.inner.log_bytes / 2 {
            return self.change(name, Some(bytes));
        }
        self.inner.leave_logs(name)?;
        self.inner.write(name, |path| self.inner.disk.write_synced(path, &bytes))
    }

    /// Makes the file `to` hold what `from` holds. Whether there is one.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn copy(&self, from: &str, to: &str) -> Result<bool, ChangeError> {
        match self.bytes(from).map_err(ChangeError::Refused)? {
            None => return Ok(false),
            Some(bytes) if bytes <= LOGGED_BYTES_MAX as u64 => {}
            Some(_) => {
                self.inner.leave_logs(to)?;
                let path = self.inner.path(from);
                let linked = self.inner.write(to, |beside| match self.inner.disk.link(&path, beside) {
                    // Where the file system has no second names.
                    Err(error) if error.kind() != ErrorKind::NotFound => self.inner.disk.write_synced(beside, &std::fs::read(&path)?),
                    linked => linked,
                });
                return match linked {
                    Err(ChangeError::Refused(error)) if error.kind() == ErrorKind::NotFound => Ok(false),
                    linked => linked.map(|()| true),
                };
            }
        }
        match self.read(from).map_err(ChangeError::Refused)? {
            Some(bytes) => self.replace(to, bytes).map(|()| true),
            None => Ok(false),
        }
    }

    /// Removes the file, if there is one, and the folders above it that are empty then.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn remove(&self, name: &str) -> Result<(), ChangeError> {
        let is_logged = self.inner.lock().logged.contains_key(name);
        if is_logged {
            return self.change(name, None);
        }
        let folder = self.inner.remove_file(name).map_err(ChangeError::Refused)?;
        folder.map_or(Ok(()), |folder| self.inner.disk.sync_folder(&folder).map_err(ChangeError::Unknown))
    }

    /// Writes to files what logs say, so that there is no more to be read than files.
    ///
    /// # Errors
    /// The disk's: nothing is lost.
    pub fn flush(&self) -> io::Result<()> {
        let mut state = self.inner.settle(self.inner.lock());
        self.inner.write_all(&mut state)
    }

    fn change(&self, name: &str, change: Change) -> Result<(), ChangeError> {
        let record = record(name, &change).map_err(ChangeError::Refused)?;
        let mut state = self.with_room(&record).map_err(ChangeError::Refused)?;
        let Some(log) = &mut state.log else { return Err(ChangeError::Refused(io::Error::other("there is no log"))) };
        let (end, number) = (log.append(&record).map_err(ChangeError::Refused)?, log.number);
        // Before it is durable: it must be here when this log's changes are written to files.
        state.logged.insert(name.to_owned(), Logged { change, number });
        loop {
            // One that is not the last any more is durable.
            let Some(log) = state.log.as_mut().filter(|log| log.number == number && log.synced < end) else { return Ok(()) };
            if log.failed {
                return Err(ChangeError::Unknown(io::Error::other("the log could not be synced")));
            }
            if log.syncing {
                state = self.inner.wait(state);
                continue;
            }
            let (file, all) = (Arc::clone(&log.file), log.end);
            log.syncing = true;
            drop(state);
            let synced = file.sync();
            state = self.inner.lock();
            if let Some(log) = &mut state.log {
                log.syncing = false;
                match &synced {
                    Ok(()) => log.synced = all,
                    Err(_) => log.failed = true,
                }
            }
            self.inner.settled.notify_all();
            synced.map_err(ChangeError::Unknown)?;
        }
    }

    /// Waits until the log has room for a record.
    fn with_room(&self, record: &[u8]) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.inner.lock();
        loop {
            match &state.log {
                Some(log) if !log.failed && log.has_room(record) => return Ok(state),
                Some(log) if log.syncing => state = self.inner.wait(state),
                _ if state.writing => state = self.inner.wait(state),
                None if !state.before => self.inner.begin_another(&mut state)?,
                Some(log) if !log.failed && !state.before => {
                    let full = log.number;
                    self.inner.begin_another(&mut state)?;
                    let inner = Arc::clone(&self.inner.0);
                    let spawned = std::thread::Builder::new().name("files".to_owned()).spawn(move || inner.write_before(full));
                    // Else whoever finds the next log full does it.
                    (state.before, state.writing) = (true, spawned.is_ok());
                }
                _ => self.inner.write_all(&mut state)?,
            }
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.settled.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody syncs a log or writes files of one.
    fn settle<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.writing || state.log.as_ref().is_some_and(|log| log.syncing) {
            state = self.wait(state);
        }
        state
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn folder<'a>(&'a self, path: &'a Path) -> &'a Path {
        path.parent().unwrap_or(&self.root)
    }

    fn log_path(&self, number: u64) -> PathBuf {
        self.root.join(LOGS).join(number.to_string())
    }

    /// Has changes go to another log. What the last one has is durable then.
    fn begin_another(&self, state: &mut State) -> io::Result<()> {
        if let Some(log) = &mut state.log {
            let synced = log.sync();
            self.settled.notify_all();
            synced?;
        }
        let number = state.number + 1;
        let path = self.log_path(number);
        let made = self.disk.make_log(&path, self.log_bytes).and_then(|file| {
            self.disk.sync_folder(&self.root.join(LOGS))?;
            Ok(file)
        });
        let file = made.inspect_err(|_| {
            // A full disk must not be kept full by what did not fit.
            let _ = self.disk.remove_file(&path);
        })?;
        state.number = number;
        state.log = Some(Log::new(number, file, self.log_bytes));
        Ok(())
    }

    /// Writes what the logs up to this one say to files, and removes those.
    fn write_before(&self, number: u64) {
        let logged: Vec<(String, Change)> = {
            let mut state = self.lock();
            state.written += 1;
            let before = state.logged.iter().filter(|(_, logged)| logged.number <= number);
            before.map(|(name, logged)| (name.clone(), logged.change.clone())).collect()
        };
        let written = self.write_files(&logged).and_then(|()| self.remove_logs(number));
        let mut state = self.lock();
        state.writing = false;
        match written {
            Ok(()) => {
                state.before = false;
                state.logged.retain(|_, logged| logged.number > number);
            }
            // Whoever finds the next log full does it again, and is told.
            Err(error) => self.not_written(&error),
        }
        self.settled.notify_all();
    }

    fn not_written(&self, error: &io::Error) {
        tracing::warn!(%error, root = %self.root.display(), "what has changed cannot be written to files yet; it is kept in a log");
    }

    /// Writes what all logs say to files, and removes those. Nobody syncs a log or writes files meanwhile.
    fn write_all(&self, state: &mut State) -> io::Result<()> {
        state.written += 1;
        let logged: Vec<_> = state.logged.iter().map(|(name, logged)| (name.clone(), logged.change.clone())).collect();
        self.write_files(&logged)?;
        self.remove_logs(state.number)?;
        (state.log, state.before) = (None, false);
        state.logged.clear();
        self.settled.notify_all();
        Ok(())
    }

    /// Each as its last bytes; durable, all of them. What a failure leaves half done is done again: the logs are still there.
    fn write_files(&self, logged: &[(String, Change)]) -> io::Result<()> {
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
            folders.extend(self.remove_file(name)?);
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

    /// Removes the logs up to this one for good.
    fn remove_logs(&self, number: u64) -> io::Result<()> {
        let logs = self.root.join(LOGS);
        // Never a later one before an earlier one: that would be read over what the later one has changed.
        for number in numbers(&logs)?.range(..=number) {
            self.disk.remove_file(&self.log_path(*number))?;
            self.disk.sync_folder(&logs)?;
        }
        Ok(())
    }

    /// Sees to it that no log says anything of a name.
    fn leave_logs(&self, name: &str) -> Result<(), ChangeError> {
        let state = self.lock();
        if !state.logged.contains_key(name) {
            return Ok(());
        }
        self.write_all(&mut self.settle(state)).map_err(ChangeError::Refused)
    }

    /// Writes a file past the logs.
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
        let beside = self.root.join(LOGS).join(format!("new-{}", self.next.fetch_add(1, Ordering::Relaxed)));
        let placed = make(&beside).and_then(|()| self.disk.rename(&beside, &path));
        // A full disk must not be kept full by what did not fit. And of two names of one file, renaming one to the other leaves both.
        let removed = if beside.exists() { self.disk.remove_file(&beside) } else { Ok(()) };
        placed.and(removed).map(|()| folder.to_owned())
    }

    /// Removes a file and the folders that are empty then. Answers the folder in which a name has gone, which is not synced.
    fn remove_file(&self, name: &str) -> io::Result<Option<PathBuf>> {
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
    fn files(&self, prefix: &str) -> io::Result<Vec<String>> {
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
                } else if path != self.root.join(LOGS) {
                    folders.push(path);
                }
            }
        }
        Ok(names)
    }
}

/// The number that a log's name is.
fn number_of(name: &OsStr) -> Option<u64> {
    name.to_str()?.parse().ok()
}

/// The logs that there are.
fn numbers(logs: &Path) -> io::Result<BTreeSet<u64>> {
    std::fs::read_dir(logs)?.filter_map(|entry| entry.map(|entry| number_of(&entry.file_name())).transpose()).collect()
}

fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}
