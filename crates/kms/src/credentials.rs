//! What we show the service, and how we know it: the entries of a Secret, read again for each question, as there are few.

use std::path::{Path, PathBuf};

/// The entry with the token.
pub const TOKEN: &str = "token";

/// The entry with the certificates, in PEM, of whom the service's own certificate is from. Absent: one of the public authorities.
pub const CA: &str = "ca.crt";

/// Bytes of one entry at most.
const ENTRY_BYTES_MAX: u64 = 256 << 10;

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// No token.
    #[error("`{TOKEN}` is missing or empty: write a token that may encrypt and decrypt with the key")]
    NoToken,
    /// A token that no header can carry.
    #[error("`{TOKEN}` is not one line of printable ASCII")]
    Token,
    /// Not certificates.
    #[error("`{CA}` holds no certificates in PEM")]
    Ca,
    /// A file cannot be read.
    #[error("{}: {reason}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// A token, and whose certificates are believed. `Debug` does not show the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) token: String,
    pub(crate) ca: Option<Vec<u8>>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("ca", &self.ca.is_some()).finish_non_exhaustive()
    }
}

impl Credentials {
    /// The credentials that a Secret's entries are.
    ///
    /// # Errors
    /// See [`CredentialError`].
    pub fn parse(token: Option<&[u8]>, ca: Option<&[u8]>) -> Result<Self, CredentialError> {
        let token = token.unwrap_or_default().trim_ascii();
        if token.is_empty() {
            return Err(CredentialError::NoToken);
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(CredentialError::Token);
        }
        let ca = ca.filter(|ca| !ca.trim_ascii().is_empty());
        if ca.is_some_and(|ca| !reqwest::Certificate::from_pem_bundle(ca).is_ok_and(|certificates| !certificates.is_empty())) {
            return Err(CredentialError::Ca);
        }
        Ok(Self { token: String::from_utf8_lossy(token).into_owned(), ca: ca.map(<[u8]>::to_vec) })
    }

    /// Reads a mounted Secret.
    ///
    /// # Errors
    /// See [`CredentialError`].
    pub fn read(folder: &Path) -> Result<Self, CredentialError> {
        Self::parse(entry(folder, TOKEN)?.as_deref(), entry(folder, CA)?.as_deref())
    }
}

fn entry(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, CredentialError> {
    let path = folder.join(name);
    let io = |reason: String| CredentialError::Io { path: path.clone(), reason };
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error.to_string())),
        Ok(metadata) if metadata.len() > ENTRY_BYTES_MAX => return Err(io("too large".to_owned())),
        Ok(_) => {}
    }
    std::fs::read(&path).map(Some).map_err(|error| io(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_credential_says_what_to_write() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Credentials::read(folder.path()), Err(CredentialError::NoToken)));
        std::fs::write(folder.path().join(TOKEN), "hvs.secret\n").unwrap();
        let credentials = Credentials::read(folder.path()).unwrap();
        assert!(credentials.token == "hvs.secret" && !format!("{credentials:?}").contains("secret"));
        std::fs::write(folder.path().join(CA), "no certificate").unwrap();
        assert!(matches!(Credentials::read(folder.path()), Err(CredentialError::Ca)));
        let ca = dormouse_service::ca::Ca::generate().unwrap();
        std::fs::write(folder.path().join(CA), ca.cert_pem()).unwrap();
        assert!(Credentials::read(folder.path()).unwrap().ca.is_some());
        std::fs::write(folder.path().join(CA), vec![b' '; 256 << 10]).unwrap();
        assert!(Credentials::read(folder.path()).unwrap().ca.is_none(), "an empty entry is none");
        std::fs::write(folder.path().join(CA), vec![b' '; (256 << 10) + 1]).unwrap();
        assert!(matches!(Credentials::read(folder.path()), Err(CredentialError::Io { .. })));
        for token in [&b"two words"[..], b"two\nlines", b"\xff"] {
            assert!(matches!(Credentials::parse(Some(token), None), Err(CredentialError::Token)), "{token:?}");
        }
    }
}
