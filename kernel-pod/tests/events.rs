//! What those see who follow a session: each event of every acked cell, once, in order, without a gap, through every process.

use crate::common::{PATIENCE, World, assign, assign_spec, call, eval, spec, value};
use dormouse_crds::session::{Durability, KernelSessionSpec, Source};
use dormouse_kernel::Pod;
use dormouse_protocol::ErrorCode;
use dormouse_protocol::event::{Event, EventBody};
use dormouse_protocol::history::JournalBody;
use dormouse_protocol::kernel::{Assignment, CheckpointCall, EventsCall, JournalCall, StoredCall};
use dormouse_protocol::session::State;
use futures::{Stream, StreamExt as _};

/// What is replayed of a session.
async fn replay(pod: &Pod, session: &Assignment, after: Option<u64>) -> Vec<Event> {
    let call = EventsCall { assignment: session.clone(), after, follow: false, fresh: false };
    pod.events(&call).await.unwrap().collect().await
}

async fn follow(pod: &Pod, session: &Assignment, after: u64) -> impl Stream<Item = Event> + Send + Unpin {
    let call = EventsCall { assignment: session.clone(), after: Some(after), follow: true, fresh: false };
    Box::pin(pod.events(&call).await.unwrap())
}

/// The next `count` that a follower sees.
async fn next(events: &mut (impl Stream<Item = Event> + Unpin), count: usize) -> Vec<Event> {
    let mut seen = Vec::new();
    while seen.len() < count {
        seen.push(tokio::time::timeout(PATIENCE, events.next()).await.expect("the event comes").expect("the stream goes on"));
    }
    seen
}

/// A kind, and what tells one from another.
fn short(event: &Event) -> String {
    match &event.body {
        EventBody::Log { text, .. } => format!("log {text}"),
        EventBody::Display { data, .. } => format!("display {data}"),
        EventBody::ToolCall { call_id, tool_name, .. } => format!("call {call_id} {tool_name}"),
        EventBody::ToolResultApplied { call_id } => format!("applied {call_id}"),
        EventBody::State { state } => format!("{state:?}"),
        EventBody::Final { result } => format!("final {} {}", result.cell, result.preview),
        other => format!("{other:?}"),
    }
}

fn shorts(events: &[Event]) -> Vec<String> {
    events.iter().map(short).collect()
}

fn assert_numbered_from(events: &[Event], first: u64) {
    let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (first..first + events.len() as u64).collect::<Vec<_>>(), "{:?}", shorts(events));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_acked_cells_are_replayed_by_another_process() {
    let world = World::default();
    let first = world.pod("a");
    let session = assign(&first, "u1", 1);
    value(&first, &session, "console.log('one'); 1").await;
    value(&first, &session, "console.log('two'); const it = await callTool('echo', { n: 2 }); console.log('back'); it.n").await;
    let seen = replay(&first, &session, None).await;
    assert_eq!(
        shorts(&seen),
        [
            "Running",
            "log one",
            "final 1 1",
            "Idle",
            "Running",
            "log two",
            "call 1 echo",
            "WaitingForTool",
            "applied 1",
            "Running",
            "log back",
            "final 2 2",
            "Idle",
        ]
    );
    assert_numbered_from(&seen, 1);
    // Nobody told it to stop: it is as a process that was killed.
    let second = world.pod("b");
    let moved = assign(&second, "u1", 2);
    assert_eq!(replay(&second, &moved, None).await, seen, "before anything runs there");
    value(&second, &moved, "console.log('three'); 3").await;
    let all = replay(&second, &moved, Some(0)).await;
    assert_eq!(all[..seen.len()], seen);
    assert_eq!(shorts(&all[seen.len()..]), ["Waking", "Running", "log three", "final 3 3", "Idle"]);
    assert_numbered_from(&all, 1);
    assert_eq!(replay(&second, &moved, Some(all.len() as u64 - 2)).await, all[all.len() - 2..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_sees_what_is_stored_and_nothing_that_a_kill_could_take_back() {
    let world = World::default();
    let pod = world.pod("a");
    let lagging = KernelSessionSpec { durability: Durability::OnIdle, ..spec() };
    let session = assign_spec(&pod, "u1", 1, lagging.clone());
    eval(&pod, &session, "console.log('stored'); 1").await;
    let mut live = follow(&pod, &session, 0).await;
    assert_eq!(shorts(&next(&mut live, 4).await), ["Running", "log stored", "final 1 1", "Idle"]);
    assert!(!eval(&pod, &session, "console.log('ahead'); 2").await.durable);
    assert!(futures::FutureExt::now_or_never(live.next()).is_none(), "what is ahead of storage is not shown");
    // Another process knows nothing of it, and gives the numbers to what it runs itself.
    let other = world.pod("b");
    let moved = assign_spec(&other, "u1", 2, lagging);
    eval(&other, &moved, "console.log('other'); 3").await;
    let all = replay(&other, &moved, None).await;
    assert_eq!(shorts(&all[4..]), ["Waking", "Running", "log other", "final 2 3", "Idle"]);
    assert_numbered_from(&all, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_sees_the_session_fall_asleep_and_wake() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "1").await;
    let mut live = follow(&pod, &session, 3).await;
    pod.hibernate(session.clone()).await.unwrap();
    assert_eq!(shorts(&next(&mut live, 1).await), ["Hibernated"]);
    value(&pod, &session, "2").await;
    let seen = next(&mut live, 4).await;
    assert_eq!(shorts(&seen), ["Waking", "Running", "final 2 2", "Idle"]);
    assert_numbered_from(&seen, 5);
    assert!(matches!(seen[0].body, EventBody::State { state: State::Waking }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_is_lost_leaves_no_events_but_its_end() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "1").await;
    let overrun = "console.log('lost'); 'x'.repeat(5e7).split('').sort().reverse().sort()";
    let mut request = call(&session, overrun, "k");
    request.eval.timeout_ms = Some(50);
    let ended = pod.eval(request).await.unwrap();
    assert!(!ended.ok);
    value(&pod, &session, "3").await;
    let all = replay(&pod, &session, None).await;
    assert_numbered_from(&all, 1);
    let ends: Vec<u64> =
        all.iter().filter_map(|event| if let EventBody::Final { result } = &event.body { Some(result.cell) } else { None }).collect();
    assert_eq!(ends, [1, 2, 3], "{:?}", shorts(&all));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_tells_behind_which_event_those_of_a_cell_are() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "console.log('one'); await callTool('echo', {}); 1").await;
    assert!(!eval(&pod, &session, "const = 2").await.ok);
    // One whose turn ends with its instance.
    let mut request = call(&session, "'x'.repeat(5e7).split('').sort().reverse().sort()", "k");
    request.eval.timeout_ms = Some(50);
    assert!(!pod.eval(request).await.unwrap().ok);
    value(&pod, &session, "3").await;
    let stored =
        StoredCall { namespace: session.namespace.clone(), name: session.name.clone(), uid: session.uid.clone(), anchor: session.anchor };
    let page = pod.stored_journal(&JournalCall { session: stored, after: 0, limit: 1000 }).await.unwrap();
    let begins: Vec<u64> = page
        .entries
        .iter()
        .filter_map(|it| if let JournalBody::Cell { events_after, .. } = it.body { events_after } else { None })
        .collect();
    let ends: Vec<u64> =
        replay(&pod, &session, None).await.iter().filter(|it| matches!(it.body, EventBody::Final { .. })).map(|it| it.seq).collect();
    assert_eq!((begins.len(), ends.len(), begins[0]), (4, 4, 0), "{begins:?} {ends:?}");
    assert!((0..4).all(|cell| begins[cell] < ends[cell]), "{begins:?} {ends:?}");
    assert!((1..4).all(|cell| ends[cell - 1] <= begins[cell]), "{begins:?} {ends:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_not_kept_any_more_are_refused_with_the_oldest_that_is() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    // Each cell's output rolls over, and 64 objects are kept.
    for _ in 0..70 {
        value(&pod, &session, "console.log('x'.repeat(20000)); 1").await;
    }
    let fresh = world.pod("b");
    let moved = assign(&fresh, "u1", 2);
    let kept = replay(&fresh, &moved, None).await;
    let oldest = kept[0].seq;
    assert!(oldest > 1, "{oldest}");
    assert_numbered_from(&kept, oldest);
    let asked = |after| EventsCall { assignment: moved.clone(), after: Some(after), follow: false, fresh: false };
    let Err(refused) = fresh.events(&asked(oldest - 2)).await else { panic!("it is not kept") };
    assert_eq!((refused.code, refused.details.unwrap()["oldest"].as_u64()), (ErrorCode::EventsExpired, Some(oldest)));
    let at_the_edge: Vec<Event> = fresh.events(&asked(oldest - 1)).await.unwrap().collect().await;
    assert_eq!(at_the_edge, kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_and_a_restore_go_on_with_their_own_numbers() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "globalThis.n = 1").await;
    let mark = CheckpointCall { assignment: session.clone(), label: "one".to_owned(), operation: None };
    pod.make_checkpoint(mark).await.unwrap();
    value(&pod, &session, "n = 2").await;
    let before = replay(&pod, &session, None).await;
    pod.restore(session.clone(), "one".to_owned()).await.unwrap();
    assert_eq!(value(&pod, &session, "n").await, 1);
    let after = replay(&pod, &session, None).await;
    assert_eq!(after[..before.len()], before, "going back in time takes back no event");
    assert_numbered_from(&after, 1);
    let source = Some(Source { session: "session-u1".to_owned(), checkpoint: None });
    let child = Assignment { source_uid: Some("u1".to_owned()), ..assign_spec(&pod, "u2", 1, KernelSessionSpec { source, ..spec() }) };
    assert_eq!(value(&pod, &child, "n + 1").await, 2);
    let its = replay(&pod, &child, None).await;
    assert_numbered_from(&its, 1);
    assert_eq!(shorts(&its), ["Running", "final 4 2", "Idle"]);
}
