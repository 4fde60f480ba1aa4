//! Calls that somebody outside makes, a runner or a client of the session: against a real `dormouse dev`, with kills in between.

use std::{path::Path, time::Duration};

use crate::support::Dev;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async, tungstenite::Message};

const SESSION: &str = "/v1/namespaces/default/sessions/agent";
const JOBS: &str = "/v1/namespaces/default/jobs";

fn client() -> reqwest::Client {
    dormouse_service::telemetry::install_tls_provider();
    reqwest::Client::builder().timeout(Duration::from_secs(90)).build().unwrap()
}

async fn post(dev: &Dev, path: &str, body: Value) -> (u16, Value) {
    let answer = client().post(format!("{}{path}", dev.server)).json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

async fn get(dev: &Dev, path: &str) -> Value {
    client().get(format!("{}{path}", dev.server)).send().await.unwrap().json().await.unwrap()
}

async fn begin(dev: &Dev, session: &str, code: &str) -> String {
    let request = client().post(format!("{}{session}/eval", dev.server)).header("prefer", "respond-async");
    let run: Value = request.json(&json!({ "code": code })).send().await.unwrap().json().await.unwrap();
    run["url"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned()
}

async fn ended(dev: &Dev, run: &str) -> Value {
    get(dev, &format!("{run}?waitSeconds=60")).await
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), waited).await.unwrap_or_else(|_| panic!("{what}"));
}

async fn asleep(dev: &Dev, session: &str) {
    eventually("it sleeps while it waits", async || {
        let session = get(dev, session).await;
        session["status"]["conditions"].as_array().unwrap().iter().any(|it| it["type"] == "Hibernated" && it["status"] == "True")
    })
    .await;
}

fn start(data: &Path) -> Dev {
    let path = data.join("lab.yaml");
    let text = "apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {name: lab}\nspec:\n  tools:\n    - name: render\n      \
                runner: {capability: browser}\n      input: {type: object, properties: {url: {type: string}}, required: [url]}\n      \
                output: {type: object, required: [title]}\n---\napiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {name: agent}\n\
                spec:\n  idleSeconds: 1\n  toolBrokerRef: {name: lab}\n";
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    Dev::start(data, &["--broker", path, "--session", path])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_claims_a_call_keeps_it_and_answers_once() {
    let data = tempfile::tempdir().unwrap();
    let dev = start(data.path());
    let claim = json!({ "capabilities": ["print", "browser"], "runner": "r-1" });
    assert_eq!(post(&dev, &format!("{JOBS}/claim"), claim.clone()).await.0, 204, "there is nothing to do");
    let wrong =
        post(&dev, &format!("{SESSION}/eval"), json!({ "code": "await tools.render({ link: 1 }).catch(error => error.name)" })).await;
    assert_eq!(wrong.1["value"], json!("ToolArgsInvalid"), "nobody is asked: {}", wrong.1);
    let run = begin(&dev, SESSION, "const page = await tools.render({ url: 'https://a.example/' }); page.title").await;
    asleep(&dev, SESSION).await;
    let waiting = get(&dev, SESSION).await;
    assert_eq!((&waiting["state"], &waiting["status"]["pendingJobs"]), (&json!("WaitingForTool"), &json!(1)), "{waiting}");
    dev.kill();

    let dev = start(data.path());
    let (status, job) =
        post(&dev, &format!("{JOBS}/claim"), json!({ "capabilities": ["browser"], "runner": "r-1", "waitSeconds": 30 })).await;
    assert_eq!(
        (status, &job["tool"], &job["arguments"], &job["attempt"]),
        (200, &json!("render"), &json!({ "url": "https://a.example/" }), &json!(1))
    );
    assert_eq!(post(&dev, &format!("{JOBS}/claim"), claim.clone()).await.0, 204, "it is somebody's");
    let path = |what: &str| format!("{JOBS}/{}/{what}", job["id"].as_str().unwrap());
    assert_eq!(post(&dev, &path("heartbeat"), json!({ "lease": job["lease"] })).await, (200, json!({ "leaseSeconds": 60 })));
    for what in ["heartbeat", "answer"] {
        let mut body = json!({ "lease": "another" });
        if what == "answer" {
            body["ok"] = json!(true);
            body["value"] = json!({ "title": "forged" });
        }
        assert_eq!(post(&dev, &path(what), body).await.1["error"]["code"], json!("Conflict"), "{what}");
    }
    let unfit = post(&dev, &path("answer"), json!({ "lease": job["lease"], "ok": true, "value": { "name": 1 } })).await;
    assert_eq!(unfit.1["error"]["code"], json!("ToolResultInvalid"), "{}", unfit.1);
    let answer = json!({ "lease": job["lease"], "ok": true, "value": { "title": "A" } });
    assert_eq!(post(&dev, &path("answer"), answer.clone()).await, (200, json!({ "told": true })));
    let end = ended(&dev, &run).await;
    assert_eq!((&end["state"], &end["result"]["value"]), (&json!("Succeeded"), &json!("A")), "{end}");
    eventually("it waits for nobody", async || get(&dev, SESSION).await["status"].get("pendingJobs").is_none()).await;
    assert_eq!(post(&dev, &path("answer"), answer).await.0, 200, "the same once more");
    assert_eq!(post(&dev, &format!("{JOBS}/claim"), claim.clone()).await.0, 204);

    let run = begin(&dev, SESSION, "await tools.render({ url: 'b' }).catch(error => `${error.name}: ${error.message}`)").await;
    let (_, job) = post(&dev, &format!("{JOBS}/claim"), json!({ "capabilities": ["browser"], "runner": "r-2", "waitSeconds": 30 })).await;
    let path = format!("{JOBS}/{}/answer", job["id"].as_str().unwrap());
    assert_eq!(post(&dev, &path, json!({ "lease": job["lease"], "ok": false, "error": "no such page" })).await.0, 200);
    assert_eq!(ended(&dev, &run).await["result"]["value"], json!("ToolResultInvalid: no such page"));
    let listed = post(&dev, &format!("{SESSION}/eval"), json!({ "code": "(await tools.list()).map(tool => tool.name)" })).await;
    assert_eq!(listed.1["value"], json!(["render"]));
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn connect(dev: &Dev) -> Socket {
    let (mut socket, _) = connect_async(format!("{}/ws?id=desk", dev.server.replace("http://", "ws://"))).await.unwrap();
    let create =
        json!({ "t": "create", "id": 1, "config": { "tools": [{ "name": "ask", "description": "Asks the person at the desk" }] } });
    socket.send(Message::Text(create.to_string().into())).await.unwrap();
    assert_eq!(next(&mut socket, "create-result").await["ok"], json!(true));
    socket
}

/// The next frame of this kind.
async fn next(socket: &mut Socket, kind: &str) -> Value {
    let wait = async {
        loop {
            let Some(Ok(message)) = socket.next().await else { panic!("the socket ended") };
            let Message::Text(text) = message else { continue };
            let frame: Value = serde_json::from_str(&text).unwrap();
            if frame["t"] == kind {
                return frame;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(90), wait).await.unwrap_or_else(|_| panic!("no {kind}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_makes_calls_of_its_session_and_they_wait_while_it_is_away() {
    const DESK: &str = "/v1/namespaces/default/sessions/desk";
    let data = tempfile::tempdir().unwrap();
    let dev = start(data.path());
    let mut socket = connect(&dev).await;
    let eval = json!({ "t": "eval", "id": 2, "code": "(await tools.ask({ question: 'how many?' })) + 1" });
    socket.send(Message::Text(eval.to_string().into())).await.unwrap();
    let asked = next(&mut socket, "hostcall").await;
    assert_eq!((&asked["name"], &asked["args"]), (&json!("ask"), &json!({ "question": "how many?" })));
    let said = json!({ "t": "hostcall-result", "id": 3, "callId": asked["callId"], "ok": true, "value": 41 });
    socket.send(Message::Text(said.to_string().into())).await.unwrap();
    let (mut result, mut taken) = (Value::Null, Value::Null);
    while result.is_null() || taken.is_null() {
        let Some(Ok(Message::Text(text))) = socket.next().await else { continue };
        let frame: Value = serde_json::from_str(&text).unwrap();
        match frame["t"].as_str().unwrap() {
            "eval-result" => result = frame,
            "hostcall-result-result" => taken = frame,
            other => panic!("{other}"),
        }
    }
    assert_eq!((&result["value"], &taken["ok"]), (&json!(42), &json!(true)), "{result} {taken}");
    socket.send(Message::Text(said.to_string().into())).await.unwrap();
    assert_eq!(next(&mut socket, "hostcall-result-result").await["error"]["code"], json!("Conflict"), "it was answered");
    drop(socket);

    // Nobody is there, and the session sleeps; then its process dies.
    let run = begin(&dev, DESK, "await tools.ask({ question: 'why?' }).catch(error => error.message)").await;
    eventually("it waits", async || get(&dev, &run).await["state"] == "Waiting").await;
    assert_eq!(client().post(format!("{}{DESK}/hibernate", dev.server)).send().await.unwrap().status().as_u16(), 200);
    asleep(&dev, DESK).await;
    let waiting = get(&dev, DESK).await;
    assert_eq!((&waiting["state"], &waiting["status"]["pendingHostcalls"]), (&json!("WaitingForTool"), &json!(1)), "{waiting}");
    dev.kill();
    let dev = start(data.path());
    let mut socket = connect(&dev).await;
    let asked = next(&mut socket, "hostcall").await;
    assert_eq!(asked["args"], json!({ "question": "why?" }));
    drop(socket);
    let mut socket = connect(&dev).await;
    assert_eq!(next(&mut socket, "hostcall").await["callId"], asked["callId"], "who connects again is asked again");
    let said =
        json!({ "t": "hostcall-result", "id": 3, "callId": asked["callId"], "ok": false, "error": { "message": "ask somebody else" } });
    socket.send(Message::Text(said.to_string().into())).await.unwrap();
    let end = ended(&dev, &run).await;
    assert_eq!((&end["state"], &end["result"]["value"]), (&json!("Succeeded"), &json!("ask somebody else")), "{end}");
}

/// The blocks of a page in this language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    page.split(&format!("```{language}\n")).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// What a table shows as the body of a request to `path`.
fn body(page: &str, path: &str) -> Value {
    let shown = page.split(path).nth(1).and_then(|rest| rest.split_once('{')).and_then(|(_, rest)| rest.split('`').next()).unwrap();
    yaml_serde::from_str(&format!("{{{shown}")).unwrap_or_else(|error| panic!("{path}: {shown}: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_docs_work() {
    const SECRET: &str = "whsec_YSBrZXkgb2YgZm91ciBhbmQgdHdlbnR5IGJ5";
    const DOOR: &str = "Bearer let-me-in";
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/outside.md")).unwrap();
    let got: std::sync::Arc<std::sync::Mutex<Vec<Value>>> = std::sync::Arc::default();
    let take = |axum::extract::State(got): axum::extract::State<std::sync::Arc<std::sync::Mutex<Vec<Value>>>>,
                headers: axum::http::HeaderMap,
                body: axum::body::Bytes| async move {
        standardwebhooks::Webhook::new(SECRET).unwrap().verify(&body, &headers).unwrap();
        assert_eq!(headers["authorization"], DOOR);
        got.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let receiver = listener.local_addr().unwrap();
    let routes = axum::Router::new().route("/events", axum::routing::post(take)).with_state(std::sync::Arc::clone(&got));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });

    let mut spec = json!({});
    for block in blocks(&page, "yaml") {
        let part: Value = yaml_serde::from_str(&block.replace("https://acme.example", &format!("http://{receiver}"))).unwrap();
        spec.as_object_mut().unwrap().extend(part["spec"].as_object().unwrap().clone());
    }
    let kind = |kind: &str, name: &str, spec: Value| json!({ "apiVersion": "dormouse.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec });
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "events" }, "stringData": { "secret": SECRET, "door": DOOR } });
    let session = json!({ "idleSeconds": 1, "toolBrokerRef": { "name": "lab" } });
    let documents = [secret, kind("ToolBroker", "lab", spec), kind("KernelSession", "agent", session)];
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("docs.yaml");
    std::fs::write(&file, documents.map(|document| document.to_string()).join("\n---\n")).unwrap();
    let file = file.to_str().unwrap();
    let dev = Dev::start(data.path(), &["--broker", file, "--session", file]);

    // A runner.
    let run = begin(&dev, SESSION, "await tools.render({ url: 'https://a.example/' })").await;
    let (status, job) = post(&dev, &format!("{JOBS}/claim"), body(&page, "jobs/claim`")).await;
    let keys: Vec<&str> = job.as_object().unwrap().keys().map(String::as_str).collect();
    let said = page.split("A job is `{").nth(1).and_then(|rest| rest.split("}`").next()).unwrap();
    let mut said: Vec<&str> = said.split(',').map(str::trim).collect();
    said.sort_unstable();
    assert_eq!((status, keys), (200, said));
    let lease = |mut body: Value| {
        body["lease"] = job["lease"].clone();
        body
    };
    let id = job["id"].as_str().unwrap();
    let shown = body(&page, "jobs/{id}/heartbeat`");
    assert_eq!(post(&dev, &format!("{JOBS}/{id}/heartbeat"), lease(shown)).await, (200, json!({ "leaseSeconds": 60 })));
    let mut shown = body(&page, "jobs/{id}/answer`");
    shown["value"] = json!(42);
    assert_eq!(post(&dev, &format!("{JOBS}/{id}/answer"), lease(shown)).await, (200, json!({ "told": true })));
    assert_eq!(ended(&dev, &run).await["result"]["value"], json!(42));

    // Who is told of it.
    let shown: Value = serde_json::from_str(blocks(&page, "json")[0]).unwrap();
    eventually("the receiver is told", async || !got.lock().unwrap().is_empty()).await;
    let message = got.lock().unwrap()[0].clone();
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!((fields(&message), fields(&message["data"])), (fields(&shown), fields(&shown["data"])));
    assert_eq!((&message["type"], &message["data"]["preview"]), (&shown["type"], &shown["data"]["preview"]));
    let deliveries = get(&dev, "/v1/namespaces/default/webhooks/deliveries?session=agent&broker=lab").await;
    let delivery = deliveries["items"][0]["id"].as_str().unwrap().to_owned();
    let redeliver =
        async |id: &str| post(&dev, &format!("/v1/namespaces/default/webhooks/deliveries/{id}/redeliver?broker=lab"), json!({})).await;
    assert_eq!(redeliver(&delivery).await.0, 202);
    let unknown = redeliver("msg_0").await;
    assert_eq!((unknown.0, &unknown.1["error"]["code"]), (404, &json!("DeliveryNotFound")), "{}", unknown.1);

    // A client that answers.
    let frames: Vec<&str> = blocks(&page, "json")[1..].iter().map(|block| block.trim()).collect();
    let (mut socket, _) = connect_async(format!("{}/ws?id=desk", dev.server.replace("http://", "ws://"))).await.unwrap();
    socket.send(Message::Text(frames[0].into())).await.unwrap();
    assert_eq!(next(&mut socket, "create-result").await["ok"], json!(true));
    let call = page.split("A cell's `").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    socket.send(Message::Text(json!({ "t": "eval", "id": 9, "code": call }).to_string().into())).await.unwrap();
    let (asked, shown) = (next(&mut socket, "hostcall").await, serde_json::from_str::<Value>(frames[1]).unwrap());
    assert_eq!((&asked["name"], &asked["args"], fields(&asked)), (&shown["name"], &shown["args"], fields(&shown)));
    let mut said: Value = serde_json::from_str(frames[2]).unwrap();
    said["callId"] = asked["callId"].clone();
    socket.send(Message::Text(said.to_string().into())).await.unwrap();
    assert_eq!(next(&mut socket, "eval-result").await["value"], said["value"]);
}
