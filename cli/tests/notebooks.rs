//! Notebooks whose cells wait, fail, and go on without them.

use crate::support::{
    Dev, http,
    sockets::{self, Socket},
};
use dormouse_testkit::wait::eventually;
use serde_json::{Value, json};

const SESSIONS: &str = "/v1/namespaces/default/sessions";
/// A cell that waits until its call is answered, with that.
const WAITS: &str = "globalThis.n = await callTool('ask', {}); n";

/// A session whose cells can wait for an answer, and where its notebook connects.
async fn notebook(dev: &Dev) -> String {
    sockets::create(dev, json!({ "clientTools": [{ "name": "ask" }] })).await;
    sockets::notebook(dev, "s").await
}

/// Objects of a list of the session's, one a line.
async fn lines(dev: &Dev, list: &str) -> Vec<Value> {
    let text = http().get(format!("{}{SESSIONS}/s/{list}", dev.server)).send().await.unwrap().text().await.unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Waits until the session has made its call of this number.
async fn is_made(dev: &Dev, call: u64) {
    let call = call.to_string();
    let is_call = |event: &Value| event["type"] == "tool_call" && event["payload"]["callId"] == call.as_str();
    eventually("the call is stored", async || lines(dev, "events?follow=false").await.iter().any(is_call)).await;
}

/// Answers it.
async fn answer(dev: &Dev, call: u64, result: u64) {
    is_made(dev, call).await;
    let said = json!({ "callId": format!("c_{call}"), "ok": true, "result": result });
    let answered = http().post(format!("{}/sessions/s/tool-results", dev.server)).json(&said).send().await.unwrap();
    assert_eq!(answered.status(), 204);
}

/// Waits until so many cells of the session have ended.
async fn have_ended(dev: &Dev, count: usize) {
    let ended = async || {
        let journal: Value = http().get(format!("{}{SESSIONS}/s/journal", dev.server)).send().await.unwrap().json().await.unwrap();
        journal["entries"].as_array().is_some_and(|entries| entries.iter().filter(|entry| entry["kind"] == "result").count() == count)
    };
    eventually("the cells have ended", ended).await;
}

/// Sends cells, and returns when the gateway has all of them.
async fn queue(socket: &mut Socket, cells: &[(&str, &str)]) {
    for (id, code) in cells {
        sockets::send(socket, sockets::execute(id, code)).await;
    }
    // Messages are read in their order.
    sockets::ask(socket, sockets::request("info", "kernel_info_request", json!({})), sockets::is("kernel_info_reply")).await;
}

/// What a client hears of a message's cell up to its end, without states and its code: kinds, and what tells one from another.
async fn told(socket: &mut Socket, id: &str) -> Vec<(String, Value)> {
    let heard =
        sockets::until(socket, |message| message["content"]["execution_state"] == "idle" && message["parent_header"]["msg_id"] == id);
    let heard = heard.await.into_iter().filter(|message| message["parent_header"]["msg_id"] == id);
    let short = |message: Value| {
        let content = &message["content"];
        let what = match message["msg_type"].as_str().unwrap() {
            "stream" => content["text"].clone(),
            "execute_result" => content["data"]["text/plain"].clone(),
            "execute_reply" => content["status"].clone(),
            "error" => content["ename"].clone(),
            _ => Value::Null,
        };
        (message["msg_type"].as_str().unwrap().to_owned(), what)
    };
    heard.filter(|message| message["msg_type"] != "status" && message["msg_type"] != "execute_input").map(short).collect()
}

fn wanted(messages: &[(&str, Value)]) -> Vec<(String, Value)> {
    messages.iter().map(|(kind, what)| ((*kind).to_owned(), what.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notebook_that_connects_again_in_mid_cell_hears_it_to_its_end() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let path = notebook(&dev).await;
    let mut first = sockets::connect(&dev, &path).await;
    let code = "console.log('one'); const n = await callTool('ask', {}); console.log('two'); n + 1";
    sockets::ask(&mut first, sockets::execute("waits", code), sockets::is("stream")).await;
    drop(first);

    // What it has shown is stored with its call.
    let mut again = sockets::connect(&dev, &path).await;
    let begun = sockets::until(&mut again, sockets::is("stream")).await;
    let parent = &begun.last().unwrap()["parent_header"];
    assert_eq!((&parent["msg_id"], &parent["session"]), (&json!("waits"), &json!("mine")), "{begun:?}");
    let kinds: Vec<_> = begun.iter().map(|message| message["msg_type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["status", "clear_output", "stream"], "{begun:?}");
    answer(&dev, 1, 41).await;
    let rest = [("stream", json!("two\n")), ("execute_result", json!("42")), ("execute_reply", json!("ok"))];
    assert_eq!(told(&mut again, "waits").await, wanted(&rest));

    // One of which nothing is stored before it ends.
    sockets::ask(&mut again, sockets::execute("runs", "console.log('busy'); for (;;) {}"), sockets::is("stream")).await;
    drop(again);
    let mut third = sockets::connect(&dev, &path).await;
    // Whoever is answered has been looked after.
    sockets::ask(&mut third, sockets::request("info", "kernel_info_request", json!({})), sockets::is("kernel_info_reply")).await;
    let interrupt = format!("{}{}", dev.server, path.replace("/channels?session_id=mine", "/interrupt"));
    assert_eq!(http().post(interrupt).send().await.unwrap().status(), 204);
    let all =
        [("clear_output", Value::Null), ("stream", json!("busy\n")), ("error", json!("Interrupted")), ("execute_reply", json!("error"))];
    assert_eq!(told(&mut third, "runs").await, wanted(&all));

    // Where no cell is under way, another client is told nothing.
    drop(third);
    let mut idle = sockets::connect(&dev, &path.replace("session_id=mine", "session_id=other")).await;
    sockets::send(&mut idle, sockets::execute("next", "n")).await;
    let heard = sockets::until(&mut idle, sockets::is("execute_reply")).await;
    assert!(heard.iter().all(|message| message["parent_header"]["msg_id"] == "next"), "{heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_fails_aborts_those_that_wait_behind_it_and_none_that_comes_later() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let mut socket = sockets::connect(&dev, &notebook(&dev).await).await;
    queue(&mut socket, &[("one", WAITS), ("two", "null.x"), ("three", "globalThis.ran = 3")]).await;
    answer(&dev, 1, 41).await;
    assert_eq!(told(&mut socket, "one").await, wanted(&[("execute_result", json!("41")), ("execute_reply", json!("ok"))]));
    let failed = [("error", json!("TypeError")), ("execute_reply", json!("error"))];
    assert_eq!(told(&mut socket, "two").await, wanted(&failed));
    let aborted = sockets::until(&mut socket, |message| message["content"]["execution_state"] == "idle").await;
    assert!(aborted.iter().all(|message| message["parent_header"]["msg_id"] == "three"), "{aborted:?}");
    let contents: Vec<_> = aborted.iter().map(|message| message["content"].clone()).collect();
    let reply = json!({ "status": "aborted", "execution_count": null });
    assert_eq!(contents, [json!({ "execution_state": "busy" }), reply, json!({ "execution_state": "idle" })]);
    sockets::send(&mut socket, sockets::execute("four", "globalThis.ran ?? 0")).await;
    assert_eq!(told(&mut socket, "four").await, wanted(&[("execute_result", json!("0")), ("execute_reply", json!("ok"))]));

    // One that says that it stops nothing.
    let mut goes_on = sockets::execute("five", "await callTool('ask', {}); null.x");
    goes_on["content"]["stop_on_error"] = json!(false);
    sockets::send(&mut socket, goes_on).await;
    queue(&mut socket, &[("six", "6")]).await;
    answer(&dev, 2, 0).await;
    assert_eq!(told(&mut socket, "five").await, wanted(&failed));
    assert_eq!(told(&mut socket, "six").await, wanted(&[("execute_result", json!("6")), ("execute_reply", json!("ok"))]));

    // To interrupt a cell ends the run.
    queue(&mut socket, &[("seven", WAITS), ("eight", "8")]).await;
    is_made(&dev, 3).await;
    let kernels: Value = http().get(format!("{}/api/kernels", dev.server)).send().await.unwrap().json().await.unwrap();
    let interrupt = format!("{}/api/kernels/{}/interrupt", dev.server, kernels[0]["id"].as_str().unwrap());
    assert_eq!(http().post(interrupt).send().await.unwrap().status(), 204);
    let interrupted = [("error", json!("Interrupted")), ("execute_reply", json!("error"))];
    assert_eq!(told(&mut socket, "seven").await, wanted(&interrupted));
    assert_eq!(told(&mut socket, "eight").await, wanted(&[("execute_reply", json!("aborted"))]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cells_of_a_notebook_that_was_closed_run_and_it_hears_of_them_when_it_is_back() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let path = notebook(&dev).await;
    let mut first = sockets::connect(&dev, &path).await;
    let code = "console.log('one'); globalThis.n = await callTool('ask', {}); n";
    queue(&mut first, &[("one", code), ("two", "console.log('two'); n + 1"), ("three", "console.log('three'); globalThis.m = n * 2")])
        .await;
    drop(first);
    answer(&dev, 1, 20).await;
    have_ended(&dev, 3).await;
    assert_eq!(dev.eval("n + m"), "60");

    let mut again = sockets::connect(&dev, &path).await;
    for (id, result) in [("one", "20"), ("two", "21"), ("three", "40")] {
        let all = [
            ("clear_output", Value::Null),
            ("stream", json!(format!("{id}\n"))),
            ("execute_result", json!(result)),
            ("execute_reply", json!("ok")),
        ];
        assert_eq!(told(&mut again, id).await, wanted(&all));
    }
    sockets::send(&mut again, sockets::execute("four", "n")).await;
    assert_eq!(told(&mut again, "four").await, wanted(&[("execute_result", json!("20")), ("execute_reply", json!("ok"))]));

    // A page that was loaded anew is another client, whose cells those were not.
    let mut other = sockets::connect(&dev, &path.replace("session_id=mine", "session_id=other")).await;
    sockets::send(&mut other, sockets::execute("next", "n")).await;
    let heard = sockets::until(&mut other, sockets::is("execute_reply")).await;
    assert!(heard.iter().all(|message| message["parent_header"]["msg_id"] == "next"), "{heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notebook_that_is_back_in_time_hears_the_cells_that_it_left_waiting() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let path = notebook(&dev).await;
    let mut first = sockets::connect(&dev, &path).await;
    queue(&mut first, &[("one", WAITS), ("two", "console.log('two'); n + 1"), ("three", "null.x"), ("four", "globalThis.ran = 4")]).await;
    is_made(&dev, 1).await;
    drop(first);
    let mut again = sockets::connect(&dev, &path).await;
    answer(&dev, 1, 20).await;
    let one = [("clear_output", Value::Null), ("execute_result", json!("20")), ("execute_reply", json!("ok"))];
    assert_eq!(told(&mut again, "one").await, wanted(&one));
    let two = [("clear_output", Value::Null), ("stream", json!("two\n")), ("execute_result", json!("21")), ("execute_reply", json!("ok"))];
    assert_eq!(told(&mut again, "two").await, wanted(&two));
    let three = [("clear_output", Value::Null), ("error", json!("TypeError")), ("execute_reply", json!("error"))];
    assert_eq!(told(&mut again, "three").await, wanted(&three));
    sockets::send(&mut again, sockets::execute("five", "globalThis.ran ?? 0")).await;
    let five = [("execute_result", json!("0")), ("execute_reply", json!("ok"))];
    assert_eq!(told(&mut again, "five").await, wanted(&five), "nobody is there, and the cell that failed still stops those behind it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_is_shut_down_is_not_woken_by_cells_that_wait() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let path = notebook(&dev).await;
    let mut socket = sockets::connect(&dev, &path).await;
    queue(&mut socket, &[("one", WAITS), ("two", "globalThis.ran = 2")]).await;
    is_made(&dev, 1).await;
    let shut_down = format!("{}{}", dev.server, path.replace("/channels?session_id=mine", ""));
    assert_eq!(http().delete(shut_down).send().await.unwrap().status(), 204);
    answer(&dev, 1, 20).await;
    assert_eq!(told(&mut socket, "one").await.last(), wanted(&[("execute_reply", json!("ok"))]).last());
    assert_eq!(told(&mut socket, "two").await, wanted(&[("execute_reply", json!("aborted"))]));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_cell_whose_events_are_not_kept_any_more_a_notebook_hears_how_it_ended() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let path = notebook(&dev).await;
    let mut first = sockets::connect(&dev, &path).await;
    sockets::ask(&mut first, sockets::execute("failed", "null.x"), sockets::is("execute_reply")).await;
    // Each cell's output has an object of its own, and 64 are kept.
    for cell in 0..80 {
        let code = format!("console.log('x'.repeat(20000)); {cell}");
        sockets::ask(&mut first, sockets::execute(&cell.to_string(), &code), sockets::is("execute_reply")).await;
    }
    drop(first);
    let mut again = sockets::connect(&dev, &path).await;
    let lost = ("stream", json!("what this cell showed is not kept any more: some of it may be missing here\n"));
    let failed = [lost.clone(), ("error", json!("UncaughtException")), ("execute_reply", json!("error"))];
    assert_eq!(told(&mut again, "failed").await, wanted(&failed));
    assert_eq!(told(&mut again, "0").await, wanted(&[lost, ("execute_reply", json!("ok"))]));
    let whole = [
        ("clear_output", Value::Null),
        ("stream", json!(format!("{}\n", "x".repeat(20000)))),
        ("execute_result", json!("79")),
        ("execute_reply", json!("ok")),
    ];
    assert_eq!(told(&mut again, "79").await, wanted(&whole));
}
