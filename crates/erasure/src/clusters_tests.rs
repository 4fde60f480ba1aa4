use dormouse_lifecycle::SessionKey;
use dormouse_store::Memory;

use super::*;

fn place() -> TenantPrefix {
    TenantPrefix { store_prefix: "p/".to_owned(), tenant: "team".to_owned() }
}

async fn names(store: &Memory) -> (Vec<String>, bool) {
    let (clusters, _) = place().read(store).await.unwrap();
    clusters.map(|clusters| (clusters.clusters.into_iter().collect(), clusters.accounted)).unwrap_or_default()
}

#[tokio::test]
async fn every_cluster_writes_its_name_once() {
    let store = Memory::new();
    let joins = ["b", "a", "c", "a"].map(|name| {
        let (store, place) = (&store, place());
        async move { place.join(store, name).await }
    });
    futures::future::try_join_all(joins).await.unwrap();
    assert_eq!(names(&store).await, (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], true));
    assert_eq!(store.list("").await.unwrap(), ["p/t/team/clusters"]);
}

#[tokio::test]
async fn what_was_there_before_is_not_accounted_for() {
    let store = Memory::new();
    let session = SessionKey {
        store_prefix: "p/".to_owned(),
        tenant: "team".to_owned(),
        pool: "default".into(),
        uid: "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e01".to_owned(),
        name: String::new(),
    };
    store.put(&session.head(), Bytes::from_static(b"x"), Condition::None).await.unwrap();
    place().join(&store, "a").await.unwrap();
    assert_eq!(names(&store).await, (vec!["a".to_owned()], false));
}

#[tokio::test]
async fn nothing_is_written_before_the_name() {
    let inner = Arc::new(Memory::new());
    let store = Joined::new(Arc::clone(&inner) as _, place(), "a".to_owned());
    assert!(store.get("p/t/team/x").await.unwrap().is_none() && store.list("").await.unwrap().is_empty(), "a read writes nothing");
    inner.put("p/t/team/clusters", Bytes::from_static(b"?"), Condition::None).await.unwrap();
    let refused = store.put("p/t/team/x", Bytes::from_static(b"x"), Condition::None).await;
    assert!(matches!(&refused, Err(PutError::Failed(error)) if error.to_string().contains("Remove that object")), "{refused:?}");
    assert!(store.copy("p/t/team/clusters", "p/t/team/x").await.is_err());
    assert!(matches!(store.race("p/t/team/x", vec![Bytes::new()], Condition::None).await.as_slice(), [Err(PutError::Failed(_))]));
    assert!(inner.get("p/t/team/x").await.unwrap().is_none());
    inner.delete("p/t/team/clusters").await.unwrap();
    store.put("p/t/team/x", Bytes::from_static(b"x"), Condition::Absent).await.unwrap();
    assert_eq!(names(&inner).await, (vec!["a".to_owned()], true));
}

#[tokio::test]
async fn the_last_cluster_leaves_nothing_and_no_other_name_goes() {
    let store = Memory::new();
    place().join(&store, "a").await.unwrap();
    place().leave(&store, "b").await.unwrap();
    assert_eq!(names(&store).await.0, ["a"], "it is another's");
    let uid = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e01".to_owned();
    let session = SessionKey { store_prefix: "p/".to_owned(), tenant: "team".to_owned(), pool: "default".into(), uid, name: String::new() };
    store.put(&session.head(), Bytes::from_static(b"x"), Condition::None).await.unwrap();
    place().leave(&store, "a").await.unwrap();
    assert_eq!(names(&store).await.0, ["a"], "a session is there");
    store.delete(&session.head()).await.unwrap();
    let kept = ["webhooks/b/open/m", "webhooks/b/done/1-m", "jobs/b/c/1_u_2", "usage/2030-01-01/x-1.json", "b/all/spent"];
    for name in kept.into_iter().chain(["audit/2030-01-01/x-1.ndjson"]) {
        store.put(&format!("p/t/team/{name}"), Bytes::from_static(b"x"), Condition::None).await.unwrap();
    }
    place().leave(&store, "b").await.unwrap();
    assert_eq!(store.list("").await.unwrap().len(), 7, "it is another's");
    place().leave(&store, "a").await.unwrap();
    assert_eq!(store.list("").await.unwrap(), ["p/t/team/audit/2030-01-01/x-1.ndjson"], "who did what outlives everything");
    place().leave(&store, "a").await.unwrap();
}
