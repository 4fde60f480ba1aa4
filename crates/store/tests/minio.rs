//! The S3 store against a real MinIO.

use std::time::Duration;

use bytes::Bytes;
use dormouse_store::{
    Condition, CredentialSource, Credentials, ListFrom, PutError, S3, S3Options, SnapshotStore, StoreError,
    probe::{StoreUnsafe, conditional_writes},
    rights::{Rights, policy},
    s3::{PART_BYTES, PARTS_FROM_BYTES},
    sts::{Identity, Role, StsError},
};
use dormouse_testkit::minio::Minio;

const HOUR: Duration = Duration::from_secs(3600);

fn text(bytes: &'static str) -> Bytes {
    Bytes::from_static(bytes.as_bytes())
}

#[tokio::test]
async fn conditional_puts_tell_refused_from_done() {
    let minio = Minio::start().await.unwrap();
    let store = minio.create_bucket("sessions").await.unwrap();
    minio.create_bucket("sessions").await.unwrap();

    assert_eq!(store.get("t/a/head").await.unwrap(), None);
    let missing = store.put("t/a/head", text("0"), Condition::Matches("\"00000000000000000000000000000000\"".into())).await;
    assert!(matches!(missing, Err(PutError::Refused)), "{missing:?}");
    let first = store.put("t/a/head", text("1"), Condition::Absent).await.unwrap();
    let again = store.put("t/a/head", text("x"), Condition::Absent).await;
    assert!(matches!(again, Err(PutError::Refused)), "{again:?}");
    let second = store.put("t/a/head", text("2"), Condition::Matches(first.clone())).await.unwrap();
    let stale = store.put("t/a/head", text("y"), Condition::Matches(first)).await;
    assert!(matches!(stale, Err(PutError::Refused)), "{stale:?}");
    let object = store.get("t/a/head").await.unwrap().unwrap();
    assert_eq!((object.bytes, object.etag), (text("2"), second));

    store.put("t/a/1-1-ab", text(""), Condition::None).await.unwrap();
    let mut keys = store.list("t/a/").await.unwrap();
    keys.sort();
    assert_eq!(keys, ["t/a/1-1-ab", "t/a/head"]);
    for key in keys {
        store.delete(&key).await.unwrap();
        store.delete(&key).await.unwrap();
    }
    assert!(store.list("").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_listing_goes_on_where_a_part_has_ended_or_behind_a_key() {
    let minio = Minio::start().await.unwrap();
    let store = minio.create_bucket("sessions").await.unwrap();
    let keys: Vec<String> = (0..1_200).map(|number| format!("t/team/{number:04}")).collect();
    for some in keys.chunks(100) {
        let puts = some.iter().map(|key| store.put(key, text(""), Condition::None));
        assert!(futures::future::join_all(puts).await.iter().all(Result::is_ok));
    }
    store.put("t/team-2/x", text(""), Condition::None).await.unwrap();
    let first = store.list_page("t/", ListFrom::Start, None).await.unwrap();
    // What names a tenant may come before `/`.
    assert_eq!((first.keys.len(), first.keys[0].as_str()), (1_000, "t/team-2/x"));
    let rest = store.list_page("t/", ListFrom::Next(&first.next.unwrap()), None).await.unwrap();
    assert_eq!((rest.keys.as_slice(), rest.next), (&keys[999..], None));
    let behind = store.list_page("t/", ListFrom::After("t/team/0499"), None).await.unwrap();
    assert_eq!((behind.keys.as_slice(), behind.next), (&keys[500..], None));
    let some = store.list_page("t/", ListFrom::After("t/team/0499"), Some(3)).await.unwrap();
    assert_eq!(some.keys, &keys[500..503]);
    let more = store.list_page("t/", ListFrom::Next(&some.next.unwrap()), Some(3)).await.unwrap();
    assert_eq!(more.keys, &keys[503..506]);
    store.put("t/team0/x", text(""), Condition::None).await.unwrap();
    assert_eq!(store.list_page("t/", ListFrom::After("t/team0"), None).await.unwrap().keys, ["t/team0/x"]);
}

#[tokio::test]
async fn an_object_is_copied_by_the_store() {
    let minio = Minio::start().await.unwrap();
    let store = minio.create_bucket("sessions").await.unwrap();
    store.put("t/a/s/parent/1-1-ab", text("pages"), Condition::Absent).await.unwrap();
    assert!(store.copy("t/a/s/parent/1-1-ab", "t/a/s/child/1-1-ab").await.unwrap());
    assert!(store.copy("t/a/s/parent/1-1-ab", "t/a/s/child/1-1-ab").await.unwrap(), "again is the same");
    store.delete("t/a/s/parent/1-1-ab").await.unwrap();
    assert_eq!(store.get("t/a/s/child/1-1-ab").await.unwrap().unwrap().bytes, text("pages"));
    assert!(!store.copy("t/a/s/parent/1-1-ab", "t/a/s/child/1-2-ab").await.unwrap(), "what is gone is not copied");
    let error = S3::new(&minio.options("absent")).copy("k", "l").await.unwrap_err();
    assert!(matches!(error, StoreError::NoBucket { .. }), "{error:?}");
}

#[tokio::test]
async fn a_large_object_goes_in_parts_and_is_one_object_all_the_same() {
    let minio = Minio::start().await.unwrap();
    let store = minio.create_bucket("sessions").await.unwrap();
    for bytes in [PARTS_FROM_BYTES, PARTS_FROM_BYTES + PART_BYTES + 1] {
        let key = format!("t/a/s/u/{bytes}");
        let content: Bytes = (0..bytes).map(|at| (at % 251) as u8).collect::<Vec<_>>().into();
        let etag = store.put(&key, content.clone(), Condition::Absent).await.unwrap();
        let object = store.get(&key).await.unwrap().unwrap();
        assert!(object.etag == etag && object.bytes == content, "{bytes}");
        let again = store.put(&key, content.slice(1..), Condition::Absent).await;
        assert!(matches!(again, Err(PutError::Refused)) || store.get(&key).await.unwrap().unwrap().bytes == content, "{again:?}");
    }
}

#[tokio::test]
async fn the_probe_passes_and_leaves_nothing() {
    let minio = Minio::start().await.unwrap();
    let store = minio.create_bucket("sessions").await.unwrap();
    conditional_writes(&store, "t/a/").await.unwrap();
    assert!(store.list("").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_missing_bucket_and_wrong_credentials_are_named() {
    let minio = Minio::start().await.unwrap();
    let store = S3::new(&minio.options("absent"));
    let error = conditional_writes(&store, "").await.unwrap_err();
    assert!(matches!(&error, StoreUnsafe::Store(StoreError::NoBucket { bucket, .. }) if bucket == "absent"), "{error:?}");
    assert!(!error.is_proof() && error.to_string().contains("create it"), "{error}");
    let error = store.get("k").await.unwrap_err();
    assert!(matches!(error, StoreError::NoBucket { .. }), "{error:?}");

    minio.create_bucket("sessions").await.unwrap();
    for wrong in [Credentials::new("nobody", "wrong-password"), Credentials::new(minio.credentials().access_key_id, "wrong-password")] {
        let store = S3::new(&S3Options { credentials: CredentialSource::Static(wrong), ..minio.options("sessions") });
        let error = conditional_writes(&store, "").await.unwrap_err();
        assert!(matches!(error, StoreUnsafe::Store(StoreError::BadCredentials { .. })), "{error:?}");
        let error = store.get("k").await.unwrap_err();
        assert!(matches!(error, StoreError::BadCredentials { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_store_out_of_reach_leaves_a_put_unknown_and_a_restart_heals_it() {
    let mut minio = Minio::start().await.unwrap();
    let store = minio.create_bucket("sessions").await.unwrap();
    let etag = store.put("k", text("1"), Condition::Absent).await.unwrap();
    minio.kill();
    let put = store.put("k", text("2"), Condition::Matches(etag.clone())).await;
    assert!(matches!(&put, Err(PutError::Unknown(error)) if error.is_transient()), "{put:?}");
    let get = store.get("k").await;
    assert!(matches!(get, Err(StoreError::Unavailable { .. })), "{get:?}");
    minio.restart().await.unwrap();
    store.put("k", text("2"), Condition::Matches(etag)).await.unwrap();
    assert_eq!(store.get("k").await.unwrap().unwrap().bytes, text("2"));
}

#[tokio::test]
async fn credentials_in_a_folder_are_read_again() {
    let minio = Minio::start().await.unwrap();
    minio.create_bucket("sessions").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = S3::new(&S3Options { credentials: CredentialSource::Folder(folder.path().to_owned()), ..minio.options("sessions") });
    let error = store.get("k").await.unwrap_err();
    assert!(matches!(&error, StoreError::NoCredentials { reason } if reason.contains("accessKeyId")), "{error:?}");
    let root = minio.credentials();
    std::fs::write(folder.path().join("accessKeyId"), root.access_key_id).unwrap();
    std::fs::write(folder.path().join("secretAccessKey"), root.secret_access_key).unwrap();
    assert_eq!(store.get("k").await.unwrap(), None);
}

fn role(endpoint: &str) -> Role {
    Role { endpoint: endpoint.to_owned(), region: "us-east-1".to_owned(), arn: None }
}

/// The store with credentials that have these rights in the tenant `team`.
async fn scoped(minio: &Minio, rights: Rights<'_>) -> S3 {
    let policy = policy("sessions", "p/", "team", rights);
    let scoped = role(&minio.endpoint()).assume(&Identity::Key(minio.credentials()), Some(&policy), HOUR).await.unwrap();
    assert!(scoped.session_token.is_some() && scoped.expiration.is_some());
    S3::new(&S3Options { credentials: CredentialSource::Static(scoped), ..minio.options("sessions") })
}

/// Every way to these keys and prefixes is refused; `own` is an object that the store may read.
async fn refused(store: &S3, own: &str, keys: &[&str], prefixes: &[&str]) {
    for key in keys {
        let get = store.get(key).await;
        assert!(matches!(get, Err(StoreError::Denied { .. })), "{key}: {get:?}");
        let put = store.put(key, text("x"), Condition::None).await;
        assert!(matches!(put, Err(PutError::Failed(StoreError::Denied { .. }))), "{key}: {put:?}");
        let copies = [store.copy(key, &format!("{own}-copy")).await, store.copy(own, key).await];
        assert!(copies.iter().all(|copy| matches!(copy, Err(StoreError::Denied { .. }))), "{key}: {copies:?}");
        let delete = store.delete(key).await;
        assert!(matches!(delete, Err(StoreError::Denied { .. })), "{key}: {delete:?}");
    }
    for prefix in prefixes {
        let list = store.list(prefix).await;
        assert!(matches!(list, Err(StoreError::Denied { .. })), "{prefix}: {list:?}");
    }
}

#[tokio::test]
async fn credentials_of_a_pool_reach_its_sessions_and_no_others() {
    let minio = Minio::start().await.unwrap();
    let root = minio.create_bucket("sessions").await.unwrap();
    // A tenant whose name begins with this tenant's is another tenant, and so is a pool.
    let others = [
        "p/t/other/s/small/u/head",
        "p/t/team-b/s/small/u/head",
        "p/t/team/s/small-2/u/head",
        "p/t/team/s/large/u/head",
        "p/t/team/b/small_u/calls",
        "p/t/team/audit/2030-01-01/x",
        "p/t/team/webhooks/tools/open/x",
        "p/archive/c/team/1",
    ];
    for key in others {
        root.put(key, text("theirs"), Condition::None).await.unwrap();
    }
    let store = scoped(&minio, Rights::Kernel { pool: "small" }).await;

    conditional_writes(&store, "p/t/team/").await.unwrap();
    assert_eq!(store.get("p/t/team/s/small/u/head").await.unwrap(), None);
    let etag = store.put("p/t/team/s/small/u/head", text("mine"), Condition::Absent).await.unwrap();
    assert_eq!(store.get("p/t/team/s/small/u/head").await.unwrap().unwrap().etag, etag);
    assert!(store.copy("p/t/team/s/small/u/head", "p/t/team/s/small/child/1-1-ab").await.unwrap(), "a fork stays in the pool");
    assert!(!store.copy("p/t/team/s/small/u/gone", "p/t/team/s/small/child/1-2-ab").await.unwrap());
    store.delete("p/t/team/s/small/child/1-1-ab").await.unwrap();
    assert_eq!(store.list("p/t/team/s/small/").await.unwrap(), ["p/t/team/s/small/u/head"]);
    store.put("p/t/team/usage/2030-01-01/x-1.json", text("{}"), Condition::Absent).await.unwrap();
    store.put("p/t/team/clusters", text("x"), Condition::Absent).await.unwrap();
    let gone = store.delete("p/t/team/clusters").await;
    assert!(matches!(gone, Err(StoreError::Denied { .. })), "{gone:?}");

    let absent = ["p/t/other/s/small/u/absent", "p/t/team/s/large/u/absent", "elsewhere"];
    let keys: Vec<&str> = others.into_iter().chain(absent).collect();
    let prefixes = ["", "p/", "p/t/", "p/t/team", "p/t/team/", "p/t/team/s/", "p/t/team/s/large/", "p/t/team/b/", "p/t/other/"];
    refused(&store, "p/t/team/s/small/u/head", &keys, &prefixes).await;
}

#[tokio::test]
async fn credentials_of_a_broker_reach_what_brokers_keep_and_no_session() {
    let minio = Minio::start().await.unwrap();
    let root = minio.create_bucket("sessions").await.unwrap();
    let others = ["p/t/team/s/small/u/head", "p/t/team/webhooks/others/open/x", "p/t/team/usage/2030-01-01/x", "p/t/other/b/small_u/calls"];
    for key in others.into_iter().chain(["p/t/team/knowledge/base/page.md"]) {
        root.put(key, text("theirs"), Condition::None).await.unwrap();
    }
    let store = scoped(&minio, Rights::Broker { name: "tools" }).await;
    conditional_writes(&store, "p/t/team/").await.unwrap();
    for own in ["b/small_u/calls", "audit/2030-01-01/x", "webhooks/tools/open/m", "jobs/tools/browser/1", "b/all/spent"] {
        let key = format!("p/t/team/{own}");
        store.put(&key, text("mine"), Condition::Absent).await.unwrap();
        assert_eq!(store.list(&key).await.unwrap(), [key]);
    }
    assert!(store.get("p/t/team/knowledge/base/page.md").await.unwrap().is_some());
    let write = store.put("p/t/team/knowledge/base/page.md", text("x"), Condition::None).await;
    assert!(matches!(write, Err(PutError::Failed(StoreError::Denied { .. }))), "{write:?}");
    refused(&store, "p/t/team/b/small_u/calls", &others, &["p/t/team/", "p/t/team/s/", "p/t/team/s/small/", "p/t/other/"]).await;
}

#[tokio::test]
async fn a_refused_role_says_why() {
    let minio = Minio::start().await.unwrap();
    for wrong in [Identity::Key(Credentials::new("nobody", "wrong-password")), Identity::Token("no.such.token".to_owned())] {
        let error = role(&minio.endpoint()).assume(&wrong, Some("{}"), HOUR).await.unwrap_err();
        assert!(matches!(&error, StsError::Refused { code, .. } if !code.is_empty()), "{error}");
        let nowhere = role("http://127.0.0.1:9").assume(&wrong, Some("{}"), HOUR).await.unwrap_err();
        assert!(matches!(nowhere, StsError::Unreachable { .. }), "{nowhere}");
    }
}
