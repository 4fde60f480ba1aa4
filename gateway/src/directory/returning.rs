//! How sessions come back from the archive: their objects are made here, and the operator gives them what only the operator writes.

use std::{sync::Arc, time::Duration};

use dormouse_control::archive::Archived;
use dormouse_crds::{
    labels::{ARCHIVED_AS, STORAGE_FINALIZER},
    session::KernelSession,
};
use kube::api::{ObjectMeta, PostParams};
use tokio::sync::broadcast;

use super::{
    Change, DirectoryError, Key, Record,
    kubernetes::{API_TIMEOUT, FIELD_MANAGER, KubernetesDirectory, failure},
};

/// How long the operator may take to adopt a session that comes back.
const RETURN_TIMEOUT: Duration = Duration::from_secs(15);
/// How often it is looked for meanwhile, where no watch tells of it.
const RETURN_POLL: Duration = Duration::from_millis(200);

impl KubernetesDirectory {
    /// The session of this name in the archive, if there is an archive and it has one.
    pub(super) async fn find_archived(&self, key: &Key) -> Result<Option<Archived>, DirectoryError> {
        match self.archive.as_ref().filter(|_| self.scope.contains(&key.namespace)) {
            Some(archive) => archive.find(key).await,
            None => Ok(None),
        }
    }

    /// Brings a session back from the archive: the object is made, and the operator gives it what only the operator writes.
    pub(super) async fn bring_back(&self, archived: Archived) -> Result<Arc<Record>, DirectoryError> {
        let (key, uid) = (archived.key, archived.uid);
        let mut object = KernelSession::new(&key.name, archived.spec);
        let mut annotations = archived.annotations;
        annotations.insert(ARCHIVED_AS.to_owned(), uid.clone());
        object.metadata = ObjectMeta {
            namespace: Some(key.namespace.clone()),
            labels: (!archived.labels.is_empty()).then_some(archived.labels),
            annotations: Some(annotations),
            finalizers: Some(vec![STORAGE_FINALIZER.to_owned()]),
            ..object.metadata
        };
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let (api, mut changes) = (self.api(&key)?, self.shared.sessions.changes());
        match tokio::time::timeout(API_TIMEOUT, api.create(&params, &object)).await.map_err(DirectoryError::unavailable)? {
            Ok(_) => tracing::info!(session = %key, uid, "comes back from the archive"),
            // Another request, or another session that has the name now.
            Err(kube::Error::Api(answer)) if answer.is_already_exists() => {}
            Err(error) => return Err(failure(error)),
        }
        let returned = async {
            loop {
                let sent = self.shared.sessions.sending(&key);
                let object = self.answer(&key, api.get(&key.name)).await?;
                let adopted = object.returning().is_none();
                let record = self.noted(object, &sent)?;
                if adopted {
                    return Ok(record);
                }
                changed(&mut changes, &key).await;
            }
        };
        let late = || DirectoryError::Archive(format!("the operator has not adopted {key} within {} s", RETURN_TIMEOUT.as_secs()));
        tokio::time::timeout(RETURN_TIMEOUT, returned).await.map_err(|_| late())?
    }
}

/// Waits until the watch tells of the session, for [`RETURN_POLL`] at most.
async fn changed(changes: &mut broadcast::Receiver<Change>, key: &Key) {
    let told = async {
        loop {
            match changes.recv().await {
                Ok(Change::Session(changed)) if changed == *key => return,
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                // Another one, or this reader is behind.
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            }
        }
    };
    let _ = tokio::time::timeout(RETURN_POLL, told).await;
}
