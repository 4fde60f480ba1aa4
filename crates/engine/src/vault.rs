//! Files that are believed only with a keyed hash of their bytes: disks flip bits, and compiled code with one flipped runs.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use aws_lc_rs::hmac;
use rand::RngCore as _;

use crate::EngineError;

/// Bytes of the key, and of a hash.
const HASH_BYTES: usize = 32;
/// Name of the file with the key, beside the files that it vouches for.
const KEY: &str = "key";

/// A folder whose files are vouched for.
pub(crate) struct Vault {
    dir: PathBuf,
    key: hmac::Key,
}

impl Vault {
    /// The folder, with the key that it has or with a new one.
    ///
    /// # Errors
    /// The key cannot be read or written, or another user could have written it.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let file = dir.join(KEY);
        let mut key = read(&file)?;
        if key.len() != HASH_BYTES {
            key = make_key(dir, &file)?;
        }
        nobody_elses(&file).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self { dir: dir.to_owned(), key: hmac::Key::new(hmac::HMAC_SHA256, &key) })
    }

    /// Writes a file that is whole, or not there, whenever the machine stops.
    pub(crate) fn write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        let draft = write_draft(file, &[hmac::sign(&self.key, bytes).as_ref(), bytes])?;
        std::fs::rename(&draft, file)?;
        File::open(&self.dir)?.sync_all()
    }

    /// What [`Vault::write`] wrote; `None` when a bit of it differs.
    pub(crate) fn read(&self, file: &Path) -> io::Result<Option<Vec<u8>>> {
        let mut stored = std::fs::read(file)?;
        let Some((hash, bytes)) = stored.split_at_checked(HASH_BYTES) else { return Ok(None) };
        if hmac::verify(&self.key, bytes, hash).is_err() {
            return Ok(None);
        }
        stored.drain(..HASH_BYTES);
        Ok(Some(stored))
    }
}

/// Makes a key, unless another process has made one meanwhile: of two, what was signed with the one that went would not be believed. Only one looks
/// and makes at a time.
fn make_key(dir: &Path, file: &Path) -> io::Result<Vec<u8>> {
    let place = File::open(dir)?;
    place.lock()?;
    let mut key = read(file)?;
    if key.len() != HASH_BYTES {
        key = vec![0; HASH_BYTES];
        rand::rng().fill_bytes(&mut key);
        std::fs::rename(write_draft(file, &[&key])?, file)?;
        place.sync_all()?;
    }
    Ok(key)
}

/// A file of this content beside `file`, of a name that nobody else writes to.
fn write_draft(file: &Path, parts: &[&[u8]]) -> io::Result<PathBuf> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let (process, number) = (std::process::id(), DRAFTS.fetch_add(1, Ordering::Relaxed));
    let draft = file.with_extension(format!("{process}.{number}.tmp"));
    let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    for part in parts {
        out.write_all(part)?;
    }
    out.sync_all()?;
    Ok(draft)
}

/// What the file holds; nothing when it is not there.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(file).or_else(unless_missing)
}

fn unless_missing<T: Default>(error: io::Error) -> io::Result<T> {
    if error.kind() == io::ErrorKind::NotFound { Ok(T::default()) } else { Err(error) }
}

/// Refuses what another user than root owns or could write.
pub(crate) fn nobody_elses(path: &Path) -> Result<(), EngineError> {
    let refuse = |why: String| EngineError::Load(format!("{} is not trusted as a place for compiled code: {why}", path.display()));
    let found = std::fs::symlink_metadata(path).map_err(|error| refuse(error.to_string()))?;
    let us = rustix::process::geteuid().as_raw();
    if found.file_type().is_symlink() {
        return Err(refuse("it is a symbolic link".to_owned()));
    }
    if found.uid() != us && found.uid() != 0 {
        return Err(refuse(format!("it belongs to user {}, not to {us} or root", found.uid())));
    }
    if found.mode() & 0o022 != 0 {
        return Err(refuse("others may write it; chmod go-w".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_open_a_folder_at_once_have_one_key() {
        // Nothing is there, or a key that a disk has cut short.
        for round in 0..100 {
            let dir = tempfile::tempdir().unwrap();
            if round % 2 == 1 {
                std::fs::write(dir.path().join(KEY), b"short").unwrap();
            }
            let file = |n: usize| dir.path().join(format!("code-{n}"));
            std::thread::scope(|scope| {
                for n in 0..4 {
                    let dir = dir.path();
                    scope.spawn(move || Vault::open(dir).unwrap().write(&file(n), b"code").unwrap());
                }
            });
            let vault = Vault::open(dir.path()).unwrap();
            assert!((0..4).all(|n| vault.read(&file(n)).unwrap().is_some()));
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 5, "no draft is left");
        }
    }

    #[test]
    fn no_bit_of_a_file_or_its_key_may_differ() {
        let dir = tempfile::tempdir().unwrap();
        let (file, key) = (dir.path().join("code"), dir.path().join(KEY));
        let code: Vec<u8> = (0..40_000_u32).map(|n| n as u8).collect();
        Vault::open(dir.path()).unwrap().write(&file, &code).unwrap();
        assert_eq!(Vault::open(dir.path()).unwrap().read(&file).unwrap(), Some(code));
        let stored = std::fs::read(&file).unwrap();
        for bit in (0..stored.len() * 8).step_by(997) {
            let mut flipped = stored.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&file, &flipped).unwrap();
            assert_eq!(Vault::open(dir.path()).unwrap().read(&file).unwrap(), None, "bit {bit}");
        }
        for length in [0, 31, 32, stored.len() - 1] {
            std::fs::write(&file, &stored[..length]).unwrap();
            assert_eq!(Vault::open(dir.path()).unwrap().read(&file).unwrap(), None, "{length} bytes");
        }
        std::fs::write(&file, &stored).unwrap();
        let mut other = std::fs::read(&key).unwrap();
        other[7] ^= 4;
        std::fs::write(&key, &other).unwrap();
        assert_eq!(Vault::open(dir.path()).unwrap().read(&file).unwrap(), None);
        std::fs::write(&key, b"short").unwrap();
        assert_eq!(Vault::open(dir.path()).unwrap().read(&file).unwrap(), None);
    }
}
