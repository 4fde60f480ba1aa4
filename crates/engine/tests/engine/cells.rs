//! What a cell answers and says.

use dormouse_engine::{Budget, EngineErrorCode as Code, OpKind, OpResult};
use serde_json::json;

use crate::support::{Session, real, seeded, timer};

#[tokio::test]
async fn values_are_json_when_they_are() {
    let mut session = Session::new(real());
    for (code, value) in [
        ("1+1", Some(json!(2))),
        ("({a: [1, 'x', null, true]})", Some(json!({"a": [1, "x", null, true]}))),
        ("'\\ud800'", Some(json!("\u{fffd}"))),
        ("null", Some(json!(null))),
        ("new Date(0)", Some(json!("1970-01-01T00:00:00.000Z"))),
        ("undefined", None),
        ("() => 1", None),
        ("10n", None),
        ("NaN", None),
        ("new Map([[1, 2]])", None),
        ("Symbol()", None),
        ("var cyclic = {}; cyclic.self = cyclic; cyclic", None),
        ("({toJSON() { throw 1 }})", None),
        ("({get a() { throw 1 }})", None),
    ] {
        let cell = session.cell(code).await;
        assert!(cell.ok, "{code}: {:?}", cell.error);
        assert_eq!(cell.value, value, "{code}");
    }
}

#[tokio::test]
async fn a_value_deeper_than_json_parsers_accept_is_no_json() {
    let mut session = Session::new(real());
    let cell = session.cell("var deep = 1; for (let i = 0; i < 500; i++) deep = [deep]; deep").await;
    assert!(cell.ok);
    assert_eq!(cell.value, None);
    let turn = session.turn("await callTool('t', {deep})", true).await;
    assert_eq!(turn.cell.unwrap().error.unwrap().name, "RangeError");
    assert!(turn.ops.is_empty());
}

#[tokio::test]
async fn errors_have_name_message_and_place() {
    let mut session = Session::new(real());
    let error = session.cell("var a = 1;\n  null.x").await.error.unwrap();
    assert_eq!((error.code, error.name.as_str()), (Code::UncaughtException, "TypeError"));
    assert_eq!(error.line, 2, "{}", error.stack);
    assert!(error.stack.contains("cell-1.ts:2"), "{}", error.stack);
    let error = session.cell("class Mine extends Error { name = 'Mine' }; throw new Mine('boom')").await.error.unwrap();
    assert_eq!((error.name.as_str(), error.message.as_str()), ("Mine", "boom"));
    let error = session.cell("throw {code: 7}").await.error.unwrap();
    assert_eq!((error.name.as_str(), error.message.as_str()), ("Object", "{ code: 7 }"));
    let error = session.cell("let = = 1").await.error.unwrap();
    assert_eq!((error.code, error.name.as_str(), error.line), (Code::SyntaxError, "SyntaxError", 1));
    let error = session.cell("JSON.parse('{')").await.error.unwrap();
    assert_eq!((error.code, error.name.as_str()), (Code::UncaughtException, "SyntaxError"));
    let error = session.turn("await Promise.reject(new RangeError('later'))", true).await.cell.unwrap().error.unwrap();
    assert_eq!((error.name.as_str(), error.message.as_str()), ("RangeError", "later"));
}

#[tokio::test]
async fn the_console_is_captured_in_order() {
    let mut session = Session::new(real());
    let turn = session
        .turn(
            "console.log('a', 1, {b: [2]}); console.warn('%s is %d%%', 'x', 5); console.error(new Error('e').message); \
             console.group('g'); console.info('in'); console.groupEnd(); console.debug(undefined); console.count(); console.count(); \
             console.assert(1 === 2, 'no'); console.table([{a: 1}, {a: 2}])",
            false,
        )
        .await;
    let lines: Vec<(&str, &str)> = turn.console.iter().map(|line| (line.level.as_str(), line.text.as_str())).collect();
    assert_eq!(
        lines[..9],
        [
            ("log", "a 1 { b: [ 2 ] }"),
            ("warn", "x is 5%"),
            ("error", "e"),
            ("log", "g"),
            ("info", "  in"),
            ("debug", "undefined"),
            ("log", "default: 1"),
            ("log", "default: 2"),
            ("error", "Assertion failed: no"),
        ]
    );
    assert!(lines[9].1.contains("│ (index) │ a │"), "{}", lines[9].1);
    assert!(turn.console.iter().all(|line| line.at_ms >= 0.0));
}

#[tokio::test]
async fn a_rejection_without_a_handler_is_told() {
    let mut session = Session::new(real());
    let turn = session.turn("(async () => { await 1; throw new Error('lost') })(); 5", false).await;
    assert_eq!(turn.cell.unwrap().value, Some(json!(5)));
    assert!(turn.console[0].text.contains("Uncaught") && turn.console[0].text.contains("lost"), "{:?}", turn.console);
    let turn = session.turn("var handled = Promise.reject(1); handled.catch(() => {}); 6", false).await;
    assert!(turn.console.is_empty(), "{:?}", turn.console);
}

#[tokio::test]
async fn what_a_cell_left_behind_fails_in_its_name() {
    let mut session = Session::new(real());
    let turn = session.turn("setTimeout(() => { throw 5 }, 1); setTimeout(() => Promise.reject(7), 1); Promise.reject(6); 0", false).await;
    assert_eq!(turn.console[0].text, "Uncaught (in promise) 6\n    in cell-1.ts");
    let told = session.deliver(turn.ops[0].id, OpResult::Fired).await.console;
    assert_eq!(told[0].text, "Uncaught 5\n    in cell-1.ts");
    let told = session.deliver(turn.ops[1].id, OpResult::Fired).await.console;
    assert_eq!(told[0].text, "Uncaught (in promise) 7\n    in cell-1.ts");
    let turn = session.turn("queueMicrotask(() => { throw new Error('in a job') }); 0", false).await;
    assert!(turn.console[0].text.starts_with("Uncaught Error: in a job\n    at cell-1.ts:1:"), "{:?}", turn.console);
}

#[tokio::test]
async fn output_is_seen_while_the_code_runs() {
    let mut session = Session::new(real());
    let (sender, seen) = std::sync::mpsc::channel();
    let interrupt = session.instance.interrupt_handle();
    session.instance.set_outlet(Some(Box::new(move |output| {
        if let dormouse_engine::Output::Console(line) = output {
            let _ = sender.send(line.text.clone());
            // The loop behind the line has no other end.
            interrupt.interrupt();
        }
    })));
    let turn = session.turn("console.log('before the loop'); for (;;) {}", false).await;
    assert_eq!(turn.cell.unwrap().error.unwrap().code, Code::Interrupted);
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["before the loop"]);
    assert_eq!(turn.console.len(), 1);
}

#[tokio::test]
async fn renderings_have_a_media_type() {
    let mut session = Session::new(real());
    for (code, mime, data) in [
        ("display('text')", "text/plain", "text"),
        ("display({a: [1]})", "application/json", "{\"a\":[1]}"),
        ("display(new Map([[1, 2]]))", "text/plain", "Map(1) { 1 => 2 }"),
        ("display.html('<b>')", "text/html", "<b>"),
        ("display.svg('<svg/>')", "image/svg+xml", "<svg/>"),
        ("display.markdown('# a')", "text/markdown", "# a"),
        ("display.png(new Uint8Array([137, 80, 78, 71, 13, 10, 26, 10, 1]))", "image/png", "iVBORw0KGgoB"),
        (
            "display.table([{a: 1}, {a: 'x', b: new Set()}, 5], ['a', 'b'])",
            "application/vnd.dataresource+json",
            "{\"schema\":{\"fields\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"value\"}]},\"data\":[{\"a\":1,\"b\":null},{\"a\":\"x\",\"b\":\"Set(0) {}\"},{\"value\":5}]}",
        ),
        ("display({html: '<i>'})", "text/html", "<i>"),
        ("display({[Symbol.for('Jupyter.display')]() { return {'text/plain': 'p', 'text/html': '<p>'} }})", "text/html", "<p>"),
    ] {
        let turn = session.turn(code, false).await;
        assert_eq!(turn.display.len(), 1, "{code}: {:?}", turn.cell);
        assert_eq!((turn.display[0].mime_type.as_str(), turn.display[0].data.as_str()), (mime, data), "{code}");
    }
    for code in ["display.png(new Uint8Array(9))", "display.table(5)", "display.json(undefined)"] {
        assert_eq!(session.cell(code).await.error.unwrap().name, "TypeError", "{code}");
    }
    let fits = |rows: usize| format!("display.table(Array.from({{length: {rows}}}, () => 1))");
    assert!(session.cell(&fits(10_000)).await.ok);
    assert_eq!(session.cell(&fits(10_001)).await.error.unwrap().name, "RangeError");
}

#[tokio::test]
async fn a_promise_is_not_awaited_by_itself() {
    let mut session = Session::new(real());
    let cell = session.cell("new Promise(() => {})").await;
    assert_eq!((cell.preview.as_str(), cell.value_type.as_str(), cell.value), ("Promise { <pending> }", "Promise", None));
    let turn = session.turn("await Promise.resolve({deep: 1})", true).await;
    assert_eq!(turn.cell.unwrap().value, Some(json!({"deep": 1})));
    assert_eq!(session.value("_.deep").await, json!(1));
}

#[tokio::test]
async fn a_pending_cell_ends_in_a_later_turn() {
    let mut session = Session::new(real());
    let turn = session.turn("var v = await callTool('slow', {n: 1}); v * 2", true).await;
    assert_eq!(turn.cell, None);
    let OpKind::Tool { name, args, .. } = &turn.ops[0].kind else { panic!("{:?}", turn.ops) };
    assert_eq!((name.as_str(), args), ("slow", &json!({"n": 1})));
    let turn = session.deliver(turn.ops[0].id, OpResult::Ok(json!(21))).await;
    assert_eq!(turn.cell.unwrap().value, Some(json!(42)));
}

#[tokio::test]
async fn a_failed_tool_rejects_with_its_name_and_the_callers_line() {
    let mut session = Session::new(real());
    let turn = session.turn("\nawait tools.getWidget({id: 1})", true).await;
    let failed = OpResult::Err { name: "ToolDenied".to_owned(), message: "not today".to_owned() };
    let error = session.deliver(turn.ops[0].id, failed).await.cell.unwrap().error.unwrap();
    assert_eq!((error.name.as_str(), error.message.as_str(), error.line), ("ToolDenied", "not today", 2));
    assert!(!error.stack.contains("dormouse:"), "{}", error.stack);
    assert_eq!(session.deliver(999, OpResult::Fired).await.cell, None);
}

#[tokio::test]
async fn a_cell_can_be_abandoned() {
    let mut session = Session::new(real());
    let turn = session.turn("await sleep(1000)", true).await;
    let ended = session.instance.abandon(Code::TimeoutError, &session.budget).await.unwrap().cell.unwrap();
    assert_eq!(ended.error.unwrap().code, Code::TimeoutError);
    assert_eq!(session.deliver(turn.ops[0].id, OpResult::Fired).await.cell, None);
    assert_eq!(session.instance.abandon(Code::TimeoutError, &session.budget).await.unwrap().cell, None);
}

#[tokio::test]
async fn nothing_of_a_stopped_cell_goes_on() {
    let mut session = Session::new(real());
    session.cell("var log = []; let open; const gate = new Promise(resolve => { open = resolve })").await;
    let earlier = session.turn("setTimeout(() => log.push('earlier'), 5); 0", false).await;
    let code = "setInterval(() => log.push('interval'), 10); gate.then(() => log.push('gate'));
        (async () => { await sleep(20); log.push('branch') })(); try { await callTool('ask') } finally { log.push('finally') }; log.push('end')";
    let turn = session.turn(code, true).await;
    let issued: Vec<u64> = turn.ops.iter().map(|op| op.id).collect();
    let stopped = session.instance.abandon(Code::Interrupted, &session.budget).await.unwrap();
    assert_eq!(stopped.cell.unwrap().error.unwrap().code, Code::Interrupted);
    // The host is told that nobody waits for any of it.
    assert_eq!(
        stopped.ops.iter().map(|op| op.kind.clone()).collect::<Vec<_>>(),
        issued.iter().map(|id| OpKind::Cancel { id: *id }).collect::<Vec<_>>()
    );
    for op in turn.ops {
        let answer = if matches!(op.kind, OpKind::Tool { .. }) { OpResult::Ok(json!(1)) } else { OpResult::Fired };
        assert!(session.deliver(op.id, answer).await.ops.is_empty());
    }
    // What others await is theirs, also when the same promise settles it, and what an earlier cell has begun goes on.
    session.turn("gate.then(() => log.push('mine')); open(); 0", false).await;
    session.deliver(earlier.ops[0].id, OpResult::Fired).await;
    assert_eq!(session.cell("log").await.value, Some(json!(["mine", "earlier"])));
}

#[tokio::test]
async fn a_cell_that_ran_out_of_time_does_not_go_on_either() {
    let mut session = Session::new(real());
    session.cell("var log = []").await;
    let code = "(async () => { await sleep(20); log.push('branch') })(); setTimeout(() => log.push('timer'), 10); while (true);";
    let unlimited = std::mem::replace(&mut session.budget, Budget { ticks: 1, ..Budget::default() });
    let turn = session.turn(code, false).await;
    assert_eq!(turn.cell.unwrap().error.unwrap().code, Code::TickBudgetExceeded);
    session.budget = unlimited;
    let issued: Vec<u64> = turn.ops.iter().map(|op| op.id).collect();
    let next = session.turn("0", false).await;
    assert_eq!(
        next.ops.iter().map(|op| op.kind.clone()).collect::<Vec<_>>(),
        issued.iter().map(|id| OpKind::Cancel { id: *id }).collect::<Vec<_>>()
    );
    for id in issued {
        session.deliver(id, OpResult::Fired).await;
    }
    assert_eq!(session.cell("log").await.value, Some(json!([])));
}

#[tokio::test]
async fn timers_run_repeat_and_are_cleared() {
    let mut session = Session::new(real());
    let turn = session
        .turn("var seen = []; var i = setInterval(x => seen.push(x), 10, 'i'); setTimeout(() => { throw new Error('in timer') }); 0", false)
        .await;
    assert_eq!(turn.ops.iter().map(timer).collect::<Vec<_>>(), [10.0, 0.0]);
    let again = session.deliver(turn.ops[0].id, OpResult::Fired).await;
    assert_eq!(timer(&again.ops[0]), 10.0);
    let stray = session.deliver(turn.ops[1].id, OpResult::Fired).await;
    assert!(stray.console[0].text.contains("in timer"), "{:?}", stray.console);
    let cleared = session.turn("clearInterval(i); seen", false).await;
    assert_eq!(cleared.ops[0].kind, OpKind::Cancel { id: again.ops[0].id });
    assert_eq!(cleared.cell.unwrap().value, Some(json!(["i"])));
    assert!(session.deliver(again.ops[0].id, OpResult::Fired).await.ops.is_empty());
}

/// As browsers do it, but never in silence; `sleep` is for what lasts longer.
#[tokio::test]
async fn a_timers_delay_wraps_at_32_bits_and_says_so() {
    let mut session = Session::new(real());
    let longest = 4_294_967_295.0;
    let kept = session.turn("setTimeout(() => {}, 2 ** 32 - 1); setInterval(() => {}, 2.9); void sleep(2 ** 32 + 50); 0", false).await;
    assert_eq!(kept.ops.iter().map(timer).collect::<Vec<_>>(), [longest, 2.0, longest + 51.0]);
    assert!(kept.console.is_empty(), "{:?}", kept.console);
    let wrapped = session
        .turn("for (const ms of [2 ** 32, 2 ** 32 + 50, Infinity]) setTimeout(() => {}, ms); setInterval(() => {}, 2 ** 32); 0", false)
        .await;
    assert_eq!(wrapped.ops.iter().map(timer).collect::<Vec<_>>(), [0.0, 50.0, 0.0, 1.0]);
    assert_eq!(wrapped.console.len(), 4);
    assert_eq!(
        wrapped.console[1].text,
        "TimeoutOverflowWarning: 4294967346 does not fit into 32 bits; the timer is set to 50 ms. sleep(ms) waits longer."
    );
}

#[tokio::test]
async fn displays_have_a_media_type() {
    let mut session = Session::new(real());
    let turn = session
        .turn(
            "display('t'); display({html: '<b>x</b>'}); display([1]); display({mimeType: 'text/csv', data: 'a,b'}); display(new Set([1]))",
            false,
        )
        .await;
    let shown: Vec<_> = turn.display.iter().map(|d| (d.mime_type.as_str(), d.data.as_str())).collect();
    assert_eq!(
        shown,
        [("text/plain", "t"), ("text/html", "<b>x</b>"), ("application/json", "[1]"), ("text/csv", "a,b"), ("text/plain", "Set(1) { 1 }")]
    );
}

#[tokio::test]
async fn the_web_platforms_small_parts_work() {
    let mut session = Session::new(seeded(1));
    for (code, expected) in [
        ("new TextDecoder().decode(new TextEncoder().encode('é😀'))", json!("é😀")),
        ("atob(btoa('dormouse'))", json!("dormouse")),
        ("structuredClone(new Map([['a', [new Date(5)]]])).get('a')[0].getTime()", json!(5)),
        ("crypto.getRandomValues(new Uint8Array(8)).length", json!(8)),
        ("crypto.randomUUID().length", json!(36)),
        ("typeof performance.now()", json!("number")),
        ("Date.now() >= 1767225600000 && Date.now() < 1767225700000", json!(true)),
        ("typeof fetch + typeof require + typeof process", json!("functionfunctionobject")),
        ("Object.keys(globalThis).length", json!(0)),
    ] {
        assert_eq!(session.value(code).await, expected, "{code}");
    }
}

#[tokio::test]
async fn overwritten_prototypes_do_not_break_the_engine() {
    let mut session = Session::new(real());
    session
        .cell(
            "Array.prototype.push = Array.prototype.map = Array.prototype.join = null; Array.prototype[Symbol.iterator] = null; \
             Map.prototype.get = Map.prototype.set = String.prototype.slice = String.prototype.split = null; \
             JSON.stringify = () => { throw 1 }; Promise.prototype.then = () => { throw 2 }; Object.prototype.toJSON = () => 'no'; \
             Reflect.apply = Reflect.ownKeys = null; globalThis.Error = globalThis.Promise = null; 1",
        )
        .await;
    let turn = session.turn("console.log('still', [1, {a: 2}]); setTimeout(() => console.log('fired'), 5); [1]", false).await;
    assert_eq!(turn.console[0].text, "still [ 1, { a: 2 } ]");
    assert_eq!(turn.cell.unwrap().preview, "[ 1 ]");
    assert_eq!(session.deliver(turn.ops[0].id, OpResult::Fired).await.console[0].text, "fired");
    assert_eq!(session.cell("throw 'x'").await.error.unwrap().message, "x");
}

#[tokio::test]
async fn an_exception_says_through_its_getters_what_it_is() {
    let mut session = Session::new(real());
    for (code, name, message) in [
        ("throw new DOMException('no way', 'NotSupportedError')", "NotSupportedError", "no way"),
        ("class Told extends Error { get message() { return 'told' } }; throw new Told()", "Error", "told"),
        ("class Bad extends Error { get message() { throw 1 } }; throw new Bad()", "Error", ""),
    ] {
        let error = session.cell(code).await.error.unwrap();
        assert_eq!((error.name.as_str(), error.message.as_str()), (name, message), "{code}");
    }
    let preview = session.cell("new DOMException('stop', 'AbortError')").await.preview;
    assert!(preview.starts_with("DOMException [AbortError]: stop"), "{preview}");
}

#[tokio::test]
async fn what_showing_a_value_enqueues_runs_in_its_own_turn() {
    let mut session = Session::new(real());
    session.cell("var ran = 0; ({ toJSON() { Promise.resolve().then(() => { ran += 1 }); return 1 } })").await;
    // Said first thing in the next cell, before any job could run.
    assert_eq!(session.value("ran").await, json!(1));
}
