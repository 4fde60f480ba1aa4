//! Where the values of Secrets and ConfigMaps come from.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

/// The keys and values of the Secret, or ConfigMap, of a name, as they are now; `None` where there is none.
pub type ReadValues = dyn Fn(&str) -> Option<BTreeMap<String, Vec<u8>>> + Send + Sync;

/// Values of Secrets, and of ConfigMaps: a folder with a file `<name>/<key>` each, or whatever reads them, or memory. Every use reads again, so a
/// rotated value is in use at once.
#[derive(Clone)]
pub struct Secrets {
    source: Arc<Source>,
    config_maps: Arc<Source>,
}

enum Source {
    Directory(PathBuf),
    Memory(BTreeMap<String, BTreeMap<String, Vec<u8>>>),
    Reader(Box<ReadValues>),
}

/// Why a value cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The Secret or the key does not exist.
    #[error("the Secret `{secret}` has no key `{key}`")]
    Missing {
        /// Name of the Secret.
        secret: String,
        /// Key in it.
        key: String,
    },
    /// It exists and cannot be read.
    #[error("the key `{key}` of the Secret `{secret}` cannot be read: {source}")]
    Unreadable {
        /// Name of the Secret.
        secret: String,
        /// Key in it.
        key: String,
        /// Why.
        source: io::Error,
    },
    /// It is no signing secret.
    #[error("the key `{key}` of the Secret `{secret}` must be a signing secret: `whsec_` and base64")]
    NoSigningSecret {
        /// Name of the Secret.
        secret: String,
        /// Key in it.
        key: String,
    },
    /// It does not hold certificates, or a key, in PEM.
    #[error("the key `{key}` of the Secret `{secret}` does not hold what TLS needs, in PEM")]
    NoCertificates {
        /// Name of the Secret.
        secret: String,
        /// Key in it.
        key: String,
    },
    /// It is empty, or holds something that no HTTP header can carry.
    #[error("the key `{key}` of the Secret `{secret}` must be one line of visible ASCII text")]
    NotAHeaderValue {
        /// Name of the Secret.
        secret: String,
        /// Key in it.
        key: String,
    },
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// The files `<directory>/<secret>/<key>`.
    #[must_use]
    pub fn directory(directory: impl Into<PathBuf>) -> Self {
        Self { source: Arc::new(Source::Directory(directory.into())), config_maps: Arc::new(Source::none()) }
    }

    /// The same, with ConfigMaps from the files `<directory>/<config map>/<key>`.
    #[must_use]
    pub fn with_config_maps_in(self, directory: impl Into<PathBuf>) -> Self {
        Self { config_maps: Arc::new(Source::Directory(directory.into())), ..self }
    }

    /// The same, with these ConfigMaps, by name and key.
    #[must_use]
    pub fn with_config_maps(self, values: BTreeMap<String, BTreeMap<String, Vec<u8>>>) -> Self {
        Self { config_maps: Arc::new(Source::Memory(values)), ..self }
    }

    /// Values by Secret and key.
    #[must_use]
    pub fn memory(values: BTreeMap<String, BTreeMap<String, Vec<u8>>>) -> Self {
        Self { source: Arc::new(Source::Memory(values)), config_maps: Arc::new(Source::none()) }
    }

    /// Whatever these say at each use, of Secrets and of ConfigMaps.
    #[must_use]
    pub fn reading(secrets: Box<ReadValues>, config_maps: Box<ReadValues>) -> Self {
        Self { source: Arc::new(Source::Reader(secrets)), config_maps: Arc::new(Source::Reader(config_maps)) }
    }

    /// One value as it is.
    pub(crate) fn bytes(&self, secret: &str, key: &str) -> Result<Vec<u8>, SecretError> {
        self.source.read(secret, key)
    }

    /// One value of a ConfigMap, as it is.
    pub(crate) fn config_map(&self, name: &str, key: &str) -> Result<Vec<u8>, SecretError> {
        self.config_maps.read(name, key)
    }

    /// The keys of a ConfigMap; `None`: there is none.
    pub(crate) fn config_map_keys(&self, name: &str) -> Option<Vec<String>> {
        self.config_maps.keys(name)
    }

    /// One value as text, without the newline that editors put at the end.
    pub(crate) fn read(&self, secret: &str, key: &str) -> Result<String, SecretError> {
        let bytes = self.bytes(secret, key)?;
        let text = String::from_utf8(bytes).unwrap_or_default();
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() || !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err(SecretError::NotAHeaderValue { secret: secret.to_owned(), key: key.to_owned() });
        }
        Ok(text.to_owned())
    }
}

impl Source {
    fn none() -> Self {
        Self::Memory(BTreeMap::new())
    }

    fn keys(&self, name: &str) -> Option<Vec<String>> {
        match self {
            Self::Memory(values) => Some(values.get(name)?.keys().cloned().collect()),
            Self::Reader(read) => Some(read(name)?.into_keys().collect()),
            Self::Directory(_) if !is_file_name(name) => None,
            Self::Directory(directory) => {
                let entries = std::fs::read_dir(directory.join(name)).ok()?.filter_map(Result::ok);
                // Beside the keys the kubelet keeps folders whose names begin with two dots.
                let names = entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| !name.starts_with(".."));
                Some(names.collect())
            }
        }
    }

    fn read(&self, name: &str, key: &str) -> Result<Vec<u8>, SecretError> {
        let missing = || SecretError::Missing { secret: name.to_owned(), key: key.to_owned() };
        match self {
            Self::Memory(values) => values.get(name).and_then(|keys| keys.get(key)).cloned().ok_or_else(missing),
            Self::Reader(read) => read(name).and_then(|mut keys| keys.remove(key)).ok_or_else(missing),
            Self::Directory(_) if !is_file_name(name) || !is_file_name(key) => Err(missing()),
            Self::Directory(directory) => std::fs::read(directory.join(name).join(key)).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => missing(),
                _ => SecretError::Unreadable { secret: name.to_owned(), key: key.to_owned(), source },
            }),
        }
    }
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_again_and_stay_inside_the_folder() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("widgets")).unwrap();
        std::fs::write(directory.path().join("outside"), "x").unwrap();
        let file = directory.path().join("widgets/token");
        let secrets = Secrets::directory(directory.path());
        assert!(matches!(secrets.read("widgets", "token"), Err(SecretError::Missing { .. })));
        std::fs::write(&file, "first\n").unwrap();
        assert_eq!(secrets.read("widgets", "token").unwrap(), "first");
        std::fs::write(&file, "second").unwrap();
        assert_eq!(secrets.read("widgets", "token").unwrap(), "second");
        assert!(secrets.read("widgets", "../outside").is_err());
        assert!(secrets.read("..", "outside").is_err());
        assert_eq!(secrets.source.keys("widgets"), Some(vec!["token".to_owned()]));
        assert!(secrets.source.keys("..").is_none() && secrets.source.keys("nothing").is_none());
        for unusable in ["", "\n", "two\nlines", "\u{1}", "ü"] {
            std::fs::write(&file, unusable).unwrap();
            assert!(matches!(secrets.read("widgets", "token"), Err(SecretError::NotAHeaderValue { .. })), "{unusable:?}");
        }
    }
}
