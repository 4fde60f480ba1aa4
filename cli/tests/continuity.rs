//! What a model writes down of its work in a session, as the next one finds it.

use crate::support::{Dev, http};
use serde_json::{Value, json};

/// Calls a tool of `/mcp`; its whole answer.
async fn answer(dev: &Dev, tool: &str, arguments: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": arguments } });
    let answer: Value = http().post(format!("{}/mcp", dev.server)).json(&body).send().await.unwrap().json().await.unwrap();
    answer["result"].clone()
}

/// What it answers for programs.
async fn call(dev: &Dev, tool: &str, arguments: Value) -> Value {
    let answer = answer(dev, tool, arguments).await;
    assert_eq!(answer["isError"], false, "{answer}");
    answer["structuredContent"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_in_earlier_tasks_is_told_when_one_starts_and_when_somebody_comes_back() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval("1"), "1");
    let begun = call(&dev, "task_start", json!({ "session": "s", "goal": "send the report" })).await;
    assert_eq!(begun["pastFailures"], json!([]), "{begun}");
    call(&dev, "task_update", json!({ "session": "s", "failures": ["port 25 is closed"] })).await;
    call(&dev, "task_complete", json!({ "session": "s", "outcome": "gave up" })).await;
    call(&dev, "session_hibernate", json!({ "session": "s" })).await;

    let back = call(&dev, "task_resume", json!({ "session": "s" })).await;
    assert_eq!((&back["task"], &back["pastFailures"][0]["failure"]), (&Value::Null, &json!("port 25 is closed")), "{back}");
    assert!(back["hint"].as_str().unwrap().contains("port 25 is closed"), "{back}");
    let again = call(&dev, "task_start", json!({ "session": "s", "goal": "send it again" })).await;
    let past = &again["pastFailures"][0];
    assert_eq!((&past["goal"], &past["outcome"]), (&json!("send the report"), &json!("gave up")), "{again}");
    assert_eq!(again["task"]["failures"], json!([]), "they are not failures of this one");

    call(&dev, "task_update", json!({ "session": "s", "failures": ["the password is wrong"] })).await;
    let third = call(&dev, "task_start", json!({ "session": "s", "goal": "send a letter" })).await;
    let failures: Vec<_> = third["pastFailures"].as_array().unwrap().iter().map(|past| past["failure"].as_str().unwrap()).collect();
    assert_eq!(failures, ["the password is wrong", "port 25 is closed"], "newest first");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_says_that_it_is_cut_off_leaves_a_checkpoint_and_a_hint() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval("let kept = 1; kept"), "1");
    call(&dev, "task_start", json!({ "session": "s", "goal": "count" })).await;
    let nothing = answer(&dev, "task_update", json!({ "session": "s", "interrupted": " " })).await;
    assert_eq!(nothing["isError"], true, "a reason says something: {nothing}");
    let said = json!({ "session": "s", "inProgress": ["step 2"], "interrupted": "the context is full" });
    let said = call(&dev, "task_update", said).await;
    let interruption = &said["task"]["interruptions"][0];
    assert_eq!(interruption["what"], "the context is full", "{said}");
    let checkpoint = interruption["checkpoint"].as_str().unwrap().to_owned();

    assert_eq!(dev.eval("kept = 2; kept"), "2");
    call(&dev, "session_hibernate", json!({ "session": "s" })).await;
    let back = call(&dev, "task_resume", json!({ "session": "s" })).await;
    let hint = back["hint"].as_str().unwrap();
    for part in ["step 2", "the context is full", &format!("checkpoint {checkpoint}")] {
        assert!(hint.contains(part), "{part}: {hint}");
    }
    assert_eq!(said["hint"].as_str().unwrap(), hint, "who leaves is told what who comes back will be");

    call(&dev, "session_restore", json!({ "session": "s", "checkpoint": checkpoint })).await;
    assert_eq!(dev.eval("kept"), "1");
    let then = call(&dev, "task_resume", json!({ "session": "s" })).await;
    assert_eq!(then["task"]["inProgress"], json!(["step 2"]), "what was said with it is in the checkpoint: {then}");
}
