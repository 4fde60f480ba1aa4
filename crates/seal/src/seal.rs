//! Sealing and opening for one tenant.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{
    envelope::{DataKey, Name, Parts, SealError, is_sealed},
    keys::{KeyError, Keyring, Keys, Sealer},
    service::{ID_PREFIX, KeyService, Service},
};

/// Objects after which a data key is replaced. Nonces are 96 random bits, and a key that is used at most 2^32 times keeps the chance of an equal
/// pair below 2^-32 (NIST SP 800-38D, 8.3); this stays 16 times below that, which is more than what writers that have the key may still add. A
/// key of the Secret encrypts data keys only: one a process and rotation, and one more each time that this number is reached.
pub const DATA_KEY_OBJECTS_MAX: u64 = 1 << 28;

/// How long a data key of a key service is used: what a rotation there may lag behind.
pub const DATA_KEY_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the old one goes on when the service does not encrypt a new one.
const RENEW_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Seals what a tenant stores, and opens it. Without keys nothing is sealed, and what is sealed is refused by name.
#[derive(Default)]
pub struct Seal {
    tenant: String,
    keys: Option<Keys>,
    service: Option<Service>,
    data_key: Mutex<Option<InUse>>,
    /// Held by whoever asks the service for the next one.
    making: tokio::sync::Mutex<()>,
}

pub(crate) struct InUse {
    key: Arc<DataKey>,
    source: Source,
    /// When another one is due. `None`: not by its age.
    pub(crate) due: Option<Instant>,
}

/// What encrypts a data key: another one means another data key.
#[derive(Clone)]
enum Source {
    Secret(Arc<Keyring>),
    Service,
}

impl Source {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Secret(one), Self::Secret(other)) => Arc::ptr_eq(one, other),
            (Self::Service, Self::Service) => true,
            _ => false,
        }
    }
}

/// What is known of the data key.
enum CachedKey {
    /// It is good.
    Good(Arc<DataKey>),
    /// Another one is due, and it still serves.
    Due(Arc<DataKey>),
    /// There is none that serves.
    None,
}

/// Seals the objects of one commit: all of them or none, whatever becomes of the keys meanwhile.
#[derive(Clone)]
pub struct Writer {
    key: Arc<DataKey>,
    tenant: String,
}

impl Writer {
    /// `bytes` as they are stored under `name`. Sealing twice gives other bytes.
    ///
    /// # Errors
    /// A name is longer than a field.
    pub fn seal(&self, name: Name<'_>, bytes: &[u8]) -> Result<Bytes, SealError> {
        self.key.objects.fetch_add(1, Ordering::Relaxed);
        self.key.seal(name, &self.tenant, bytes)
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// An object that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Its bytes.
    pub bytes: Bytes,
    /// What it was sealed as; `None` for an object that was not sealed. Then nothing is known of who wrote it.
    pub sealed: Option<Sealed>,
}

/// What an object was sealed as. It has been verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Uid of the session that wrote it.
    pub session: String,
    /// The last part of the key that it was written under.
    pub object: String,
    /// Digest of the engine that made what is in it.
    pub engine: String,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seal")
            .field("tenant", &self.tenant)
            .field("keys", &self.keys)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

impl Seal {
    /// No keys.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// With these keys, for the objects of `tenant`.
    #[must_use]
    pub fn new(tenant: impl Into<String>, keys: Keys) -> Self {
        Self { tenant: tenant.into(), keys: Some(keys), ..Self::default() }
    }

    /// With a key service, and with `keys` that may be there beside it: then `current` among them says who seals.
    #[must_use]
    pub fn with_service(tenant: impl Into<String>, keys: Option<Keys>, service: Arc<dyn KeyService>) -> Self {
        Self { tenant: tenant.into(), keys, service: Some(Service::new(service)), ..Self::default() }
    }

    /// Who seals new objects. `None`: they are stored as they are. Waits for the key service when a data key is needed and none is there.
    ///
    /// # Errors
    /// There should be keys, and they cannot be used.
    pub async fn writer(&self) -> Result<Option<Writer>, SealError> {
        Ok(self.data_key().await?.map(|key| Writer { key, tenant: self.tenant.clone() }))
    }

    /// The object that stored `bytes` are. Waits for the key service when this process has not seen the object's data key yet.
    ///
    /// # Errors
    /// See [`SealError`].
    pub async fn open(&self, bytes: Bytes) -> Result<Opened, SealError> {
        if !is_sealed(&bytes) {
            return Ok(Opened { bytes, sealed: None });
        }
        let parts = Parts::of(&bytes)?;
        if self.keys.is_none() && self.service.is_none() {
            return Err(SealError::NoKeys { id: parts.id.to_owned() });
        }
        let missing = || SealError::MissingKey { id: parts.id.to_owned() };
        let data_key = if parts.id.starts_with(ID_PREFIX) {
            // The object names the key; which keys may be asked for is not for it to say.
            let service = self.service.as_ref().filter(|service| service.id == parts.id).ok_or_else(missing)?;
            service.data_key(&parts, &self.tenant).await?
        } else {
            let keys = self.keys.as_ref().ok_or_else(missing)?;
            let mut keyring = keys.now()?;
            if keyring.get(parts.id).is_none() {
                keyring = keys.again()?;
            }
            parts.data_key(keyring.get(parts.id).ok_or_else(missing)?, &self.tenant)?
        };
        let Name { session, object, engine } = parts.name;
        let sealed = Sealed { session: session.to_owned(), object: object.to_owned(), engine: engine.to_owned() };
        Ok(Opened { bytes: parts.open(&data_key, &self.tenant)?, sealed: Some(sealed) })
    }

    /// The data key for new objects, if they are sealed.
    pub(crate) async fn data_key(&self) -> Result<Option<Arc<DataKey>>, SealError> {
        let Some(source) = self.source()? else { return Ok(None) };
        let old = match self.known(&source) {
            CachedKey::Good(key) => return Ok(Some(key)),
            CachedKey::Due(key) => Some(key),
            CachedKey::None => None,
        };
        let _turn = match (&old, self.making.try_lock()) {
            (_, Ok(turn)) => turn,
            // Somebody asks for the next one already.
            (Some(old), Err(_)) => return Ok(Some(Arc::clone(old))),
            (None, Err(_)) => self.making.lock().await,
        };
        if let CachedKey::Good(key) = self.known(&source) {
            return Ok(Some(key));
        }
        match (self.make(&source).await, old) {
            (Ok(in_use), _) => {
                let key = Arc::clone(&in_use.key);
                *self.in_use() = Some(in_use);
                Ok(Some(key))
            }
            (Err(error), Some(old)) => {
                tracing::warn!(%error, "the data key for new objects is not replaced yet");
                *self.in_use() = Some(InUse { key: Arc::clone(&old), source, due: Some(Instant::now() + RENEW_AGAIN_AFTER) });
                Ok(Some(old))
            }
            (Err(error), None) => Err(error),
        }
    }

    #[cfg(test)]
    pub(crate) fn service(&self) -> &Service {
        self.service.as_ref().unwrap()
    }

    fn source(&self) -> Result<Option<Source>, SealError> {
        let service = self.service.is_some();
        let Some(keys) = &self.keys else { return Ok(service.then_some(Source::Service)) };
        let keyring = keys.now()?;
        match keyring.current() {
            Sealer::Nobody => Ok(None),
            Sealer::Service if service => Ok(Some(Source::Service)),
            Sealer::Service => Err(KeyError::NoService.into()),
            Sealer::Key(..) => Ok(Some(Source::Secret(Arc::clone(&keyring)))),
        }
    }

    fn known(&self, source: &Source) -> CachedKey {
        let in_use = self.in_use();
        let serves = |it: &&InUse| it.source.is(source) && it.key.objects.load(Ordering::Relaxed) < DATA_KEY_OBJECTS_MAX;
        match in_use.as_ref().filter(serves) {
            Some(it) if it.due.is_some_and(|due| Instant::now() >= due) => CachedKey::Due(Arc::clone(&it.key)),
            Some(it) => CachedKey::Good(Arc::clone(&it.key)),
            None => CachedKey::None,
        }
    }

    async fn make(&self, source: &Source) -> Result<InUse, SealError> {
        let (key, due) = match (source, &self.service) {
            (Source::Secret(keyring), _) => match keyring.current() {
                Sealer::Key(id, key) => (DataKey::new(id, key, &self.tenant)?, None),
                Sealer::Nobody | Sealer::Service => return Err(KeyError::NoCurrent.into()),
            },
            (Source::Service, Some(service)) => (service.make(&self.tenant).await?, Some(Instant::now() + DATA_KEY_AGE_MAX)),
            (Source::Service, None) => return Err(KeyError::NoService.into()),
        };
        Ok(InUse { key: Arc::new(key), source: source.clone(), due })
    }

    pub(crate) fn in_use(&self) -> MutexGuard<'_, Option<InUse>> {
        self.data_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "seal_tests.rs"]
mod tests;
