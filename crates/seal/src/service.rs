//! Data keys that a key service encrypts: the service has the key, and is asked once for a data key and not once for an object.
//!
//! Keys that it decrypted stay in memory, so what they opened opens again while the service is away. When it does not answer, whoever waits is
//! told so together: nobody queues for a service that is not there.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use aws_lc_rs::aead::RandomizedNonceKey;
use tokio::sync::OnceCell;

use crate::{
    envelope::{DataKey, FIELD_BYTES_MAX, Parts, SealError, key_binding, random_key, usable},
    keys::{KEY_BYTES, KeyServiceError},
};

/// Before the service's name, this is the id of its key. No key of a Secret is called so.
pub const ID_PREFIX: &str = "kms:";

/// Bytes of a service's name.
pub const SERVICE_NAME_BYTES_MAX: usize = 200;

/// Data keys that are kept decrypted; the one that was used longest ago goes. Each pod makes about one a day, so this is years of objects.
pub const DECRYPTED_KEYS_MAX: usize = 4_096;

/// How long a service that failed is not asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Has the key that encrypts data keys, and does not give it away.
#[async_trait]
pub trait KeyService: std::fmt::Debug + Send + Sync {
    /// What its key is called, at most [`SERVICE_NAME_BYTES_MAX`] bytes. Objects carry it; another name is another key.
    fn name(&self) -> &str;

    /// Encrypts a data key with its newest key, bound to `binding`.
    async fn encrypt(&self, data_key: &[u8; KEY_BYTES], binding: &[u8]) -> Result<Vec<u8>, KeyServiceError>;

    /// The data key that it encrypted, by whichever version of its key, under the same `binding`.
    async fn decrypt(&self, wrapped: &[u8], binding: &[u8]) -> Result<Vec<u8>, KeyServiceError>;
}

/// A service as one tenant uses it.
#[derive(Debug)]
pub(crate) struct Service {
    service: Arc<dyn KeyService>,
    pub(crate) id: String,
    /// When it last failed, and how.
    failed: Mutex<Option<(Instant, KeyServiceError)>>,
    decrypted: Decrypted,
}

impl Service {
    pub(crate) fn new(service: Arc<dyn KeyService>) -> Self {
        let id = format!("{ID_PREFIX}{}", service.name());
        Self { service, id, failed: Mutex::default(), decrypted: Decrypted::default() }
    }

    /// A new data key.
    pub(crate) async fn make(&self, tenant: &str) -> Result<DataKey, SealError> {
        let (raw, binding) = (random_key()?, key_binding(&self.id, tenant)?);
        let wrapped = self.ask(self.service.encrypt(&raw, &binding)).await.map_err(SealError::Service)?;
        if wrapped.is_empty() || wrapped.len() > FIELD_BYTES_MAX {
            let reason =
                format!("it makes {} bytes of a data key, and 1 to {FIELD_BYTES_MAX} fit: use a key of AES or ChaCha20", wrapped.len());
            return Err(SealError::Service(KeyServiceError::Unavailable { service: self.service.name().to_owned(), reason }));
        }
        let key = DataKey::wrapped(&self.id, &raw, wrapped)?;
        self.decrypted.know(&key);
        Ok(key)
    }

    /// The data key of an object.
    pub(crate) async fn data_key(&self, parts: &Parts<'_>, tenant: &str) -> Result<Arc<RandomizedNonceKey>, SealError> {
        let cell = self.decrypted.cell(parts.wrapped);
        let asked = cell.get_or_try_init(|| async {
            let binding = key_binding(&self.id, tenant)?;
            let raw = self.ask(self.service.decrypt(parts.wrapped, &binding)).await.map_err(|error| match error {
                KeyServiceError::NotIts => parts.broken(),
                error @ KeyServiceError::Unavailable { .. } => SealError::Service(error),
            })?;
            usable(&raw).ok_or_else(|| parts.broken())
        });
        let asked = asked.await.cloned();
        if asked.is_err() {
            self.decrypted.forget(parts.wrapped, &cell);
        }
        asked
    }

    async fn ask<T>(&self, question: impl Future<Output = Result<T, KeyServiceError>>) -> Result<T, KeyServiceError> {
        if let Some((at, error)) = &*lock(&self.failed)
            && at.elapsed() < ASK_AGAIN_AFTER
        {
            return Err(error.clone());
        }
        let answer = question.await;
        *lock(&self.failed) = match &answer {
            Err(error @ KeyServiceError::Unavailable { .. }) => Some((Instant::now(), error.clone())),
            Ok(_) | Err(KeyServiceError::NotIts) => None,
        };
        answer
    }
}

/// One who asks fills it for all who wait.
type Cell = Arc<OnceCell<Arc<RandomizedNonceKey>>>;

/// Data keys by what the service made of them.
#[derive(Default)]
struct Decrypted(Mutex<HashMap<Vec<u8>, (Cell, Instant)>>);

impl std::fmt::Debug for Decrypted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Decrypted").field(&lock(&self.0).len()).finish()
    }
}

impl Decrypted {
    fn cell(&self, wrapped: &[u8]) -> Cell {
        let mut keys = lock(&self.0);
        if let Some((cell, used)) = keys.get_mut(wrapped) {
            *used = Instant::now();
            return Arc::clone(cell);
        }
        if keys.len() >= DECRYPTED_KEYS_MAX {
            let oldest = keys.iter().min_by_key(|(_, (_, used))| *used).map(|(wrapped, _)| wrapped.clone());
            oldest.and_then(|wrapped| keys.remove(&wrapped));
        }
        let cell = Cell::default();
        keys.insert(wrapped.to_vec(), (Arc::clone(&cell), Instant::now()));
        cell
    }

    /// What this process made, it need not ask for.
    fn know(&self, key: &DataKey) {
        // Nobody else can have it yet.
        let _ = self.cell(&key.wrapped).set(Arc::clone(&key.key));
    }

    /// Takes a key that was not to be had out, unless another one asks for it already.
    fn forget(&self, wrapped: &[u8], cell: &Cell) {
        let mut keys = lock(&self.0);
        if keys.get(wrapped).is_some_and(|(known, _)| Arc::ptr_eq(known, cell) && !known.initialized()) {
            keys.remove(wrapped);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
