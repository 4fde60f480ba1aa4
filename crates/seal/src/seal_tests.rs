//! Sealing and opening, with keys of a Secret and with a key service.

use std::future::Future;

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
    wait(seal.writer()).unwrap().unwrap().seal(name, &plain())
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn plain() -> Bytes {
    Bytes::from_static(b"let canary = 'a heap'")
}

#[test]
fn what_was_sealed_opens_as_what_it_was() {
    let seal = seal(&[("k1", 1)], "k1");
    let sealed = write(&seal, NAME).unwrap();
    assert!(!sealed.windows(6).any(|window| window == b"canary"));
    let opened = wait(seal.open(sealed.clone())).unwrap();
    assert_eq!(opened.bytes, plain());
    assert_eq!(opened.sealed, Some(Sealed { session: "u-1".into(), object: "1-2-ab".into(), engine: "e1".into() }));
    assert_ne!(write(&seal, NAME).unwrap(), sealed, "a nonce is used once");
    let restarted = super::tests::seal(&[("k1", 1)], "k1");
    assert_eq!(wait(restarted.open(sealed)).unwrap().bytes, plain(), "nothing but the key is needed");
    let empty = wait(seal.writer()).unwrap().unwrap().seal(NAME, &[]).unwrap();
    assert_eq!(wait(seal.open(empty)).unwrap().bytes, Bytes::new());
}

#[test]
fn keys_rotate_and_old_objects_stay_readable() {
    let old = write(&seal(&[("k1", 1)], "k1"), NAME).unwrap();
    let both = seal(&[("k1", 1), ("k2", 2)], "k2");
    assert_eq!(wait(both.open(old.clone())).unwrap().bytes, plain());
    let new = write(&both, NAME).unwrap();
    let only_new = seal(&[("k2", 2)], "k2");
    assert_eq!(wait(only_new.open(new)).unwrap().bytes, plain());
    let missing = wait(only_new.open(old.clone())).unwrap_err();
    assert!(missing.wants_keys() && missing.to_string().contains("`k1`"), "{missing}");
    let none = wait(Seal::none().open(old.clone())).unwrap_err();
    assert!(none.wants_keys() && none.to_string().contains("`k1`"), "{none}");
    let other = wait(seal(&[("k1", 9)], "k1").open(old)).unwrap_err();
    assert!(matches!(&other, SealError::Broken { id } if id == "k1"), "another key under the same id: {other}");
}

#[test]
fn without_a_current_key_nothing_new_is_sealed_and_everything_opens() {
    let old = write(&seal(&[("k1", 1)], "k1"), NAME).unwrap();
    let leaving = seal(&[("k1", 1)], "none");
    assert!(wait(leaving.writer()).unwrap().is_none() && wait(Seal::none().writer()).unwrap().is_none());
    assert_eq!(wait(leaving.open(old)).unwrap().bytes, plain());
    assert_eq!(wait(Seal::none().open(plain())).unwrap(), Opened { bytes: plain(), sealed: None });
}

#[test]
fn a_changed_keyring_gets_a_data_key_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("k1"), [0x91; 32]).unwrap();
    std::fs::write(folder.path().join("current"), "k1").unwrap();
    let seal = Seal::new("team", Keys::folder(folder.path()));
    let first = wait(seal.data_key()).unwrap().unwrap();
    assert!(Arc::ptr_eq(&first, &wait(seal.data_key()).unwrap().unwrap()));
    first.objects.store(DATA_KEY_OBJECTS_MAX, Ordering::Relaxed);
    assert!(!Arc::ptr_eq(&first, &wait(seal.data_key()).unwrap().unwrap()), "and after so many objects");
}

#[test]
fn another_tenant_opens_nothing_even_with_the_same_key() {
    let sealed = write(&seal(&[("k1", 1)], "k1"), NAME).unwrap();
    let other = Seal::new("other", Keys::fixed(keyring(&[("k1", 1)], "k1")));
    assert!(matches!(wait(other.open(sealed)), Err(SealError::Broken { .. })));
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
        prop_assert!(wait(seal.open(flipped.into())).map_or(true, |opened| opened.sealed.is_none() && at.index(sealed.len()) < 7));
        let cut = at.index(sealed.len());
        prop_assert!(wait(seal.open(sealed.slice(..cut))).map_or(true, |opened| opened.sealed.is_none() && cut < 7));
        let mut longer = sealed.to_vec();
        longer.extend(std::iter::repeat_n(0, extra));
        prop_assert!(wait(seal.open(longer.into())).is_err());
    }

    #[test]
    fn noise_after_the_magic_is_refused(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
        let seal = seal(&[("k1", 1)], "k1");
        prop_assert!(wait(seal.open([b"DMSEAL\0\x01".as_slice(), &noise].concat().into())).is_err());
    }

    #[test]
    fn a_header_of_another_object_opens_nothing(swap in 0..4usize) {
        let seal = seal(&[("k1", 1)], "k1");
        let names = [Name { session: "u-2", ..NAME }, Name { object: "1-3-ab", ..NAME }, Name { engine: "e2", ..NAME }, NAME];
        let (a, b) = (write(&seal, NAME).unwrap(), write(&seal, names[swap]).unwrap());
        let header = |bytes: &Bytes| 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let mixed = [&a[..header(&a)], &b[header(&b)..]].concat();
        prop_assert_eq!(wait(seal.open(mixed.into())).is_ok(), names[swap] == NAME);
    }
}
