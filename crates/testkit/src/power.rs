//! A disk whose power fails before a step, and which then has only what was synced.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dormouse_durable::{Disk, LogFile, System};

/// What a name stands for: a folder, or a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    Folder,
    File(Vec<u8>),
}

type Names = BTreeMap<PathBuf, Named>;

/// Everything below one folder of the system's disk. While there is power, it is what the system shows; [`Power::fail`] says what is found then.
/// Clones are the same disk.
#[derive(Debug, Clone)]
pub struct Power {
    root: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    durable: Names,
    /// What was synced of each log, whether or not its name is durable.
    logs: BTreeMap<PathBuf, Vec<u8>>,
    steps: u64,
    fails_before: Option<u64>,
    /// Syncs neither folders nor logs: what must be found out.
    careless: bool,
    /// How many bytes the next write to a log gets through before it fails.
    cut_off: Option<usize>,
}

impl Power {
    /// What is below `root` now is durable. Every change is a step, the first is number 0; from step `fails_before` on each one fails.
    ///
    /// # Errors
    /// The system's disk fails.
    pub fn new(root: &Path, fails_before: Option<u64>) -> io::Result<Self> {
        let state = State { durable: below(root)?, logs: BTreeMap::new(), steps: 0, fails_before, careless: false, cut_off: None };
        Ok(Self { root: root.to_owned(), state: Arc::new(Mutex::new(state)) })
    }

    /// The same, and it says that it has synced folders and logs, and has not.
    ///
    /// # Errors
    /// The system's disk fails.
    pub fn careless(root: &Path) -> io::Result<Self> {
        let power = Self::new(root, None)?;
        power.lock().careless = true;
        Ok(power)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next write to a log fails after so many bytes.
    pub fn cut_off(&self, bytes: usize) {
        self.lock().cut_off = Some(bytes);
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.lock().steps
    }

    /// Whether a step came too late.
    pub fn has_failed(&self) -> bool {
        let state = self.lock();
        state.fails_before.is_some_and(|before| state.steps > before)
    }

    /// Makes the folder what is found after the failure: of each folder the names that were synced, or, where `survives` says so, all. From here
    /// on every step of this machine fails.
    ///
    /// # Errors
    /// The system's disk fails.
    pub fn fail(&self, mut survives: impl FnMut(&Path) -> bool) -> io::Result<()> {
        let mut state = self.lock();
        state.fails_before = Some(0);
        let seen = below(&self.root)?;
        let mut found = Names::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            let names = if survives(&folder) { &seen } else { &state.durable };
            for (path, named) in names.range(folder.clone()..).take_while(|(path, _)| path.starts_with(&folder)) {
                if path.parent() == Some(&folder) {
                    if *named == Named::Folder {
                        folders.push(path.clone());
                    }
                    found.insert(path.clone(), named.clone());
                }
            }
        }
        std::fs::remove_dir_all(&self.root)?;
        std::fs::create_dir(&self.root)?;
        for (path, named) in &found {
            match named {
                Named::Folder => std::fs::create_dir(path)?,
                Named::File(bytes) => std::fs::write(path, bytes)?,
            }
        }
        state.durable = found;
        Ok(())
    }

    /// One change, if there is power.
    fn step<T>(&self, change: impl FnOnce(&System) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.lock();
        state.steps += 1;
        if state.fails_before.is_some_and(|before| state.steps > before) {
            return Err(io::Error::other("the power failed"));
        }
        change(&System)
    }
}

/// Everything below a folder.
fn below(root: &Path) -> io::Result<Names> {
    let mut names = Names::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let named = if path.is_dir() {
                folders.push(path.clone());
                Named::Folder
            } else {
                Named::File(std::fs::read(&path)?)
            };
            names.insert(path, named);
        }
    }
    Ok(names)
}

impl Disk for Power {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.step(|disk| disk.make_folder(path))?;
        // Of one that had this name nothing is left.
        self.lock().durable.retain(|name, _| name == path || !name.starts_with(path));
        Ok(())
    }

    fn write_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // Only as durable as it seems to who reads it: that is what this disk is for.
        self.step(|_| std::fs::write(path, bytes))
    }

    fn make_log(&self, path: &Path, bytes: u64) -> io::Result<Arc<dyn LogFile>> {
        let file = self.step(|disk| disk.make_log(path, bytes))?;
        self.lock().logs.insert(path.to_owned(), std::fs::read(path)?);
        Ok(Arc::new(PowerLog { disk: self.clone(), path: path.to_owned(), file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|disk| disk.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|disk| disk.link(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step(|disk| disk.remove_file(path))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.step(|disk| disk.remove_folder(path))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.step(|_| Ok(()))?;
        let mut state = self.lock();
        if state.careless {
            return Ok(());
        }
        let is_in = |name: &Path| name.parent() == Some(path);
        state.durable.retain(|name, _| !is_in(name));
        for entry in std::fs::read_dir(path)? {
            let name = entry?.path();
            let named = match state.logs.get(&name) {
                Some(synced) => Named::File(synced.clone()),
                None if name.is_dir() => Named::Folder,
                None => Named::File(std::fs::read(&name)?),
            };
            state.durable.insert(name, named);
        }
        Ok(())
    }
}

/// A log on such a disk.
#[derive(Debug)]
struct PowerLog {
    disk: Power,
    path: PathBuf,
    file: Arc<dyn LogFile>,
}

impl LogFile for PowerLog {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let cut_off = self.disk.lock().cut_off.take();
        let written = cut_off.and_then(|written| bytes.get(..written)).unwrap_or(bytes);
        self.disk.step(|_| self.file.write_at(written, at))?;
        if cut_off.is_some() { Err(io::Error::other("the disk failed")) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.step(|_| Ok(()))?;
        let mut state = self.disk.lock();
        if state.careless {
            return Ok(());
        }
        let synced = std::fs::read(&self.path)?;
        if let Some(named) = state.durable.get_mut(&self.path) {
            *named = Named::File(synced.clone());
        }
        state.logs.insert(self.path.clone(), synced);
        Ok(())
    }
}
