//! Other clients' ways into a session, each against a real `dormouse dev`.

mod models;
mod notebooks;

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
