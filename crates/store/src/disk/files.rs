//! The files of the cache. Not synced: a file that a crash has cut off does not verify, and is read from the store.

use std::{
    fs::File,
    io::{Error, ErrorKind, Read as _, Result, Write as _},
    path::{Path, PathBuf},
};

/// What the name of a file begins with while it is written.
const UNFINISHED: &str = ".";

/// A file that is written and not yet under its name.
pub(super) struct Written {
    at: PathBuf,
    to: PathBuf,
}

impl Written {
    pub(super) fn place(self) -> Result<()> {
        std::fs::rename(&self.at, &self.to)
    }

    pub(super) fn discard(self) {
        let _ = std::fs::remove_file(&self.at);
    }
}

/// Writes a file beside its place.
pub(super) fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<Written> {
    let written = Written { at: folder.join(format!("{UNFINISHED}{name}")), to: folder.join(name) };
    let result = File::create(&written.at).and_then(|mut file| file.write_all(bytes));
    if result.is_err() {
        // A full disk must not be kept full by what did not fit.
        let _ = std::fs::remove_file(&written.at);
    }
    result.map(|()| written)
}

/// A file of exactly so many bytes. Whatever else is there is not read.
pub(super) fn read(folder: &Path, name: &str, bytes: u64) -> Result<Vec<u8>> {
    let path = folder.join(name);
    let is_it = |about: &std::fs::Metadata| about.is_file() && about.len() == bytes;
    // Before it is opened: opening a pipe would wait for its writer.
    if !is_it(&std::fs::symlink_metadata(&path)?) {
        return Err(Error::from(ErrorKind::InvalidData));
    }
    let mut read = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
    File::open(&path)?.take(bytes).read_to_end(&mut read)?;
    Ok(read)
}

/// Removes a file; it does not matter whether it is there.
pub(super) fn remove(folder: &Path, name: &str) {
    let _ = std::fs::remove_file(folder.join(name));
}

/// Makes the folder if there is none, and removes every file in it.
pub(super) fn clear(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.metadata()?.is_dir() {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
