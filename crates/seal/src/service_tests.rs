//! Data keys of a key service: how often it is asked, and what is left when it does not answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tokio::task::JoinSet;

use super::*;
use crate::{
    KeyError, Keyring, Keys, Seal,
    envelope::Name,
    seal::{DATA_KEY_AGE_MAX, DATA_KEY_OBJECTS_MAX},
};

const NAME: Name<'static> = Name { session: "u-1", object: "1-2-ab", engine: "e1" };

/// Adds what it binds to the key it is given, in clear: what it does with the key is not this crate's.
#[derive(Debug, Default)]
struct Fake {
    name: &'static str,
    padding: usize,
    away: AtomicBool,
    encrypted: AtomicU64,
    decrypted: AtomicU64,
}

impl Fake {
    fn named(name: &'static str) -> Arc<Self> {
        Arc::new(Self { name, ..Self::default() })
    }

    fn asked(&self) -> (u64, u64) {
        (self.encrypted.load(Ordering::SeqCst), self.decrypted.load(Ordering::SeqCst))
    }

    async fn here(&self) -> Result<(), KeyServiceError> {
        tokio::task::yield_now().await;
        let away = self.away.load(Ordering::SeqCst);
        let reason = "no answer".to_owned();
        if away { Err(KeyServiceError::Unavailable { service: self.name.to_owned(), reason }) } else { Ok(()) }
    }
}

#[async_trait]
impl KeyService for Fake {
    fn name(&self) -> &str {
        self.name
    }

    async fn encrypt(&self, data_key: &[u8; KEY_BYTES], binding: &[u8]) -> Result<Vec<u8>, KeyServiceError> {
        self.encrypted.fetch_add(1, Ordering::SeqCst);
        self.here().await?;
        Ok([binding, data_key, &vec![0; self.padding]].concat())
    }

    async fn decrypt(&self, wrapped: &[u8], binding: &[u8]) -> Result<Vec<u8>, KeyServiceError> {
        self.decrypted.fetch_add(1, Ordering::SeqCst);
        self.here().await?;
        wrapped.strip_prefix(binding).map(<[u8]>::to_vec).ok_or(KeyServiceError::NotIts)
    }
}

fn with(fake: &Arc<Fake>) -> Seal {
    Seal::with_service("team", None, Arc::<Fake>::clone(fake))
}

fn beside(fake: &Arc<Fake>, current: &str) -> Seal {
    Seal::with_service("team", Some(secret(current)), Arc::<Fake>::clone(fake))
}

fn secret(current: &str) -> Keys {
    let entries: [(&str, &[u8]); 2] = [("k1", &[0xa1; 32]), ("current", current.as_bytes())];
    Keys::fixed(Keyring::parse(entries).unwrap())
}

async fn write(seal: &Seal) -> Result<Bytes, SealError> {
    seal.writer().await.map(|writer| writer.unwrap().seal(NAME, b"heap").unwrap())
}

async fn opens(seal: &Seal, object: &Bytes) -> bool {
    let opened = seal.open(object.clone()).await.unwrap();
    opened.bytes == b"heap".as_slice() && opened.sealed.is_some()
}

#[tokio::test]
async fn it_is_asked_once_for_a_data_key_and_not_once_for_an_object() {
    let fake = Fake::named("transit/sessions");
    let seal = with(&fake);
    let mut objects = Vec::new();
    for _ in 0..100 {
        objects.push(write(&seal).await.unwrap());
    }
    for object in &objects {
        assert!(opens(&seal, object).await);
    }
    assert_eq!(fake.asked(), (1, 0), "what a process made it opens by itself");
    let restarted = Arc::new(with(&fake));
    let mut opening = JoinSet::new();
    for object in objects {
        let seal = Arc::clone(&restarted);
        opening.spawn(async move { opens(&seal, &object).await });
    }
    assert!(opening.join_all().await.into_iter().all(|opened| opened));
    assert_eq!(fake.asked(), (1, 1), "a hundred that wait for one data key ask once");
}

#[tokio::test]
async fn while_it_is_away_known_keys_go_on_and_others_say_who_is_missing() {
    let fake = Fake::named("transit/sessions");
    let (seal, earlier) = (with(&fake), with(&fake));
    let (mine, old) = (write(&seal).await.unwrap(), write(&earlier).await.unwrap());
    fake.away.store(true, Ordering::SeqCst);
    assert!(opens(&seal, &mine).await && opens(&seal, &write(&seal).await.unwrap()).await);
    let error = seal.open(old.clone()).await.unwrap_err();
    assert!(error.wants_keys() && error.to_string().contains("transit/sessions: no answer"), "{error}");
    let started_now = with(&fake);
    assert!(write(&started_now).await.unwrap_err().wants_keys());
    let asked = fake.asked();
    for _ in 0..50 {
        assert!(seal.open(old.clone()).await.is_err() && write(&started_now).await.is_err());
    }
    assert_eq!(fake.asked(), asked, "who comes right after a failure is told of it");
    fake.away.store(false, Ordering::SeqCst);
    for seal in [&seal, &started_now] {
        forget_failure(seal);
        assert!(opens(seal, &old).await, "nothing is started anew");
    }
    assert!(write(&started_now).await.is_ok());
}

fn forget_failure(seal: &Seal) {
    *lock(&seal.service().failed) = None;
}

#[tokio::test]
async fn a_data_key_is_replaced_when_it_is_due_and_serves_while_that_fails() {
    let fake = Fake::named("transit/sessions");
    let seal = with(&fake);
    let first = seal.data_key().await.unwrap().unwrap();
    let age = seal.in_use().as_ref().unwrap().due.unwrap().duration_since(Instant::now());
    assert!(age <= DATA_KEY_AGE_MAX && age > DATA_KEY_AGE_MAX / 2, "{age:?}");
    let make_due = || seal.in_use().as_mut().unwrap().due = Some(Instant::now());
    make_due();
    fake.away.store(true, Ordering::SeqCst);
    assert!(Arc::ptr_eq(&first, &seal.data_key().await.unwrap().unwrap()));
    assert!(Arc::ptr_eq(&first, &seal.data_key().await.unwrap().unwrap()));
    assert_eq!(fake.asked(), (2, 0), "not at each commit");
    fake.away.store(false, Ordering::SeqCst);
    forget_failure(&seal);
    make_due();
    let second = seal.data_key().await.unwrap().unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    // One that has sealed all that it may does not serve, whoever is away.
    second.objects.store(DATA_KEY_OBJECTS_MAX, Ordering::Relaxed);
    fake.away.store(true, Ordering::SeqCst);
    assert!(matches!(seal.data_key().await, Err(SealError::Service(_))));
}

#[tokio::test]
async fn secret_and_service_open_each_others_past() {
    let fake = Fake::named("transit/sessions");
    let before = Seal::new("team", secret("k1"));
    let of_secret = write(&before).await.unwrap();
    let moved = beside(&fake, "kms");
    let of_service = write(&moved).await.unwrap();
    assert_eq!(fake.asked(), (1, 0), "`current: kms` means the service");
    let back = beside(&fake, "k1");
    let of_secret_again = write(&back).await.unwrap();
    assert_eq!(fake.asked(), (1, 0), "and another one does not");
    for seal in [&moved, &back, &beside(&fake, "none")] {
        assert!(opens(seal, &of_secret).await && opens(seal, &of_service).await && opens(seal, &of_secret_again).await);
    }
    assert!(beside(&fake, "none").writer().await.unwrap().is_none());
    for (seal, object, id) in [(with(&fake), &of_secret, "`k1`"), (before, &of_service, "`kms:transit/sessions`")] {
        let error = seal.open(object.clone()).await.unwrap_err();
        assert!(matches!(error, SealError::MissingKey { .. }) && error.to_string().contains(id), "{error}");
    }
    let nobody = Seal::new("team", secret("kms")).writer().await.unwrap_err();
    assert!(matches!(nobody, SealError::Keys(KeyError::NoService)), "{nobody}");
}

#[tokio::test]
async fn an_object_does_not_say_which_key_is_asked_for() {
    let (own, theirs) = (Fake::named("transit/sessions"), Fake::named("transit/public"));
    let forged = write(&with(&theirs)).await.unwrap();
    let error = with(&own).open(forged).await.unwrap_err();
    assert!(matches!(&error, SealError::MissingKey { id } if id == "kms:transit/public"), "{error}");
    assert_eq!(own.asked(), (0, 0));
}

#[tokio::test]
async fn another_tenant_opens_nothing_with_the_same_service() {
    let fake = Fake::named("transit/sessions");
    let object = write(&with(&fake)).await.unwrap();
    let other = Seal::with_service("other", None, Arc::<Fake>::clone(&fake));
    let error = other.open(object).await.unwrap_err();
    assert!(matches!(&error, SealError::Broken { id } if id == "kms:transit/sessions"), "{error}");
}

#[tokio::test]
async fn what_does_not_fit_the_header_is_refused() {
    let binding = key_binding("kms:rsa", "team").unwrap().len();
    let fits = Arc::new(Fake { name: "rsa", padding: FIELD_BYTES_MAX - binding - KEY_BYTES, ..Fake::default() });
    assert!(write(&with(&fits)).await.is_ok());
    let over = Arc::new(Fake { name: "rsa", padding: FIELD_BYTES_MAX - binding - KEY_BYTES + 1, ..Fake::default() });
    let error = write(&with(&over)).await.unwrap_err();
    assert!(error.to_string().contains("256 bytes"), "{error}");
}

#[test]
fn decrypted_keys_are_bounded_and_the_last_used_ones_stay() {
    let decrypted = Decrypted::default();
    let first = decrypted.cell(b"first");
    for number in 1..DECRYPTED_KEYS_MAX {
        decrypted.cell(&number.to_le_bytes());
    }
    assert!(Arc::ptr_eq(&first, &decrypted.cell(b"first")));
    decrypted.cell(b"one more");
    assert_eq!(lock(&decrypted.0).len(), DECRYPTED_KEYS_MAX);
    assert!(Arc::ptr_eq(&first, &decrypted.cell(b"first")));
    assert!(!lock(&decrypted.0).contains_key(1_usize.to_le_bytes().as_slice()), "the one that was used longest ago");
}
