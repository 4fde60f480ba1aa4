//! Secrets that were found to be as they should be. Nobody asks for them again before one is due, is to be something else, or was told of by the watch
//! of Secrets: of pools that nothing happens to, no Secret is read.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{ResourceExt as _, core::PartialObjectMeta, runtime::watcher::Event};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// How long it is believed that nothing has happened because the watch tells of nothing.
const BELIEVED_MAX: Duration = Duration::from_secs(600);

/// Which Secrets are looked at, and for what.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Their namespace.
    pub namespace: &'a str,
    /// Their names.
    pub secrets: &'a [&'a str],
    /// For whom: nobody else of the namespace looks under this name.
    pub holder: &'a str,
    /// All that decides what they are to be: when it is something else, they are looked at.
    pub wanted: &'a str,
}

/// What came of looking at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// They are as they should be until then.
    Good(Timestamp),
    /// They serve until then, but something is left to be done: they are looked at the next time, too.
    Unfinished(Timestamp),
}

/// What was found good. All methods may be called at any time, but for one holder one after the other.
#[derive(Debug, Default)]
pub struct CheckedSecrets(Mutex<HashMap<String, Secrets>>);

/// Of a namespace, by name.
type Secrets = HashMap<String, Holders>;
/// What holders know of a Secret. `None`: it is being looked at, and was not touched meanwhile.
type Holders = HashMap<String, Option<Check>>;

#[derive(Debug, Clone)]
struct Check {
    /// Digest of what was wanted.
    wanted: [u8; 32],
    due: Timestamp,
    at: Instant,
}

impl CheckedSecrets {
    /// When the subject is due: as it is known, or else as `look` finds, which is not begun otherwise.
    ///
    /// # Errors
    /// As `look`.
    pub async fn due<E>(&self, subject: Subject<'_>, look: impl Future<Output = Result<Found, E>>) -> Result<Timestamp, E> {
        let (wanted, at) = (Sha256::digest(subject.wanted).into(), Instant::now());
        if let Some(due) = self.known(subject, wanted) {
            return Ok(due);
        }
        self.begins(subject);
        let found = look.await;
        let good = match &found {
            Ok(Found::Good(due)) => Some(Check { wanted, due: *due, at }),
            Ok(Found::Unfinished(_)) | Err(_) => None,
        };
        self.ended(subject, good);
        found.map(|(Found::Good(due) | Found::Unfinished(due))| due)
    }

    /// Takes in what the watch of Secrets tells.
    pub fn saw(&self, event: &Event<PartialObjectMeta<Secret>>) {
        match event {
            Event::Apply(secret) | Event::Delete(secret) => self.touched(&secret.namespace().unwrap_or_default(), &secret.name_any()),
            // What has changed or gone before the list is not told.
            Event::InitDone => self.lock().clear(),
            Event::Init | Event::InitApply(_) => {}
        }
    }

    /// All Secrets of a namespace are looked at again.
    pub fn forget(&self, namespace: &str) {
        self.lock().remove(namespace);
    }

    fn touched(&self, namespace: &str, secret: &str) {
        let mut checks = self.lock();
        let Some(secrets) = checks.get_mut(namespace) else { return };
        secrets.remove(secret);
        if secrets.is_empty() {
            checks.remove(namespace);
        }
    }

    fn known(&self, subject: Subject<'_>, wanted: [u8; 32]) -> Option<Timestamp> {
        let (checks, now) = (self.lock(), Timestamp::now());
        let secrets = checks.get(subject.namespace)?;
        let due = |secret: &&str| {
            let check = secrets.get(*secret)?.get(subject.holder)?.as_ref()?;
            (check.wanted == wanted && check.due > now && check.at.elapsed() < BELIEVED_MAX).then_some(check.due)
        };
        subject.secrets.iter().map(due).collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    fn begins(&self, subject: Subject<'_>) {
        let mut checks = self.lock();
        let secrets = checks.entry(subject.namespace.to_owned()).or_default();
        for secret in subject.secrets {
            secrets.entry((*secret).to_owned()).or_default().insert(subject.holder.to_owned(), None);
        }
    }

    /// Keeps what was found, unless a Secret was touched meanwhile: which of the two came first nobody knows.
    fn ended(&self, subject: Subject<'_>, good: Option<Check>) {
        let mut checks = self.lock();
        let Some(secrets) = checks.get_mut(subject.namespace) else { return };
        let is_there = |secret: &&str| secrets.get(*secret).is_some_and(|holders| holders.contains_key(subject.holder));
        let good = good.filter(|_| subject.secrets.iter().all(is_there));
        for secret in subject.secrets {
            let Some(holders) = secrets.get_mut(*secret) else { continue };
            match &good {
                Some(check) => holders.insert(subject.holder.to_owned(), Some(check.clone())),
                None => holders.remove(subject.holder),
            };
            if holders.is_empty() {
                secrets.remove(*secret);
            }
        }
        if secrets.is_empty() {
            checks.remove(subject.namespace);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Secrets>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "checked_tests.rs"]
mod tests;
