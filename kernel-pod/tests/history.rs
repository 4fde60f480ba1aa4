//! Checkpoints, time travel, forks and the journal, in pods over one store.

use std::sync::atomic::Ordering;

use crate::common::{World, assign, assign_spec, call, eval, spec, try_eval, until, value};
use bytes::Bytes;
use dormouse_crds::session::{CHECKPOINTS_KEEP_MAX, Checkpoints, Determinism, Durability, KernelSessionSpec, Source};
use dormouse_kernel::Pod;
use dormouse_lifecycle::Head;
use dormouse_lifecycle::checkpoint::{COMMITS_PER_CHECKPOINT, KEEP_MAX};
use dormouse_protocol::history::{JournalBody, JournalEntry};
use dormouse_protocol::kernel::{Anchor, Assignment, CheckpointCall, JournalCall, RestoreCall, StoredCall, StoredStatus};
use dormouse_protocol::session::State;
use dormouse_protocol::{ErrorCode, eval::Woke};
use dormouse_store::{Condition, SnapshotStore as _};
use dormouse_testkit::wait::eventually;
use serde_json::json;

fn stored(session: &Assignment) -> StoredCall {
    StoredCall { namespace: session.namespace.clone(), name: session.name.clone(), uid: session.uid.clone(), anchor: session.anchor }
}

async fn journal(pod: &Pod, session: &Assignment, after: u64) -> Vec<JournalEntry> {
    let page = pod.stored_journal(&JournalCall { session: stored(session), after, limit: 1000 }).await.unwrap();
    assert_eq!((page.damage, page.next), (None, None));
    page.entries
}

/// Labels and ids of the checkpoints that are listed.
async fn names(pod: &Pod, session: &Assignment) -> Vec<String> {
    let list = pod.stored_checkpoints(&stored(session)).await.unwrap();
    list.items.into_iter().map(|it| it.label.unwrap_or(it.id)).collect()
}

/// The assignment of a new session that begins as what `parent` was.
fn child(pod: &Pod, uid: &str, parent: &Assignment, checkpoint: Option<&str>) -> Assignment {
    let source = Source { session: parent.name.clone(), checkpoint: checkpoint.map(str::to_owned) };
    let spec = KernelSessionSpec { source: Some(source), ..parent.spec.clone() };
    Assignment { source_uid: Some(parent.uid.clone()), ..assign_spec(pod, uid, 1, spec) }
}

async fn head(world: &World, uid: &str) -> Head {
    Head::decode(&world.store.get(&format!("p/t/team/s/default/{uid}/head")).await.unwrap().unwrap().bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn going_back_is_a_new_commit_that_can_be_undone() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; const next = () => ++n; n").await;
    let made = pod.checkpoint(session.clone(), "first".to_owned()).await.unwrap();
    assert_eq!((made.id.as_str(), made.label.as_deref(), made.sequence), ("2", Some("first"), 2));
    assert_eq!(value(&pod, &session, "const filler = Array.from({ length: 40000 }, (_, i) => i * 7); next(); n").await, json!(2));

    let report = pod.restore(session.clone(), "first".to_owned()).await.unwrap();
    assert_eq!((report.state, report.snapshot.unwrap().sequence), (State::Idle, 4));
    assert_eq!(value(&pod, &session, "[n, typeof filler]").await, json!([1, "undefined"]));
    assert_eq!(names(&pod, &session).await, ["first", "3"], "what was left behind is kept");

    // The same from another pod, which has only the store.
    let other = world.pod("b");
    let moved = assign(&other, "u1", 2);
    other.restore(moved.clone(), "3".to_owned()).await.unwrap();
    let back = eval(&other, &moved, "[next(), filler.length]").await;
    assert_eq!((back.value, back.cell), (Some(json!([3, 40000])), 4), "numbers never go back");
    let unknown = other.restore(moved.clone(), "nothing".to_owned()).await.unwrap_err();
    assert_eq!(unknown.code, ErrorCode::InvalidRequest);
    assert_eq!(value(&other, &moved, "n").await, json!(3), "a restore that is refused changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn automatic_checkpoints_come_with_commits_and_the_oldest_go() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign_spec(&pod, "u1", 1, KernelSessionSpec { checkpoints: Checkpoints { keep: 2 }, ..spec() });
    value(&pod, &session, "let n = 0; n").await;
    for _ in 1..COMMITS_PER_CHECKPOINT * 4 {
        value(&pod, &session, "globalThis['k' + n] = 'x'.repeat(20000) + n; ++n").await;
    }
    assert_eq!(names(&pod, &session).await, ["30", "40"]);
    let aside = |keys: &[String]| keys.iter().filter(|key| key.contains("/c1-")).count();
    let gone = async || aside(&world.store.list("p/t/team/s/default/u1/").await.unwrap()) <= 2;
    eventually("what no head lists any more is deleted", gone).await;
    pod.restore(session.clone(), "30".to_owned()).await.unwrap();
    assert_eq!(value(&pod, &session, "[n, k28.length, typeof k29]").await, json!([29, 20002, "undefined"]));
    let bad = pod.checkpoint(session.clone(), "12".to_owned()).await.unwrap_err();
    assert_eq!(bad.code, ErrorCode::InvalidRequest);
    assert_eq!(CHECKPOINTS_KEEP_MAX, KEEP_MAX, "what the schema allows is what is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_under_way_fails_where_code_can_catch_it() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "globalThis.answer = callTool('slow', { id: 5 }).catch(e => e.name); globalThis.rang = new Promise(r => setTimeout(() => r('rang'), 50)); 0").await;
    world.tools.attempts(1).await;
    pod.checkpoint(session.clone(), "calling".to_owned()).await.unwrap();
    let waiting = tokio::spawn({
        let (pod, call) = (pod.clone(), call(&session, "await callTool('slow', { id: 6 })", "waits"));
        async move { pod.eval(call).await }
    });
    world.tools.attempts(2).await;
    pod.restore(session.clone(), "calling".to_owned()).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().code, ErrorCode::Interrupted);
    assert_eq!(value(&pod, &session, "[await answer, await rang]").await, json!(["Interrupted", "rang"]));
    world.tools.open();
    // The abandoned future made call 2: its number is not given again, so its answer cannot be mistaken for another's.
    assert_eq!(value(&pod, &session, "await callTool('echo', 'new')").await, json!("new"));
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 3);
    until(&pod, "u1", |report| report.state == State::Idle && report.tool_calls == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn children_diverge_and_outlive_their_parent() {
    let world = World::default();
    let (a, b) = (world.pod("a"), world.pod("b"));
    let parent = assign(&a, "parent", 1);
    value(
        &a,
        &parent,
        "const counter = (() => { let n = 0; return () => ++n })(); const big = Array.from({ length: 40000 }, (_, i) => i * 3); counter()",
    )
    .await;
    a.checkpoint(parent.clone(), "one".to_owned()).await.unwrap();
    value(&a, &parent, "globalThis.pending = callTool('slow', 1).catch(e => e.name); counter()").await;

    let (first, second) = (child(&b, "c1", &parent, None), child(&b, "c2", &parent, Some("one")));
    let woken = b.wake(first.clone()).await.unwrap();
    assert_eq!((woken.state, woken.snapshot.unwrap().sequence), (State::Idle, 1), "the copies are named by a commit of the child's own");
    assert_eq!(value(&b, &first, "[counter(), big.length, await pending]").await, json!([3, 40000, "Interrupted"]));
    assert_eq!(value(&b, &second, "[counter(), typeof pending]").await, json!([2, "undefined"]));
    assert_eq!(value(&a, &parent, "counter()").await, json!(3), "the parent does not know");
    let random = "[Math.random(), crypto.randomUUID()]";
    let (one, other) = (value(&b, &first, random).await, value(&b, &second, random).await);
    assert_ne!(one, other);

    a.forget(parent.clone()).await.unwrap();
    for key in world.store.list("p/t/team/s/default/parent/").await.unwrap() {
        world.store.delete(&key).await.unwrap();
    }
    b.drain().await;
    let c = world.pod("c");
    let again = Assignment { epoch: 2, source_uid: None, boot: c.info().boot, ..first };
    let result = eval(&c, &again, "[counter(), big[39999]]").await;
    assert_eq!((result.value, result.stats.woke), (Some(json!([4, 119_997])), Woke::Storage));
    let all = head(&world, "c1").await;
    assert!(all.named_keys().all(|key| key.starts_with("p/t/team/s/default/c1/")), "a prefix holds all that its head names");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_nothing_says_so() {
    let world = World::default();
    let pod = world.pod("a");
    let parent = assign(&pod, "parent", 1);
    let empty = try_eval(&pod, &child(&pod, "c1", &parent, None), "1").await.unwrap_err();
    assert_eq!(empty.code, ErrorCode::Conflict, "{empty}");
    value(&pod, &parent, "1").await;
    assert_eq!(value(&pod, &child(&pod, "c1", &parent, None), "1").await, json!(1), "once there is something, it is forked");
    let unknown = try_eval(&pod, &child(&pod, "c2", &parent, Some("none")), "1").await.unwrap_err();
    assert_eq!(unknown.code, ErrorCode::InvalidRequest, "{unknown}");
    let orphan = Assignment { source_uid: None, ..child(&pod, "c3", &parent, None) };
    let missing = try_eval(&pod, &orphan, "1").await.unwrap_err();
    assert_eq!(missing.code, ErrorCode::SessionNotFound, "{missing}");
    assert!(world.store.list("p/t/team/s/default/c2/").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deterministic_session_repeats_itself_after_going_back_and_others_do_not() {
    let world = World::default();
    let pod = world.pod("a");
    let fixed = Determinism { seed: 7, epoch: "2026-01-01T00:00:00Z".to_owned() };
    for (uid, determinism) in [("fixed", Some(fixed)), ("free", None)] {
        let session = assign_spec(&pod, uid, 1, KernelSessionSpec { determinism: determinism.clone(), ..spec() });
        value(&pod, &session, "0").await;
        pod.checkpoint(session.clone(), "here".to_owned()).await.unwrap();
        let random = "[Math.random(), crypto.randomUUID()]";
        let first = value(&pod, &session, random).await;
        pod.restore(session.clone(), "here".to_owned()).await.unwrap();
        assert_eq!(value(&pod, &session, random).await == first, determinism.is_some(), "{uid}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_tells_what_happened_and_goes_on_after_going_back() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "await callTool('echo', { secret: 'hunter2' })").await;
    assert!(!eval(&pod, &session, "null.x").await.ok);
    pod.hibernate(session.clone()).await.unwrap();
    pod.checkpoint(session.clone(), "slept".to_owned()).await.unwrap();
    value(&pod, &session, "1").await;
    pod.restore(session.clone(), "slept".to_owned()).await.unwrap();
    let entries = journal(&pod, &session, 0).await;
    let kinds: Vec<String> =
        entries.iter().map(|entry| serde_json::to_value(&entry.body).unwrap()["kind"].as_str().unwrap().to_owned()).collect();
    let expected =
        ["cell", "toolCall", "toolResult", "result", "cell", "result", "hibernated", "woke", "checkpoint", "cell", "result", "restored"];
    assert_eq!(kinds, expected);
    assert!(entries.iter().zip(1..).all(|(entry, seq)| entry.seq == seq && entry.epoch == 1));
    assert!(matches!(&entries[0].body, JournalBody::Cell { cell: 1, source, .. } if source.starts_with("await callTool")));
    assert!(matches!(&entries[5].body, JournalBody::Result { cell: 2, ok: false, error: Some(ErrorCode::UncaughtException), .. }));
    assert!(matches!(&entries[11].body, JournalBody::Restored { checkpoint } if checkpoint == "4"), "{:?}", entries[11]);
    assert!(!serde_json::to_string(&entries[1..4]).unwrap().contains("hunter2"), "what tools are sent and answer is told by digests");
    assert_eq!(journal(&pod, &session, 10).await, entries[10..]);

    // Any pod reads it, and reading neither wakes the session nor takes it over.
    let other = world.pod("b");
    assert_eq!(journal(&other, &session, 0).await, entries);
    let page = other.stored_journal(&JournalCall { session: stored(&session), after: 2, limit: 3 }).await.unwrap();
    assert_eq!((page.entries.len(), page.next), (3, Some(5)));
    assert_eq!((other.info().used, value(&pod, &session, "2").await), (0, json!(2)));
    let foreign = StoredCall { namespace: "other".to_owned(), ..stored(&session) };
    assert_eq!(other.stored_checkpoints(&foreign).await.unwrap_err().code, ErrorCode::Forbidden);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_journal_rolls_over_and_costs_no_put_of_its_own() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign_spec(&pod, "u1", 1, KernelSessionSpec { checkpoints: Checkpoints { keep: 0 }, ..spec() });
    for cell in 0..30 {
        value(&pod, &session, &format!("/* {} */ {cell}", "x".repeat(2000))).await;
    }
    let head = head(&world, "u1").await;
    assert!((3..=6).contains(&head.journal.segments.len()), "{:?}", head.journal.segments);
    let entries = journal(&pod, &session, 0).await;
    let cells: Vec<u64> =
        entries.iter().filter_map(|it| if let JournalBody::Cell { cell, .. } = it.body { Some(cell) } else { None }).collect();
    assert_eq!(cells, (1..=30).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_head_keeps_its_checkpoints_and_journal_and_can_be_restored() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; await callTool('echo', 1); n").await;
    pod.checkpoint(session.clone(), "good".to_owned()).await.unwrap();
    value(&pod, &session, &format!("n = 2; /* {} */", "x".repeat(15000))).await;
    value(&pod, &session, &format!("n = 3; /* {} */", "x".repeat(15000))).await;
    pod.forget(session.clone()).await.unwrap();
    world.store.put("p/t/team/s/default/u1/head", Bytes::from_static(b"damaged"), Condition::None).await.unwrap();

    let other = world.pod("b");
    let moved = assign(&other, "u1", 2);
    let refused = try_eval(&other, &moved, "n").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::SnapshotCorrupt);
    assert_eq!(until(&other, "u1", |report| report.state == State::Failed).await.failure.unwrap().code, ErrorCode::SnapshotCorrupt);
    let listed = other.stored_checkpoints(&stored(&moved)).await.unwrap();
    assert!(listed.damage.is_some() && listed.items[0].label.as_deref() == Some("good"), "{listed:?}");
    let told = other.stored_journal(&JournalCall { session: stored(&moved), after: 0, limit: 1000 }).await.unwrap();
    assert!(told.damage.is_some() && told.entries.len() > 3, "{told:?}");

    other.restore(moved.clone(), "good".to_owned()).await.unwrap();
    assert_eq!(value(&other, &moved, "n").await, json!(1));
    assert_eq!(
        value(&other, &moved, "await callTool('echo', 'fresh')").await,
        json!("fresh"),
        "no number of the lost future is used again"
    );
    let after = journal(&other, &moved, told.entries.last().unwrap().seq).await;
    assert!(matches!(&after[0].body, JournalBody::Restored { .. }) && after[0].seq > told.entries.last().unwrap().seq + 1);
    other.hibernate(moved.clone()).await.unwrap();
    let third = world.pod("c");
    assert_eq!(value(&third, &assign(&third, "u1", 3), "n").await, json!(1), "and it is an ordinary session again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_segment_does_not_keep_a_session_from_going_back() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; n").await;
    pod.checkpoint(session.clone(), "good".to_owned()).await.unwrap();
    value(
        &pod,
        &session,
        "const noise = crypto.getRandomValues(new Uint8Array(60000)), more = crypto.getRandomValues(new Uint8Array(60000)); n = 2",
    )
    .await;
    pod.forget(session.clone()).await.unwrap();
    let last = head(&world, "u1").await.segments.pop().expect("noise does not fit into a head");
    world.store.put(&last.key, Bytes::from_static(b"damaged"), Condition::None).await.unwrap();
    let moved = assign(&pod, "u1", 2);
    assert_eq!(try_eval(&pod, &moved, "n").await.unwrap_err().code, ErrorCode::SnapshotCorrupt);
    let entries = journal(&pod, &moved, 0).await;
    assert!(entries.len() >= 5, "{entries:?}");
    pod.restore(moved.clone(), "good".to_owned()).await.unwrap();
    assert_eq!(value(&pod, &moved, "n").await, json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_sets_aside_what_was_answered_ahead_of_its_commit() {
    let pod = World::default().pod("a");
    let session = assign_spec(&pod, "u1", 1, KernelSessionSpec { durability: Durability::OnIdle, ..spec() });
    value(&pod, &session, "let n = 1; n").await;
    pod.checkpoint(session.clone(), "first".to_owned()).await.unwrap();
    assert!(!eval(&pod, &session, "n = 2").await.durable);
    pod.restore(session.clone(), "first".to_owned()).await.unwrap();
    assert_eq!(value(&pod, &session, "n").await, json!(1));
    let behind = names(&pod, &session).await.into_iter().find(|name| name != "first").unwrap();
    pod.restore(session.clone(), behind).await.unwrap();
    assert_eq!(value(&pod, &session, "n").await, json!(2), "going back can be undone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_retry_of_what_was_left_behind_runs_nothing() {
    let pod = World::default().pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; n").await;
    pod.checkpoint(session.clone(), "first".to_owned()).await.unwrap();
    pod.eval(call(&session, "n += 10", "the-key")).await.unwrap();
    value(&pod, &session, "n += 100").await;
    pod.restore(session.clone(), "first".to_owned()).await.unwrap();
    let late = pod.eval(call(&session, "n += 10", "the-key")).await.unwrap();
    assert_eq!(late.value, Some(json!(11)), "what came of it then");
    assert_eq!(value(&pod, &session, "n").await, json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_is_sent_again_sets_nothing_aside_that_came_after_it() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; const next = () => ++n; n").await;
    pod.checkpoint(session.clone(), "first".to_owned()).await.unwrap();
    let back = |assignment: &Assignment, operation: &str| RestoreCall {
        assignment: assignment.clone(),
        checkpoint: "first".to_owned(),
        operation: Some(operation.to_owned()),
    };
    pod.go_back(back(&session, "one")).await.unwrap();
    assert_eq!(value(&pod, &session, "next()").await, json!(2));
    pod.go_back(back(&session, "one")).await.unwrap();
    assert_eq!(value(&pod, &session, "n").await, json!(2));
    let other = world.pod("b");
    let moved = assign(&other, "u1", 2);
    let report = other.go_back(back(&moved, "one")).await.unwrap();
    assert_eq!(report.state, State::Idle);
    assert_eq!(value(&other, &moved, "n").await, json!(2), "whoever has the session knows what was done");
    other.go_back(back(&moved, "two")).await.unwrap();
    assert_eq!(value(&other, &moved, "n").await, json!(1), "another request is another");
    other.go_back(back(&moved, "one")).await.unwrap();
    value(&other, &moved, "next()").await;
    other.go_back(back(&moved, "two")).await.unwrap();
    assert_eq!(value(&other, &moved, "n").await, json!(2), "going back does not forget what was done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_is_asked_for_again_is_the_one_that_was_made() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; n").await;
    let call =
        |operation: &str| CheckpointCall { assignment: session.clone(), label: "here".to_owned(), operation: Some(operation.to_owned()) };
    let made = pod.make_checkpoint(call("one")).await.unwrap();
    value(&pod, &session, "n = 2").await;
    assert_eq!(pod.make_checkpoint(call("one")).await.unwrap(), made, "the label has not moved");
    let moved = pod.make_checkpoint(call("two")).await.unwrap();
    assert!(moved.sequence > made.sequence);
    let late = pod.make_checkpoint(call("one")).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::Conflict, "{late}");
    assert_eq!(names(&pod, &session).await, ["here"]);
    assert_eq!(pod.make_checkpoint(call("two")).await.unwrap(), moved);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_that_is_over_hears_which_one_is_not() {
    let world = World::default();
    let (one, two, three) = (world.pod("a"), world.pod("b"), world.pod("c"));
    value(&one, &assign(&one, "u1", 1), "let n = 1; n").await;
    value(&two, &assign(&two, "u1", 41), "n = 2").await;
    for (pod, epoch, who) in [(&one, 1, "its owner of then"), (&three, 6, "who reads the store"), (&two, 7, "the owner itself")] {
        let error = try_eval(pod, &assign(pod, "u1", epoch), "n").await.unwrap_err();
        assert_eq!((error.code, &error.details), (ErrorCode::SessionGone, &Some(json!({"epoch": 41}))), "{who}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pod_stored_and_did_not_tell_another_one_tells() {
    let world = World::default();
    let (one, two) = (world.pod("a"), world.pod("b"));
    let session = assign(&one, "u1", 1);
    let call = |session: &Assignment, anchor| StoredCall { anchor, ..stored(session) };
    assert_eq!(two.stored_status(&call(&session, None)).await.unwrap(), StoredStatus::default());
    value(&one, &session, "1").await;
    assert_eq!(two.stored_status(&call(&session, None)).await.unwrap().next_wake_time, None);
    let before = jiff::Timestamp::now();
    let acked = eval(&one, &session, "setTimeout(() => {}, 3_600_000); 2").await;
    let told = two.stored_status(&call(&session, None)).await.unwrap();
    assert_eq!(told.snapshot.unwrap().sequence, acked.sequence);
    let due: jiff::Timestamp = told.next_wake_time.unwrap().parse().unwrap();
    assert!(due.as_second() - before.as_second() >= 3_600, "{due}");
    let later = Some(Anchor { epoch: 1, sequence: acked.sequence + 1, encrypted: false });
    let damaged = two.stored_status(&call(&session, later)).await.unwrap();
    assert!(damaged.damage.is_some() && damaged.snapshot.is_none(), "a store that went back tells nothing");
}
