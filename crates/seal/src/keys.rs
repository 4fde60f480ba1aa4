//! The keys of a namespace: one that new objects are sealed with, and earlier ones that still open what they sealed.
//!
//! They come as a Secret has them: entries of 32 bytes, raw or in base64, each named by its id, and one entry `current` with the id of the key
//! for new objects. Rotation adds a key and changes `current`. `current: none` seals nothing new and still opens everything; `current: kms` leaves
//! new objects to the key service, and the keys open what they sealed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use aws_lc_rs::aead::{AES_256_GCM, RandomizedNonceKey};
use base64::{Engine as _, prelude::BASE64_STANDARD};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Keys in one Secret at most.
pub const KEYS_MAX: usize = 64;

/// Bytes of a key's id.
pub const ID_BYTES_MAX: usize = 63;

/// The entry that names the key for new objects.
pub const CURRENT: &str = "current";

/// What `current` says when nothing new is to be sealed.
pub const NONE: &str = "none";

/// What `current` says when the key service has the key for new objects.
pub const SERVICE: &str = "kms";

/// How long keys from a folder are used before the files are read again: what a rotation may lag behind.
const REREAD_AFTER: Duration = Duration::from_secs(10);

/// The same when a key is asked for that is not there.
const REREAD_MISSING_AFTER: Duration = Duration::from_secs(1);

/// Bytes of one file at most: a key in base64 with some white space.
const FILE_BYTES_MAX: u64 = 1024;

/// Why a key service gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyServiceError {
    /// It does not answer, or does not let us.
    #[error("{service}: {reason}")]
    Unavailable {
        /// Where it is.
        service: String,
        /// What it said, and what to do.
        reason: String,
    },
    /// It says that what it is to decrypt is not what it encrypted.
    #[error("it did not encrypt this data key")]
    NotIts,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// No entry says which key is for new objects.
    #[error("`{CURRENT}` is missing: write the id of the key for new objects, `{SERVICE}` for the KMS, or `{NONE}` to encrypt nothing new")]
    NoCurrent,
    /// The entry names the key service, and there is none.
    #[error("`{CURRENT}` says `{SERVICE}`, and no KMS is named: write spec.encryption.kms, or the id of one of the keys")]
    NoService,
    /// The entry names a key that is not there.
    #[error("`{CURRENT}` names key `{id}`, which is not there: add it, or name another one")]
    UnknownCurrent {
        /// Its id.
        id: String,
    },
    /// Not an id.
    #[error("`{id}` is no key's id: use 1 to {ID_BYTES_MAX} of A-Z, a-z, 0-9, '-', '_' and '.', not `{NONE}` nor `{SERVICE}`")]
    Id {
        /// What was given.
        id: String,
    },
    /// Not a key.
    #[error("key `{id}` is not {KEY_BYTES} random bytes, raw or in base64: `head -c {KEY_BYTES} /dev/urandom | base64` makes one")]
    Key {
        /// Its id.
        id: String,
    },
    /// Too many.
    #[error("{keys} keys; at most {KEYS_MAX} are allowed: remove those that seal nothing any more")]
    TooMany {
        /// How many.
        keys: usize,
    },
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Who seals new objects.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Current {
    Nobody,
    Service,
    Key(String),
}

/// The same, with the key.
pub(crate) enum Sealer<'a> {
    Nobody,
    Service,
    Key(&'a str, &'a RandomizedNonceKey),
}

/// Keys by id. `Debug` shows the ids only.
pub struct Keyring {
    current: Current,
    keys: BTreeMap<String, RandomizedNonceKey>,
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyring").field("current", &self.current).field("ids", &self.ids()).finish_non_exhaustive()
    }
}

impl Keyring {
    /// The keys that a Secret's entries are.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn parse<'a>(entries: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self, KeyError> {
        let (mut current, mut keys) = (None, BTreeMap::new());
        for (id, bytes) in entries {
            if id == CURRENT {
                current = Some(String::from_utf8_lossy(bytes).trim().to_owned());
                continue;
            }
            check_id(id)?;
            let bad = || KeyError::Key { id: id.to_owned() };
            let key = key_bytes(bytes).ok_or_else(bad)?;
            keys.insert(id.to_owned(), RandomizedNonceKey::new(&AES_256_GCM, &key).map_err(|_| bad())?);
        }
        if keys.len() > KEYS_MAX {
            return Err(KeyError::TooMany { keys: keys.len() });
        }
        let current = match current.ok_or(KeyError::NoCurrent)? {
            none if none == NONE => Current::Nobody,
            service if service == SERVICE => Current::Service,
            id if keys.contains_key(&id) => Current::Key(id),
            id => return Err(KeyError::UnknownCurrent { id }),
        };
        Ok(Self { current, keys })
    }

    /// Whether new objects are left to the key service.
    #[must_use]
    pub fn wants_service(&self) -> bool {
        self.current == Current::Service
    }

    /// Reads a mounted Secret: a file an entry. Names that begin with a dot are Kubernetes' own.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn read(folder: &Path) -> Result<Self, KeyError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| KeyError::Io { path, source }
        };
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(io(folder))? {
            let path = entry.map_err(io(folder))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.')) else { continue };
            if entries.len() > KEYS_MAX {
                return Err(KeyError::TooMany { keys: entries.len() });
            }
            if std::fs::metadata(&path).map_err(io(&path))?.len() > FILE_BYTES_MAX {
                return Err(KeyError::Key { id: name.to_owned() });
            }
            entries.push((name.to_owned(), std::fs::read(&path).map_err(io(&path))?));
        }
        Self::parse(entries.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())))
    }

    /// Who seals new objects.
    pub(crate) fn current(&self) -> Sealer<'_> {
        match &self.current {
            Current::Nobody => Sealer::Nobody,
            Current::Service => Sealer::Service,
            Current::Key(id) => self.keys.get(id).map_or(Sealer::Nobody, |key| Sealer::Key(id, key)),
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<&RandomizedNonceKey> {
        self.keys.get(id)
    }

    /// The ids of all keys.
    #[must_use]
    pub fn ids(&self) -> Vec<&str> {
        self.keys.keys().map(String::as_str).collect()
    }
}

fn check_id(id: &str) -> Result<(), KeyError> {
    let fits = (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if fits && id != NONE && id != SERVICE { Ok(()) } else { Err(KeyError::Id { id: id.to_owned() }) }
}

/// 32 bytes, raw or in base64. Text of 32 characters is refused: it is somebody's password, not 32 random bytes.
fn key_bytes(bytes: &[u8]) -> Option<[u8; KEY_BYTES]> {
    if let Ok(raw) = <[u8; KEY_BYTES]>::try_from(bytes) {
        return (!raw.is_ascii()).then_some(raw);
    }
    BASE64_STANDARD.decode(bytes.trim_ascii()).ok()?.try_into().ok()
}

/// Where keys come from. A folder is read again while the process runs.
#[derive(Debug)]
pub struct Keys {
    folder: Option<PathBuf>,
    last: Mutex<Option<(Instant, Arc<Keyring>)>>,
}

impl Keys {
    /// These.
    #[must_use]
    pub fn fixed(keyring: Keyring) -> Self {
        Self { folder: None, last: Mutex::new(Some((Instant::now(), Arc::new(keyring)))) }
    }

    /// The files of a folder, as [`Keyring::read`] has them. Nothing is read yet.
    #[must_use]
    pub fn folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()), last: Mutex::new(None) }
    }

    /// The keys of now. Once there were some, files that cannot be read are no reason to stop: the last ones stay.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn now(&self) -> Result<Arc<Keyring>, KeyError> {
        self.at_most(REREAD_AFTER)
    }

    /// The keys of now, when one was asked for that is not there.
    pub(crate) fn again(&self) -> Result<Arc<Keyring>, KeyError> {
        self.at_most(REREAD_MISSING_AFTER)
    }

    fn at_most(&self, age: Duration) -> Result<Arc<Keyring>, KeyError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.as_ref().map(|(_, keyring)| Arc::clone(keyring));
        let fresh = last.as_ref().is_some_and(|(at, _)| at.elapsed() < age);
        let read = match (&self.folder, &known) {
            (Some(folder), _) if !fresh => Keyring::read(folder),
            (_, Some(known)) => return Ok(Arc::clone(known)),
            (_, None) => return Err(KeyError::NoCurrent),
        };
        let keyring = match (read, known) {
            (Ok(keyring), _) => Arc::new(keyring),
            (Err(error), None) => return Err(error),
            (Err(error), Some(known)) => {
                tracing::error!(%error, "the encryption keys cannot be read again; the last ones stay in use");
                known
            }
        };
        *last = Some((Instant::now(), Arc::clone(&keyring)));
        Ok(keyring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: [u8; 32] = [0xd7; 32];

    fn parse(entries: &[(&str, &[u8])]) -> Result<Keyring, KeyError> {
        Keyring::parse(entries.iter().copied())
    }

    #[test]
    fn keys_are_raw_or_base64_and_one_is_current() {
        let text = format!("{}\n", BASE64_STANDARD.encode([1; 32]));
        let keys = parse(&[("2026-01", &RAW), ("next", text.as_bytes()), ("current", b"next\n")]).unwrap();
        assert_eq!(keys.ids(), ["2026-01", "next"]);
        assert!(matches!(keys.current(), Sealer::Key("next", _)) && !keys.wants_service());
        assert!(matches!(parse(&[("a", &RAW), ("current", b"none")]).unwrap().current(), Sealer::Nobody));
        assert!(parse(&[("a", &RAW), ("current", b"kms\n")]).unwrap().wants_service());
        assert!(!format!("{keys:?}").contains("215"), "a key is not shown");
    }

    #[test]
    fn what_is_no_keyring_says_what_to_write() {
        assert!(matches!(parse(&[("a", &RAW)]), Err(KeyError::NoCurrent)));
        assert!(matches!(parse(&[("a", &RAW), ("current", b"b")]), Err(KeyError::UnknownCurrent { id }) if id == "b"));
        for bytes in [&b"hunter2"[..], b"a password of thirty-two letters", &RAW[..31], &[], BASE64_STANDARD.encode([1; 31]).as_bytes()] {
            assert!(matches!(parse(&[("a", bytes), ("current", b"a")]), Err(KeyError::Key { .. })), "{bytes:?}");
        }
        let long = "x".repeat(ID_BYTES_MAX + 1);
        for id in ["", "a b", "none", "kms", "kms:a", long.as_str()] {
            assert!(matches!(parse(&[(id, &RAW), ("current", b"a")]), Err(KeyError::Id { .. })), "{id}");
        }
        let ids: Vec<String> = (0..=KEYS_MAX).map(|n| format!("k{n}")).collect();
        let mut many: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &RAW[..])).collect();
        many.push(("current", b"k0"));
        assert!(matches!(parse(&many), Err(KeyError::TooMany { .. })));
        many.remove(1);
        assert_eq!(parse(&many).unwrap().ids().len(), KEYS_MAX);
    }

    #[test]
    fn a_folder_is_read_again_and_what_was_read_once_stays() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys::folder(folder.path());
        assert!(matches!(keys.now(), Err(KeyError::NoCurrent)));
        std::fs::create_dir(folder.path().join("..data")).unwrap();
        std::fs::write(folder.path().join("a"), RAW).unwrap();
        std::fs::write(folder.path().join("current"), "a").unwrap();
        assert_eq!(keys.now().unwrap().ids(), ["a"]);
        std::fs::write(folder.path().join("b"), RAW).unwrap();
        assert_eq!(keys.now().unwrap().ids(), ["a"], "not at every use");
        assert_eq!(keys.at_most(Duration::ZERO).unwrap().ids(), ["a", "b"]);
        std::fs::write(folder.path().join("b"), "torn").unwrap();
        assert_eq!(keys.at_most(Duration::ZERO).unwrap().ids(), ["a", "b"]);
    }
}
