//! What changed between two states of a session.

use std::sync::atomic::Ordering;

use crate::common::{World, assign, call, earlier, eval, upgraded, value};
use dormouse_kernel::Pod;
use dormouse_protocol::history::{ChangeKind, Difference};
use dormouse_protocol::kernel::{Assignment, DifferenceCall, StoredCall};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_store::SnapshotStore as _;
use serde_json::json;

async fn compare(pod: &Pod, session: &Assignment, from: &str, to: Option<&str>) -> Result<Difference, ApiError> {
    let stored = StoredCall { namespace: session.namespace.clone(), name: session.name.clone(), uid: session.uid.clone(), anchor: None };
    pod.stored_difference(&DifferenceCall { session: stored, from: from.to_owned(), to: to.map(str::to_owned) }).await
}

/// Runs the first cell, then the second, and tells what differs.
async fn between(before: &str, after: &str) -> Difference {
    let pod = World::default().pod("a");
    let session = assign(&pod, "u1", 1);
    eval(&pod, &session, before).await;
    pod.checkpoint(session.clone(), "before".to_owned()).await.unwrap();
    let result = eval(&pod, &session, after).await;
    assert!(result.ok, "{:?}", result.error);
    compare(&pod, &session, "before", None).await.unwrap()
}

/// Names with how they changed, as `+new -gone ~other`.
fn names(difference: &Difference) -> String {
    let sign = |kind| match kind {
        ChangeKind::Added => '+',
        ChangeKind::Removed => '-',
        ChangeKind::Changed | ChangeKind::Unknown => '~',
    };
    let globals = difference.globals.iter().map(|it| format!("{}{}", sign(it.change), it.name));
    globals.chain(difference.files.iter().map(|it| format!("{}{}", sign(it.change), it.path))).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_told_with_how_they_read_and_nothing_is_stored() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let first =
        "let words = ['a', 'b']; const pi = 3.14; var gone = 1; function f() { return 1 } class C {} let same = { deep: { er: [1] } }; 0";
    eval(&pod, &session, first).await;
    pod.checkpoint(session.clone(), "one".to_owned()).await.unwrap();
    let second = "words.push('c'); delete globalThis.gone; f = () => 2; globalThis.made = new Map([[1, { x: 2 }]]); 1";
    eval(&pod, &session, second).await;
    pod.checkpoint(session.clone(), "two".to_owned()).await.unwrap();
    eval(&pod, &session, "words = 'later'").await;
    let keys = world.store.list("").await.unwrap();

    // Another pod tells the same: it needs the store only.
    let told = compare(&world.pod("b"), &session, "one", Some("two")).await.unwrap();
    assert_eq!((told.from.label.as_deref(), told.to.label.as_deref(), told.partial), (Some("one"), Some("two"), false));
    // `var` cannot be deleted.
    assert_eq!(names(&told), "~f +made ~words");
    let words = told.globals.iter().find(|it| it.name == "words").unwrap();
    assert_eq!((words.before.as_deref(), words.after.as_deref()), (Some("[ 'a', 'b' ]"), Some("[ 'a', 'b', 'c' ]")));
    assert_eq!(told.globals[1].after.as_deref(), Some("Map(1) { 1 => { x: 2 } }"));
    let back = compare(&pod, &session, "two", Some("one")).await.unwrap();
    assert_eq!(names(&back), "~f -made ~words");
    assert_eq!(names(&compare(&pod, &session, "two", None).await.unwrap()), "~words");
    assert_eq!(names(&compare(&pod, &session, "two", Some("two")).await.unwrap()), "");
    assert_eq!(world.store.list("").await.unwrap(), keys);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_found_wherever_it_is() {
    let made = "const ring = { next: {} }; ring.next.back = ring; const list = { v: 0, rest: null }; for (let i = 0, at = list; i < 5000; i++) at = at.rest = { v: i, rest: null };
        const m = new Map([['k', { v: 1 }]]), s = new Set([1]), d = new Date(1), bytes = new Uint8Array(9), wide = new Array(12000).fill(1), big = 10n;
        class Point { constructor() { this.x = 1 } }; const p = new Point(), sym = { [Symbol('q')]: 1 }, frozen = { a: 1 }, deep = { a: { b: { c: [{ d: 1 }] } } }; const zero = { z: 0 }; 0";
    let pod = World::default().pod("a");
    let session = assign(&pod, "u1", 1);
    eval(&pod, &session, made).await;
    for (touch, expected) in [
        ("ring.next.other = 1", "~ring"),
        ("list.rest.rest.v = 77", "~list"),
        ("m.get('k').v = 2", "~m"),
        ("s.add(2)", "~s"),
        ("d.setTime(2)", "~d"),
        ("bytes[8] = 1", "~bytes"),
        ("wide[11999] = 2", "~wide"),
        ("Point.prototype.move = function () {}", "~Point"),
        ("p.x = 2", "~p"),
        ("sym[Object.getOwnPropertySymbols(sym)[0]] = 2", "~sym"),
        ("Object.freeze(frozen)", "~frozen"),
        ("deep.a.b.c[0].d = 2", "~deep"),
        ("zero.z = -0", "~zero"),
        ("void (ring.next.back, list.rest, p.x)", ""),
    ] {
        pod.checkpoint(session.clone(), "before".to_owned()).await.unwrap();
        assert!(eval(&pod, &session, touch).await.ok, "{touch}");
        assert_eq!(names(&compare(&pod, &session, "before", None).await.unwrap()), expected, "{touch}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_runs_nothing_of_the_session() {
    let traps = "globalThis.ran = 0; const run = () => { ran += 1; throw new Error('ran') };
        const p = new Proxy({}, { ownKeys: run, get: run, getOwnPropertyDescriptor: run, getPrototypeOf: run });
        const o = { get x() { return run() }, toJSON: run, toString: run, valueOf: run, [Symbol.toPrimitive]: run, [Symbol.for('nodejs.util.inspect.custom')]: run };
        Object.defineProperty(globalThis, 'late', { get: run, configurable: true }); Object.prototype.toJSON = run; setTimeout(run, 3600000); 0";
    let told = between(traps, "o.y = 1; globalThis.more = [p, o]; 0").await;
    assert_eq!(names(&told), "+more ~o");
    assert!(told.globals[1].after.as_deref().unwrap().contains("[Getter]"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_new_session_has_is_no_change_also_when_it_was_used() {
    let used = "const u = new URL('http://h/').href; await crypto.subtle.digest('SHA-256', new Uint8Array(1)); Buffer.from('x'); new Headers();
        new AbortController(); new TextEncoder(); new ReadableStream(); structuredClone({}); require('lodash').map([1], x => x); console.log('x');
        const { setTimeout: later } = require('timers'); performance.now(); 0";
    assert_eq!(names(&between("0", used).await), "+later +u");
    assert_eq!(names(&between("0", "console.mine = 1; parseFloat = 3; 0").await), "~console ~parseFloat");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_compared_by_content() {
    let before = "const fs = require('fs'); fs.writeFileSync('/tmp/a', 'one'); fs.mkdirSync('/data/x', { recursive: true }); fs.writeFileSync('/data/x/b', 'two'); 0";
    let told =
        between(before, "fs.writeFileSync('/tmp/a', 'ONE'); fs.unlinkSync('/data/x/b'); fs.writeFileSync('/data/c', new Uint8Array(5)); 0")
            .await;
    assert_eq!(
        told.files.iter().map(|it| (it.path.as_str(), it.change)).collect::<Vec<_>>(),
        [("/data/c", ChangeKind::Added), ("/data/x/b", ChangeKind::Removed), ("/tmp/a", ChangeKind::Changed)]
    );
    assert_eq!((told.files[0].bytes_before, told.files[0].bytes_after), (None, Some(5)));
    assert!(told.globals.is_empty(), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_awaits_is_compared_and_its_call_is_not_made_again() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    value(&pod, &session, "let n = 1; n").await;
    pod.checkpoint(session.clone(), "before".to_owned()).await.unwrap();
    let waiting = tokio::spawn({
        let (pod, session) = (pod.clone(), session.clone());
        async move { pod.eval(call(&session, "n = 2; await callTool('slow', {}); n = 3", "k")).await }
    });
    world.tools.attempts(1).await;
    assert_eq!(names(&compare(&pod, &session, "before", None).await.unwrap()), "~n");
    assert_eq!(world.tools.effects.load(Ordering::SeqCst), 1);
    world.tools.open();
    assert_eq!(waiting.await.unwrap().unwrap().value, Some(json!(3)));
    assert_eq!(world.tools.attempts(1).await, [false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_an_earlier_engine_is_looked_at_in_it() {
    let world = World::default();
    let old = world.pod_of("old", 10, earlier());
    let session = assign(&old, "u1", 1);
    value(&old, &session, "let n = 1; n").await;
    old.checkpoint(session.clone(), "one".to_owned()).await.unwrap();
    value(&old, &session, "n = 2; let m = 1; n").await;
    let new = world.pod_of("new", 10, upgraded());
    assert_eq!(names(&compare(&new, &session, "one", None).await.unwrap()), "+m ~n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_compared_is_a_typed_error() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let never = compare(&pod, &session, "1", None).await.unwrap_err();
    assert_eq!(never.code, ErrorCode::Conflict, "{never}");
    value(&pod, &session, "let n = 1; n").await;
    pod.checkpoint(session.clone(), "one".to_owned()).await.unwrap();
    for (from, to) in [("nothing", None), ("one", Some("nothing"))] {
        let unknown = compare(&pod, &session, from, to).await.unwrap_err();
        assert_eq!((unknown.code, unknown.message.contains("no checkpoint `nothing`")), (ErrorCode::InvalidRequest, true), "{unknown}");
    }
    let elsewhere = Assignment { namespace: "other".to_owned(), ..session.clone() };
    assert_eq!(compare(&pod, &elsewhere, "one", None).await.unwrap_err().code, ErrorCode::Forbidden);
    value(&pod, &session, "Reflect.ownKeys = () => { throw new Error('mine') }; 1").await;
    let unreadable = compare(&pod, &session, "one", None).await.unwrap_err();
    assert_eq!(unreadable.code, ErrorCode::UncaughtException, "{unreadable}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_further_than_the_look_is_named() {
    let large = "const big = { list: new Array(1_000_100).fill(0) }; let n = 1; 0";
    let told = between(large, "big.list[1_000_090] = 1; 0").await;
    assert_eq!((names(&told).as_str(), told.unsure), ("", vec!["big".to_owned()]));
    let told = between(large, "big.list[1000] = 1; 0").await;
    assert_eq!(names(&told), "~big");
}
