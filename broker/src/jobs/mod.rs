//! Tools whose calls become jobs: a runner claims one, says that it lives, and answers; of one that says nothing the job is offered again.
//!
//! A job is a document of its session, `(session, call)`, which is replaced by compare-and-swap; what is open is named once more where runners look.
//! The call is parked meanwhile: the session sleeps, and asks again when somebody tells it, or by itself.

mod document;
mod tool;

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use dormouse_lifecycle::keys;
use dormouse_service::Ids;
use dormouse_store::{Condition, ETag};

use crate::{BrokerStore, documents::DocumentError};

pub(crate) use document::{Document, State};
pub(crate) use tool::RunnerTool;

/// Open jobs of a capability that one claim looks at.
pub(crate) const LOOKED_MAX: usize = 256;
/// Bytes of an answer, as JSON.
pub(crate) const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Tries of a change that others make, too.
const TRIES_MAX: usize = 8;
/// Jobs whose leases are remembered.
const LEASED_MAX: usize = 10_000;
/// Open jobs of the ToolBroker that are looked at then.
const CLEANED_MAX: usize = 20_000;

/// Where jobs are kept.
#[derive(Debug)]
pub(crate) struct Jobs {
    pub(crate) store: BrokerStore,
    pub(crate) ids: Ids,
    /// Open jobs that are somebody's until that time, by the names under which runners look.
    leased: Mutex<HashMap<String, i64>>,
}

/// Which job, and under which name runners find it.
pub(crate) struct JobName {
    pub(crate) uid: String,
    pub(crate) call: u64,
    pub(crate) created_ms: i64,
    pub(crate) capability: String,
}

impl Jobs {
    pub(crate) fn new(store: BrokerStore, ids: Ids) -> Self {
        Self { store, ids, leased: Mutex::default() }
    }

    pub(crate) fn key(&self, uid: &str, call: u64) -> String {
        format!("{}{call}", keys::jobs_of(&self.store.prefix, &self.store.namespace, uid))
    }

    pub(crate) fn open_prefix(&self, capability: &str) -> String {
        keys::jobs_open(&self.store.prefix, &self.store.namespace, &self.store.broker, capability)
    }

    pub(crate) fn open_key(&self, job_name: &JobName) -> String {
        format!("{}{}", self.open_prefix(&job_name.capability), job_name.name())
    }

    /// Removes the names of jobs that are over, or went with their sessions: those whose capability no runner asks for stay otherwise.
    pub(crate) async fn clean(&self) -> Result<(), DocumentError> {
        let prefix = keys::jobs_open_all(&self.store.prefix, &self.store.namespace, &self.store.broker);
        for name in self.store.names(&prefix, CLEANED_MAX).await? {
            let Some(job_name) = name.split_once('/').and_then(|(capability, name)| JobName::read(name, capability)) else { continue };
            // A job is stored before its name is.
            let over = match self.read(&job_name.uid, job_name.call).await? {
                Some((document, _)) => matches!(document.state, State::Done { .. }),
                None => true,
            };
            if over {
                self.store.remove(&format!("{prefix}{name}")).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn read(&self, uid: &str, call: u64) -> Result<Option<(Document, ETag)>, DocumentError> {
        self.store.read(&self.key(uid, call)).await
    }

    /// Has it looked for by runners.
    pub(crate) async fn offer(&self, job_name: &JobName) -> Result<(), DocumentError> {
        match self.store.write(&self.open_key(job_name), &(), Condition::Absent).await {
            Ok(_) | Err(DocumentError::Changed) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes what the session has the answers of.
    pub(crate) async fn forget_below(&self, uid: &str, settled_below: u64) -> Result<(), DocumentError> {
        let prefix = keys::jobs_of(&self.store.prefix, &self.store.namespace, uid);
        for name in self.store.names(&prefix, LOOKED_MAX).await? {
            if name.parse::<u64>().is_ok_and(|call| call < settled_below) {
                self.store.remove(&format!("{prefix}{name}")).await?;
            }
        }
        Ok(())
    }

    /// Changes a job as often as others change it, too. `None`: it is as `change` wants it, or there is none.
    pub(crate) async fn change(
        &self,
        uid: &str,
        call: u64,
        change: impl Fn(&mut Document) -> bool,
    ) -> Result<Option<Document>, DocumentError> {
        for _ in 0..TRIES_MAX {
            let Some((mut document, etag)) = self.read(uid, call).await? else { return Ok(None) };
            if !change(&mut document) {
                return Ok(None);
            }
            match self.store.write(&self.key(uid, call), &document, Condition::Matches(etag)).await {
                Ok(_) => return Ok(Some(document)),
                Err(DocumentError::Changed) => {}
                Err(error) => return Err(error),
            }
        }
        Err(DocumentError::Changed)
    }

    pub(crate) fn is_leased(&self, name: &str, now_ms: i64) -> bool {
        let leased = self.leased.lock().unwrap_or_else(PoisonError::into_inner);
        leased.get(name).is_some_and(|until_ms| *until_ms > now_ms)
    }

    pub(crate) fn note_lease(&self, name: String, until_ms: i64) {
        let mut leased = self.leased.lock().unwrap_or_else(PoisonError::into_inner);
        if leased.len() >= LEASED_MAX {
            leased.clear();
        }
        leased.insert(name, until_ms);
    }
}

impl JobName {
    pub(crate) fn name(&self) -> String {
        format!("{:014}_{}_{}", self.created_ms, self.uid, self.call)
    }

    pub(crate) fn read(name: &str, capability: &str) -> Option<Self> {
        // A session's name with its pool has one of these, too.
        let (created_ms, rest) = name.split_once('_')?;
        let (uid, call) = rest.rsplit_once('_')?;
        let (created_ms, call) = (created_ms.parse().ok()?, call.parse().ok()?);
        Some(Self { uid: uid.to_owned(), call, created_ms, capability: capability.to_owned() })
    }
}

/// Whether a capability can be a part of a key.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= 63 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
