//! Credentials of an S3 service, and where they come from.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use aws_credential_types::provider::{ProvideCredentials, error::CredentialsError, future};
use tokio::sync::Mutex;

use crate::{
    StoreError,
    sts::{Identity, Role},
};

/// How long credentials from a folder are used before the files are read again: what a rotation may lag behind.
const REREAD_AFTER: Duration = Duration::from_secs(2);

/// How long credentials of a role are asked for: the most that AWS gives of every role.
const ROLE_DURATION: Duration = Duration::from_secs(3_600);

/// Others are asked for at two thirds of that.
const ROLE_RENEW_AFTER: Duration = Duration::from_secs(2_400);

/// Pause after others were not to be had and those of before are still good.
const ROLE_RETRY_AFTER: Duration = Duration::from_secs(60);

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

fn read_file(path: &Path) -> Result<Option<String>, StoreError> {
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

/// The token in a file that somebody else renews, such as a kubelet.
///
/// # Errors
/// When the file is missing, empty, too large or not text.
pub fn read_token(file: &Path) -> Result<Identity, StoreError> {
    let missing = || StoreError::NoCredentials { reason: format!("{} is missing or empty", file.display()) };
    read_file(file)?.map(Identity::Token).ok_or_else(missing)
}

/// Where a store's credentials come from.
#[derive(Debug, Clone)]
pub enum CredentialSource {
    /// These.
    Static(Credentials),
    /// A folder that is read again while the process runs. See [`Credentials::read`].
    Folder(PathBuf),
    /// Those of a role, while they are good, for whom the token in a file stands for.
    Role {
        /// Which.
        role: Role,
        /// See [`read_token`].
        token_file: PathBuf,
    },
}

/// Credentials in use.
#[derive(Debug)]
struct Kept {
    credentials: Credentials,
    /// When others are to be had.
    renew: Instant,
    /// When they are good no more. `None`: that is not known here.
    end: Option<Instant>,
}

/// The SDK's view of a [`CredentialSource`].
#[derive(Debug)]
pub(crate) struct Provider {
    source: CredentialSource,
    /// Held while others are asked for, so that only one request is under way.
    kept: Mutex<Option<Kept>>,
}

impl Provider {
    pub(crate) fn new(source: CredentialSource) -> Self {
        Self { source, kept: Mutex::new(None) }
    }

    async fn current(&self) -> Result<Credentials, StoreError> {
        let now = Instant::now();
        self.current_at(now, self.source.read(now)).await
    }

    /// What is kept, as long as it is not to be renewed; then what is read. Where nothing is, what is kept serves on while it is good.
    async fn current_at(&self, now: Instant, read: impl Future<Output = Result<Kept, StoreError>>) -> Result<Credentials, StoreError> {
        let mut kept = self.kept.lock().await;
        if let Some(kept) = kept.as_ref()
            && now < kept.renew
        {
            return Ok(kept.credentials.clone());
        }
        match (read.await, kept.as_mut()) {
            (Ok(new), _) => Ok(kept.insert(new).credentials.clone()),
            (Err(error), Some(old)) if old.end.is_some_and(|end| now < end) => {
                tracing::warn!(%error, "storage credentials are not renewed yet");
                old.renew = now + ROLE_RETRY_AFTER;
                Ok(old.credentials.clone())
            }
            (Err(error), _) => Err(error),
        }
    }
}

impl CredentialSource {
    async fn read(&self, now: Instant) -> Result<Kept, StoreError> {
        match self {
            Self::Static(credentials) => Ok(Kept { credentials: credentials.clone(), renew: now, end: None }),
            Self::Folder(folder) => Ok(Kept { credentials: Credentials::read(folder)?, renew: now + REREAD_AFTER, end: None }),
            Self::Role { role, token_file } => {
                let assumed = role.assume(&read_token(token_file)?, None, ROLE_DURATION).await;
                let credentials = assumed.map_err(|error| StoreError::NoCredentials { reason: error.to_string() })?;
                Ok(Kept { credentials, renew: now + ROLE_RENEW_AFTER, end: Some(now + ROLE_DURATION) })
            }
        }
    }
}

impl ProvideCredentials for Provider {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async { self.current().await.map(|c| c.to_sdk()).map_err(CredentialsError::provider_error) })
    }
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

    /// What a provider of a role gives after so long, where a service gives this.
    async fn given(provider: &Provider, begun: Instant, seconds: u64, service: Option<&str>) -> Result<String, StoreError> {
        let now = begun + Duration::from_secs(seconds);
        let read = async {
            let id = service.ok_or_else(|| StoreError::NoCredentials { reason: "no answer".to_owned() })?;
            Ok(Kept { credentials: Credentials::new(id, "hush"), renew: now + ROLE_RENEW_AFTER, end: Some(now + ROLE_DURATION) })
        };
        provider.current_at(now, read).await.map(|credentials| credentials.access_key_id)
    }

    #[tokio::test]
    async fn credentials_of_a_role_are_renewed_in_time_and_serve_on_while_nobody_renews_them() {
        let role = Role { endpoint: String::new(), region: String::new(), arn: None };
        let (provider, begun) = (Provider::new(CredentialSource::Role { role, token_file: PathBuf::new() }), Instant::now());
        assert!(matches!(given(&provider, begun, 0, None).await, Err(StoreError::NoCredentials { .. })), "there are none to serve on");
        for (seconds, service, expected) in [
            (0, Some("first"), "first"),
            (2_399, Some("early"), "first"),
            (2_400, None, "first"),
            (2_459, Some("asked for too soon"), "first"),
            (2_460, Some("second"), "second"),
            (4_859, Some("early"), "second"),
        ] {
            assert_eq!(given(&provider, begun, seconds, service).await.unwrap(), expected, "after {seconds} s");
        }
        let over = given(&provider, begun, 2_460 + 3_600, None).await;
        assert!(matches!(over, Err(StoreError::NoCredentials { .. })), "they are good no more: {over:?}");
    }
}
