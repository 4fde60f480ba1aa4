use dormouse_crds::NameRef;

use super::*;

fn own() -> StorageArgs {
    StorageArgs {
        s3_endpoint: Some("http://minio:9000".to_owned()),
        s3_bucket: Some("dormouse".to_owned()),
        s3_region: "us-east-1".to_owned(),
        s3_prefix: "p/".to_owned(),
        ..StorageArgs::default()
    }
}

fn spec() -> Storage {
    Storage {
        bucket: "dormouse".to_owned(),
        endpoint: "http://minio:9000".to_owned(),
        region: "us-east-1".to_owned(),
        prefix: "p/".to_owned(),
        credentials_secret_ref: None,
    }
}

#[test]
fn a_pool_without_storage_gets_the_operators_with_minted_credentials() {
    let target = target(None, &own()).unwrap();
    assert_eq!((target.bucket.as_str(), target.prefix.as_str(), target.shared, target.access), ("dormouse", "p/", true, Access::Mint));
    assert_eq!(super::target(None, &StorageArgs::default()).unwrap_err().reason, PoolReason::StorageNotConfigured);
    let fixed = StorageArgs { storage_credentials: CredentialsSource::Static, ..own() };
    assert_eq!(super::target(None, &fixed).unwrap_err().reason, PoolReason::StorageCredentialsInvalid);
}

#[test]
fn nothing_is_minted_for_a_store_that_a_tenant_names() {
    assert_eq!(target(Some(&spec()), &own()).unwrap().access, Access::Mint, "the operator's own, written out");
    for other in [
        Storage { bucket: "other-bucket".to_owned(), ..spec() },
        Storage { prefix: "p/t/victim/".to_owned(), ..spec() },
        Storage { endpoint: "http://evil".to_owned(), ..spec() },
    ] {
        let refusal = target(Some(&other), &own()).unwrap_err();
        assert_eq!(refusal.reason, PoolReason::StorageCredentialsInvalid);
        assert!(refusal.message.contains("credentialsSecretRef"), "{}", refusal.message);
        let named = Storage { credentials_secret_ref: Some(NameRef { name: "s3".to_owned() }), ..other };
        let target = target(Some(&named), &own()).unwrap();
        assert_eq!((target.access, target.shared), (Access::Copy("s3".to_owned()), false));
    }
}

#[test]
fn half_a_secret_is_none() {
    let secret = Secret { data: Some([(ACCESS_KEY_ID.to_owned(), ByteString(b"a".to_vec()))].into()), ..Secret::default() };
    assert_eq!(credentials_of(&secret), None);
}
