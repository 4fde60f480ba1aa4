//! Sealing and opening for one tenant.

use std::sync::{Arc, Mutex, PoisonError, atomic::Ordering};

use bytes::Bytes;

use crate::{
    envelope::{DataKey, Name, Parts, SealError, is_sealed},
    keys::{Keyring, Keys},
};

/// Objects after which a data key is replaced. Nonces are 96 random bits, and a key that is used at most 2^32 times keeps the chance of an equal
/// pair below 2^-32 (NIST SP 800-38D, 8.3); this stays 16 times below that, which is more than what writers that have the key may still add. A
/// key of the Secret encrypts data keys only: one a process and rotation, and one more each time that this number is reached.
pub const DATA_KEY_OBJECTS_MAX: u64 = 1 << 28;

/// Seals what a tenant stores, and opens it. Without keys nothing is sealed, and what is sealed is refused by name.
#[derive(Default)]
pub struct Seal {
    tenant: String,
    keys: Option<Keys>,
    data_key: Mutex<Option<InUse>>,
}

struct InUse {
    key: Arc<DataKey>,
    /// The keys that it is from: others mean another data key.
    keyring: Arc<Keyring>,
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
        f.debug_struct("Seal").field("tenant", &self.tenant).field("keys", &self.keys).finish_non_exhaustive()
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
        Self { tenant: tenant.into(), keys: Some(keys), data_key: Mutex::default() }
    }

    /// Who seals new objects. `None`: they are stored as they are.
    ///
    /// # Errors
    /// There should be keys, and they cannot be used.
    pub fn writer(&self) -> Result<Option<Writer>, SealError> {
        Ok(self.data_key()?.map(|key| Writer { key, tenant: self.tenant.clone() }))
    }

    /// The object that stored `bytes` are.
    ///
    /// # Errors
    /// See [`SealError`].
    pub fn open(&self, bytes: Bytes) -> Result<Opened, SealError> {
        if !is_sealed(&bytes) {
            return Ok(Opened { bytes, sealed: None });
        }
        let parts = Parts::of(&bytes)?;
        let id = || parts.id.to_owned();
        let keys = self.keys.as_ref().ok_or_else(|| SealError::NoKeys { id: id() })?;
        let mut keyring = keys.now()?;
        if keyring.get(parts.id).is_none() {
            keyring = keys.again()?;
        }
        let key = keyring.get(parts.id).ok_or_else(|| SealError::MissingKey { id: id() })?;
        let Name { session, object, engine } = parts.name;
        let sealed = Sealed { session: session.to_owned(), object: object.to_owned(), engine: engine.to_owned() };
        Ok(Opened { bytes: parts.open(key, &self.tenant)?, sealed: Some(sealed) })
    }

    /// The data key for new objects, if they are sealed.
    fn data_key(&self) -> Result<Option<Arc<DataKey>>, SealError> {
        let Some(keys) = &self.keys else { return Ok(None) };
        let keyring = keys.now()?;
        let Some((id, key)) = keyring.current() else { return Ok(None) };
        let mut data_key = self.data_key.lock().unwrap_or_else(PoisonError::into_inner);
        let good = |it: &&InUse| Arc::ptr_eq(&it.keyring, &keyring) && it.key.objects.load(Ordering::Relaxed) < DATA_KEY_OBJECTS_MAX;
        if let Some(known) = data_key.as_ref().filter(good) {
            return Ok(Some(Arc::clone(&known.key)));
        }
        let key = Arc::new(DataKey::new(id, key, &self.tenant)?);
        *data_key = Some(InUse { key: Arc::clone(&key), keyring: Arc::clone(&keyring) });
        Ok(Some(key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAME: Name<'static> = Name { session: "u-1", object: "1-2-ab", engine: "e1" };

    fn keyring(entries: &[(&str, u8)], current: &str) -> Keyring {
        let keys: Vec<(&str, [u8; 32])> = entries.iter().map(|(id, fill)| (*id, [*fill | 0x80; 32])).collect();
        let entries = keys.iter().map(|(id, key)| (*id, &key[..]));
        Keyring::parse(entries.chain([("current", current.as_bytes())])).unwrap()
    }

    fn seal(entries: &[(&str, u8)], current: &str) -> Seal {
        Seal::new("team", Keys::fixed(keyring(entries, current)))
    }

    fn write(seal: &Seal, name: Name<'_>) -> Result<Bytes, SealError> {
        seal.writer().unwrap().unwrap().seal(name, &plain())
    }

    fn plain() -> Bytes {
        Bytes::from_static(b"let canary = 'a heap'")
    }

    #[test]
    fn what_was_sealed_opens_as_what_it_was() {
        let seal = seal(&[("k1", 1)], "k1");
        let sealed = write(&seal, NAME).unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"canary"));
        let opened = seal.open(sealed.clone()).unwrap();
        assert_eq!(opened.bytes, plain());
        assert_eq!(opened.sealed, Some(Sealed { session: "u-1".into(), object: "1-2-ab".into(), engine: "e1".into() }));
        assert_ne!(write(&seal, NAME).unwrap(), sealed, "a nonce is used once");
        let restarted = super::tests::seal(&[("k1", 1)], "k1");
        assert_eq!(restarted.open(sealed).unwrap().bytes, plain(), "nothing but the key is needed");
        let empty = seal.writer().unwrap().unwrap().seal(NAME, &[]).unwrap();
        assert_eq!(seal.open(empty).unwrap().bytes, Bytes::new());
    }

    #[test]
    fn keys_rotate_and_old_objects_stay_readable() {
        let old = write(&seal(&[("k1", 1)], "k1"), NAME).unwrap();
        let both = seal(&[("k1", 1), ("k2", 2)], "k2");
        assert_eq!(both.open(old.clone()).unwrap().bytes, plain());
        let new = write(&both, NAME).unwrap();
        let only_new = seal(&[("k2", 2)], "k2");
        assert_eq!(only_new.open(new).unwrap().bytes, plain());
        let missing = only_new.open(old.clone()).unwrap_err();
        assert!(missing.wants_keys() && missing.to_string().contains("`k1`"), "{missing}");
        let none = Seal::none().open(old.clone()).unwrap_err();
        assert!(none.wants_keys() && none.to_string().contains("`k1`"), "{none}");
        let other = seal(&[("k1", 9)], "k1").open(old).unwrap_err();
        assert!(matches!(&other, SealError::Broken { id } if id == "k1"), "another key under the same id: {other}");
    }

    #[test]
    fn without_a_current_key_nothing_new_is_sealed_and_everything_opens() {
        let old = write(&seal(&[("k1", 1)], "k1"), NAME).unwrap();
        let leaving = seal(&[("k1", 1)], "none");
        assert!(leaving.writer().unwrap().is_none() && Seal::none().writer().unwrap().is_none());
        assert_eq!(leaving.open(old).unwrap().bytes, plain());
        assert_eq!(Seal::none().open(plain()).unwrap(), Opened { bytes: plain(), sealed: None });
    }

    #[test]
    fn a_changed_keyring_gets_a_data_key_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("k1"), [0x91; 32]).unwrap();
        std::fs::write(folder.path().join("current"), "k1").unwrap();
        let seal = Seal::new("team", Keys::folder(folder.path()));
        let first = seal.data_key().unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &seal.data_key().unwrap().unwrap()));
        first.objects.store(DATA_KEY_OBJECTS_MAX, Ordering::Relaxed);
        assert!(!Arc::ptr_eq(&first, &seal.data_key().unwrap().unwrap()), "and after so many objects");
    }

    #[test]
    fn another_tenant_opens_nothing_even_with_the_same_key() {
        let sealed = write(&seal(&[("k1", 1)], "k1"), NAME).unwrap();
        let other = Seal::new("other", Keys::fixed(keyring(&[("k1", 1)], "k1")));
        assert!(matches!(other.open(sealed), Err(SealError::Broken { .. })));
    }

    #[test]
    fn names_beyond_a_field_are_refused() {
        let seal = seal(&[("k1", 1)], "k1");
        let fits = "x".repeat(crate::envelope::FIELD_BYTES_MAX);
        assert!(write(&seal, Name { object: &fits, ..NAME }).is_ok());
        let long = format!("{fits}x");
        assert!(matches!(write(&seal, Name { object: &long, ..NAME }), Err(SealError::Refused)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn every_flip_cut_and_addition_is_refused(at in any::<prop::sample::Index>(), bit in 0..8u8, extra in 1..40usize) {
            let seal = seal(&[("k1", 1), ("k3", 3)], "k1");
            let sealed = write(&seal, NAME).unwrap();
            let mut flipped = sealed.to_vec();
            flipped[at.index(sealed.len())] ^= 1 << bit;
            // A flip in the magic makes it an object that was never sealed: whoever expects a sealed one must look.
            prop_assert!(seal.open(flipped.into()).map_or(true, |opened| opened.sealed.is_none() && at.index(sealed.len()) < 7));
            let cut = at.index(sealed.len());
            prop_assert!(seal.open(sealed.slice(..cut)).map_or(true, |opened| opened.sealed.is_none() && cut < 7));
            let mut longer = sealed.to_vec();
            longer.extend(std::iter::repeat_n(0, extra));
            prop_assert!(seal.open(longer.into()).is_err());
        }

        #[test]
        fn noise_after_the_magic_is_refused(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
            let seal = seal(&[("k1", 1)], "k1");
            prop_assert!(seal.open([b"DMSEAL\0\x01".as_slice(), &noise].concat().into()).is_err());
        }

        #[test]
        fn a_header_of_another_object_opens_nothing(swap in 0..4usize) {
            let seal = seal(&[("k1", 1)], "k1");
            let names = [Name { session: "u-2", ..NAME }, Name { object: "1-3-ab", ..NAME }, Name { engine: "e2", ..NAME }, NAME];
            let (a, b) = (write(&seal, NAME).unwrap(), write(&seal, names[swap]).unwrap());
            let header = |bytes: &Bytes| 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
            let mixed = [&a[..header(&a)], &b[header(&b)..]].concat();
            prop_assert_eq!(seal.open(mixed.into()).is_ok(), names[swap] == NAME);
        }
    }
}
