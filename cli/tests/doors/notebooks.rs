//! A notebook's way into a session: Jupyter's protocol.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async, tungstenite::Message};

use super::{SESSIONS, url};
use crate::support::{Dev, http};

#[tokio::test(flavor = "multi_thread")]
async fn a_notebook_attaches_to_a_session() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let http = http();
    dev.eval("const shared = { answer: 42 }; shared.answer");
    let get = async |path: &str| http.get(url(&dev, path)).send().await.unwrap().json::<Value>().await.unwrap();
    let specs = get("/api/kernelspecs").await;
    assert_eq!(specs["kernelspecs"]["dormouse"]["spec"]["language"], "typescript");
    let body = json!({ "name": "dormouse", "path": "a.ipynb", "env": { "KERNEL_DORMOUSE_SESSION": "s" } });
    let kernel = http.post(url(&dev, "/api/kernels")).json(&body).send().await.unwrap();
    assert_eq!(kernel.status(), 201);
    let id = kernel.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(id.split('-').count(), 5, "an id as Jupyter's servers want it: {id}");
    assert_eq!(get(&format!("/api/kernels/{id}")).await["session"], "s");
    let kernels = get("/api/kernels").await;
    assert_eq!(kernels.as_array().unwrap().len(), 1);
    let active = kernels[0]["last_activity"].as_str().unwrap();
    assert!(active.len() == "2026-01-01T00:00:00.123456Z".len() && active.ends_with('Z'), "as Jupyter's servers read it: {active}");

    let address = format!("ws://{}/api/kernels/{id}/channels?session_id=1", dev.server.trim_start_matches("http://"));
    let mut socket = connect_async(address).await.unwrap().0;
    let mut ask = async |channel: &str, kind: &str, id: &str, content: Value| {
        let header =
            json!({ "msg_id": id, "msg_type": kind, "session": "1", "username": "me", "version": "5.3", "date": "2026-01-01T00:00:00Z" });
        let message =
            json!({ "channel": channel, "header": header, "parent_header": {}, "metadata": {}, "content": content, "buffers": [] });
        socket.send(Message::Text(message.to_string().into())).await.unwrap();
        let mut heard = Vec::<Value>::new();
        loop {
            let came = tokio::time::timeout(Duration::from_secs(60), socket.next()).await.expect("it answers").unwrap().unwrap();
            let Message::Text(text) = came else { continue };
            let message: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(message["parent_header"]["msg_id"], id, "{message}");
            let over = message["msg_type"] == "status" && message["content"]["execution_state"] == "idle";
            heard.push(message);
            if over {
                return heard;
            }
        }
    };
    let content =
        |heard: &[Value], kind: &str| heard.iter().find(|message| message["msg_type"] == kind).map(|message| message["content"].clone());
    let info = ask("shell", "kernel_info_request", "i", json!({})).await;
    assert_eq!(content(&info, "kernel_info_reply").unwrap()["language_info"]["name"], "typescript");
    let run = |code: &str| json!({ "code": code, "silent": false, "store_history": true, "user_expressions": {}, "allow_stdin": false });
    let heard =
        ask("shell", "execute_request", "e1", run("console.log('hi'); console.warn('oh'); display({ toHtml: 1 }); [shared.answer]")).await;
    let kinds: Vec<_> = heard.iter().map(|message| message["msg_type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[1], *kinds.last().unwrap()), ("status", "execute_input", "status"), "{kinds:?}");
    let result = content(&heard, "execute_result").unwrap();
    assert_eq!((&result["data"]["application/json"], &result["execution_count"]), (&json!([42]), &json!(2)), "{result}");
    assert_eq!(content(&heard, "stream").unwrap(), json!({ "name": "stdout", "text": "hi\n" }));
    assert!(heard.iter().any(|message| message["content"]["name"] == "stderr"));
    assert_eq!(content(&heard, "execute_reply").unwrap()["status"], "ok");
    let thrown = ask("shell", "execute_request", "e2", run("null.x")).await;
    assert_eq!(content(&thrown, "error").unwrap()["ename"], "TypeError");
    assert_eq!(content(&thrown, "execute_reply").unwrap()["status"], "error");
    // There is nobody who could be asked, whatever a notebook allows.
    let asking = json!({ "code": "prompt('Your name?')", "silent": false, "allow_stdin": true });
    let refused = ask("shell", "execute_request", "e3", asking).await;
    assert!(refused.iter().all(|message| message["msg_type"] != "input_request"), "{refused:?}");
    for kind in ["error", "execute_reply"] {
        let said = content(&refused, kind).unwrap();
        assert_eq!(said["ename"], "NotSupported", "{said}");
        assert!(said["evalue"].as_str().unwrap().contains("`prompt` asks for standard input"), "{said}");
    }
    let refused = ask("stdin", "input_reply", "e4", json!({ "value": "x" })).await;
    assert_eq!(content(&refused, "input_reply").unwrap()["ename"], "NotSupported");
    // An interrupt ends the cell, and the heap is what it was and what the cell made of it.
    for (number, code) in
        ["shared.mark = 1; for (;;) {}", "shared.mark = 2; await new Promise(() => { setTimeout(() => 0, 1e6) })"].iter().enumerate()
    {
        let interrupting = async {
            while get(&format!("/api/kernels/{id}")).await["execution_state"] != "busy" {
                tokio::task::yield_now().await;
            }
            http.post(url(&dev, &format!("/api/kernels/{id}/interrupt"))).send().await.unwrap().status()
        };
        let key = format!("i{number}");
        let (heard, status) = tokio::join!(ask("shell", "execute_request", &key, run(code)), interrupting);
        assert_eq!((status.as_u16(), &content(&heard, "execute_reply").unwrap()["ename"]), (204, &json!("Interrupted")), "{heard:?}");
        let kept = ask("shell", "execute_request", &format!("k{number}"), run("shared.answer")).await;
        assert_eq!(content(&kept, "execute_result").unwrap()["data"]["text/plain"], "42");
    }
    let completed = ask("shell", "complete_request", "c", json!({ "code": "let y = shared.an", "cursor_pos": 17 })).await;
    let completed = content(&completed, "complete_reply").unwrap();
    assert_eq!((&completed["matches"], &completed["cursor_start"]), (&json!(["answer"]), &json!(15)), "{completed}");
    let inspected = ask("shell", "inspect_request", "n", json!({ "code": "shared", "cursor_pos": 2, "detail_level": 0 })).await;
    assert_eq!(
        content(&inspected, "inspect_reply").unwrap()["data"]["text/plain"],
        "{ answer: 42, mark: 2 }",
        "what a cell did before its interrupt is kept"
    );

    assert_eq!(http.delete(url(&dev, &format!("/api/kernels/{id}"))).send().await.unwrap().status(), 204);
    assert_eq!(get(&format!("{SESSIONS}/s")).await["state"], "Hibernated", "a kernel that is shut down sleeps");
    assert_eq!(dev.eval("shared.answer"), "42");
}
