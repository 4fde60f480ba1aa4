//! Other clients' ways into a session, each against a real `dormouse dev`.

use std::time::Duration;

use crate::support::{Dev, http};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};

fn url(dev: &Dev, path: &str) -> String {
    format!("{}{path}", dev.server)
}

const SESSIONS: &str = "/v1/namespaces/default/sessions";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_outlives_a_kill_and_ends_with_nobody_asking() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval("let n = 40; n"), "40");
    let (http, eval) = (http(), format!("{SESSIONS}/s/eval"));
    let accept = |dev: &Dev, code: &str, key: &str| {
        let request = http.post(url(dev, &eval)).header("prefer", "respond-async").json(&json!({ "code": code, "idempotencyKey": key }));
        async move { request.send().await.unwrap() }
    };
    let first = accept(&dev, "await new Promise(done => setTimeout(done, 4000)); n += 1; n", "first").await;
    assert_eq!((first.status(), first.headers()["preference-applied"].to_str().unwrap()), (reqwest::StatusCode::ACCEPTED, "respond-async"));
    let first: Value = first.json().await.unwrap();
    let second: Value = accept(&dev, "n += 1; console.log('second'); n", "second").await.json().await.unwrap();
    assert_eq!(second["state"], "Queued");
    dev.kill();

    let dev = Dev::start(data.path(), &[]);
    let get = |run: &Value, wait: u64| {
        let path = format!("{}?waitSeconds={wait}", run["url"].as_str().unwrap());
        let request = http.get(url(&dev, &path));
        async move { request.send().await.unwrap().json::<Value>().await.unwrap() }
    };
    let ended = get(&second, 60).await;
    assert_eq!((&ended["state"], &ended["result"]["value"]), (&json!("Succeeded"), &json!(42)), "{ended}");
    assert_eq!(ended["result"]["console"][0]["text"], "second");
    let ended = get(&first, 0).await;
    assert_eq!((&ended["state"], &ended["result"]["value"]), (&json!("Succeeded"), &json!(41)), "{ended}");
    assert_eq!(dev.eval("n"), "42", "each ran once");

    let listed: Value = http.get(url(&dev, &format!("{SESSIONS}/s/runs?limit=1"))).send().await.unwrap().json().await.unwrap();
    assert_eq!((listed["items"].as_array().unwrap().len(), &listed["items"][0]["id"]), (1, &second["run"]));
    let rest = format!("{SESSIONS}/s/runs?continue={}", listed["continue"].as_str().unwrap());
    let rest: Value = http.get(url(&dev, &rest)).send().await.unwrap().json().await.unwrap();
    assert_eq!((&rest["items"][0]["id"], rest.get("continue")), (&first["run"], None));
    let unknown = http.get(url(&dev, &format!("{SESSIONS}/s/runs/r_none"))).send().await.unwrap();
    assert_eq!(unknown.status(), 404);

    let cancelled = accept(&dev, "for (;;) {}", "endless").await.json::<Value>().await.unwrap();
    let cancelled = http.post(url(&dev, &format!("{}/cancel", cancelled["url"].as_str().unwrap()))).send().await.unwrap();
    assert_eq!(cancelled.json::<Value>().await.unwrap()["state"], "Cancelled");

    let said = dev.command(&["eval", "--session", "s", "--background", "n * 2"], "");
    let waited = dev.command(&["runs", "--session", "s", "wait", said.out.trim()], "");
    assert_eq!(waited.out.trim(), "84", "{}", waited.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_says_how_it_was_served() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval("1"), "1");
    let http = http();
    let served = async |dev: &Dev| {
        let answer = http.post(url(dev, &format!("{SESSIONS}/s/eval"))).json(&json!({ "code": "1" })).send().await.unwrap();
        answer.headers()["dormouse-woke"].to_str().unwrap().to_owned()
    };
    assert_eq!(served(&dev).await, "no; dur=0.000");
    assert!(dev.command(&["sessions", "hibernate", "s"], "").status.success());
    assert!(served(&dev).await.starts_with("memory; dur="));
    assert!(dev.terminate().success());
    let dev = Dev::start(data.path(), &[]);
    assert!(served(&dev).await.starts_with("storage; dur="));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_opens_what_it_was_made_for_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let http = http();
    for (name, app) in [("mine", "a"), ("theirs", "b")] {
        let body = json!({ "name": name, "labels": { "app": app } });
        assert_eq!(http.post(url(&dev, SESSIONS)).json(&body).send().await.unwrap().status(), 201);
    }
    let made = dev.command(&["keys", "create", "app", "--verbs", "get,list,eval,create", "--selector", "app=a"], "");
    let key = made.out.trim().to_owned();
    assert!(key.starts_with("dmk_") && key.len() == 68, "{}{}", made.out, made.err);
    let asked = async |method: &str, path: &str, body: Value, token: &str| {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let answer = http.request(method, url(&dev, path)).bearer_auth(token).header("x-request-id", "r").json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let code = json!({ "code": "1 + 1" });
    assert_eq!(asked("POST", &format!("{SESSIONS}/mine/eval"), code.clone(), &key).await.0, 200);
    assert_eq!(asked("GET", &format!("{SESSIONS}/mine"), json!({}), &key).await.0, 200);
    let (status, listed) = asked("GET", SESSIONS, json!({}), &key).await;
    assert!(status == 200 && listed.contains("\"mine\"") && !listed.contains("\"theirs\""), "{listed}");
    // What it does not fit and what does not exist cannot be told apart.
    let (there, missing) = (
        asked("GET", &format!("{SESSIONS}/theirs"), json!({}), &key).await,
        asked("GET", &format!("{SESSIONS}/missing"), json!({}), &key).await,
    );
    assert_eq!((there.0, &there.1), (403, &missing.1));
    for (method, path) in [
        ("POST", format!("{SESSIONS}/theirs/eval")),
        ("DELETE", format!("{SESSIONS}/mine")),
        ("POST", format!("{SESSIONS}/mine/hibernate")),
        ("GET", "/v1/namespaces/other/sessions".to_owned()),
        ("POST", "/v1/namespaces/default/keys".to_owned()),
        ("POST", format!("{SESSIONS}/mine/fork")),
    ] {
        let body = match path.as_str() {
            path if path.ends_with("keys") => json!({ "name": "more", "verbs": ["eval"] }),
            path if path.ends_with("fork") => json!({ "name": "copy" }),
            _ => code.clone(),
        };
        assert_eq!(asked(method, &path, body, &key).await.0, 403, "{method} {path}");
    }
    assert_eq!(asked("POST", SESSIONS, json!({ "name": "new" }), &key).await.0, 403, "without its labels");
    assert_eq!(asked("POST", SESSIONS, json!({ "name": "new", "labels": { "app": "a" } }), &key).await.0, 201);
    for wrong in ["dmk_", "dmk_00", &format!("dmk_{}", "0".repeat(64)), &key[..67], &key.to_uppercase().replace("DMK", "dmk")] {
        assert_eq!(asked("GET", SESSIONS, json!({}), wrong).await.0, 401, "{wrong}");
    }
    let found = std::process::Command::new("grep").args(["-r", "-l", &key[4..]]).arg(data.path()).output().unwrap();
    assert!(found.stdout.is_empty(), "the secret is nowhere");
    let listed = dev.command(&["keys"], "");
    assert!(listed.out.contains("app ") && listed.out.contains("app=a") && !listed.out.contains(&key[4..]), "{}", listed.out);
    let past = json!({ "name": "past", "verbs": ["get"], "expiresAt": "2020-01-01T00:00:00Z" });
    assert_eq!(http.post(url(&dev, "/v1/namespaces/default/keys")).json(&past).send().await.unwrap().status(), 400);
    assert!(dev.terminate().success());

    let dev = Dev::start(data.path(), &[]);
    let listing = || http.get(url(&dev, SESSIONS)).bearer_auth(&key).send();
    assert_eq!(listing().await.unwrap().status(), 200, "it outlives the process");
    assert!(dev.command(&["keys", "revoke", "app"], "").status.success());
    assert_eq!(listing().await.unwrap().status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_client_makes_a_session_and_runs_cells() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let host = dev.server.trim_start_matches("http://").to_owned();
    let connect = async |path: &str, protocol: Option<&str>| {
        let mut request = format!("ws://{host}{path}").into_client_request().unwrap();
        if let Some(protocol) = protocol {
            request.headers_mut().insert("sec-websocket-protocol", protocol.parse().unwrap());
        }
        connect_async(request).await.unwrap().0
    };
    async fn next<S>(socket: &mut S) -> Value
    where
        S: futures::Stream<Item = Result<Message, tokio_tungstenite::tungstenite::Error>> + Unpin,
    {
        loop {
            let came = tokio::time::timeout(Duration::from_secs(60), socket.next()).await.expect("it answers").unwrap().unwrap();
            if let Message::Text(text) = came {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }
    let mut plain = connect("/ws?id=socket", None).await;
    let mut ask = async |frame: Value| {
        plain.send(Message::Text(frame.to_string().into())).await.unwrap();
        next(&mut plain).await
    };
    assert_eq!(ask(json!({ "t": "ping", "id": 1 })).await, json!({ "t": "ping-result", "id": 1, "ok": true }));
    assert_eq!(ask(json!({ "t": "gen", "id": 2 })).await["error"]["code"], "SessionNotFound");
    let made = ask(json!({ "t": "create", "id": 3, "config": { "rngSeed": 1, "clock": 0 } })).await;
    assert_eq!((&made["ok"], &made["name"]), (&json!(true), &json!("socket")), "{made}");
    let value = ask(json!({ "t": "eval", "id": "a", "src": "globalThis.x = 41; console.log('hi'); x + 1" })).await;
    assert_eq!((&value["id"], &value["value"], &value["console"][0]["text"]), (&json!("a"), &json!(42), &json!("hi")), "{value}");
    assert_eq!(ask(json!({ "t": "evict", "id": 4 })).await["state"], "Hibernated");
    assert_eq!(ask(json!({ "t": "gen", "id": 5 })).await["state"], "Hibernated", "it does not wake");
    let thrown = ask(json!({ "t": "eval", "id": 6, "code": "null.x" })).await;
    assert_eq!((&thrown["ok"], &thrown["error"]["name"]), (&json!(false), &json!("TypeError")));
    assert_eq!(ask(json!({ "t": "reset", "id": 8 })).await["state"], "Idle");
    assert_eq!(ask(json!({ "t": "eval", "id": 9, "src": "typeof x" })).await["value"], "undefined", "nothing is left");
    assert_eq!(ask(json!({ "t": "nonsense" })).await["error"]["code"], "InvalidRequest");
    assert_eq!(ask(json!([1])).await["error"]["code"], "InvalidRequest");

    // Another client of the same session, with events, while a cell of it runs.
    let mut streaming = connect(&format!("{SESSIONS}/socket/ws"), Some("dormouse.v1")).await;
    let frame = json!({ "t": "eval", "id": 7, "code": "console.log('one'); await new Promise(() => { setTimeout(() => 0, 1e6) })" });
    streaming.send(Message::Text(frame.to_string().into())).await.unwrap();
    loop {
        let event = next(&mut streaming).await;
        assert_eq!((&event["t"], &event["id"]), (&json!("event"), &json!(7)), "{event}");
        if event["event"]["type"] == "log" {
            assert_eq!(event["event"]["payload"]["text"], "one");
            break;
        }
    }
    streaming.send(Message::Text(json!({ "t": "interrupt", "id": 8 }).to_string().into())).await.unwrap();
    let mut answers = std::collections::BTreeMap::new();
    while answers.len() < 2 {
        let answer = next(&mut streaming).await;
        if answer["t"] != "event" {
            answers.insert(answer["id"].as_u64().unwrap(), answer);
        }
    }
    assert_eq!((&answers[&8]["ok"], &answers[&7]["error"]["code"]), (&json!(true), &json!("Interrupted")), "{answers:?}");

    // A page of another origin may not connect.
    let mut foreign = format!("ws://{host}/ws?id=socket").into_client_request().unwrap();
    foreign.headers_mut().insert("origin", "http://evil.example".parse().unwrap());
    assert!(connect_async(foreign).await.is_err());
    // What is no WebSocket is answered as an error.
    assert_eq!(http().get(url(&dev, "/ws?id=socket")).send().await.unwrap().status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streaming_client_starts_and_takes_up_again() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let http = http();
    let body = json!({ "code": "console.log('at work'); const n = await Promise.resolve(6); return [{ id: n }];", "config": { "maxExecutionMs": 5000 } });
    let events = async |request: reqwest::RequestBuilder| {
        let text = request.send().await.unwrap().text().await.unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let first = events(http.post(url(&dev, "/sessions")).json(&body)).await;
    assert_eq!((&first[0]["type"], &first[0]["protocolVersion"]), (&json!("session_init"), &json!(1)));
    assert!(first[0]["payload"]["expiresAt"].is_string());
    let end = first.last().unwrap();
    assert_eq!((&end["type"], &end["payload"]["ok"], &end["payload"]["result"]), (&json!("final"), &json!(true), &json!([{ "id": 6 }])));
    assert_eq!((&end["payload"]["stats"]["toolCallCount"], &end["payload"]["stats"]["stdoutBytes"]), (&json!(0), &json!(8)), "{end}");
    let seqs: Vec<_> = first.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{seqs:?}");
    let id = first[0]["sessionId"].as_str().unwrap();
    assert!(first.iter().all(|event| event["sessionId"] == id));

    let log = first.iter().find(|event| event["type"] == "log").unwrap();
    let again = events(http.get(url(&dev, &format!("/sessions/{id}/stream?after={}", log["seq"])))).await;
    let last = again.last().unwrap();
    let of = |event: &Value| {
        [&event["seq"], &event["type"], &event["payload"]["ok"], &event["payload"]["result"], &event["payload"]["stats"]["stdoutBytes"]]
            .map(Value::clone)
    };
    assert_eq!(of(last), of(end), "what came behind is replayed");
    assert!(again.iter().all(|event| event["seq"].as_u64() > log["seq"].as_u64()));

    let shown: Value = http.get(url(&dev, &format!("/sessions/{id}"))).send().await.unwrap().json().await.unwrap();
    assert_eq!(shown["sessionId"], id);
    let listed: Value = http.get(url(&dev, "/sessions")).send().await.unwrap().json().await.unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(http.delete(url(&dev, &format!("/sessions/{id}"))).send().await.unwrap().status(), 204);
    assert_eq!(http.get(url(&dev, &format!("/sessions/{id}"))).send().await.unwrap().status(), 404);
    let failed = events(http.post(url(&dev, "/sessions")).json(&json!({ "code": "throw new RangeError('no')" }))).await;
    assert_eq!(failed.last().unwrap()["payload"]["error"]["name"], "RangeError");
}

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
