//! Sockets that outlive what runs behind them, and cells that outlive their sockets.

use crate::support::{
    Dev, http,
    sockets::{self, Socket},
};
use dormouse_testkit::wait::eventually;
use serde_json::{Value, json};

const SESSIONS: &str = "/v1/namespaces/default/sessions";

/// Makes the session `s`.
async fn create(dev: &Dev, spec: Value) {
    let made = http().post(format!("{}{SESSIONS}", dev.server)).json(&json!({ "name": "s", "spec": spec })).send().await.unwrap();
    assert_eq!(made.status(), 201);
}

async fn state(dev: &Dev) -> String {
    let session: Value = http().get(format!("{}{SESSIONS}/s", dev.server)).send().await.unwrap().json().await.unwrap();
    session["state"].as_str().unwrap().to_owned()
}

fn is(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |message| message["msg_type"] == kind
}

/// What a client hears of a message's cell up to its end, without states: kinds, and what tells one from another.
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
    heard.filter(|message| message["msg_type"] != "status").map(short).collect()
}

fn wanted(messages: &[(&str, Value)]) -> Vec<(String, Value)> {
    messages.iter().map(|(kind, what)| ((*kind).to_owned(), what.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notebook_that_connects_again_in_mid_cell_hears_it_to_its_end() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    create(&dev, json!({ "clientTools": [{ "name": "ask" }] })).await;
    let path = sockets::notebook(&dev, "s").await;
    let mut first = sockets::connect(&dev, &path).await;
    let code = "console.log('one'); const n = await callTool('ask', {}); console.log('two'); n + 1";
    sockets::ask(&mut first, sockets::execute("waits", code), is("stream")).await;
    drop(first);

    // What it has shown is stored with its call.
    let mut again = sockets::connect(&dev, &path).await;
    let begun = sockets::until(&mut again, is("stream")).await;
    let parent = &begun.last().unwrap()["parent_header"];
    assert_eq!((&parent["msg_id"], &parent["session"]), (&json!("waits"), &json!("mine")), "{begun:?}");
    let kinds: Vec<_> = begun.iter().map(|message| message["msg_type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["status", "clear_output", "stream"], "{begun:?}");
    let events = http().get(format!("{}{SESSIONS}/s/events?follow=false", dev.server)).send().await.unwrap().text().await.unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let call = events.iter().find(|event| event["type"] == "tool_call").unwrap()["payload"]["callId"].as_str().unwrap();
    let said = json!({ "callId": format!("c_{call}"), "ok": true, "result": 41 });
    let answered = http().post(format!("{}/sessions/s/tool-results", dev.server)).json(&said).send().await.unwrap();
    assert_eq!(answered.status(), 204);
    let rest = [("stream", json!("two\n")), ("execute_result", json!("42")), ("execute_reply", json!("ok"))];
    assert_eq!(told(&mut again, "waits").await, wanted(&rest));

    // One of which nothing is stored before it ends.
    sockets::ask(&mut again, sockets::execute("runs", "console.log('busy'); for (;;) {}"), is("stream")).await;
    drop(again);
    let mut third = sockets::connect(&dev, &path).await;
    // Whoever is answered has been looked after.
    sockets::ask(&mut third, sockets::request("info", "kernel_info_request", json!({})), is("kernel_info_reply")).await;
    let interrupt = format!("{}{}", dev.server, path.replace("/channels?session_id=mine", "/interrupt"));
    assert_eq!(http().post(interrupt).send().await.unwrap().status(), 204);
    let all =
        [("clear_output", Value::Null), ("stream", json!("busy\n")), ("error", json!("Interrupted")), ("execute_reply", json!("error"))];
    assert_eq!(told(&mut third, "runs").await, wanted(&all));

    // Where no cell is under way, nothing is told.
    drop(third);
    let mut idle = sockets::connect(&dev, &path).await;
    sockets::send(&mut idle, sockets::execute("next", "n")).await;
    let heard = sockets::until(&mut idle, is("execute_reply")).await;
    assert!(heard.iter().all(|message| message["parent_header"]["msg_id"] == "next"), "{heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_sleeps_while_sockets_are_connected_to_it_and_their_next_cell_wakes_it() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    create(&dev, json!({ "idleSeconds": 1 })).await;
    let mut frames = sockets::connect(&dev, &format!("{SESSIONS}/s/ws")).await;
    let mut notebook = sockets::connect(&dev, &sockets::notebook(&dev, "s").await).await;
    let mut count = async |id: &str, as_notebook: bool| {
        let code = "globalThis.n = (globalThis.n ?? 0) + 1";
        if as_notebook {
            let result = sockets::ask(&mut notebook, sockets::execute(id, code), is("execute_result")).await;
            result["content"]["data"]["text/plain"].as_str().unwrap().parse::<u64>().unwrap()
        } else {
            let result = sockets::ask(&mut frames, json!({ "t": "eval", "id": id, "code": code }), |frame| frame["id"] == id).await;
            result["value"].as_u64().unwrap()
        }
    };
    assert_eq!((count("a", false).await, count("b", true).await), (1, 2));
    for (round, as_notebook) in [(3_u64, false), (4, true)] {
        eventually("it sleeps", async || state(&dev).await == "Hibernated").await;
        assert_eq!(count(&round.to_string(), as_notebook).await, round);
    }
    // What is no cell wakes nothing.
    eventually("it sleeps", async || state(&dev).await == "Hibernated").await;
    let pong = sockets::ask(&mut frames, json!({ "t": "ping", "id": "ping" }), |frame| frame["id"] == "ping").await;
    assert_eq!(pong["ok"], true);
    sockets::ask(&mut notebook, sockets::request("info", "kernel_info_request", json!({})), is("kernel_info_reply")).await;
    assert_eq!(state(&dev).await, "Hibernated");
}
