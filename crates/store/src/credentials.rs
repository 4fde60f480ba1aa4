//! Where credentials of an S3 service come from.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use aws_credential_types::provider::{ProvideCredentials, error::CredentialsError, future};
use tokio::sync::Mutex;

use crate::{
    StoreError,
    access_key::{Credentials, read_file},
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
