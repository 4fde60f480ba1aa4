//! `process.exit`: an end that the cell's own code cannot catch.

use dormouse_engine::{EngineErrorCode as Code, OpKind, OpResult, Turn};
use serde_json::json;

use crate::support::{Session, real};

/// That the turn is the end of a cell that has ended itself.
fn assert_exit(turn: &Turn, code: i32, source: &str) {
    let error =
        turn.cell.as_ref().unwrap_or_else(|| panic!("{source}: no end")).error.clone().unwrap_or_else(|| panic!("{source}: no error"));
    assert_eq!((error.code, error.name.as_str()), (Code::UncaughtException, "ProcessExit"), "{source}: {error:?}");
    assert_eq!(error.message, format!("process.exit({code}): the cell has ended itself; its session goes on"), "{source}");
}

#[tokio::test]
async fn no_code_of_the_cell_catches_its_own_exit() {
    for (source, is_async) in [
        ("try { process.exit(3) } catch { log.push('catch') } finally { log.push('finally') }; log.push('after')", false),
        ("for (const one of (function* () { try { yield 1 } finally { log.push('closed') } })()) process.exit(3)", false),
        ("new Promise(() => process.exit(3)).catch(() => log.push('catch')); log.push('after')", false),
        ("[1, 2].map(() => { log.push('once'); log.pop(); process.exit(3) }); log.push('after')", false),
        ("[3, 1].sort(() => process.exit(3)); log.push('after')", false),
        ("const o = { get x() { return process.exit(3) } }; JSON.stringify(o); log.push('after')", false),
        (
            "(async () => { try { process.exit(3) } finally { log.push('finally') } })().finally(() => log.push('later')); log.push('after')",
            false,
        ),
        ("try { await (async () => { process.exit(3) })() } catch { log.push('catch') } finally { log.push('finally') }", true),
        ("try { await null; process.exit(3) } catch { log.push('catch') } finally { log.push('finally') }", true),
        (
            "const g = (async function* () { yield 1; process.exit(3) })(); try { for await (const x of g) log.length = 0 } catch { log.push('catch') }",
            true,
        ),
        (
            "Promise.reject(1).catch(() => process.exit(3)).then(() => log.push('then'), () => log.push('catch')); await new Promise(() => {})",
            true,
        ),
        ("queueMicrotask(() => process.exit(3)); queueMicrotask(() => log.push('next')); 1", false),
        ("({ toJSON() { process.exit(3) } })", false),
        ("require('events').once; process.on('exit', () => { process.exit(3) }); process.exit(1)", false),
        ("process.exitCode = 3; process.exit()", false),
        ("process.exit('3')", false),
    ] {
        let mut session = Session::new(real());
        session.cell("var log = []; 0").await;
        let turn = session.turn(source, is_async).await;
        assert_exit(&turn, 3, source);
        assert!(turn.console.is_empty(), "{source}: {:?}", turn.console);
        assert_eq!(session.value("log").await, json!([]), "{source}");
        assert_eq!(session.value("1 + 1").await, json!(2), "{source}");
    }
}

#[tokio::test]
async fn what_an_ended_cell_waited_for_is_given_up() {
    let mut session = Session::new(real());
    session.cell("var log = []; process.on('exit', (code) => log.push(code)); 0").await;
    let earlier = session.turn("setTimeout(() => log.push('earlier'), 5); 0", false).await;
    let source = "setInterval(() => log.push('interval'), 10); setTimeout(() => process.exit(4), 1); try { await callTool('ask') } finally { log.push('finally') }";
    let turn = session.turn(source, true).await;
    let [interval, exits, tool] = &turn.ops[..] else { panic!("{:?}", turn.ops) };
    let ended = session.deliver(exits.id, OpResult::Fired).await;
    assert_exit(&ended, 4, source);
    assert_eq!(ended.ops.iter().map(|op| op.kind.clone()).collect::<Vec<_>>(), [interval, tool].map(|op| OpKind::Cancel { id: op.id }));
    assert!(session.deliver(tool.id, OpResult::Ok(json!(1))).await.ops.is_empty());
    // What an earlier cell has begun goes on, and so do listeners, which were told.
    session.deliver(earlier.ops[0].id, OpResult::Fired).await;
    assert_eq!(session.value("log").await, json!([4, "earlier"]));
}

#[tokio::test]
async fn what_an_earlier_cell_left_behind_ends_itself_only() {
    let mut session = Session::new(real());
    session.cell("var log = []; process.on('uncaughtException', () => log.push('caught')); 0").await;
    let earlier = session
        .turn(
            "setTimeout(() => { setTimeout(() => log.push('more'), 1); process.exit(5) }, 5); setTimeout(() => log.push('other'), 6); 0",
            false,
        )
        .await;
    let turn = session.turn("await sleep(100); 'mine'", true).await;
    let ended = session.deliver(earlier.ops[0].id, OpResult::Fired).await;
    assert_eq!(ended.cell, None);
    assert!(ended.console[0].text.starts_with("Uncaught ProcessExit"), "{:?}", ended.console);
    assert_eq!(session.deliver(turn.ops[0].id, OpResult::Fired).await.cell.unwrap().value, Some(json!("mine")));
    session.deliver(earlier.ops[1].id, OpResult::Fired).await;
    assert_eq!(session.value("log").await, json!([]));
}

#[tokio::test]
async fn what_was_written_before_an_exit_is_said() {
    let mut session = Session::new(real());
    let turn = session
        .turn("process.on('exit', () => console.log('listener')); process.stdout.write('no end of line'); process.exit(0)", false)
        .await;
    assert_exit(&turn, 0, "write");
    assert_eq!(turn.console.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["listener", "no end of line"]);
}

#[tokio::test]
async fn an_exit_needs_a_whole_number() {
    let mut session = Session::new(real());
    for code in ["'a'", "1.5", "{}"] {
        let error = session.cell(&format!("process.exit({code})")).await.error.unwrap();
        assert_eq!(error.name, if code == "1.5" { "RangeError" } else { "TypeError" }, "{code}: {error:?}");
    }
    // Such a mistake is an exception like any other.
    assert_eq!(session.value("try { process.exit('a') } catch (error) { error.code }").await, json!("ERR_INVALID_ARG_TYPE"));
}
