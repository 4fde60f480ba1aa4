//! Files below a folder, of which small ones may change often: a change is durable once it is in a log, and the file follows.
//!
//! To replace a file takes two syncs, and a third in a new folder; in a log it takes one, which all that wait share. What is in a log is in memory,
//! too, and is read from there. When a log is full, another begins, and what the first one has changed is written to files, each once, with its last
//! bytes; then that log goes. A large file is written at once, as [`replace`](crate::replace) does. Whoever opens the folder writes what logs still
//! hold to files first. So either a name is in a log, and what memory says of it holds, or its file is all there is.

use std::{
    collections::BTreeMap,
    io,
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

use crate::{
    change::{Change, ChangeError},
    disk::{Disk, make_folders},
    log::{Log, changes, number_of, numbers, record},
    place::{Place, found},
};

/// Bytes of a log. There are two at most.
pub const LOG_BYTES: u64 = 8 << 20;
/// Bytes of a file that goes through a log.
pub const LOGGED_BYTES_MAX: usize = 128 << 10;
/// Where logs lie, and files that are being written.
const LOGS: &str = ".log";

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
    place: Place,
    logs: PathBuf,
    log_bytes: u64,
    state: Mutex<State>,
    /// A log was synced, or has gone.
    settled: Condvar,
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
            place: Place::new(Arc::clone(&disk), root, logs.clone()),
            disk,
            logs,
            log_bytes,
            state: Mutex::new(State { number, logged, before: true, ..State::default() }),
            settled: Condvar::new(),
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
                let mut state = self.inner.lock();
                if let Some(logged) = state.logged.get(name) {
                    if !state.log.as_ref().is_some_and(|log| log.failed) {
                        return Ok(logged.change.clone());
                    }
                    // Whoever reads it takes it for durable, and nobody knows whether it is.
                    state = self.inner.settle(state);
                    self.inner.write_all(&mut state)?;
                }
                state.written
            };
            let bytes = found(std::fs::read(self.inner.place.path(name)))?;
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
        found(std::fs::metadata(self.inner.place.path(name))).map(|about| about.map(|about| about.len()))
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
        let mut names = self.inner.place.names(prefix)?;
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
        self.inner.place.replace(name, &bytes)
    }

    /// Makes the file `to` hold what `from` holds. Whether there is one.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn copy(&self, from: &str, to: &str) -> Result<bool, ChangeError> {
        let is_large = self.bytes(from).map_err(ChangeError::Refused)?.is_some_and(|bytes| bytes > LOGGED_BYTES_MAX as u64);
        if is_large {
            self.inner.leave_logs(to)?;
            return self.inner.place.copy(from, to);
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
        self.inner.place.remove(name)
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
        let (appended, number) = (log.append(&record), log.number);
        // Before it is durable: it must be here when this log's changes are written to files. Also one that was cut off, which may be in the log.
        state.logged.insert(name.to_owned(), Logged { change, number });
        let end = appended.map_err(ChangeError::Unknown)?;
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

    fn log_path(&self, number: u64) -> PathBuf {
        self.logs.join(number.to_string())
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
            self.disk.sync_folder(&self.logs)?;
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
        let written = self.place.write_all(&logged).and_then(|()| self.remove_logs(number));
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
        tracing::warn!(%error, root = %self.logs.display(), "what has changed cannot be written to files yet; it is kept in a log");
    }

    /// Writes what all logs say to files, and removes those. Nobody syncs a log or writes files meanwhile.
    fn write_all(&self, state: &mut State) -> io::Result<()> {
        state.written += 1;
        let logged: Vec<_> = state.logged.iter().map(|(name, logged)| (name.clone(), logged.change.clone())).collect();
        self.place.write_all(&logged)?;
        self.remove_logs(state.number)?;
        (state.log, state.before) = (None, false);
        state.logged.clear();
        self.settled.notify_all();
        Ok(())
    }

    /// Removes the logs up to this one for good.
    fn remove_logs(&self, number: u64) -> io::Result<()> {
        // Never a later one before an earlier one: that would be read over what the later one has changed.
        for number in numbers(&self.logs)?.range(..=number) {
            self.disk.remove_file(&self.log_path(*number))?;
            self.disk.sync_folder(&self.logs)?;
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
}
