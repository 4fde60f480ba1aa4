//! A store that was rolled back: what is known to have been stored is not forgotten with it.

use crate::common::{World, assign, try_eval, until, value};
use bytes::Bytes;
use dormouse_kernel::Pod;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::history::JournalBody;
use dormouse_protocol::kernel::{Anchor, Assignment, JournalCall, SessionReport, StoredCall};
use dormouse_protocol::session::State;
use dormouse_store::{Condition, SnapshotStore as _};
use serde_json::json;

const HEAD: &str = "p/t/team/s/default/u1/head";

fn stored(session: &Assignment) -> StoredCall {
    StoredCall { namespace: session.namespace.clone(), name: session.name.clone(), uid: session.uid.clone(), anchor: session.anchor }
}

async fn head(world: &World) -> Bytes {
    world.store.get(HEAD).await.unwrap().unwrap().bytes
}

/// A session that answered 1 and then 2 and went to sleep; the head of the first answer, and what status knows in the end.
async fn slept(world: &World, pod: &Pod, between: &str) -> (Bytes, Anchor) {
    let session = assign(pod, "u1", 1);
    value(pod, &session, "let n = 1; n").await;
    let old = head(world).await;
    if !between.is_empty() {
        pod.checkpoint(session.clone(), between.to_owned()).await.unwrap();
    }
    value(pod, &session, "n = 2").await;
    let report = pod.hibernate(session).await.unwrap();
    (old, Anchor::from(&report.snapshot.unwrap()))
}

fn anchored(pod: &Pod, epoch: u64, anchor: Anchor) -> Assignment {
    Assignment { anchor: Some(anchor), ..assign(pod, "u1", epoch) }
}

async fn is_refused(pod: &Pod, session: &Assignment, words: &str) {
    let error = try_eval(pod, session, "n").await.unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::SnapshotCorrupt, false), "{error}");
    assert!(error.message.contains(words), "{error}");
    // The answer comes before the report; the one before may be of another failure.
    let corrupt = |report: &SessionReport| report.failure.as_ref().is_some_and(|failure| failure.code == ErrorCode::SnapshotCorrupt);
    assert_eq!(until(pod, "u1", corrupt).await.state, State::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_was_put_back_is_not_believed_and_can_be_gone_back_to() {
    let world = World::default();
    let (old, anchor) = slept(&world, &world.pod("a"), "").await;
    let newest = head(&world).await;
    world.store.put(HEAD, old.clone(), Condition::None).await.unwrap();

    let b = world.pod("b");
    let session = anchored(&b, 2, anchor);
    is_refused(&b, &session, "rolled back").await;
    assert_eq!(head(&world).await, old, "nothing is written over it");
    let listed = b.stored_checkpoints(&stored(&session)).await.unwrap();
    assert!(listed.damage.unwrap().contains("rolled back"));
    let ids: Vec<_> = listed.items.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, ["1"], "what was put back can be accepted by name");
    let page = b.stored_journal(&JournalCall { session: stored(&session), after: 0, limit: 100 }).await.unwrap();
    assert!(page.entries.iter().any(|it| matches!(it.body, JournalBody::Cell { cell: 1, .. })), "{page:?}");

    // Somebody puts the newer one back: it runs, and nothing was restarted.
    world.store.put(HEAD, newest, Condition::None).await.unwrap();
    assert_eq!(value(&b, &session, "n").await, json!(2));
    b.forget(session).await.unwrap();

    // Or they take what is there.
    world.store.put(HEAD, old, Condition::None).await.unwrap();
    let c = world.pod("c");
    let session = anchored(&c, 3, anchor);
    is_refused(&c, &session, "rolled back").await;
    let report = c.restore(session.clone(), "1".to_owned()).await.unwrap();
    let restored = Anchor::from(&report.snapshot.unwrap());
    assert!(restored.version() > anchor.version(), "{restored:?}");
    assert_eq!(value(&c, &session, "n").await, json!(1));
    let listed = c.stored_checkpoints(&StoredCall { anchor: Some(restored), ..stored(&session) }).await.unwrap();
    assert!(listed.damage.is_none() && listed.items.iter().all(|it| it.id != "1"), "{listed:?}");
    let page = c.stored_journal(&JournalCall { session: stored(&session), after: 0, limit: 100 }).await.unwrap();
    assert!(page.entries.iter().any(|it| matches!(it.body, JournalBody::Cell { cell: 1, .. })), "the journal goes on: {page:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_gone_is_no_new_session_and_a_checkpoint_brings_it_back() {
    let world = World::default();
    let (_, anchor) = slept(&world, &world.pod("a"), "good").await;
    world.store.delete(HEAD).await.unwrap();

    let b = world.pod("b");
    let session = anchored(&b, 2, anchor);
    is_refused(&b, &session, "the head is gone").await;
    assert!(world.store.get(HEAD).await.unwrap().is_none(), "no empty session begins in its place");
    let listed = b.stored_checkpoints(&stored(&session)).await.unwrap();
    assert_eq!(listed.items.iter().filter_map(|it| it.label.as_deref()).collect::<Vec<_>>(), ["good"]);
    b.restore(session.clone(), "good".to_owned()).await.unwrap();
    assert_eq!(value(&b, &session, "n").await, json!(1));
    b.hibernate(session).await.unwrap();
    let c = world.pod("c");
    assert_eq!(value(&c, &anchored(&c, 3, anchor), "n").await, json!(1), "the anchor of before does not refuse what came after it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_knows_what_it_told_before_status_does() {
    let world = World::default();
    let a = world.pod("a");
    let session = assign(&a, "u1", 1);
    value(&a, &session, "let n = 1; n").await;
    let old = head(&world).await;
    value(&a, &session, "n = 2").await;
    until(&a, "u1", |report| report.snapshot.as_ref().is_some_and(|it| it.sequence == 2)).await;
    world.store.put(HEAD, old, Condition::None).await.unwrap();
    // The commit finds that the store went back; the next request reads it and knows better, without an anchor of its own.
    assert_eq!(try_eval(&a, &session, "n = 3").await.unwrap_err().code, ErrorCode::StorageUnsafe);
    is_refused(&a, &session, "rolled back").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anchor_that_lags_refuses_nothing() {
    let world = World::default();
    let (_, anchor) = slept(&world, &world.pod("a"), "").await;
    let b = world.pod("b");
    let lagging = Anchor { sequence: anchor.sequence - 1, ..anchor };
    assert_eq!(value(&b, &anchored(&b, 2, lagging), "n").await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_forked_from_a_head_that_was_put_back() {
    let world = World::default();
    let (old, anchor) = slept(&world, &world.pod("a"), "").await;
    world.store.put(HEAD, old, Condition::None).await.unwrap();
    let b = world.pod("b");
    let mut child = assign(&b, "u2", 1);
    child.spec.source = Some(dormouse_crds::session::Source { session: "session-u1".to_owned(), checkpoint: None });
    child.source_uid = Some("u1".to_owned());
    child.source_anchor = Some(anchor);
    let error = try_eval(&b, &child, "n").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::SnapshotCorrupt, "{error}");
}
