//! Storage credentials as a Secret has them, and why there are none.

use std::collections::BTreeMap;

use dormouse_control::reason::PoolReason;
use dormouse_store::{Credentials, StoreError};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client};

use crate::refusal::Refusal;

/// Keys of a credentials Secret.
const ACCESS_KEY_ID: &str = "accessKeyId";
const SECRET_ACCESS_KEY: &str = "secretAccessKey";
const SESSION_TOKEN: &str = "sessionToken";
const EXPIRATION: &str = "expiration";

/// Why storage is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Somebody must change something.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The API server refused or could not be reached.
    #[error("API server: {0}")]
    Kube(#[from] kube::Error),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a Secret with these credentials holds.
pub(crate) fn data_of(credentials: &Credentials) -> BTreeMap<String, ByteString> {
    let mut data = BTreeMap::new();
    let mut put = |key: &str, value: &str| data.insert(key.to_owned(), ByteString(value.as_bytes().to_vec()));
    put(ACCESS_KEY_ID, &credentials.access_key_id);
    put(SECRET_ACCESS_KEY, &credentials.secret_access_key);
    credentials.session_token.as_ref().map(|token| put(SESSION_TOKEN, token));
    credentials.expiration.as_ref().map(|time| put(EXPIRATION, time));
    data
}

/// The credentials in a Secret, if it has an access key.
pub(crate) fn credentials_of(secret: &Secret) -> Option<Credentials> {
    let data = secret.data.as_ref()?;
    let text =
        |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    Some(Credentials {
        access_key_id: text(ACCESS_KEY_ID)?,
        secret_access_key: text(SECRET_ACCESS_KEY)?,
        session_token: text(SESSION_TOKEN),
        expiration: text(EXPIRATION),
    })
}

/// The credentials in the Secret of this name.
pub(crate) async fn read_secret(client: &Client, namespace: &str, name: &str) -> Result<Credentials, StorageError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = api.get_opt(name).await?;
    secret.as_ref().and_then(credentials_of).ok_or_else(|| {
        let message = if secret.is_some() {
            format!("Secret {name} lacks accessKeyId or secretAccessKey: write both.")
        } else {
            format!("Secret {name} does not exist: make it, with the keys accessKeyId and secretAccessKey.")
        };
        StorageError::Refused(Refusal { reason: PoolReason::StorageCredentialsInvalid, message })
    })
}
