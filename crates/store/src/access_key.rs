//! Credentials of an S3 service.

use std::path::Path;

use crate::StoreError;

/// Bytes of one credential file at most.
const CREDENTIAL_BYTES_MAX: u64 = 64 << 10;

/// An access key. `Debug` shows the id only.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Public part.
    pub access_key_id: String,
    /// Secret part.
    pub secret_access_key: String,
    /// Of short-lived credentials.
    pub session_token: Option<String>,
    /// RFC 3339, of short-lived credentials.
    pub expiration: Option<String>,
}

impl Credentials {
    /// Credentials that do not expire.
    #[must_use]
    pub fn new(access_key_id: impl Into<String>, secret_access_key: impl Into<String>) -> Self {
        Self { access_key_id: access_key_id.into(), secret_access_key: secret_access_key.into(), session_token: None, expiration: None }
    }

    /// Reads a mounted Secret: the files `accessKeyId` and `secretAccessKey`, and where there are any, `sessionToken` and `expiration`.
    ///
    /// # Errors
    /// When a file is missing, empty, too large or not text.
    pub fn read(folder: &Path) -> Result<Self, StoreError> {
        let required = |name: &str| {
            read_file(&folder.join(name))?
                .ok_or_else(|| StoreError::NoCredentials { reason: format!("{} is missing or empty", folder.join(name).display()) })
        };
        Ok(Self {
            access_key_id: required("accessKeyId")?,
            secret_access_key: required("secretAccessKey")?,
            session_token: read_file(&folder.join("sessionToken"))?,
            expiration: read_file(&folder.join("expiration"))?,
        })
    }

    pub(crate) fn to_sdk(&self) -> aws_credential_types::Credentials {
        aws_credential_types::Credentials::new(&self.access_key_id, &self.secret_access_key, self.session_token.clone(), None, "dormouse")
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .field("expiration", &self.expiration)
            .finish_non_exhaustive()
    }
}

/// The text of a file, without the space around it. `None`: there is no such file, or nothing in it.
pub(crate) fn read_file(path: &Path) -> Result<Option<String>, StoreError> {
    let unreadable = |reason: String| StoreError::NoCredentials { reason: format!("{}: {reason}", path.display()) };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
        Ok(metadata) if metadata.len() > CREDENTIAL_BYTES_MAX => return Err(unreadable("too large".to_owned())),
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_and_a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("accessKeyId"), "id\n").unwrap();
        let error = Credentials::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("secretAccessKey is missing"), "{error}");
        std::fs::write(folder.path().join("secretAccessKey"), "hush").unwrap();
        std::fs::write(folder.path().join("sessionToken"), "").unwrap();
        let credentials = Credentials::read(folder.path()).unwrap();
        assert_eq!((credentials.access_key_id.as_str(), credentials.session_token.as_ref()), ("id", None));
        assert!(!format!("{credentials:?}").contains("hush"));
    }
}
