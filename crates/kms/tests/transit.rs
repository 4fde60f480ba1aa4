//! Data keys under a key of a real Transit engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use bytes::Bytes;
use dormouse_kms::{KeyLocation, KmsArgs};
use dormouse_seal::{Name, Seal, SealError};
use dormouse_service::ca::Ca;
use dormouse_testkit::transit::{Certificate, Transit};
use serde_json::json;

const NAME: Name<'static> = Name { session: "u-1", object: "1-2-ab", engine: "e1" };
/// How long a service that failed may be left alone.
const ASKED_AGAIN: Duration = Duration::from_secs(10);

fn args(kms: &Transit) -> KmsArgs {
    KmsArgs {
        kms_url: Some(kms.url()),
        kms_key: Some("sessions".to_owned()),
        kms_mount: "transit".to_owned(),
        kms_credentials_dir: kms.credentials(),
    }
}

fn seal_with(kms: &Transit, key: &str) -> Seal {
    dormouse_kms::seal("team", None, &KmsArgs { kms_key: Some(key.to_owned()), ..args(kms) }).unwrap()
}

/// As a process that has just started.
fn seal(kms: &Transit) -> Seal {
    seal_with(kms, "sessions")
}

async fn write(seal: &Seal) -> Result<Bytes, SealError> {
    Ok(seal.writer().await?.unwrap().seal(NAME, b"heap").unwrap())
}

async fn read(seal: &Seal, object: &Bytes) -> Result<Bytes, SealError> {
    seal.open(object.clone()).await.map(|opened| opened.bytes)
}

/// Without being made anew.
async fn opens_soon(seal: &Seal, object: &Bytes) {
    let opens = async {
        while read(seal, object).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(ASKED_AGAIN, opens).await.expect("it is asked again");
}

async fn refusal(seal: &Seal, object: &Bytes) -> String {
    let error = read(seal, object).await.unwrap_err();
    assert!(error.wants_keys(), "{error}");
    error.to_string()
}

#[tokio::test]
async fn what_one_process_sealed_another_one_opens_with_one_question() {
    let ca = Ca::generate().unwrap();
    let leaf = ca.issue(&["127.0.0.1".to_owned()], Duration::from_secs(3_600)).unwrap();
    let kms = Transit::start_tls("sessions", &Certificate { ca: leaf.ca, cert: leaf.cert, key: leaf.key }).await.unwrap();
    let writer = seal(&kms);
    let mut objects = Vec::new();
    for _ in 0..20 {
        objects.push(write(&writer).await.unwrap());
    }
    let reader = seal(&kms);
    for object in &objects {
        assert_eq!(read(&reader, object).await.unwrap(), b"heap".as_slice());
    }
    assert_eq!(kms.asked().await.unwrap(), (1, 1));
    // Whose certificate is not believed is not asked: neither token nor key leaves.
    std::fs::write(kms.credentials().join("ca.crt"), Ca::generate().unwrap().cert_pem()).unwrap();
    assert!(refusal(&seal(&kms), &objects[0]).await.contains("it does not answer"));
    assert_eq!(kms.asked().await.unwrap(), (1, 1));
}

#[tokio::test]
async fn the_services_own_rotation_is_taken_up_and_old_versions_still_open() {
    let kms = Transit::start("sessions").await.unwrap();
    let first = write(&seal(&kms)).await.unwrap();
    kms.ask("keys/sessions/rotate", &json!({})).await.unwrap();
    let second = write(&seal(&kms)).await.unwrap();
    let version = |object: &Bytes| object.windows(9).find_map(|at| at.starts_with(b"vault:v").then(|| at[7]));
    assert_eq!((version(&first), version(&second)), (Some(b'1'), Some(b'2')));
    for object in [&first, &second] {
        assert_eq!(read(&seal(&kms), object).await.unwrap(), b"heap".as_slice());
    }
    kms.ask("keys/sessions/config", &json!({ "min_decryption_version": 2 })).await.unwrap();
    let told = refusal(&seal(&kms), &first).await;
    assert!(told.contains("transit/sessions") && told.contains("too old"), "what the service's owner retired is told as that: {told}");
    assert_eq!(read(&seal(&kms), &second).await.unwrap(), b"heap".as_slice());
}

#[tokio::test]
async fn a_service_that_is_down_is_named_and_asked_again() {
    let mut kms = Transit::start("sessions").await.unwrap();
    let object = write(&seal(&kms)).await.unwrap();
    let known = seal(&kms);
    read(&known, &object).await.unwrap();
    let other = seal(&kms);
    kms.kill();
    assert_eq!(read(&known, &object).await.unwrap(), b"heap".as_slice(), "what was decrypted once");
    let told = refusal(&other, &object).await;
    assert!(told.contains(&kms.url()) && told.contains("nothing is lost"), "{told}");
    assert!(write(&other).await.is_err());
    kms.restart().await.unwrap();
    opens_soon(&other, &object).await;
    assert!(write(&other).await.is_ok());
}

#[tokio::test]
async fn a_refusal_says_what_to_write_and_is_no_damage() {
    let kms = Transit::start("sessions").await.unwrap();
    let object = write(&seal(&kms)).await.unwrap();
    kms.write_credentials("expired").unwrap();
    let mended = seal(&kms);
    let told = refusal(&mended, &object).await;
    assert!(told.contains("403") && told.contains("`update` of transit/encrypt/sessions"), "{told}");
    std::fs::remove_file(kms.credentials().join("token")).unwrap();
    assert!(refusal(&seal(&kms), &object).await.contains("`token` is missing"));
    kms.mend_credentials().unwrap();
    opens_soon(&mended, &object).await;
    // A key that is not there is not made by whoever encrypts with it.
    assert!(write(&seal_with(&kms, "absent")).await.unwrap_err().to_string().contains("403"));
    let elsewhere = KmsArgs { kms_mount: "kv".to_owned(), ..args(&kms) };
    let elsewhere = dormouse_kms::seal("team", None, &elsewhere).unwrap();
    assert!(write(&elsewhere).await.unwrap_err().to_string().contains("Is a Transit engine mounted at kv?"));
}

#[tokio::test]
async fn what_was_changed_or_is_another_keys_is_damage_and_not_a_missing_key() {
    let kms = Transit::start("sessions").await.unwrap();
    let object = write(&seal(&kms)).await.unwrap();
    let at = object.windows(9).position(|window| window.starts_with(b"vault:v1:")).unwrap();
    for offset in [0, 7, 9, 40] {
        let mut changed = object.to_vec();
        changed[at + offset] ^= 1;
        let error = read(&seal(&kms), &changed.into()).await.unwrap_err();
        assert!(matches!(error, SealError::Broken { .. }), "{offset}: {error}");
    }
    let other_tenant = dormouse_kms::seal("other", None, &args(&kms)).unwrap();
    assert!(matches!(read(&other_tenant, &object).await, Err(SealError::Broken { .. })));
    // Another key under the same name: as with a key of a Secret.
    let another = Transit::start("sessions").await.unwrap();
    assert!(matches!(read(&seal(&another), &object).await, Err(SealError::Broken { .. })));
}

#[tokio::test]
async fn a_key_whose_ciphertexts_do_not_fit_is_refused_by_name() {
    let kms = Transit::start("sessions").await.unwrap();
    kms.ask("keys/rsa", &json!({ "type": "rsa-4096" })).await.unwrap();
    let error = write(&seal_with(&kms, "rsa")).await.unwrap_err();
    assert!(error.wants_keys() && error.to_string().contains("transit/rsa"), "{error}");
    assert!(KeyLocation::new("http://vault.example", "transit", "sessions").is_err(), "and no key travels in clear");
}
