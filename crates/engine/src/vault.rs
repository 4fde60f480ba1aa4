//! Files that are believed only with a keyed hash of their bytes: disks flip bits, and compiled code with one flipped runs.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use aws_lc_rs::hmac;
use rand::RngCore as _;

use crate::compiled::owned_by_us;

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
    /// The key cannot be read or written, or is not this user's alone.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let file = dir.join(KEY);
        let key = match std::fs::read(&file) {
            Ok(key) if key.len() == HASH_BYTES => {
                owned_by_us(&file).map_err(|error| io::Error::other(error.to_string()))?;
                key
            }
            Ok(_) => Self::make_key(dir, &file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make_key(dir, &file)?,
            Err(error) => return Err(error),
        };
        Ok(Self { dir: dir.to_owned(), key: hmac::Key::new(hmac::HMAC_SHA256, &key) })
    }

    fn make_key(dir: &Path, file: &Path) -> io::Result<Vec<u8>> {
        let mut key = vec![0; HASH_BYTES];
        rand::rng().fill_bytes(&mut key);
        write_durably(dir, file, &[&key])?;
        Ok(key)
    }

    /// Writes a file that is whole, or not there, whenever the machine stops.
    pub(crate) fn write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        write_durably(&self.dir, file, &[hmac::sign(&self.key, bytes).as_ref(), bytes])
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

fn write_durably(dir: &Path, file: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let draft = file.with_extension(format!("{}.tmp", std::process::id()));
    let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    for part in parts {
        out.write_all(part)?;
    }
    out.sync_all()?;
    std::fs::rename(&draft, file)?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

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
