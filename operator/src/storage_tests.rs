use dormouse_crds::{NameRef, pool::WebIdentity};

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
        web_identity: None,
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
        let named = Storage { credentials_secret_ref: Some(NameRef { name: "s3".to_owned() }), ..other.clone() };
        let target = target(Some(&named), &own()).unwrap();
        assert_eq!((target.access, target.shared), (Access::Copy("s3".to_owned()), false));
        let trusting = super::target(Some(&Storage { web_identity: Some(identity()), ..other }), &own()).unwrap();
        assert!(matches!(trusting.access, Access::Account(_)) && !trusting.shared, "{:?}", trusting.access);
    }
}

fn identity() -> WebIdentity {
    WebIdentity { role_arn: Some("arn:aws:iam::1:role/theirs".to_owned()), audience: "sts".to_owned(), sts_endpoint: None }
}

#[test]
fn a_pools_own_role_is_asked_for_where_the_pool_says_and_never_where_or_as_the_operator_is() {
    let own = StorageArgs {
        storage_role_arn: Some("arn:aws:iam::1:role/operator".to_owned()),
        sts_endpoint: Some("https://sts.operator.example".to_owned()),
        ..own()
    };
    let role = |storage: Storage| match target(Some(&storage), &own).unwrap().access {
        Access::Account(account) => account.role,
        other => panic!("{other:?}"),
    };
    let theirs = Storage { bucket: "theirs".to_owned(), region: "eu-central-1".to_owned(), web_identity: Some(identity()), ..spec() };
    let at = |endpoint: &str, sts: Option<&str>| Storage {
        endpoint: endpoint.to_owned(),
        web_identity: Some(WebIdentity { sts_endpoint: sts.map(str::to_owned), ..identity() }),
        ..theirs.clone()
    };
    for (store, sts, asked) in [
        ("http://minio.team.svc:9000", None, "http://minio.team.svc:9000"),
        ("https://s3.eu-central-1.amazonaws.com", None, "https://sts.eu-central-1.amazonaws.com"),
        ("https://s3.example", Some("https://sts.example"), "https://sts.example"),
    ] {
        let role = role(at(store, sts));
        assert_eq!((role.endpoint.as_str(), role.region.as_str()), (asked, "eu-central-1"));
        assert_eq!(role.arn.as_deref(), Some("arn:aws:iam::1:role/theirs"));
    }
    let written_out = role(Storage { web_identity: Some(WebIdentity { role_arn: None, ..identity() }), ..spec() });
    assert_eq!((written_out.endpoint.as_str(), written_out.arn), ("http://minio:9000", None), "the operator's own bucket, too");
}

#[test]
fn two_sources_of_credentials_or_a_token_for_a_metadata_service_are_refused() {
    let both = Storage { credentials_secret_ref: Some(NameRef { name: "s3".to_owned() }), web_identity: Some(identity()), ..spec() };
    let refusal = target(Some(&both), &own()).unwrap_err();
    assert_eq!((refusal.reason, refusal.message.contains("webIdentity")), (PoolReason::InvalidSpec, true), "{}", refusal.message);
    for sts in
        ["http://169.254.169.254/", "http://[fd00:ec2::254]", "https://metadata.google.internal", "https://user:password@sts.example", "x"]
    {
        let identity = WebIdentity { sts_endpoint: Some(sts.to_owned()), ..identity() };
        let refusal = target(Some(&Storage { web_identity: Some(identity), ..spec() }), &own()).unwrap_err();
        assert_eq!(refusal.reason, PoolReason::InvalidSpec);
        assert!(refusal.message.contains("webIdentity.stsEndpoint"), "{sts}: {}", refusal.message);
    }
    let nobody = Storage { web_identity: Some(WebIdentity { audience: String::new(), ..identity() }), ..spec() };
    assert!(
        target(Some(&nobody), &own()).unwrap_err().message.contains("audience"),
        "an API server takes a token for nobody in particular"
    );
}

#[test]
fn what_is_kept_for_deletions_is_of_one_namespace_one_place_and_one_role() {
    let named = |change: &dyn Fn(&mut Storage)| {
        let mut storage = Storage { web_identity: Some(identity()), ..spec() };
        change(&mut storage);
        target(Some(&storage), &own()).unwrap().kept_as("team").unwrap()
    };
    let role = |arn: &str| Some(WebIdentity { role_arn: Some(arn.to_owned()), ..identity() });
    let names = [
        named(&|_| {}),
        named(&|storage| storage.bucket = "other".to_owned()),
        named(&|storage| storage.prefix = "q/".to_owned()),
        named(&|storage| storage.endpoint = "http://other".to_owned()),
        named(&|storage| storage.web_identity = role("arn:aws:iam::1:role/other")),
        named(&|storage| (storage.web_identity, storage.credentials_secret_ref) = (None, Some(NameRef { name: ACCOUNT.to_owned() }))),
        target(Some(&Storage { web_identity: Some(identity()), ..spec() }), &own()).unwrap().kept_as("other").unwrap(),
    ];
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{names:?}");
    assert_eq!(target(None, &own()).unwrap().kept_as("team"), None);
}

#[test]
fn half_a_secret_is_none() {
    let secret = Secret { data: Some([("accessKeyId".to_owned(), k8s_openapi::ByteString(b"a".to_vec()))].into()), ..Secret::default() };
    assert_eq!(credentials_of(&secret), None);
}

#[test]
fn of_pools_that_go_at_once_the_last_one_sees_all() {
    let stores = Stores::new("system".to_owned());
    let there = HashSet::from(["a".to_owned(), "b".to_owned(), "c".to_owned()]);
    assert_eq!(stores.note_going(Some("a".to_owned()), &there), HashSet::from(["a".to_owned()]));
    assert_eq!(stores.note_going(Some("b".to_owned()), &there), HashSet::from(["a".to_owned(), "b".to_owned()]));
    // One that is gone is remembered no longer.
    assert_eq!(stores.note_going(None, &HashSet::from(["b".to_owned()])), HashSet::from(["b".to_owned()]));
}
