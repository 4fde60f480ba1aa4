//! What a session keeps outside its heap: `host.ctx`, and large answers of tools.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{Faulty, TORN_BYTES, World, assign, assign_spec, eval, spec, value};
use dormouse_crds::session::{KernelSessionSpec, Limits, Source};
use dormouse_kernel::Pod;
use dormouse_lifecycle::blobs::{NAME_BYTES_MAX, parse_piece};
use dormouse_protocol::ErrorCode;
use dormouse_protocol::kernel::Assignment;
use dormouse_store::{Condition, SnapshotStore};
use dormouse_testkit::wait::eventually;
use serde_json::json;

/// Five MiB and a bit, with characters of every length.
const BIG: &str = "const big = 'aäの🦀-'.repeat(450_000); host.ctx.put('big', big);";

fn small_heap() -> KernelSessionSpec {
    KernelSessionSpec { limits: Limits { heap_bytes: 16 << 20, ..spec().limits }, ..spec() }
}

/// Keys of the pieces that lie in the store.
async fn pieces(store: &dyn SnapshotStore, uid: &str) -> Vec<String> {
    let mut keys = store.list(&format!("p/t/team/s/default/{uid}/")).await.unwrap();
    keys.retain(|key| parse_piece(key).is_some());
    keys.sort();
    keys
}

/// Waits until so many pieces lie in the store: garbage goes in its own time.
async fn until_pieces(store: &dyn SnapshotStore, uid: &str, wanted: usize) {
    eventually(&format!("{wanted} pieces are left"), async || pieces(store, uid).await.len() == wanted).await;
}

async fn moved(world: &World, from: &Pod, epoch: u64) -> (Pod, Assignment) {
    from.drain().await;
    let pod = world.pod("moved");
    let session = assign(&pod, "u1", epoch);
    (pod, session)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_acked_cell_put_is_there_on_every_pod() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, BIG).await;
    let bytes = "host.ctx.put('bytes', new Uint8Array([1, 2, 3, 255]).subarray(1)); [host.ctx.size('big'), host.ctx.get('big') === big]";
    assert_eq!(value(&pod, &session, bytes).await, json!([450_000 * 11, true]));
    let (pod, session) = moved(&world, &pod, 2).await;
    let all = "[host.ctx.get('big') === big, [...host.ctx.get('bytes')], host.ctx.list(), host.ctx.get('none'), host.ctx.size('none')]";
    let listed = json!([{"name": "big", "size": 450_000 * 11}, {"name": "bytes", "size": 3}]);
    assert_eq!(value(&pod, &session, all).await, json!([true, [2, 3, 255], listed, null, null]));
    assert_eq!(value(&pod, &session, "[host.ctx.delete('bytes'), host.ctx.delete('bytes')]").await, json!([true, false]));
    pod.hibernate(session.clone()).await.unwrap();
    assert_eq!(
        value(&pod, &session, "[host.ctx.get('bytes') === undefined, await host.ctx.size('big')]").await,
        json!([true, 450_000 * 11])
    );
    until_pieces(&*world.store, "u1", 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_of_text_cut_no_character_and_lose_none() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, BIG).await;
    // Steps that fall into characters and over the ends of pieces.
    let joined = "let all = ''; const step = 99_991; \
                  for (let at = 0; at < host.ctx.size('big'); at += step) all += host.ctx.slice('big', at, at + step); all === big";
    assert_eq!(value(&pod, &session, joined).await, json!(true));
    let edges = "host.ctx.put('s', 'aä🦀b'); [host.ctx.slice('s', 2), host.ctx.slice('s', 1, 2), host.ctx.slice('s', -1), host.ctx.slice('s', 5, 3), \
                 host.ctx.slice('s', 0, 999), host.ctx.slice('s', NaN, 1)]";
    assert_eq!(value(&pod, &session, edges).await, json!(["🦀b", "ä", "b", "", "aä🦀b", "a"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_may_be_larger_than_the_heap() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign_spec(&pod, "u1", 1, small_heap());
    let grow =
        "for (let i = 0; i < 40; i++) host.ctx.append('log', String.fromCharCode(97 + i % 26).repeat(1_000_003)); host.ctx.size('log')";
    assert_eq!(value(&pod, &session, grow).await, json!(40 * 1_000_003));
    let far = "host.ctx.slice('log', 39 * 1000003 - 2, 39 * 1000003 + 2)";
    assert_eq!(value(&pod, &session, far).await, json!("mmnn"));
    let refused = eval(&pod, &session, "host.ctx.get('log')").await.error.unwrap();
    assert!(matches!(refused.code, ErrorCode::MemoryLimitError | ErrorCode::NativeAllocLimitError), "{refused:?}");
    // One commit a piece of text: the end of one is taken into the next.
    for n in 0..12 {
        value(&pod, &session, &format!("host.ctx.append('lines', 'line {n}\\n'); 0")).await;
    }
    assert_eq!(value(&pod, &session, "host.ctx.get('lines').split('\\n').length").await, json!(13));
    value(&pod, &session, "host.ctx.delete('log'); 0").await;
    assert_eq!(value(&pod, &session, "host.ctx.append('lines', 'x'); host.ctx.slice('lines', -9)").await, json!("line 11\nx"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_reads_the_pieces_that_it_lies_in_and_no_other() {
    let store = Arc::new(Faulty::counting(|key| parse_piece(key).is_some()));
    let pod = World::default().pod_over("a", Arc::<Faulty>::clone(&store));
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "host.ctx.put('b', new Uint8Array(8 << 20).fill(7)); 0").await;
    assert_eq!(store.gets(), 0, "to write reads nothing");
    let slices = "let sum = 0; for (let i = 0; i < 1000; i++) sum += host.ctx.slice('b', (3 << 20) + i * 1000, (3 << 20) + i * 1000 + 1000).length; sum";
    assert_eq!(value(&pod, &session, slices).await, json!(1_000_000));
    assert_eq!(store.gets(), 1);
    value(&pod, &session, "host.ctx.size('b') + host.ctx.list().length").await;
    assert_eq!(store.gets(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_acked_was_not_put_and_leaves_nothing() {
    let world = World::default();
    let pod = world.pod("a");
    let mut limited = spec();
    limited.limits.eval_timeout_ms = 600;
    let session = assign_spec(&pod, "u1", 1, limited);
    value(&pod, &session, "host.ctx.put('c', 'first'); host.ctx.put('gone', 'x'); 0").await;
    let lost =
        "host.ctx.put('c', 'second'); host.ctx.put('more', new Uint8Array(3 << 20)); host.ctx.delete('gone'); new Array(4e9).join('')";
    assert_eq!(eval(&pod, &session, lost).await.error.unwrap().code, ErrorCode::TimeoutError);
    let all = "[host.ctx.get('c'), host.ctx.get('gone'), host.ctx.list().length]";
    assert_eq!(value(&pod, &session, all).await, json!(["first", "x", 2]));
    until_pieces(&*world.store, "u1", 2).await;
    // Overwritten before any commit: not even that stays.
    value(&pod, &session, "for (let i = 0; i < 5; i++) host.ctx.put('c', `${i}`.repeat(1500000)); 0").await;
    until_pieces(&*world.store, "u1", 3).await;
    assert_eq!(value(&pod, &session, "host.ctx.slice('c', -2)").await, json!("44"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_whose_pieces_cannot_be_put_is_not_acked() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "host.ctx.put('c', 'kept'); let n = 1; n").await;
    world.store.down.store(true, Ordering::SeqCst);
    let read = eval_while_down(&pod, &session).await;
    assert_eq!(read, ErrorCode::StorageUnavailable);
    world.store.down.store(false, Ordering::SeqCst);
    assert_eq!(value(&pod, &session, "[n, host.ctx.get('c')]").await, json!([1, "kept"]));
}

/// Puts while nothing answers.
async fn eval_while_down(pod: &Pod, session: &Assignment) -> ErrorCode {
    let call = crate::common::call(session, "n = 2; host.ctx.put('c', 'lost'); 0", "down");
    let answer = tokio::time::timeout(Duration::from_secs(120), pod.eval(call)).await.expect("the cell is answered");
    answer.unwrap_err().code
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_and_forks_have_the_contents_of_their_time() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "host.ctx.put('c', 'then'.repeat(400000)); 0").await;
    pod.checkpoint(session.clone(), "then".to_owned()).await.unwrap();
    value(&pod, &session, "host.ctx.put('c', 'now'); host.ctx.put('d', 'more'); 0").await;
    let child_spec =
        KernelSessionSpec { source: Some(Source { session: "session-u1".to_owned(), checkpoint: Some("then".to_owned()) }), ..spec() };
    let child = Assignment { source_uid: Some("u1".to_owned()), ..assign_spec(&pod, "u2", 1, child_spec) };
    let then = "[host.ctx.size('c'), host.ctx.slice('c', -4), host.ctx.list().length]";
    assert_eq!(value(&pod, &child, then).await, json!([1_600_000, "then", 1]));
    pod.restore(session.clone(), "then".to_owned()).await.unwrap();
    assert_eq!(value(&pod, &session, then).await, json!([1_600_000, "then", 1]));
    let (pod, session) = moved(&world, &pod, 2).await;
    assert_eq!(value(&pod, &session, then).await, json!([1_600_000, "then", 1]));
    // The parent's objects go; the child's are its own.
    for key in world.store.list("p/t/team/s/default/u1/").await.unwrap() {
        world.store.delete(&key).await.unwrap();
    }
    let child = Assignment { boot: pod.info().boot, epoch: 2, ..child };
    assert_eq!(value(&pod, &child, then).await, json!([1_600_000, "then", 1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_piece_is_an_error_that_code_can_catch() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "host.ctx.put('c', new Uint8Array(2 << 20)); 0").await;
    let keys = pieces(&*world.store, "u1").await;
    let bytes = world.store.get(&keys[0]).await.unwrap().unwrap().bytes;
    let mut flipped = bytes.to_vec();
    flipped[40] ^= 1;
    world.store.put(&keys[0], flipped.into(), Condition::None).await.unwrap();
    let caught = "let told; try { host.ctx.get('c') } catch (e) { told = e } [told.name, told.code, host.ctx.slice('c', 1 << 20).length]";
    assert_eq!(value(&pod, &session, caught).await, json!(["SnapshotCorrupt", "SnapshotCorrupt", 1 << 20]));
    world.store.delete(&keys[1]).await.unwrap();
    let refused = eval(&pod, &session, "host.ctx.slice('c', 1 << 20)").await.error.unwrap();
    assert_eq!((refused.code, refused.name.as_str()), (ErrorCode::UncaughtException, "SnapshotCorrupt"));
    // Neither is hidden by another piece in its place.
    world.store.put(&keys[0], bytes.clone(), Condition::None).await.unwrap();
    world.store.put(&keys[1], bytes, Condition::None).await.unwrap();
    assert_eq!(value(&pod, &session, "host.ctx.slice('c', 0, 1 << 20).length").await, json!(1 << 20));
    assert_eq!(eval(&pod, &session, "host.ctx.slice('c', 1 << 20)").await.error.unwrap().name, "SnapshotCorrupt");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_typed_and_change_nothing() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let name = |bytes: usize| format!("let told = 0; try {{ host.ctx.put('n'.repeat({bytes}), '') }} catch (e) {{ told = e.code }} told");
    // The name goes with what tells it from other contents.
    assert_eq!(value(&pod, &session, &name(NAME_BYTES_MAX - 4)).await, json!(0));
    assert_eq!(value(&pod, &session, &name(NAME_BYTES_MAX - 3)).await, json!("InvalidRequest"));
    for bad in ["host.ctx.put('', 'x')", "host.ctx.put(1, 'x')", "host.ctx.put('x', 1)", "host.ctx.put('x')", "host.ctx.get()"] {
        assert_eq!(eval(&pod, &session, bad).await.error.unwrap().name, "TypeError", "{bad}");
    }
    let detached = "const gone = new ArrayBuffer(8); structuredClone(gone, { transfer: [gone] }); try { host.ctx.put('x', gone) } catch (e) {} host.ctx.list().length";
    assert_eq!(value(&pod, &session, detached).await, json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_fills_memory_that_a_commit_has_armed() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let fill = "const keep = []; for (let i = 0; i < 200; i++) keep.push(new Uint8Array(65536).fill(i + 1)); \
                host.ctx.put('c', new Uint8Array(1 << 20).fill(9)); 0";
    value(&pod, &session, fill).await;
    let sum = "keep.length = 100; const read = host.ctx.get('c'); read.reduce((a, b) => a + b, 0)";
    assert_eq!(value(&pod, &session, sum).await, json!(9 << 20));
    let (pod, session) = moved(&world, &pod, 2).await;
    assert_eq!(value(&pod, &session, "[read[5], read.length, keep[99][0]]").await, json!([9, 1 << 20, 100]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cell_puts_after_a_later_epoch_came_is_not_taken_for_a_predecessors() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "host.ctx.put('a', 'x'.repeat(2 << 20)); let n = 1; n").await;
    // The same process goes on under a later epoch, without a restore; then its first commit sweeps, and so does the next owner's.
    let later = Assignment { epoch: 5, ..session };
    value(&pod, &later, "host.ctx.append('a', 'y'.repeat(2 << 20)); await sleep(1); host.ctx.append('a', 'z'.repeat(2 << 20)); 0").await;
    value(&pod, &later, "host.ctx.append('a', 'w'); 0").await;
    let (pod, session) = moved(&world, &pod, 6).await;
    let ends = "const all = host.ctx.get('a'); [all.length, all[0], all[3 << 20], all[5 << 20], all.at(-1)]";
    assert_eq!(value(&pod, &session, ends).await, json!([(6 << 20) + 1, "x", "y", "z", "w"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_that_breaks_off_is_asked_for_again_where_that_does_no_harm() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let shown = value(
        &pod,
        &session,
        "var it = await callTool('torn'); [it.$ref.bytes, refs.read(it, -4), it.$ref.preview.length, it.$ref.mimeType]",
    )
    .await;
    assert_eq!(shown, json!([TORN_BYTES + 3, "aend", 500, "text/plain"]));
    assert_eq!(world.tools.attempts(2).await, [false, true]);
    let lost = "await callTool('tornOnce').catch((error) => error.name)";
    assert_eq!(value(&pod, &session, lost).await, json!("OutcomeUnknown"), "nobody may make it twice");
    assert_eq!(world.tools.attempts(3).await.len(), 3);
    // What had come of those that broke off is gone.
    assert_eq!(value(&pod, &session, "refs.list().length").await, json!(1));
    pod.hibernate(session.clone()).await.unwrap();
    until_pieces(&*world.store, "u1", 1).await;
    assert_eq!(value(&pod, &session, "refs.read(it, -4)").await, json!("aend"));
}
