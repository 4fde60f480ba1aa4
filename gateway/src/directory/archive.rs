//! Sessions that have left etcd: the operator, who keeps them in the object store, is asked for them.

use std::time::Duration;

use dormouse_control::archive::{Archived, ArchivedPage, FindCall, PAGE_BYTES_MAX, PageCall};
use dormouse_service::{
    answer::read_json,
    tls::{Identity, PeerClient},
};
use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};

use super::{DirectoryError, Key};

/// How long the operator may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer at most: a page, of which the last record may begin below its limit.
const ANSWER_BYTES_MAX: usize = PAGE_BYTES_MAX + (1 << 20);

/// The operator's archive.
#[derive(Debug, Clone)]
pub struct ArchiveClient {
    client: PeerClient,
    operator: Identity,
    address: String,
}

impl ArchiveClient {
    /// The archive of the operator at `address` (`host:port`); a name may stand for several, of which the one that leads answers.
    #[must_use]
    pub fn new(client: PeerClient, system_namespace: &str, address: String) -> Self {
        Self { client, operator: Identity::operator(system_namespace), address }
    }

    /// The session of this name, if it is in the archive.
    ///
    /// # Errors
    /// [`DirectoryError::Archive`].
    pub async fn find(&self, key: &Key) -> Result<Option<Archived>, DirectoryError> {
        self.ask("/v1/archive/find", &FindCall { key: key.clone() }).await
    }

    /// A page of those of a namespace.
    ///
    /// # Errors
    /// [`DirectoryError::Archive`].
    pub async fn page(&self, call: &PageCall) -> Result<ArchivedPage, DirectoryError> {
        self.ask("/v1/archive/list", call).await
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str, call: &impl Serialize) -> Result<T, DirectoryError> {
        let request = self.client.request(Method::POST, &self.operator, &self.address, path).timeout(ANSWER_TIMEOUT).json(call);
        let failed = |error: &dyn std::error::Error| DirectoryError::Archive(crate::chain::chain(error));
        let response = self.client.send(request).await.map_err(|error| failed(&error))?;
        let response = response.error_for_status().map_err(|error| failed(&error))?;
        read_json(response, ANSWER_BYTES_MAX).await.map_err(|error| failed(&error))
    }
}
