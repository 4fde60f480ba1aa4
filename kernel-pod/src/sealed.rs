//! Between the store and whoever reads and writes it: what is stored is encrypted, where the pool has keys.
//!
//! Objects are sealed once, when a commit asks for them to be put, so that a repetition sends identical bytes; and opened where they are read. A
//! copy inside the store stays sealed as what it is a copy of.

use bytes::Bytes;
use dormouse_lifecycle::head::HeadError;
use dormouse_lifecycle::{Head, keys};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_seal::{Name, Opened, Seal, SealError, Writer};

/// Bytes from which on encrypting is worth a thread that may block.
const BLOCKING_BYTES_MIN: usize = 1 << 20;

/// Why an object that was read cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unopened {
    /// The right keys may open it.
    #[error("{key}: {source}")]
    Keys {
        /// Where it lies.
        key: String,
        /// Why.
        source: SealError,
    },
    /// It is damaged, or not what should be there.
    #[error("{key}: {reason}")]
    Damaged {
        /// Where it lies.
        key: String,
        /// Why.
        reason: String,
    },
}

impl From<Unopened> for ApiError {
    fn from(unopened: Unopened) -> Self {
        let code = match unopened {
            Unopened::Keys { .. } => ErrorCode::StorageUnavailable,
            Unopened::Damaged { .. } => ErrorCode::SnapshotCorrupt,
        };
        Self::new(code, unopened.to_string())
    }
}

/// What is wrong with the keys, for clients.
pub(crate) fn keys_error(error: &SealError) -> ApiError {
    ApiError::new(ErrorCode::StorageUnavailable, error.to_string())
}

/// The object that stored `bytes` at `key` are.
pub(crate) async fn open(seal: &Seal, key: &str, bytes: Bytes) -> Result<Opened, Unopened> {
    let key = || key.to_owned();
    let opened = seal.open(bytes).await.map_err(|source| {
        if source.wants_keys() {
            Unopened::Keys { key: key(), source }
        } else {
            Unopened::Damaged { key: key(), reason: source.to_string() }
        }
    })?;
    match &opened.sealed {
        Some(sealed) if !keys::may_lie_at(&key(), &sealed.session, &sealed.object) => {
            let reason = format!("it is {} of session {}, put in another's place", sealed.object, sealed.session);
            Err(Unopened::Damaged { key: key(), reason })
        }
        _ => Ok(opened),
    }
}

/// The head that stored `bytes` at `key` are. `expected`: what was stored last is known to have been encrypted.
pub(crate) async fn head(seal: &Seal, key: &str, bytes: Bytes, expected: bool) -> Result<Result<Head, HeadError>, Unopened> {
    let opened = match open(seal, key, bytes).await {
        Ok(opened) => opened,
        Err(Unopened::Damaged { reason, .. }) => return Ok(Err(HeadError::Unopened(reason))),
        Err(error) => return Err(error),
    };
    let mut head = match Head::decode(&opened.bytes) {
        Ok(head) => head,
        Err(error) => return Ok(Err(error)),
    };
    match opened.sealed {
        // Deletion needs no keys: whoever may write a tombstone may as well delete every object.
        None if head.tombstone => Ok(Ok(head)),
        None if head.sealed || expected => Ok(Err(HeadError::Unsealed)),
        None => Ok(Ok(head)),
        Some(sealed) if sealed.engine != head.engine_digest => {
            Ok(Err(HeadError::Unopened(format!("the head was encrypted as one of engine {}", sealed.engine))))
        }
        Some(_) => {
            head.sealed = true;
            Ok(Ok(head))
        }
    }
}

/// Seals what one commit puts, each object once.
pub(crate) struct Outgoing {
    writer: Option<Writer>,
    engine: String,
    /// The head, as it was given and as it is put: a commit may ask for it to be put again.
    head: Option<(Bytes, Bytes)>,
}

impl Outgoing {
    /// For a commit by `engine`.
    pub(crate) fn new(writer: Option<Writer>, engine: String) -> Self {
        Self { writer, engine, head: None }
    }

    /// What to put at `key` for `bytes`.
    pub(crate) async fn body(&mut self, key: &str, bytes: Bytes) -> Result<Bytes, ApiError> {
        let Some(writer) = self.writer.clone() else { return Ok(bytes) };
        if let Some((given, sealed)) = &self.head
            && given == &bytes
        {
            return Ok(sealed.clone());
        }
        let (is_head, given) = (keys::is_head(key), bytes.clone());
        let (engine, key) = (self.engine.clone(), key.to_owned());
        let seal = move || {
            let (session, object) = keys::owner_and_name(&key).unwrap_or_default();
            writer.seal(Name { session, object, engine: &engine }, &bytes)
        };
        let sealed = if given.len() < BLOCKING_BYTES_MIN {
            seal()
        } else {
            tokio::task::spawn_blocking(seal).await.unwrap_or(Err(SealError::Refused))
        };
        let sealed = sealed.map_err(|error| keys_error(&error))?;
        if is_head {
            self.head = Some((given, sealed.clone()));
        }
        Ok(sealed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dormouse_lifecycle::{Change, Commit, Json, Owned, Reply, SessionKey, Step, TopLayer};
    use dormouse_seal::{Keyring, Keys};

    use super::*;

    fn seal(tenant: &str) -> Seal {
        let entries: [(&str, &[u8]); 2] = [("k1", &[0xa1; 32]), ("current", b"k1")];
        Seal::new(tenant, Keys::fixed(Keyring::parse(entries).unwrap()))
    }

    /// The head and the segment of a first commit, sealed, with their keys.
    async fn stored(seal: &Seal, uid: &str) -> Vec<(String, Bytes)> {
        let session =
            SessionKey { store_prefix: "p/".into(), tenant: "team".into(), pool: "default".into(), uid: uid.into(), name: "n".into() };
        // Equal pages in two sessions would have equal names, and be each other's copies.
        let mut noise = u64::from(uid.as_bytes()[0]);
        let mut page = || {
            Arc::new(std::array::from_fn(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (noise >> 56) as u8
            }))
        };
        let change = Change {
            full: true,
            pages: (0..20).map(|number| (number, page())).collect(),
            memory_pages: 4,
            globals: Json::null(),
            state: Json::null(),
            engine_digest: "e1".into(),
            time: String::new(),
        };
        let mut outgoing = Outgoing::new(seal.writer().await.unwrap(), "e1".into());
        let mut objects = Vec::new();
        let (mut commit, mut step) =
            Commit::begin(&Owned { session, epoch: 1, head: None, etag: None, top_layer: TopLayer::default() }, change, "p");
        loop {
            step = match step {
                Step::PutSegment { key, bytes } | Step::PutHead { key, bytes, .. } => {
                    let sealed = outgoing.body(&key, bytes.clone()).await.unwrap();
                    let again = outgoing.body(&key, bytes).await.unwrap();
                    assert!(!keys::is_head(&key) || again == sealed, "a head that is put again is identical");
                    objects.push((key, sealed));
                    commit.on(Reply::Stored { etag: String::new() })
                }
                Step::Committed(_) => return objects,
                other => panic!("{other:?}"),
            }
        }
    }

    async fn believed(seal: &Seal, key: &str, bytes: Bytes) -> bool {
        if keys::is_head(key) {
            return head(seal, key, bytes, true).await.is_ok_and(|head| head.is_ok());
        }
        // One that is not sealed is believed by nobody: the head names another sha256.
        open(seal, key, bytes).await.is_ok_and(|opened| opened.sealed.is_some())
    }

    #[tokio::test]
    async fn every_flipped_bit_cut_and_addition_is_refused() {
        let seal = seal("team");
        for (key, bytes) in stored(&seal, "u").await {
            assert!(believed(&seal, &key, bytes.clone()).await);
            // Every bit of what is in clear, and of the beginning and end of what is not.
            let whole: Vec<usize> = (0..bytes.len()).filter(|at| *at < 600 || at + 64 > bytes.len()).collect();
            for (at, bit) in whole.iter().flat_map(|at| (0..8).map(move |bit| (*at, bit))) {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 1 << bit;
                assert!(!believed(&seal, &key, damaged.into()).await, "{key}: bit {bit} of byte {at}");
            }
            for cut in whole {
                assert!(!believed(&seal, &key, bytes.slice(..cut)).await, "{key}: cut at {cut}");
            }
            assert!(!believed(&seal, &key, [bytes.as_ref(), b"x"].concat().into()).await);
        }
    }

    #[tokio::test]
    async fn an_object_is_believed_in_its_own_place_only() {
        let seal = seal("team");
        let (one, two) = (stored(&seal, "u").await, stored(&seal, "v").await);
        let all: Vec<&(String, Bytes)> = one.iter().chain(&two).collect();
        for (at, (key, _)) in all.iter().enumerate() {
            for (from, (_, bytes)) in all.iter().enumerate() {
                assert_eq!(believed(&seal, key, bytes.clone()).await, at == from, "{from} at {key}");
            }
            assert!(!believed(&super::tests::seal("other"), key, all[at].1.clone()).await, "another tenant with the same key");
        }
    }
}
