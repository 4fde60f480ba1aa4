//! A model's way into a session: the Model Context Protocol.

use serde_json::{Value, json};

use super::{SESSIONS, url};
use crate::support::{Dev, http};

#[tokio::test(flavor = "multi_thread")]
async fn a_model_works_in_a_session_through_mcp() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let http = http();
    let ask = async |method: &str, mut params: Value, revision: &str| {
        let mut request =
            http.post(url(&dev, "/mcp")).header("mcp-protocol-version", revision).header("accept", "application/json, text/event-stream");
        if revision == "2026-07-28" {
            let stated = json!({ "io.modelcontextprotocol/protocolVersion": revision, "io.modelcontextprotocol/clientCapabilities": {} });
            params["_meta"] = stated;
            request = request.header("mcp-method", method).header("mcp-name", params["name"].as_str().unwrap_or_default());
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = request.json(&body).send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "application/json");
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let call = async |name: &str, arguments: Value| {
        let (status, answer) = ask("tools/call", json!({ "name": name, "arguments": arguments }), "2026-07-28").await;
        assert_eq!((status, &answer["result"]["resultType"]), (200, &json!("complete")), "{answer}");
        answer["result"].clone()
    };
    let (_, begun) =
        ask("initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} }), "2025-11-25").await;
    assert_eq!(begun["result"]["protocolVersion"], "2025-11-25");
    let (_, found) = ask("server/discover", json!({}), "2026-07-28").await;
    assert!(found["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2025-11-25")));
    let (status, refused) = ask("tools/list", json!({}), "1999-01-01").await;
    assert_eq!((status, &refused["error"]["data"]["requested"]), (400, &json!("1999-01-01")));
    assert_eq!(ask("no/such", json!({}), "2025-11-25").await.0, 404);
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(http.post(url(&dev, "/mcp")).json(&note).send().await.unwrap().status(), 202);

    assert_eq!(call("session_create", json!({ "name": "model" })).await["structuredContent"]["name"], "model");
    let cell = call("eval", json!({ "session": "model", "code": "const kept = [1, 2]; console.log('hi'); kept.length" })).await;
    assert_eq!((&cell["structuredContent"]["value"], &cell["content"][0]["text"]), (&json!(2), &json!("hi\n2")));
    let thrown = call("eval", json!({ "session": "model", "code": "kept.nothing.at.all" })).await;
    assert_eq!((&thrown["isError"], &thrown["structuredContent"]["error"]["name"]), (&json!(true), &json!("TypeError")));
    let run = call("eval", json!({ "session": "model", "code": "kept.push(3)", "background": true })).await;
    let ended = call("run_get", json!({ "session": "model", "run": run["structuredContent"]["id"], "waitSeconds": 30 })).await;
    assert_eq!((&ended["structuredContent"]["state"], &ended["structuredContent"]["result"]["value"]), (&json!("Succeeded"), &json!(3)));
    call("file_write", json!({ "session": "model", "path": "/notes/a.txt", "text": "remember" })).await;
    assert_eq!(call("file_read", json!({ "session": "model", "path": "/notes/a.txt" })).await["structuredContent"]["text"], "remember");
    let (_, read) = ask("resources/read", json!({ "uri": "dormouse://default/model/notes/a.txt" }), "2025-11-25").await;
    assert_eq!(read["result"]["contents"][0]["text"], "remember", "{read}");
    let missing = call("session_get", json!({ "session": "nobody" })).await;
    assert_eq!((&missing["isError"], &missing["structuredContent"]["error"]["code"]), (&json!(true), &json!("SessionNotFound")));

    let task =
        json!({ "session": "model", "goal": "count", "inProgress": ["step 2"], "done": ["step 1"], "mustNotRedo": ["mail the report"] });
    call("task_start", task).await;
    call("task_update", json!({ "session": "model", "failures": ["the mail server was down"] })).await;
    call("session_hibernate", json!({ "session": "model" })).await;
    let resumed = call("task_resume", json!({ "session": "model" })).await;
    let hint = resumed["structuredContent"]["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("step 2") && hint.contains("mail the report") && hint.contains("the mail server was down"), "{hint}");
    assert!(call("task_handoff", json!({ "session": "model" })).await["structuredContent"]["text"].as_str().unwrap().contains("- step 1"));
    // A run that was cut off while the task was open is in it, with a checkpoint of what it left.
    let endless = call("eval", json!({ "session": "model", "code": "for (;;) {}", "background": true })).await;
    let endless = endless["structuredContent"]["id"].as_str().unwrap().to_owned();
    call("run_cancel", json!({ "session": "model", "run": endless })).await;
    let more = json!({ "session": "model", "blocked": ["a review"], "mustPreserve": ["/notes"], "failures": ["the disk was full"] });
    call("task_update", more).await;
    let resumed = call("task_resume", json!({ "session": "model" })).await["structuredContent"].clone();
    let hint = resumed["hint"].as_str().unwrap();
    for part in ["a review", "/notes", "the mail server was down; the disk was full", &format!("run {endless} was cancelled")] {
        assert!(hint.contains(part), "{part}: {hint}");
    }
    let interruptions = resumed["task"]["interruptions"].as_array().unwrap();
    assert_eq!(interruptions.len(), 1, "once, however often somebody looks: {resumed}");
    let checkpoint = interruptions[0]["checkpoint"].as_str().unwrap();
    let listed: Value = http.get(url(&dev, &format!("{SESSIONS}/model/checkpoints"))).send().await.unwrap().json().await.unwrap();
    let made = listed["items"].as_array().unwrap().iter().find(|it| it["label"] == "interrupted").unwrap();
    assert_eq!(made["id"], checkpoint);
    // Of many who write at once, none loses what another has written.
    let steps: Vec<String> = (0..6).map(|step| format!("parallel {step}")).collect();
    let writes = steps.iter().map(|step| call("task_update", json!({ "session": "model", "done": [step] })));
    for written in futures::future::join_all(writes).await {
        assert_eq!(written["isError"], false, "{written}");
    }
    let resumed = call("task_resume", json!({ "session": "model" })).await;
    let done = &resumed["structuredContent"]["task"]["done"];
    assert!(steps.iter().all(|step| done.as_array().unwrap().contains(&json!(step))), "{done}");
    call("task_complete", json!({ "session": "model", "outcome": "counted" })).await;
    let history = call("task_history", json!({ "session": "model" })).await;
    assert_eq!(history["structuredContent"]["tasks"][0]["outcome"], "counted");

    // Functions of the session are tools of the server, and nothing wakes to list them.
    let register = "let added = 0; mcp.tool('add', { description: 'Adds', input: { type: 'object', properties: { n: { type: 'number' } } } }, \
                    async ({ n }) => { await sleep(1); if (n < 0) throw new RangeError('no'); added += n; return { added }; }); \
                    const { z } = require('zod'); mcp.tool('shout', { input: z.object({ text: z.string() }) }, ({ text }) => text.toUpperCase()); mcp.list()";
    let listed = call("eval", json!({ "session": "model", "code": register })).await;
    assert_eq!(listed["structuredContent"]["value"], json!(["add", "shout"]), "{listed}");
    call("session_hibernate", json!({ "session": "model" })).await;
    let all = async || {
        let (_, all) = ask("tools/list", json!({}), "2025-11-25").await;
        let own = all["result"]["tools"].as_array().unwrap().iter().filter(|tool| tool["name"].as_str().unwrap().contains('.'));
        own.cloned().collect::<Vec<_>>()
    };
    let own = all().await;
    assert_eq!((own.len(), &own[0]["name"], &own[0]["description"]), (2, &json!("model.add"), &json!("Adds")), "{own:?}");
    assert_eq!(own[1]["inputSchema"]["properties"]["text"]["type"], "string");
    let state = call("session_get", json!({ "session": "model" })).await;
    assert_eq!(state["structuredContent"]["state"], "Hibernated", "to list wakes nothing");
    let unfit = call("model.add", json!({ "n": "2" })).await;
    let error = &unfit["structuredContent"]["error"];
    assert_eq!(
        (&unfit["isError"], &error["code"], &error["details"]["path"]),
        (&json!(true), &json!("ToolArgsInvalid"), &json!("/n")),
        "{unfit}"
    );
    let state = call("session_get", json!({ "session": "model" })).await;
    assert_eq!(state["structuredContent"]["state"], "Hibernated", "nor do arguments that do not fit");
    assert_eq!(call("model.add", json!({ "n": 2 })).await["structuredContent"], json!({ "added": 2 }));
    assert_eq!(call("model.add", json!({ "n": 3 })).await["content"][0]["text"], r#"{"added":5}"#);
    let refused = call("model.add", json!({ "n": -1 })).await;
    assert_eq!((&refused["isError"], &refused["structuredContent"]["error"]["name"]), (&json!(true), &json!("RangeError")));
    assert_eq!(call("model.shout", json!({ "text": "hi\u{2028}" })).await["content"][0]["text"], "HI\u{2028}");
    assert_eq!(call("model.shout", json!({ "text": 1 })).await["isError"], true, "a schema of zod checks");
    assert_eq!(call("model.shout", json!({ "text": "a", "__proto__": { "text": "b" } })).await["content"][0]["text"], "A");
    let (_, unknown) = ask("tools/call", json!({ "name": "model.nothing" }), "2025-11-25").await;
    assert!(unknown["error"]["message"].as_str().unwrap().contains("no tool `model.nothing`"), "{unknown}");
    let (_, unknown) = ask("tools/call", json!({ "name": "nobody.add" }), "2025-11-25").await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let limits = "const of = (make) => { try { make(); return 'ok'; } catch (error) { return error.code ?? error.name; } }; \
                  [of(() => { for (let n = 0; n < 62; n++) mcp.tool(`t${n}`, {}, () => n); }), of(() => mcp.tool('t62', {}, () => 0)), mcp.remove('t0'), \
                  of(() => mcp.tool('t0', { description: 'x'.repeat(70000) }, () => 0)), of(() => mcp.tool('a.b', {}, () => 0)), of(() => mcp.tool('a', {}))]";
    let limits = call("eval", json!({ "session": "model", "code": limits })).await;
    assert_eq!(
        limits["structuredContent"]["value"],
        json!(["ok", "QuotaExceeded", true, "QuotaExceeded", "TypeError", "TypeError"]),
        "{limits}"
    );
    assert_eq!(all().await.len(), 63);

    // The same on standard input and output.
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-11-25" } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "eval", "arguments": { "session": "model", "code": "kept" } } }),
    ];
    let said = dev.command(&["mcp"], &lines.map(|line| line.to_string()).join("\n"));
    let answers: Vec<Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((answers.len(), &answers[0]["id"]), (2, &json!(1)), "{}", said.err);
    assert_eq!(answers[1]["result"]["structuredContent"]["value"], json!([1, 2, 3]), "{}", said.out);
}
