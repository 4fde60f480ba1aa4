//! `fetch` as the engine sees it: an operation that leaves, and an answer that comes back, now or in another process.

use dormouse_engine::{Op, OpKind, OpResult, Turn};
use serde_json::{Value, json};

use crate::support::{Session, real};

/// Begins `code` as an async cell; its operations.
async fn begin(session: &mut Session, code: &str) -> Vec<Op> {
    let turn = session.turn(&format!("(async () => ({{ value: await (async () => {{ {code} }})() }}))()"), false).await;
    assert!(turn.cell.is_some());
    turn.ops
}

/// The same, with the result kept in `result`.
async fn keep(session: &mut Session, code: &str) -> Vec<Op> {
    let kept = "globalThis.result = undefined; const done = (value) => { result = value; };";
    let failed = "(e) => done({ name: e.name, message: e.message, code: e.code, type: e instanceof TypeError, cause: e.cause?.code })";
    begin(session, &format!("{kept} await (async () => {{ {code} }})().then(done, {failed});")).await
}

fn response(body: &str, stream: Option<u64>) -> OpResult {
    let body = match body {
        "hello " => "aGVsbG8g",
        "world" => "d29ybGQ=",
        _ => "",
    };
    OpResult::Ok(json!({"response": {
        "status": 200, "statusText": "OK", "url": "http://a.example/x", "redirected": false, "body": body, "stream": stream,
        "headers": [["content-type", "text/plain"], ["set-cookie", "a=1"], ["set-cookie", "b=2"]],
    }}))
}

fn refused(name: &str, message: &str) -> OpResult {
    OpResult::Err { name: name.to_owned(), message: message.to_owned() }
}

fn kinds(turn: &Turn) -> Vec<OpKind> {
    turn.ops.iter().map(|op| op.kind.clone()).collect()
}

#[tokio::test]
async fn a_fetch_is_an_operation_that_another_process_may_answer() {
    let mut session = Session::new(real());
    let code = "const r = await fetch('http://a.example/x#y', { method: 'post', body: 'hello ', headers: { 'X-A': '1' } });
        return [r.ok, r.status, r.url, r.type, r.headers.getSetCookie(), await r.text(), (() => { try { r.headers.set('a', 'b') } catch (e) { return e.message } })()];";
    let ops = keep(&mut session, code).await;
    let expected = json!({
        "method": "POST", "url": "http://a.example/x#y", "redirect": "follow", "body": "aGVsbG8g",
        "headers": [["content-type", "text/plain;charset=UTF-8"], ["x-a", "1"]],
    });
    assert_eq!(ops[0].kind, OpKind::Fetch { request: expected });
    let mut session = session.hibernate().await;
    session.deliver(ops[0].id, response("hello ", None)).await;
    let answer = json!([true, 200, "http://a.example/x", "basic", ["a=1", "b=2"], "hello ", "immutable"]);
    assert_eq!(session.value("result").await, answer);
}

#[tokio::test]
async fn failures_are_errors_as_node_has_them_and_rules_have_names_of_their_own() {
    let failed = OpResult::Ok(json!({"failed": {"code": "ECONNREFUSED", "message": "connect ECONNREFUSED"}}));
    for (answer, expected) in [
        (failed, json!({"name": "TypeError", "message": "fetch failed", "type": true, "cause": "ECONNREFUSED"})),
        (
            refused("ToolResultInvalid", "broker tools could not be reached"),
            json!({"name": "TypeError", "message": "fetch failed", "type": true, "cause": "ToolResultInvalid"}),
        ),
        (
            refused("EgressDenied", "no rule"),
            json!({"name": "EgressDenied", "message": "no rule", "code": "EgressDenied", "type": true, "cause": "EgressDenied"}),
        ),
        (
            refused("Interrupted", "moved"),
            json!({"name": "Interrupted", "message": "moved", "code": "Interrupted", "type": true, "cause": "Interrupted"}),
        ),
    ] {
        let mut session = Session::new(real());
        let ops = keep(&mut session, "return await fetch('http://a.example/');").await;
        session.deliver(ops[0].id, answer).await;
        assert_eq!(session.value("result").await, expected);
    }
}

#[tokio::test]
async fn a_failure_has_the_stack_of_its_call() {
    let mut session = Session::new(real());
    let ops = begin(
        &mut session,
        "function mine() { return fetch('http://a.example/') } globalThis.stack = ''; await mine().catch((e) => { stack = e.stack });",
    )
    .await;
    session.deliver(ops[0].id, refused("EgressDenied", "no rule")).await;
    let stack = session.value("stack").await;
    let stack = stack.as_str().unwrap();
    assert!(stack.starts_with("EgressDenied: no rule") && stack.contains("mine") && !stack.contains("dormouse:"), "{stack}");
}

#[tokio::test]
async fn a_long_body_is_asked_for_part_by_part_when_it_is_read() {
    let mut session = Session::new(real());
    let ops = keep(&mut session, "globalThis.r = await fetch('http://a.example/'); return r.bodyUsed;").await;
    let turn = session.deliver(ops[0].id, response("hello ", Some(7))).await;
    assert_eq!(kinds(&turn), [], "nobody reads yet");
    assert_eq!(session.value("result").await, json!(false));
    let mut session = session.hibernate().await;
    let ops = keep(&mut session, "return await r.text();").await;
    assert_eq!(ops[0].kind, OpKind::Body { stream: 7, part: 0 });
    let turn = session.deliver(ops[0].id, OpResult::Ok(json!({"part": {"bytes": "d29ybGQ=", "last": false}}))).await;
    assert_eq!(kinds(&turn), [OpKind::Body { stream: 7, part: 1 }]);
    let mut session = session.hibernate().await;
    session.deliver(turn.ops[0].id, OpResult::Ok(json!({"part": {"bytes": "", "last": true}}))).await;
    assert_eq!(session.value("result").await, json!("hello world"));
}

#[tokio::test]
async fn a_body_that_is_lost_is_an_error_that_code_can_catch() {
    let lost = |answer: Value| OpResult::Ok(answer);
    for (answer, expected) in [
        (lost(json!({"lost": {}})), json!({"name": "StreamInterrupted", "code": "StreamInterrupted", "type": false})),
        (refused("StreamInterrupted", "moved"), json!({"name": "StreamInterrupted", "code": "StreamInterrupted", "type": false})),
        (
            lost(json!({"failed": {"code": "UND_ERR_SOCKET", "message": "closed"}})),
            json!({"name": "TypeError", "type": true, "cause": "UND_ERR_SOCKET"}),
        ),
        (refused("ToolResultInvalid", "no broker"), json!({"name": "TypeError", "type": true, "cause": "ToolResultInvalid"})),
    ] {
        let mut session = Session::new(real());
        let ops = keep(&mut session, "const r = await fetch('http://a.example/'); return await r.text();").await;
        let turn = session.deliver(ops[0].id, response("hello ", Some(7))).await;
        session.deliver(turn.ops[0].id, answer).await;
        let mut result = session.value("result").await;
        assert_eq!(result["message"] == "terminated", expected["name"] == "TypeError", "{result}");
        result.as_object_mut().unwrap().remove("message");
        assert_eq!(result, expected);
        let again = session.turn("1", false).await;
        assert_eq!((again.ops, again.console), (Vec::new(), Vec::new()), "nothing is left over");
    }
}

#[tokio::test]
async fn aborting_gives_the_operation_up() {
    let mut session = Session::new(real());
    let code = "globalThis.control = new AbortController(); return await fetch('http://a.example/', { signal: control.signal });";
    let ops = keep(&mut session, code).await;
    let turn = session.turn("control.abort()", false).await;
    assert_eq!(kinds(&turn), [OpKind::Cancel { id: ops[0].id }]);
    assert_eq!(session.value("result.name").await, json!("AbortError"));
    session.deliver(ops[0].id, response("hello ", None)).await;
    assert_eq!(session.value("result.name").await, json!("AbortError"), "a late answer is nobody's");

    let code = "globalThis.control = new AbortController(); const r = await fetch('http://a.example/', { signal: control.signal }); return await r.text();";
    let ops = keep(&mut session, code).await;
    let turn = session.deliver(ops[0].id, response("hello ", Some(9))).await;
    assert_eq!(kinds(&turn), [OpKind::Body { stream: 9, part: 0 }]);
    let turn = session.turn("control.abort(new Error('enough'))", false).await;
    assert_eq!(kinds(&turn), [OpKind::CloseBody { stream: 9 }]);
    assert_eq!(session.value("result.message").await, json!("enough"));

    let ops = keep(&mut session, "const r = await fetch('http://a.example/'); await r.body.cancel(); return 'left';").await;
    let turn = session.deliver(ops[0].id, response("hello ", Some(11))).await;
    assert_eq!(kinds(&turn), [OpKind::CloseBody { stream: 11 }]);
    assert_eq!(session.value("result").await, json!("left"));
    let before = keep(&mut session, "return await fetch('http://a.example/', { signal: AbortSignal.abort() });").await;
    assert_eq!(before, []);
    assert_eq!(session.value("result.name").await, json!("AbortError"));
}

#[tokio::test]
async fn a_fetch_over_the_limit_of_operations_is_refused_and_can_be_aborted() {
    let mut session = Session::new(real());
    session.budget.pending_operations = 1;
    let code = "const control = new AbortController(); Object.prototype.toJSON = () => undefined;
        const one = fetch('http://a.example/1'); const two = fetch('http://a.example/2', { signal: control.signal }).catch((e) => e.name);
        for (let turn = 0; turn < 50; turn++) await null;
        control.abort(); delete Object.prototype.toJSON; return await two;";
    let ops = keep(&mut session, code).await;
    assert!(matches!(ops.as_slice(), [Op { kind: OpKind::Fetch { .. }, .. }]), "{ops:?}");
    assert_eq!(session.value("result").await, json!("PendingOperationsExceeded"));
}

#[tokio::test]
async fn bodies_are_streams_with_readers_iterators_and_copies() {
    let mut session = Session::new(real());
    let code = "const r = await fetch('http://a.example/'); const copy = r.clone();
        let seen = ''; for await (const chunk of r.body) seen += new TextDecoder().decode(chunk) + '|';
        return [seen, await copy.text(), r.bodyUsed, copy.url];";
    let ops = keep(&mut session, code).await;
    let turn = session.deliver(ops[0].id, response("hello ", Some(7))).await;
    assert_eq!(kinds(&turn), [OpKind::Body { stream: 7, part: 0 }]);
    session.deliver(turn.ops[0].id, OpResult::Ok(json!({"part": {"bytes": "d29ybGQ=", "last": true}}))).await;
    assert_eq!(session.value("result").await, json!(["hello |world|", "hello world", true, "http://a.example/x"]));

    let code = "const r = await fetch('http://a.example/'); const reader = r.body.getReader({ mode: 'byob' });
        const { value } = await reader.read(new Uint8Array(4)); return new TextDecoder().decode(value);";
    let ops = keep(&mut session, code).await;
    session.deliver(ops[0].id, response("hello ", None)).await;
    assert_eq!(session.value("result").await, json!("hell"));
}

#[tokio::test]
async fn statuses_without_a_body_have_none() {
    let mut session = Session::new(real());
    let ops = keep(&mut session, "const r = await fetch('http://a.example/'); return [r.body, await r.text(), r.ok, r.statusText];").await;
    let answer = json!({"response": {
        "status": 304, "statusText": "Not Modified", "url": "http://a.example/", "redirected": false, "headers": [], "body": "", "stream": null,
    }});
    session.deliver(ops[0].id, OpResult::Ok(answer)).await;
    assert_eq!(session.value("result").await, json!([null, "", false, "Not Modified"]));
}
