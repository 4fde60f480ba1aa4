//! The form of a sealed object.
//!
//! `magic (8) ‖ header bytes (u16 LE) ‖ header ‖ nonce (12) ‖ AES-256-GCM(object) ‖ tag (16)`. The header has five fields, each its length (u8) and
//! its bytes: the id of the key, the encrypted data key, the session, the object's name and the engine. The last byte of the magic is the format.
//!
//! A key of the Secret encrypts the data key as `nonce (12) ‖ AES-256-GCM(data key) ‖ tag (16)`. A key service's id is `kms:` and its name, and what
//! it made of the data key is its own to understand.
//!
//! The associated data of the object is everything before the nonce and then the tenant; that of the data key is the key's id and the tenant.
//! So an object opens only as what it was sealed as: in this tenant, as this object of this session, made by this engine. It is sealed in one
//! piece, so there is no offset to bind. The tenant is not in the header: who opens must know it.

use std::sync::{Arc, atomic::AtomicU64};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use bytes::Bytes;

use crate::keys::{KEY_BYTES, KeyError, KeyServiceError};

/// Bytes of a field of the header.
pub const FIELD_BYTES_MAX: usize = 255;

/// What the magic of every format begins with.
const MAGIC_ANY: [u8; 7] = *b"DMSEAL\0";
const MAGIC: [u8; 8] = *b"DMSEAL\0\x01";
const LENGTH_BYTES: usize = 2;
const TAG_BYTES: usize = 16;
/// Bytes of a data key that a key of the Secret encrypted.
const WRAPPED_BYTES: usize = NONCE_LEN + KEY_BYTES + TAG_BYTES;

/// Which object is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name<'a> {
    /// Uid of the session that wrote it.
    pub session: &'a str,
    /// The last part of the key that it was written under.
    pub object: &'a str,
    /// Digest of the engine that made what is in it.
    pub engine: &'a str,
}

/// Why bytes cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The key that sealed it is not there.
    #[error(
        "it is encrypted with key `{id}`, which the pool does not have: add it to the Secret that spec.encryption.keySecretRef names, or, for \
         one that begins with `kms:`, name it in spec.encryption.kms; nothing is lost meanwhile"
    )]
    MissingKey {
        /// The key's id.
        id: String,
    },
    /// There are no keys at all.
    #[error(
        "it is encrypted with key `{id}`, and the pool has no keys: write spec.encryption with the Secret or the KMS that holds it; nothing is \
         lost meanwhile"
    )]
    NoKeys {
        /// The key's id.
        id: String,
    },
    /// The keys cannot be used.
    #[error("the encryption keys cannot be used: {0}")]
    Keys(#[from] KeyError),
    /// The key service does not do what it is asked for.
    #[error("the KMS with the encryption key does not help: {0}; nothing is lost meanwhile")]
    Service(KeyServiceError),
    /// It is cut off, or not of a known format.
    #[error("the encrypted object is cut off, or of an unknown format")]
    Form,
    /// It is not what was sealed.
    #[error("the encrypted object does not verify: it was changed, lies in another's place, or key `{id}` is not the one that sealed it")]
    Broken {
        /// The key's id.
        id: String,
    },
    /// A name is too long for the header, or the system has no randomness.
    #[error("the object cannot be encrypted")]
    Refused,
}

impl SealError {
    /// Whether the right keys would open it, as far as can be told.
    #[must_use]
    pub fn wants_keys(&self) -> bool {
        matches!(self, Self::MissingKey { .. } | Self::NoKeys { .. } | Self::Keys(_) | Self::Service(_))
    }
}

/// Encrypts objects, and is encrypted itself.
pub(crate) struct DataKey {
    pub(crate) key: Arc<RandomizedNonceKey>,
    id: String,
    pub(crate) wrapped: Vec<u8>,
    /// Objects that it has sealed.
    pub(crate) objects: AtomicU64,
}

/// The random bytes of a new data key.
pub(crate) fn random_key() -> Result<[u8; KEY_BYTES], SealError> {
    let mut raw = [0; KEY_BYTES];
    aws_lc_rs::rand::fill(&mut raw).map_err(|_| SealError::Refused)?;
    Ok(raw)
}

impl DataKey {
    /// A new one, encrypted with `key`.
    pub(crate) fn new(id: &str, key: &RandomizedNonceKey, tenant: &str) -> Result<Self, SealError> {
        let mut raw = random_key()?;
        let data_key = usable(&raw).ok_or(SealError::Refused)?;
        let aad = Aad::from(key_binding(id, tenant)?);
        let (nonce, tag) = key.seal_in_place_separate_tag(aad, &mut raw).map_err(|_| SealError::Refused)?;
        let wrapped = [nonce.as_ref().as_slice(), &raw, tag.as_ref()].concat();
        Ok(Self { key: data_key, id: id.to_owned(), wrapped, objects: AtomicU64::new(0) })
    }

    /// The one of these bytes, which a key service made `wrapped` of.
    pub(crate) fn wrapped(id: &str, raw: &[u8; KEY_BYTES], wrapped: Vec<u8>) -> Result<Self, SealError> {
        let key = usable(raw).ok_or(SealError::Refused)?;
        Ok(Self { key, id: id.to_owned(), wrapped, objects: AtomicU64::new(0) })
    }

    /// `bytes`, sealed as `name`.
    pub(crate) fn seal(&self, name: Name<'_>, tenant: &str, bytes: &[u8]) -> Result<Bytes, SealError> {
        let mut header = Vec::new();
        for field in [self.id.as_bytes(), &self.wrapped, name.session.as_bytes(), name.object.as_bytes(), name.engine.as_bytes()] {
            push(&mut header, field)?;
        }
        let length = u16::try_from(header.len()).map_err(|_| SealError::Refused)?;
        let clear = [MAGIC.as_slice(), &length.to_le_bytes(), &header].concat();
        let mut out = Vec::with_capacity(clear.len() + NONCE_LEN + bytes.len() + TAG_BYTES);
        out.extend_from_slice(&clear);
        out.extend_from_slice(&[0; NONCE_LEN]);
        out.extend_from_slice(bytes);
        let (_, rest) = out.split_at_mut_checked(clear.len()).ok_or(SealError::Refused)?;
        let (at, body) = rest.split_first_chunk_mut::<NONCE_LEN>().ok_or(SealError::Refused)?;
        let aad = Aad::from(object_binding(clear, tenant)?);
        let (nonce, tag) = self.key.seal_in_place_separate_tag(aad, body).map_err(|_| SealError::Refused)?;
        *at = *nonce.as_ref();
        out.extend_from_slice(tag.as_ref());
        Ok(out.into())
    }
}

/// A sealed object, taken apart and not opened yet. What it says of itself is not to be believed before it opens.
pub(crate) struct Parts<'a> {
    pub(crate) id: &'a str,
    pub(crate) wrapped: &'a [u8],
    pub(crate) name: Name<'a>,
    clear: &'a [u8],
    nonce: [u8; NONCE_LEN],
    body: &'a [u8],
}

/// Whether `bytes` say that they are sealed.
pub(crate) fn is_sealed(bytes: &[u8]) -> bool {
    // A format that is not known must not pass for an object that is not sealed.
    bytes.starts_with(&MAGIC_ANY)
}

impl<'a> Parts<'a> {
    /// Takes `bytes` apart; every length is checked before it is used.
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Self, SealError> {
        Self::split(bytes).ok_or(SealError::Form)
    }

    fn split(bytes: &'a [u8]) -> Option<Self> {
        let (length, rest) = bytes.strip_prefix(&MAGIC)?.split_first_chunk::<LENGTH_BYTES>()?;
        let (mut header, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let clear = bytes.get(..bytes.len() - rest.len())?;
        let mut field = || {
            let (length, rest) = header.split_first()?;
            let (field, rest) = rest.split_at_checked(usize::from(*length))?;
            header = rest;
            Some(field)
        };
        let (id, wrapped, session, object, engine) = (field()?, field()?, field()?, field()?, field()?);
        let text = |field| std::str::from_utf8(field).ok();
        let name = Name { session: text(session)?, object: text(object)?, engine: text(engine)? };
        let (nonce, body) = rest.split_first_chunk::<NONCE_LEN>()?;
        let whole = header.is_empty() && !wrapped.is_empty() && body.len() >= TAG_BYTES;
        whole.then_some(Self { id: text(id)?, wrapped, name, clear, nonce: *nonce, body })
    }

    /// The data key, if `key` is the one that encrypted it and nothing was changed.
    pub(crate) fn data_key(&self, key: &RandomizedNonceKey, tenant: &str) -> Result<Arc<RandomizedNonceKey>, SealError> {
        let (nonce, raw) = self.wrapped.split_first_chunk::<NONCE_LEN>().ok_or(SealError::Form)?;
        if self.wrapped.len() != WRAPPED_BYTES {
            return Err(SealError::Form);
        }
        let mut raw = raw.to_vec();
        let aad = Aad::from(key_binding(self.id, tenant)?);
        let raw = key.open_in_place(Nonce::from(nonce), aad, &mut raw).map_err(|_| self.broken())?;
        usable(raw).ok_or_else(|| self.broken())
    }

    /// The object, if `data_key` is the one that sealed it and nothing was changed.
    pub(crate) fn open(&self, data_key: &RandomizedNonceKey, tenant: &str) -> Result<Bytes, SealError> {
        let mut body = self.body.to_vec();
        let whole = body.len() - TAG_BYTES;
        let aad = Aad::from(object_binding(self.clear.to_vec(), tenant)?);
        data_key.open_in_place(Nonce::from(&self.nonce), aad, &mut body).map_err(|_| self.broken())?;
        body.truncate(whole);
        Ok(body.into())
    }

    pub(crate) fn broken(&self) -> SealError {
        SealError::Broken { id: self.id.to_owned() }
    }
}

/// The key of these bytes; `None` if they are not as many as a key has.
pub(crate) fn usable(raw: &[u8]) -> Option<Arc<RandomizedNonceKey>> {
    RandomizedNonceKey::new(&AES_256_GCM, raw).ok().map(Arc::new)
}

fn push(out: &mut Vec<u8>, field: &[u8]) -> Result<(), SealError> {
    out.push(u8::try_from(field.len()).map_err(|_| SealError::Refused)?);
    out.extend_from_slice(field);
    Ok(())
}

/// What binds a data key.
pub(crate) fn key_binding(id: &str, tenant: &str) -> Result<Vec<u8>, SealError> {
    let mut binding = b"dormouse data key\0\x01".to_vec();
    push(&mut binding, id.as_bytes())?;
    push(&mut binding, tenant.as_bytes())?;
    Ok(binding)
}

/// What binds an object: `clear` is what stands before its nonce.
fn object_binding(mut clear: Vec<u8>, tenant: &str) -> Result<Vec<u8>, SealError> {
    push(&mut clear, tenant.as_bytes())?;
    Ok(clear)
}
