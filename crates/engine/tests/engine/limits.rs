//! What stops a cell, and that the session lives on.

use std::{
    future::Future as _,
    time::{Duration, Instant},
};

use dormouse_engine::{Budget, EngineError, EngineErrorCode as Code, OpResult};
use serde_json::json;

use crate::support::{Session, real, restore};

async fn fails_with(session: &mut Session, code: &str, expected: Code) {
    let cell = session.cell(code).await;
    let error = cell.error.unwrap_or_else(|| panic!("{code} gave {}", cell.preview));
    assert_eq!(error.code, expected, "{code}: {error:?}");
    assert!(!cell.ok);
    if expected != Code::UncaughtException && expected != Code::SyntaxError {
        assert_eq!(error.name, expected.as_str());
        assert!(!error.message.is_empty());
    }
    assert_eq!(session.value("1+1").await, json!(2), "after {code}");
}

#[tokio::test]
async fn a_loop_ends_at_its_wall_budget() {
    let mut session = Session::new(real());
    session.cell("var before = 5").await;
    session.budget.wall = Duration::from_millis(50);
    let began = Instant::now();
    for code in ["while(true){}", "try { for(;;); } catch { 'caught' } finally { for(;;); }", "/(a*)*b/.test('a'.repeat(40))"] {
        fails_with(&mut session, code, Code::TimeoutError).await;
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(session.value("before").await, json!(5));
}

#[tokio::test]
async fn an_async_loop_ends_at_its_wall_budget() {
    let mut session = Session::new(real());
    session.budget.wall = Duration::from_millis(50);
    for code in ["while(true) await null", "await 1; while(true);", "var f = () => Promise.resolve().then(f); await f()"] {
        let cell = session.turn(code, true).await.cell.unwrap();
        assert_eq!(cell.error.unwrap().code, Code::TimeoutError, "{code}");
    }
    assert_eq!(session.value("1+1").await, json!(2));
}

#[tokio::test]
async fn ticks_are_a_budget_too() {
    let mut session = Session::new(real());
    session.budget.ticks = 20;
    fails_with(&mut session, "while(true){}", Code::TickBudgetExceeded).await;
    session.budget.ticks = 0;
    let turn = session.turn("for (let i = 0; i < 1e6; i++); 1", false).await;
    assert!(turn.ticks > 10);
    assert!(turn.cpu > Duration::ZERO);
}

#[tokio::test(flavor = "current_thread")]
async fn a_running_cell_yields_and_can_be_interrupted() {
    let mut session = Session::new(real());
    let handle = session.instance.interrupt_handle();
    let running = session.turn("while(true){}", false);
    // One thread: the second future only ever runs because the first yields.
    let (turn, ()) = tokio::join!(running, async { handle.interrupt() });
    assert_eq!(turn.cell.unwrap().error.unwrap().code, Code::Interrupted);
    assert_eq!(session.value("1+1").await, json!(2));
}

#[tokio::test]
async fn an_interrupt_just_before_a_turn_begins_ends_it() {
    let mut session = Session::new(real());
    session.instance.interrupt_handle().interrupt();
    let turn = session.turn("while(true){}", false).await;
    assert_eq!(turn.cell.unwrap().error.unwrap().code, Code::Interrupted);
    let late = session.instance.interrupt_handle();
    late.interrupt();
    let _taken_for_the_next_turn = session.instance.interrupt_handle();
    assert_eq!(session.value("1+1").await, json!(2), "what was asked for before a turn's own handle is forgotten");
}

#[tokio::test]
async fn the_heap_limit_is_a_typed_error() {
    let mut session = Session::new(dormouse_engine::Settings { heap_bytes: 16 << 20, determinism: None });
    session.cell("var kept = 'kept'").await;
    fails_with(&mut session, "var hog = []; for (;;) hog.push(new Array(1000).fill({}))", Code::MemoryLimitError).await;
    session.cell("hog = null").await;
    fails_with(&mut session, "var s = 'x'; for (;;) s = [s, s].join('')", Code::MemoryLimitError).await;
    session.cell("s = null").await;
    fails_with(&mut session, "new Uint8Array(64 << 20)", Code::NativeAllocLimitError).await;
    fails_with(&mut session, "(() => { const t = []; for (;;) t.push({t}) })()", Code::MemoryLimitError).await;
    assert_eq!(session.value("kept").await, json!("kept"));
    assert_eq!(session.value("try { new Uint8Array(64 << 20) } catch (e) { e.name }").await, json!("InternalError"));
}

#[tokio::test]
async fn a_full_heap_can_be_put_in_order() {
    const LIMIT: u64 = 16 << 20;
    const TIDYING_BYTES: u64 = 256 << 10;
    let mut session = Session::new(dormouse_engine::Settings { heap_bytes: LIMIT, determinism: None });
    fails_with(&mut session, "var hoard = []; for (;;) hoard.push('x'.repeat(65536) + hoard.length)", Code::MemoryLimitError).await;
    fails_with(&mut session, "const down = (n) => down(n + 1) + 1; down(0)", Code::StackOverflow).await;
    assert_eq!(session.value("hoard.splice(0).length > 100").await, json!(true));
    assert!(session.instance.heap_bytes() < LIMIT / 8, "{}", session.instance.heap_bytes());
    // What a cell has for that is no way around the limit.
    for _ in 0..4 {
        fails_with(&mut session, "globalThis.more ??= []; for (;;) more.push('x'.repeat(1000) + more.length)", Code::MemoryLimitError)
            .await;
    }
    assert!(session.instance.heap_bytes() <= LIMIT + TIDYING_BYTES, "{}", session.instance.heap_bytes());
}

#[tokio::test]
async fn recursion_is_a_typed_error() {
    let mut session = Session::new(real());
    fails_with(&mut session, "(function f(){ return 1+f() })()", Code::StackOverflow).await;
    let caught = session.value("try { (function f(){ return 1+f() })() } catch (e) { e.name }").await;
    assert_eq!(caught, json!("RangeError"));
    let turn = session.turn("await (async function f(){ return 1 + await f() })()", true).await;
    assert_eq!(turn.cell.unwrap().error.unwrap().code, Code::StackOverflow);
}

#[tokio::test]
async fn hostile_depth_never_traps() {
    let probes = [
        "var d='['.repeat(200000); try{JSON.parse(d)}catch(e){e.name}",
        "try{new RegExp('('.repeat(50000)+')'.repeat(50000)).test('a')}catch(e){e.name}",
        "try{eval('('.repeat(50000)+'1'+')'.repeat(50000))}catch(e){e.name}",
        "var arr=[];for(let i=0;i<100000;i++)arr=[arr];try{JSON.stringify(arr).length}catch(e){e.name}",
        "var deep=[];for(let i=0;i<100000;i++)deep=[deep];deep",
        "try{ [3,2,1].sort(function f(){ return [2,1].sort(f) }) }catch(e){e.name}",
        "var pr={};for(let i=0;i<50000;i++)pr=new Proxy(pr,{});try{pr.zz}catch(e){e.name}",
        "function f(){return f()+1} try{f()}catch(e){e.name}",
        "var o={toString(){return ''+o}}; try{''+o}catch(e){e.name}",
        "var ar=[1]; ar.toString=()=>[ar].join(); try{[ar].join()}catch(e){e.name}",
        "try{eval('['.repeat(100000))}catch(e){e.name}",
        "try{eval('a?'.repeat(60000)+'1')}catch(e){e.name}",
        "var n={};for(let i=0;i<300000;i++)n={n};n=null; 7",
        "var cause; for(let i=0;i<10000;i++) cause=new Error('e',{cause}); throw cause",
        "structuredClone((() => { let x = {}; for (let i = 0; i < 100000; i++) x = {x}; return x })())",
    ];
    for probe in probes {
        let mut session = Session::new(real());
        session.turn(probe, false).await;
        assert_eq!(session.value("1+1").await, json!(2), "after {probe}");
    }
}

#[tokio::test]
async fn output_has_a_limit() {
    let mut session = Session::new(real());
    session.budget = Budget { output_bytes: 1000, ..session.budget };
    let turn = session.turn("for (let i = 0; ; i++) console.log('line', i)", false).await;
    assert_eq!(turn.cell.unwrap().error.unwrap().code, Code::OutputLimitError);
    assert!(turn.console.iter().map(|line| line.text.len()).sum::<usize>() <= 1000);
    fails_with(&mut session, "'x'.repeat(2000)", Code::OutputLimitError).await;
}

#[tokio::test]
async fn operations_have_a_limit_that_a_script_can_catch() {
    let mut session = Session::new(real());
    session.budget = Budget { pending_operations: 3, ..session.budget };
    let turn = session.turn("var n = 0; try { for (;;) { setTimeout(() => {}, 1); n++ } } catch (e) { n + e.name }", false).await;
    assert_eq!(turn.cell.unwrap().value, Some(json!("48PendingOperationsExceeded")), "sixteen timers for each call");
    assert_eq!(turn.ops.len(), 48);
    let calls = "for (let i = 0; i < 5; i++) callTool('t').catch(() => {}); 1";
    let turn = session.turn(calls, false).await;
    assert_eq!(turn.ops.len(), 3);
    assert!(turn.cell.is_some());
}

#[tokio::test]
async fn a_thousand_timers_may_wait_for_one_promise() {
    let mut session = Session::new(real());
    let turn = session
        .turn("await Promise.all(Array.from({ length: 1000 }, (_, n) => sleep(n).then(() => n))).then((all) => all.at(-1))", true)
        .await;
    assert_eq!(turn.ops.len(), 1000);
    let mut end = None;
    for op in &turn.ops {
        end = session.deliver(op.id, dormouse_engine::OpResult::Fired).await.cell;
    }
    assert_eq!(end.unwrap().value, Some(json!(999)));
}

/// Builtins that take long and in which no script runs.
const LONG_BUILTINS: &[&str] = &[
    "'a'.repeat(1e7).split('').sort().join('').length",
    "new Array(4e9).join('')",
    "'x'.repeat(1e7).replaceAll('x', 'yy').length",
    "JSON.stringify(Array.from({ length: 20 }, () => 'a'.repeat(4e6)).map((s) => s.toUpperCase().normalize('NFD')).concat(new Array(1e8)))",
    "const { pbkdf2Sync } = require('crypto'); pbkdf2Sync('p', 's', 4e6, 64, 'sha512')",
    "String(3n ** 600_000n).length",
    "var big = new Uint8Array(2e8); for (;;) big.fill(1)",
    "var big = new Uint8Array(2e8); for (;;) big.copyWithin(1, 0)",
    "var big = new Uint8Array(2e8); for (;;) structuredClone(big)",
    "var s = 'ab'.repeat(5e7); for (;;) s.indexOf('abb')",
    "eval('0' + ' + 1'.repeat(5e6))",
];

/// A turn of `LONG_BUILTINS`.
fn long_builtin(code: &str) -> (Session, dormouse_engine::CellSource) {
    let session = Session::new(dormouse_engine::Settings { heap_bytes: 1 << 30, determinism: None });
    (session, dormouse_engine::CellSource { code: code.to_owned(), ..Default::default() })
}

#[tokio::test]
async fn a_long_builtin_is_ended_at_its_budget_and_the_session_goes_on_from_before() {
    for code in LONG_BUILTINS {
        let (mut session, cell) = long_builtin(code);
        session.cell("var before = 'kept'").await;
        let image = session.instance.image().await;
        session.budget.wall = Duration::from_millis(60);
        let ended = session.instance.eval(&cell, &session.budget).await;
        match ended {
            Err(EngineError::Overrun) => {}
            // One that was called from a script's loop may end by the script's own exception.
            Ok(turn) if code.contains("for (;;)") => {
                assert_eq!(turn.cell.unwrap().error.unwrap().code, Code::TimeoutError, "{code}");
                continue;
            }
            other => panic!("{code}: {other:?}"),
        }
        assert!(matches!(session.instance.eval(&cell, &session.budget).await, Err(EngineError::Poisoned)));
        assert!(session.instance.image().await.pages.is_empty() && session.instance.delta().await.pages.is_empty());
        session.instance.mark_committed();
        let mut again = Session { instance: restore(&image, &session.settings).await, ..session };
        assert_eq!(again.value("before").await, json!("kept"), "after {code}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_long_builtin_lets_others_run() {
    for code in LONG_BUILTINS {
        let (mut session, cell) = long_builtin(code);
        let mut turn = std::pin::pin!(session.instance.eval(&cell, &session.budget));
        let mut yields = 0;
        std::future::poll_fn(|context| {
            let polled = turn.as_mut().poll(context);
            assert!(polled.is_pending(), "{code}: {polled:?} after {yields} yields");
            yields += 1;
            if yields == 5 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

/// Code without a branch is counted by its length, so that no text of a cell keeps the thread for long.
#[tokio::test(flavor = "current_thread")]
async fn a_long_body_without_a_branch_lets_others_run() {
    const LONGEST: Duration = Duration::from_millis(60);
    for (body, rounds) in [("x = x * 31 ^ 7;", 98_304), ("[x, x];", 98_304), ("x = x ** 1.1;", 1_000)] {
        let code = format!("const f = new Function('x', 'for (;;) {{' + '{body}'.repeat({rounds}) + '}}'); f(1)");
        let (mut session, cell) = long_builtin(&code);
        session.budget.wall = Duration::from_secs(1);
        let mut turn = std::pin::pin!(session.instance.eval(&cell, &session.budget));
        let mut longest = Duration::ZERO;
        let ended = std::future::poll_fn(|context| {
            let began = thread_cpu();
            let polled = turn.as_mut().poll(context);
            longest = longest.max(thread_cpu().saturating_sub(began));
            polled
        })
        .await;
        assert_eq!(ended.unwrap().cell.unwrap().error.unwrap().code, Code::TimeoutError, "{body}");
        assert!(longest < LONGEST, "{body}: {longest:?} between two polls");
    }
}

#[tokio::test]
async fn a_function_has_a_longest_text() {
    let mut session = Session::new(dormouse_engine::Settings { heap_bytes: 512 << 20, determinism: None });
    for code in ["eval('x = 1;'.repeat(1e6))", "new Function('x = 1;'.repeat(1e6))"] {
        let caught = session.value(&format!("try {{ {code} }} catch (e) {{ `${{e}}` }}")).await;
        assert_eq!(caught, json!("SyntaxError: a function is too long"), "{code}");
    }
}

/// Processor time of this thread: what others do on the machine does not count.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

#[tokio::test(flavor = "current_thread")]
async fn an_interrupt_ends_a_long_builtin() {
    for code in LONG_BUILTINS {
        let (mut session, cell) = long_builtin(code);
        let handle = session.instance.interrupt_handle();
        let began = Instant::now();
        let running = session.instance.eval(&cell, &session.budget);
        let (ended, ()) = tokio::join!(running, async { handle.interrupt() });
        match ended {
            Err(EngineError::Interrupted) => {}
            Ok(turn) => assert_eq!(turn.cell.unwrap().error.unwrap().code, Code::Interrupted, "{code}"),
            Err(other) => panic!("{code}: {other:?}"),
        }
        assert!(began.elapsed() < session.budget.wall / 4, "{code}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn an_interrupt_that_came_when_the_turn_had_ended_is_told() {
    let mut session = Session::new(real());
    let handle = session.instance.interrupt_handle();
    assert!(session.turn("await sleep(1)", true).await.cell.is_none());
    assert!(!session.instance.missed_interrupt());
    handle.interrupt();
    assert!(session.instance.missed_interrupt());
    assert!(!session.instance.missed_interrupt());
    let running = session.turn("while(true){}", false);
    let (turn, ()) = tokio::join!(running, async { handle.interrupt() });
    assert_eq!(turn.cell.unwrap().error.unwrap().code, Code::Interrupted);
    assert!(!session.instance.missed_interrupt(), "the turn has ended by it");
}

#[tokio::test]
async fn progress_is_shown_and_counted_as_output() {
    let mut session = Session::new(real());
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let shown = std::sync::Arc::clone(&seen);
    session.instance.set_outlet(Some(Box::new(move |output| {
        if let dormouse_engine::Output::Progress(progress) = output {
            shown.lock().unwrap().push((progress.fraction, progress.note.clone()));
        }
    })));
    let turn = session.turn("host.progress(0); host.progress(0.5, 'half a \"word\"'); host.progress(1, 'ä'.repeat(512))", false).await;
    assert_eq!(turn.output_bytes, 16 + 16 + 13 + 16 + 1024);
    let said = seen.lock().unwrap().clone();
    assert_eq!(said, vec![(0.0, String::new()), (0.5, "half a \"word\"".to_owned()), (1.0, "ä".repeat(512))]);
    for (code, name) in [
        ("host.progress()", "TypeError"),
        ("host.progress('1')", "TypeError"),
        ("host.progress(0.5, 5)", "TypeError"),
        ("host.progress(-0.1)", "RangeError"),
        ("host.progress(1.1)", "RangeError"),
        ("host.progress(NaN)", "RangeError"),
        ("host.progress(0, 'x'.repeat(1025))", "RangeError"),
        ("host.progress(0, 'ä'.repeat(513))", "RangeError"),
    ] {
        assert_eq!(session.value(&format!("try {{ {code} }} catch (e) {{ e.name }}")).await, json!(name), "{code}");
    }
    assert_eq!(seen.lock().unwrap().len(), 3);
    session.budget.output_bytes = 1000;
    fails_with(&mut session, "for (;;) host.progress(0.5, 'on')", Code::OutputLimitError).await;
    assert_eq!(seen.lock().unwrap().len(), 3 + 1000 / 18);
}

const WITHOUT_END: [&str; 2] =
    ["(function f() { queueMicrotask(f); queueMicrotask(f) })()", "for (let i = 0; i < 3000; i++) (async () => { for (;;) await null })()"];

#[tokio::test]
async fn promises_without_end_end_with_their_cell() {
    for code in WITHOUT_END {
        let mut session = Session::new(dormouse_engine::Settings { heap_bytes: 64 << 20, determinism: None });
        session.cell("var before = 'kept'").await;
        session.budget.wall = Duration::from_millis(50);
        fails_with(&mut session, code, Code::TimeoutError).await;
        session.budget.wall = Duration::from_secs(60);
        assert_eq!(session.value("before").await, json!("kept"), "after {code}");
    }
}

/// Jobs that make jobs would be the first that every later turn runs, so the heap that holds those of no cell is given up.
#[tokio::test]
async fn promises_without_end_that_a_cell_left_behind_take_their_heap_with_them() {
    for code in WITHOUT_END {
        let mut session = Session::new(dormouse_engine::Settings { heap_bytes: 64 << 20, determinism: None });
        session.cell("var before = 'kept'").await;
        let image = session.instance.image().await;
        session.budget.wall = Duration::from_millis(50);
        let turn = session.turn(&format!("setTimeout(() => {{ {code} }}); 0"), false).await;
        let ended = session.instance.deliver(turn.ops[0].id, &OpResult::Fired, &session.budget).await;
        assert!(matches!(ended, Err(EngineError::Overrun)), "{code}: {ended:?}");
        let mut again = Session { instance: restore(&image, &session.settings).await, ..session };
        assert_eq!(again.value("before").await, json!("kept"), "after {code}");
    }
}

#[tokio::test]
async fn an_abandoned_future_leaves_nothing_behind() {
    let mut session = Session::new(real());
    session.budget.wall = Duration::from_millis(1);
    let handle = session.instance.interrupt_handle();
    let cell = dormouse_engine::CellSource { code: "while (true) {}".to_owned(), ..Default::default() };
    {
        let mut turn = std::pin::pin!(session.instance.eval(&cell, &session.budget));
        // The first poll runs one slice and yields, or ends with the budget.
        let _ = std::future::poll_fn(|context| std::task::Poll::Ready(turn.as_mut().poll(context))).await;
    }
    drop(handle);
    drop(session);
    let mut other = Session::new(real());
    assert_eq!(other.value("let s = 0; for (let i = 0; i < 3e6; i++) s += i; s").await, json!(4_499_998_500_000_u64));
}
