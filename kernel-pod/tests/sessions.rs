//! One pod: cells, sleep, limits.

use std::time::{Duration, Instant};

use crate::common::{World, assign, assign_spec, call, eval, metric, spec, try_eval, until, value};
use dormouse_crds::session::{Bootstrap, Durability, KernelSessionSpec, OperatingMode};
use dormouse_protocol::ErrorCode;
use dormouse_protocol::eval::Woke;
use dormouse_protocol::event::EventBody;
use dormouse_protocol::kernel::{Assignment, SessionCall};
use dormouse_protocol::session::State;
use dormouse_testkit::wait::eventually;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn cells_share_a_heap_and_every_one_is_durable() {
    let pod = World::default().pod("a");
    let session = assign(&pod, "u1", 1);
    let first = eval(&pod, &session, "const words: string[] = ['a']; console.log('hi'); words.length").await;
    assert_eq!((first.ok, first.value, first.cell, first.sequence, first.durable), (true, Some(json!(1)), 1, 1, true));
    assert_eq!(first.console[0].text, "hi");
    assert!(first.stats.committed_bytes > 0);
    let second = eval(&pod, &session, "words.push('b'); words").await;
    assert_eq!((second.value, second.cell, second.sequence), (Some(json!(["a", "b"])), 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_an_answer_finds_the_session_as_it_is_after_it() {
    let pod = World::default().pod("a");
    // What is answered and not stored is kept at hand, which takes a while after the answer.
    let session = assign_spec(&pod, "u1", 1, KernelSessionSpec { durability: Durability::OnIdle, ..spec() });
    let asked = SessionCall { uid: session.uid.clone(), epoch: session.epoch, boot: session.boot.clone() };
    for number in 1..=5 {
        let cell = eval(&pod, &session, &format!("var large = new Uint8Array(24 << 20).fill({number}); 0")).await;
        let told = pod.session(&asked).unwrap();
        assert_eq!((told.cells, told.state), (cell.cell, State::Idle), "after cell {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_sleeps_and_wakes_from_the_pods_own_copy() {
    let pod = World::default().pod("a");
    let session = assign_spec(&pod, "u1", 1, dormouse_crds::session::KernelSessionSpec { idle_seconds: 0, ..spec() });
    eval(&pod, &session, "let n = 41; const next = () => ++n; 0").await;
    let asleep = until(&pod, "u1", |report| report.state == State::Hibernated).await;
    assert_eq!(asleep.snapshot.unwrap().sequence, 1);
    assert_eq!(pod.info().used, 0);
    let woken = eval(&pod, &session, "next()").await;
    assert_eq!((woken.value, woken.stats.woke), (Some(json!(42)), Woke::Cache));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_session_that_is_left_alone_gives_memory_back_and_goes_on() {
    const GIVEN: &str = "kernel_pages_given_back_total";
    const WASTE_PAGES: u64 = (4 << 20) / 4096;
    let pod = World::default().pod("a");
    let session = assign(&pod, "u1", 1);
    for round in 1..=2 {
        let before = metric(&pod, GIVEN);
        let asked = Instant::now();
        // What it used for a moment is as it was in the beginning, and resident.
        let cell = eval(&pod, &session, "var kept = (globalThis.kept ?? 0) + 1; new Uint8Array(4 << 20).fill(7); kept").await;
        assert_eq!((cell.value, cell.stats.woke), (Some(json!(round)), Woke::No), "it is live all the time");
        eventually("the session gives back", async || metric(&pod, GIVEN) > before).await;
        assert!(asked.elapsed() >= Duration::from_secs(1), "the next cell may come soon");
        let given = metric(&pod, GIVEN) - before;
        assert!(given >= WASTE_PAGES, "{given} pages in round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_must_run_never_sleeps() {
    let pod = World::default().pod_with("a", 1);
    let running = dormouse_crds::session::KernelSessionSpec { idle_seconds: 0, operating_mode: OperatingMode::Running, ..spec() };
    let session = assign_spec(&pod, "u1", 1, running);
    eval(&pod, &session, "1").await;
    let refused = try_eval(&pod, &assign(&pod, "u2", 1), "1").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::CapacityExhausted);
    assert_eq!(eval(&pod, &session, "2").await.stats.woke, Woke::No);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pod_puts_the_longest_idle_session_to_sleep() {
    let pod = World::default().pod_with("a", 2);
    let [one, two, three] = ["u1", "u2", "u3"].map(|uid| assign(&pod, uid, 1));
    value(&pod, &one, "let x = 'one'; x").await;
    value(&pod, &two, "let x = 'two'; x").await;
    value(&pod, &three, "let x = 'three'; x").await;
    until(&pod, "u1", |report| report.state == State::Hibernated).await;
    assert_eq!(pod.info().used, 2);
    let again = eval(&pod, &one, "x").await;
    assert_eq!((again.value, again.stats.woke), (Some(json!("one")), Woke::Cache));
    until(&pod, "u2", |report| report.state == State::Hibernated).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failure_of_a_cell_has_its_error_and_the_session_lives_on() {
    let pod = World::default().pod("a");
    let mut limited = spec();
    limited.limits.eval_timeout_ms = 1000;
    limited.limits.heap_bytes = 16 << 20;
    limited.limits.output_bytes = 4096;
    let session = assign_spec(&pod, "u1", 1, limited);
    value(&pod, &session, "let kept = 7; kept").await;
    let failures = [
        ("throw new TypeError('no')", ErrorCode::UncaughtException),
        ("for (;;) {}", ErrorCode::TimeoutError),
        ("(() => { const hog: string[] = []; for (;;) hog.push('x'.repeat(1 << 16) + hog.length) })()", ErrorCode::MemoryLimitError),
        ("const deep = (n) => deep(n + 1) + 1; deep(0)", ErrorCode::StackOverflow),
        ("for (let i = 0; i < 1000; i++) console.log('x'.repeat(100))", ErrorCode::OutputLimitError),
        ("let = = 1", ErrorCode::SyntaxError),
        ("await new Promise(() => {})", ErrorCode::UncaughtException),
    ];
    for (at, (code, expected)) in (0..).zip(failures) {
        let result = eval(&pod, &session, code).await;
        let error = result.error.unwrap_or_else(|| panic!("{code} must fail"));
        // Every failure is a cell, and so is the look at what was kept before.
        assert_eq!((result.ok, error.code, result.cell), (false, expected, 2 * at + 2), "{code}: {error:?}");
        assert_eq!(value(&pod, &session, "kept").await, json!(7), "after {code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_awaits_nothing_says_so() {
    let pod = World::default().pod("a");
    let session = assign(&pod, "u1", 1);
    let result = eval(&pod, &session, "await new Promise(() => {})").await;
    assert!(result.error.unwrap().message.contains("nothing can settle"));
    assert_eq!(value(&pod, &session, "await Promise.resolve(3)").await, json!(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_the_users_line() {
    let pod = World::default().pod("a");
    let session = assign(&pod, "u1", 1);
    let error = eval(&pod, &session, "interface A { b: string }\nconst a: A = { b: 'x' };\nnull.boom;").await.error.unwrap();
    assert_eq!((error.name.as_str(), error.line), ("TypeError", 3), "{error:?}");
    assert!(error.stack.contains("cell-1.ts:3:"), "{}", error.stack);
}

/// Its process was lost while it awaited: what is stored awaits still, and nobody has woken it.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_awaits_while_its_session_sleeps_can_be_interrupted() {
    let world = World::default();
    let (first, second) = (world.pod("a"), world.pod("b"));
    let session = assign(&first, "u1", 1);
    let running = tokio::spawn({
        let (pod, session) = (first.clone(), session.clone());
        async move { eval(&pod, &session, "await callTool('slow', {})").await }
    });
    until(&first, "u1", |report| report.state == State::WaitingForTool).await;
    running.abort();
    let session = assign(&second, "u1", 2);
    second.interrupt(session.clone()).await.unwrap();
    assert_eq!(value(&second, &session, "1 + 1").await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_awaiting_cell_can_be_interrupted() {
    let world = World::default();
    let pod = world.pod("a");
    let session = assign(&pod, "u1", 1);
    let running = tokio::spawn({
        let (pod, session) = (pod.clone(), session.clone());
        async move { eval(&pod, &session, "await callTool('slow', {})").await }
    });
    until(&pod, "u1", |report| report.state == State::WaitingForTool).await;
    pod.interrupt(session.clone()).await.unwrap();
    assert_eq!(running.await.unwrap().error.unwrap().code, ErrorCode::Interrupted);
    assert_eq!(value(&pod, &session, "1 + 1").await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tools_failure_and_the_limit_of_calls_can_be_caught() {
    let world = World::default();
    let pod = world.pod("a");
    let mut limited = spec();
    limited.limits.tool_calls = 2;
    let session = assign_spec(&pod, "u1", 1, limited);
    let code = "const names: string[] = []; for (let i = 0; i < 3; i++) { try { await callTool('nope', {}) } catch (e) { names.push(e.name) } } names";
    assert_eq!(value(&pod, &session, code).await, json!(["ToolNotFound", "ToolNotFound", "QuotaExceeded"]));
    assert_eq!(value(&pod, &session, "await callTool('echo', { a: [1] })").await, json!({ "a": [1] }));
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_code_runs_once_and_its_failure_is_the_sessions() {
    let world = World::default();
    let pod = world.pod("a");
    let with = |code: &str| dormouse_crds::session::KernelSessionSpec {
        bootstrap: Some(Bootstrap { code: code.to_owned(), ..Bootstrap::default() }),
        ..spec()
    };
    let good = assign_spec(&pod, "u1", 1, with("globalThis.boots = (globalThis.boots ?? 0) + 1; await callTool('echo', 1)"));
    assert_eq!(value(&pod, &good, "boots").await, json!(1));
    pod.hibernate(good.clone()).await.unwrap();
    let other = world.pod("b");
    let moved = assign_spec(&other, "u1", 2, good.spec.clone());
    assert_eq!(value(&other, &moved, "boots").await, json!(1));

    let bad = assign_spec(&pod, "u2", 1, with("throw new RangeError('not today')"));
    let error = try_eval(&pod, &bad, "1").await.unwrap_err();
    assert!(error.message.contains("not today"), "{error}");
    until(&pod, "u2", |report| report.state == State::Failed && report.failure.is_some()).await;
}

/// Each process ends while the code runs: what is known of that lies in the store.
#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_code_that_ends_its_process_is_not_begun_for_ever() {
    let world = World::default();
    let mut deadly = spec();
    deadly.bootstrap = Some(Bootstrap { code: "console.log('begun'); for (;;);".to_owned(), ..Bootstrap::default() });
    deadly.limits.eval_timeout_ms = 3_600_000;
    for epoch in 1..=5 {
        let pod = world.pod("dies");
        let session = assign_spec(&pod, "u1", epoch, deadly.clone());
        let (begun, running) = (pod.clone(), session.clone());
        let waiting = tokio::spawn(async move { begun.wake(running).await });
        until(&pod, "u1", |report| report.state == State::Running).await;
        waiting.abort();
    }
    let pod = world.pod("lives");
    let error = pod.wake(assign_spec(&pod, "u1", 6, deadly.clone())).await.unwrap_err();
    assert!(error.message.contains("was begun 5 times"), "{error}");
    // Another spec's code begins anew.
    let mended =
        KernelSessionSpec { bootstrap: Some(Bootstrap { code: "globalThis.boots = 1".to_owned(), ..Bootstrap::default() }), ..spec() };
    let session = Assignment { generation: 2, ..assign_spec(&pod, "u1", 6, mended) };
    assert_eq!(value(&pod, &session, "boots").await, json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn output_leaves_while_the_cell_runs() {
    let pod = World::default().pod("a");
    let session = assign(&pod, "u1", 1);
    let mut running = pod
        .eval_streaming(call(&session, "console.log('first'); host.progress(0.5, 'half'); display.html('<b>'); for (;;) {}", "k"), None)
        .await
        .unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        match running.events.recv().await.unwrap().body {
            EventBody::Log { text, .. } => seen.push(text),
            EventBody::Display { mime_type, .. } => seen.push(mime_type),
            EventBody::Progress { fraction, note } => seen.push(format!("{fraction} {note}")),
            EventBody::Final { result } => panic!("{result:?} came before {seen:?}"),
            _ => {}
        }
    }
    assert_eq!(seen, ["first", "0.5 half", "text/html"]);
    // The loop has no other end.
    pod.interrupt(session).await.unwrap();
    let result = running.answer.await.unwrap().unwrap();
    assert_eq!(result.error.unwrap().code, ErrorCode::Interrupted);
    assert_eq!((result.console.len(), result.display.len()), (1, 1));
}

/// Whether the turn has ended when the request comes, or not: the cell ends by it.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_in_the_moment_in_which_a_cell_begins_to_await_is_not_lost() {
    let pod = World::default().pod("a");
    let session = assign(&pod, "u1", 1);
    for number in 0..50 {
        let code = format!("for (let i = 0; i < {number} * 1000; i++); console.log('now'); await sleep(3600_000)");
        let mut running = pod.eval_streaming(call(&session, &code, &format!("k{number}")), None).await.unwrap();
        while !matches!(running.events.recv().await.unwrap().body, EventBody::Log { .. }) {}
        pod.interrupt(session.clone()).await.unwrap();
        let result = running.answer.await.unwrap().unwrap();
        assert_eq!(result.error.unwrap().code, ErrorCode::Interrupted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_a_long_builtin_and_the_session_lives() {
    let pod = World::default().pod("a");
    let session = assign(&pod, "u1", 1);
    assert_eq!(value(&pod, &session, "var before = 'kept'; before").await, json!("kept"));
    let code = "console.log('now'); new Array(4e9).join('')";
    let mut running = pod.eval_streaming(call(&session, code, "k"), None).await.unwrap();
    while !matches!(running.events.recv().await.unwrap().body, EventBody::Log { .. }) {}
    pod.interrupt(session.clone()).await.unwrap();
    let result = running.answer.await.unwrap().unwrap();
    assert_eq!(result.error.unwrap().code, ErrorCode::Interrupted);
    assert_eq!(value(&pod, &session, "before").await, json!("kept"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_constant_stays_one_in_later_cells_until_it_is_declared_again() {
    let pod = World::default().pod("a");
    let session = assign(&pod, "u1", 1);
    assert!(eval(&pod, &session, "const limit = 1; const { other } = { other: 2 }").await.ok);
    let error = eval(&pod, &session, "limit = 2").await.error.unwrap();
    assert_eq!((error.name.as_str(), error.message.as_str()), ("TypeError", "Assignment to constant variable."));
    assert_eq!(value(&pod, &session, "[limit, other]").await, json!([1, 2]));
    pod.hibernate(session.clone()).await.unwrap();
    assert!(!eval(&pod, &session, "other++").await.ok);
    assert_eq!(value(&pod, &session, "let limit = 5; limit = 6; limit").await, json!(6));
    assert_eq!(value(&pod, &session, "limit = 7; limit").await, json!(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_numbered_and_end_in_the_answer() {
    let pod = World::default().pod("a");
    let session = assign(&pod, "u1", 1);
    let mut running = pod.eval_streaming(call(&session, "console.log('one'); console.log('two'); 3", "k"), None).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = running.events.recv().await {
        events.push(event);
    }
    assert!(events.is_sorted_by(|a, b| a.seq < b.seq));
    let texts: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::Log { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["one", "two"]);
    let result = running.answer.await.unwrap().unwrap();
    assert!(matches!(&events.last().unwrap().body, EventBody::Final { result: last } if **last == result));
}
