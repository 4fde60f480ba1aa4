//! What a session's pod is handed with the assignment, and the gateway does not keep: all of a large spec, and bootstrap code that is in a ConfigMap.

use std::sync::Arc;

use dormouse_control::session::state_of;
use dormouse_crds::{KeyRef, session::BOOTSTRAP_BYTES_MAX};
use dormouse_protocol::{ApiError, ErrorCode, session::State};

use crate::{
    directory::{DirectoryError, Key, Record},
    in_flight::InFlight,
    problem::of_directory,
    router::{Route, Router},
};

/// The ConfigMap with the code of a session that may still have to run it. After its first cell the pod has it, if it is needed at all.
fn wanted<'a>(record: &'a Record, in_flight: &InFlight) -> Option<&'a KeyRef> {
    let reference = record.spec.bootstrap.as_ref()?.config_map_ref.as_ref()?;
    let fresh = record.status.cells.unwrap_or(0) == 0 || state_of(&record.status) == State::Failed;
    (fresh || in_flight.anew).then_some(reference)
}

impl Router {
    /// The record with all of its spec.
    pub(crate) async fn whole(&self, record: &Arc<Record>) -> Result<Arc<Record>, ApiError> {
        self.directory().whole(record).await.map_err(|error| of_directory(error, &record.key))
    }

    /// Reads the whole spec, what a session begins as, and the code that it begins with, where those are not at hand.
    pub(crate) async fn complete(&self, route: &mut Route, in_flight: &InFlight) -> Result<(), ApiError> {
        route.record = self.whole(&route.record).await?;
        if route.source.is_none() && route.record.status.snapshot.is_none() {
            route.source = self.source_elsewhere(&route.record).await?;
        }
        let Some(reference) = wanted(&route.record, in_flight) else { return Ok(()) };
        let (key, namespace) = (reference.key.as_deref().unwrap_or_default(), &route.record.key.namespace);
        let found = self.directory().config(namespace, &reference.name, key).await;
        let refuse = |message: String| ApiError::new(ErrorCode::InvalidRequest, message).with_detail("path", "spec.bootstrap.configMapRef");
        match found.map_err(|error| of_directory(error, &route.record.key))? {
            Some(code) if code.len() > BOOTSTRAP_BYTES_MAX => Err(refuse(format!(
                "spec.bootstrap.configMapRef: `{key}` of ConfigMap `{}` has {} bytes, and {BOOTSTRAP_BYTES_MAX} are allowed: import what is large",
                reference.name,
                code.len()
            ))),
            Some(code) if code.trim().is_empty() => Err(refuse(format!(
                "spec.bootstrap.configMapRef: `{key}` of ConfigMap `{}` is empty: write the code there, or leave bootstrap out",
                reference.name
            ))),
            Some(code) => {
                route.bootstrap = Some(code);
                Ok(())
            }
            None => Err(refuse(format!(
                "spec.bootstrap.configMapRef: there is no ConfigMap `{}` with a key `{key}` in namespace `{namespace}`: make it, and the session starts",
                reference.name
            ))),
        }
    }

    /// What a session is forked from, where the cache does not have it: it may be in the archive, and stays there.
    async fn source_elsewhere(&self, record: &Record) -> Result<Option<Arc<Record>>, ApiError> {
        let Some(source) = &record.spec.source else { return Ok(None) };
        let key = Key::new(&record.key.namespace, &source.session);
        match self.directory().look(&key).await {
            Ok(seen) => Ok(self.source_for(record, seen.record)),
            Err(DirectoryError::NotFound) => Ok(None),
            Err(error) => Err(of_directory(error, &key)),
        }
    }
}
