//! Calls that wait for a person, against a real `dormouse dev`, a real HTTP service, and a kill in between.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::support::{Dev, http};
use axum::{Json, Router, extract::State, routing::post};
use serde_json::{Value, json};

/// What was paid, by the service's own account.
type Paid = Arc<Mutex<Vec<Value>>>;

/// A service that pays whatever it is asked to.
async fn service() -> (SocketAddr, Paid) {
    let paid = Paid::default();
    let pay = async |State(paid): State<Paid>, Json(body): Json<Value>| {
        let mut paid = paid.lock().unwrap();
        paid.push(body.clone());
        Json(json!({ "receipt": paid.len(), "amount": body["amount"] }))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().route("/pay", post(pay)).with_state(Arc::clone(&paid));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    (address, paid)
}

fn manifest(folder: &Path, service: SocketAddr, approval: &str) -> PathBuf {
    let path = folder.join("pay.yaml");
    let text = format!(
        "apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: bank}}\nspec:\n  services:\n    - name: bank\n      baseUrl: http://{service}\n      \
         allowedMethods: [POST]\n      direct: {{}}\n  tools:\n    - name: pay\n      service: bank\n      method: POST\n      path: /pay\n      \
         input: {{type: object, properties: {{to: {{type: string}}, amount: {{type: number}}}}, required: [to, amount]}}\n      approval: {approval}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: agent}}\nspec:\n  idleSeconds: 1\n  toolBrokerRef: {{name: bank}}\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

const SESSION: &str = "/v1/namespaces/default/sessions/agent";

async fn get(dev: &Dev, path: &str) -> Value {
    http().get(format!("{}{path}", dev.server)).send().await.unwrap().json().await.unwrap()
}

async fn post_json(dev: &Dev, path: &str, body: Value) -> (u16, Value) {
    let answer = http().post(format!("{}{path}", dev.server)).json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// Begins a cell that nobody need wait for.
async fn begin(dev: &Dev, code: &str, key: &str) -> String {
    let request = http().post(format!("{}{SESSION}/eval", dev.server)).header("prefer", "respond-async");
    let run: Value = request.json(&json!({ "code": code, "idempotencyKey": key })).send().await.unwrap().json().await.unwrap();
    run["url"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned()
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waited).await.unwrap_or_else(|_| panic!("{what}"));
}

async fn waiting(dev: &Dev) -> Vec<Value> {
    get(dev, &format!("{SESSION}/approvals")).await["items"].as_array().unwrap().clone()
}

async fn asleep(dev: &Dev) {
    eventually("it sleeps while it waits", async || {
        let session = get(dev, SESSION).await;
        session["state"] == "WaitingForApproval"
            && session["status"]["conditions"].as_array().unwrap().iter().any(|it| it["type"] == "Hibernated" && it["status"] == "True")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_asleep_through_a_kill_until_somebody_agrees() {
    let data = tempfile::tempdir().unwrap();
    let (service, paid) = service().await;
    let manifest = manifest(data.path(), service, "{when: 'args.amount > 100', editable: true}");
    let dev = Dev::start_of(data.path(), &manifest);
    let small = post_json(&dev, &format!("{SESSION}/eval"), json!({ "code": "(await tools.pay({ to: 'a', amount: 100 })).receipt" })).await;
    assert_eq!((small.0, &small.1["value"]), (200, &json!(1)), "a small one needs nobody: {}", small.1);
    let run = begin(&dev, "const large = await tools.pay({ to: 'b', amount: 101 }); large.amount", "large").await;
    eventually("the call waits", async || waiting(&dev).await.len() == 1).await;
    let item = waiting(&dev).await.remove(0);
    assert_eq!((&item["toolName"], &item["args"], &item["editable"]), (&json!("pay"), &json!({ "to": "b", "amount": 101 }), &json!(true)));
    asleep(&dev).await;
    assert_eq!(waiting(&dev).await, std::slice::from_ref(&item), "to look wakes nothing, and changes nothing");
    dev.kill();

    let dev = Dev::start_of(data.path(), &manifest);
    asleep(&dev).await;
    assert_eq!(get(&dev, "/v1/namespaces/default/approvals").await["items"], json!([item]), "the namespace's queue");
    let listed = dev.command(&["approvals"], "");
    let epoch = item["epoch"].as_u64().unwrap();
    let line = format!("agent a_2 pay {{\"amount\":101,\"to\":\"b\"}} of epoch {epoch} until 20");
    assert!(listed.out.starts_with(&line), "{}{}", listed.out, listed.err);
    // The session wakes in a later epoch, and the call stays that of the one in which it was made.
    let other = json!({ "decision": "approve", "epoch": epoch + 1 });
    let (status, refused) = post_json(&dev, &format!("{SESSION}/approvals/a_2"), other).await;
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("ApprovalMismatch")), "{refused}");
    let refused = dev.command(&["approvals", "--session", "agent", "deny", "a_2", "--epoch", &(epoch + 1).to_string()], "");
    assert!(!refused.status.success() && refused.err.contains("ApprovalMismatch"), "{}{}", refused.out, refused.err);
    let wrong = dev.command(&["approvals", "--session", "agent", "approve", "a_2", "--arguments", r#"{"to": "b"}"#], "");
    assert!(!wrong.status.success() && wrong.err.contains("ToolArgsInvalid"), "{}{}", wrong.out, wrong.err);
    assert_eq!(paid.lock().unwrap().len(), 1, "nothing was paid meanwhile");
    let said = dev.command(
        &[
            "approvals",
            "--session",
            "agent",
            "approve",
            "a_2",
            "--epoch",
            &epoch.to_string(),
            "--arguments",
            r#"{"to": "b", "amount": 99}"#,
        ],
        "",
    );
    assert_eq!(said.out, "a_2 approved\n", "{}", said.err);
    let ended = get(&dev, &format!("{run}?waitSeconds=30")).await;
    assert_eq!((&ended["state"], &ended["result"]["value"]), (&json!("Succeeded"), &json!(99)), "{ended}");
    assert_eq!(
        *paid.lock().unwrap(),
        [json!({ "to": "a", "amount": 100 }), json!({ "to": "b", "amount": 99 })],
        "once, as it was agreed to"
    );
    assert!(waiting(&dev).await.is_empty());
    let (status, again) = post_json(&dev, &format!("{SESSION}/approvals/a_2"), json!({ "decision": "approve" })).await;
    assert_eq!((status, &again["error"]["code"]), (404, &json!("ApprovalNotFound")), "a decision works once");
    let logs = dev.command(&["logs", "agent", "-o", "json"], "");
    assert!(logs.out.contains(r#""type":"approval_required""#) && logs.out.contains(r#""approvalId":"a_2""#), "{}", logs.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_is_an_error_that_code_catches_and_the_client_may_wait_for_it() {
    let data = tempfile::tempdir().unwrap();
    let (service, paid) = service().await;
    let dev = Dev::start_of(data.path(), &manifest(data.path(), service, "Always"));
    let code = "let said; try { await tools.pay({ to: 'c', amount: 1 }) } catch (error) { said = `${error.name}: ${error.message}` } said";
    let request = http().post(format!("{}{SESSION}/eval", dev.server)).json(&json!({ "code": code, "idempotencyKey": "denied" }));
    let waits = tokio::spawn(async move { request.send().await.unwrap().json::<Value>().await.unwrap() });
    eventually("the call waits", async || waiting(&dev).await.len() == 1).await;
    asleep(&dev).await;
    assert!(!waits.is_finished(), "its client waits, and keeps nothing awake");
    let refused =
        post_json(&dev, &format!("{SESSION}/approvals/a_1"), json!({ "decision": "approve", "arguments": { "to": "d", "amount": 1 } }))
            .await;
    assert_eq!((refused.0, &refused.1["error"]["code"]), (403, &json!("Forbidden")), "it is not editable");
    let unknown = post_json(&dev, &format!("{SESSION}/approvals/a_9"), json!({ "decision": "deny" })).await;
    assert_eq!((unknown.0, &unknown.1["error"]["code"]), (404, &json!("ApprovalNotFound")));
    let (status, decided) =
        post_json(&dev, &format!("{SESSION}/approvals/a_1"), json!({ "decision": "deny", "reason": "not today", "idempotencyKey": "d" }))
            .await;
    assert_eq!((status, &decided["decision"], &decided["told"]), (200, &json!("deny"), &json!(true)), "{decided}");
    let answer = tokio::time::timeout(Duration::from_secs(60), waits).await.unwrap().unwrap();
    assert_eq!(answer["value"], "ApprovalDenied: the call of pay was denied: not today", "{answer}");
    assert!(paid.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_nobody_decides_about_expires_though_nobody_asks() {
    let data = tempfile::tempdir().unwrap();
    let (service, paid) = service().await;
    let dev = Dev::start_of(data.path(), &manifest(data.path(), service, "{expiresSeconds: 4}"));
    let run =
        begin(&dev, "let said; try { await tools.pay({ to: 'c', amount: 1 }) } catch (error) { said = error.name } said", "late").await;
    eventually("the call waits", async || waiting(&dev).await.len() == 1).await;
    let ended = get(&dev, &format!("{run}?waitSeconds=60")).await;
    assert_eq!((&ended["state"], &ended["result"]["value"]), (&json!("Succeeded"), &json!("ApprovalExpired")), "{ended}");
    assert!(paid.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_list_the_tools_and_call_a_service_that_lets_them() {
    let data = tempfile::tempdir().unwrap();
    let (service, paid) = service().await;
    let dev = Dev::start_of(data.path(), &manifest(data.path(), service, "Always"));
    let listed =
        dev.command(&["eval", "--session", "agent", "(await tools.list()).map(({ name, approval }) => `${name} ${approval}`).join()"], "");
    assert!(listed.out.contains("pay true"), "{}{}", listed.out, listed.err);
    let code = "(await callService('bank', { method: 'POST', path: '/pay', body: { to: 'd', amount: 5 } })).receipt";
    let called = dev.command(&["eval", "--session", "agent", code], "");
    assert!(called.status.success(), "{}{}", called.out, called.err);
    assert_eq!(*paid.lock().unwrap(), [json!({ "to": "d", "amount": 5 })]);
    let closed = dev.command(&["eval", "--session", "agent", "await callService('other', { path: '/pay' })"], "");
    assert!(closed.err.contains("ToolNotFound"), "{}{}", closed.out, closed.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_waits_asleep_can_be_interrupted() {
    let data = tempfile::tempdir().unwrap();
    let (service, paid) = service().await;
    let dev = Dev::start_of(data.path(), &manifest(data.path(), service, "Always"));
    let run = begin(&dev, "await tools.pay({ to: 'e', amount: 1 })", "waits").await;
    asleep(&dev).await;
    let interrupted = http().post(format!("{}{SESSION}/interrupt", dev.server)).send().await.unwrap();
    assert_eq!(interrupted.status().as_u16(), 202);
    let ended = get(&dev, &format!("{run}?waitSeconds=30")).await;
    assert_eq!((&ended["state"], &ended["result"]["error"]["code"]), (&json!("Cancelled"), &json!("Interrupted")), "{ended}");
    assert!(dev.command(&["eval", "--session", "agent", "1 + 1"], "").out.contains('2'), "the session goes on");
    assert!(paid.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_waits_asleep_and_its_answer_is_read_after_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let web = dormouse_testkit::web::Web::start().await.unwrap();
    let path = data.path().join("net.yaml");
    let text = format!(
        "apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: net}}\nspec:\n  egress:\n    allow:\n    - {{host: '{address}', private: true}}\n    \
         - {{host: '{address}', private: true, methods: [POST], approval: {{when: \"args.path == '/echo'\"}}}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: agent}}\nspec:\n  idleSeconds: 1\n  toolBrokerRef: {{name: net}}\n  \
         egress: {{allow: [{{host: '{address}', methods: [GET, POST]}}]}}\n",
        address = web.address
    );
    std::fs::write(&path, text).unwrap();
    let dev = Dev::start_of(data.path(), &path);
    let send = |body: &str| format!("(await (await fetch('{}/echo', {{ method: 'POST', body: '{body}' }})).json()).body", web.url());
    let run = begin(&dev, &send("hello"), "good").await;
    eventually("the fetch waits", async || waiting(&dev).await.len() == 1).await;
    let item = waiting(&dev).await.remove(0);
    assert_eq!((&item["toolName"], &item["args"]["method"], &item["editable"]), (&json!("fetch"), &json!("POST"), &json!(false)), "{item}");
    asleep(&dev).await;
    dev.kill();
    let dev = Dev::start_of(data.path(), &path);
    assert!(web.seen().is_empty(), "nothing was sent: {:?}", web.seen());
    let id = item["id"].as_str().unwrap();
    let agreed = dev.command(&["approvals", "--session", "agent", "approve", id], "");
    assert!(agreed.status.success(), "{}{}", agreed.out, agreed.err);
    let ended = get(&dev, &format!("{run}?waitSeconds=60")).await;
    assert_eq!((&ended["result"]["value"], web.seen().len()), (&json!("hello"), 1), "{ended}");
    // A denial is an error that code can catch; an abort takes the question back.
    let denied = begin(&dev, &send("no"), "no").await;
    eventually("it waits", async || waiting(&dev).await.len() == 1).await;
    let id = waiting(&dev).await[0]["id"].as_str().unwrap().to_owned();
    assert!(dev.command(&["approvals", "--session", "agent", "deny", &id], "").status.success());
    let ended = get(&dev, &format!("{denied}?waitSeconds=60")).await;
    assert_eq!(ended["result"]["error"]["name"], json!("ApprovalDenied"), "{ended}");
    let aborted = begin(
        &dev,
        &format!("const c = new AbortController(); globalThis.p = fetch('{}/echo', {{ method: 'POST', signal: c.signal }}).catch(e => e.name); await new Promise(r => setTimeout(r, 100)); c.abort(); await p", web.url()),
        "abort",
    )
    .await;
    let ended = get(&dev, &format!("{aborted}?waitSeconds=60")).await;
    assert_eq!(ended["result"]["value"], json!("AbortError"), "{ended}");
    assert!(waiting(&dev).await.is_empty() && web.seen().len() == 1);
}

/// A request of MCP in the revision that has tasks, of a client that can do these things; its answer.
async fn mcp(dev: &Dev, method: &str, mut params: Value, capabilities: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default();
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", name)];
    let request = http().post(format!("{}/mcp", dev.server)).json(&body);
    let request =
        headers.iter().filter(|(_, value)| !value.is_empty()).fold(request, |request, (name, value)| request.header(*name, *value));
    request.send().await.unwrap().json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_a_task_of_mcp_and_an_approval_the_input_that_it_requires() {
    let data = tempfile::tempdir().unwrap();
    let (service, paid) = service().await;
    let dev = Dev::start_of(data.path(), &manifest(data.path(), service, "{editable: true}"));
    let knows = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": {} });
    let ask = async |method: &str, params: Value| mcp(&dev, method, params, knows.clone()).await;
    let begin = |code: &str| json!({ "name": "eval", "arguments": { "session": "agent", "code": code, "background": true } });
    let found = ask("server/discover", json!({})).await;
    assert_eq!(found["result"]["capabilities"]["extensions"], json!({ "io.modelcontextprotocol/tasks": {} }));

    let created =
        ask("tools/call", begin("console.log('on it'); (await tools.pay({ to: 'b', amount: 7 })).amount")).await["result"].clone();
    assert_eq!((&created["resultType"], &created["ttlMs"], created.get("result")), (&json!("task"), &Value::Null, None), "{created}");
    let of = json!({ "taskId": created["taskId"] });
    let state = async |wanted: &str| {
        eventually(wanted, async || ask("tasks/get", of.clone()).await["result"]["status"] == wanted).await;
        ask("tasks/get", of.clone()).await["result"].clone()
    };
    let waits = state("input_required").await;
    assert_eq!(waits["resultType"], "complete");
    let epoch = waiting(&dev).await[0]["epoch"].as_u64().unwrap();
    let named = format!("approval-a_1-{epoch}");
    let question = &waits["inputRequests"][&named];
    assert_eq!(question["method"], "elicitation/create", "{waits}");
    let shown = format!(r#"pay with {{"amount":7,"to":"b"}}, in its epoch {epoch}"#);
    assert!(question["params"]["message"].as_str().unwrap().contains(&shown), "{question}");
    let silent = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let told = mcp(&dev, "tasks/get", of.clone(), silent).await;
    assert_eq!(told["result"]["status"], "working", "a client that can ask nobody is asked for nothing: {told}");
    let update = |key: &str, input: Value| json!({ "taskId": created["taskId"], "inputResponses": { key: input } });
    for (key, input) in [
        (&*named, json!({ "action": "cancel" })),
        ("approval-a_1", json!({ "action": "accept" })),
        ("approval-a_9-1", json!({ "action": "accept" })),
        ("other", json!({ "action": "accept" })),
    ] {
        assert_eq!(ask("tasks/update", update(key, input)).await["result"], json!({ "resultType": "complete" }), "{key}");
    }
    assert!(paid.lock().unwrap().is_empty());
    // Whoever decides may change the arguments here.
    let fields = &question["params"]["requestedSchema"]["properties"];
    assert_eq!(fields["arguments"]["default"], r#"{"amount":7,"to":"b"}"#, "{question}");
    let edited = |arguments: &str| json!({ "action": "accept", "content": { "decision": "approve", "arguments": arguments } });
    for wrong in ["{", r#"{"to": "b"}"#] {
        let refused = ask("tasks/update", update(&named, edited(wrong))).await;
        assert!(refused["error"]["message"].is_string(), "{wrong}: {refused}");
    }
    let of_another = format!("approval-a_1-{}", epoch + 1);
    let refused = ask("tasks/update", update(&of_another, json!({ "action": "accept" }))).await;
    assert_eq!(refused["error"]["data"]["code"], "ApprovalMismatch", "{refused}");
    let agreed = edited(r#"{"to": "b", "amount": 9}"#);
    assert_eq!(ask("tasks/update", update(&named, agreed)).await["result"]["resultType"], "complete");
    let ended = state("completed").await;
    let result = &ended["result"];
    assert_eq!((&result["structuredContent"]["value"], &result["isError"]), (&json!(9), &json!(false)), "{ended}");
    assert_eq!((&result["content"][0]["text"], paid.lock().unwrap().len()), (&json!("on it\n9"), 1));

    let declined = ask("tools/call", begin("await tools.pay({ to: 'c', amount: 8 })")).await["result"]["taskId"].clone();
    let asked = async || ask("tasks/get", json!({ "taskId": declined })).await["result"]["inputRequests"].clone();
    eventually("it asks", async || !asked().await.is_null()).await;
    let named = asked().await.as_object().unwrap().keys().next().unwrap().clone();
    assert!(named.starts_with("approval-a_2-"), "{named}");
    let input = json!({ "taskId": declined, "inputResponses": { named: { "action": "decline" } } });
    assert_eq!(ask("tasks/update", input).await["result"]["resultType"], "complete");
    eventually("it fails", async || ask("tasks/get", json!({ "taskId": declined })).await["result"]["result"]["isError"] == true).await;

    let endless = ask("tools/call", begin("await new Promise(done => setTimeout(done, 600_000))")).await["result"]["taskId"].clone();
    assert_eq!(ask("tasks/cancel", json!({ "taskId": endless })).await["result"], json!({ "resultType": "complete" }));
    eventually("it is cancelled", async || ask("tasks/get", json!({ "taskId": endless })).await["result"]["status"] == "cancelled").await;

    for unknown in ["default/agent/r_none", "default/nobody/r_0", "r_0", "", "../../x"] {
        let refused = ask("tasks/get", json!({ "taskId": unknown })).await;
        assert_eq!(refused["error"]["code"], -32602, "{unknown}: {refused}");
    }
    let plain = mcp(&dev, "tools/call", begin("1"), json!({})).await;
    assert!(
        plain["result"]["resultType"] == "complete" && plain["result"]["structuredContent"]["id"].is_string(),
        "a run, as before: {plain}"
    );
    let refused = mcp(&dev, "tasks/get", of, json!({})).await;
    assert_eq!((&refused["error"]["code"], paid.lock().unwrap().len()), (&json!(-32021), 1), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_a_link_sees_the_call_and_decides_about_it_once() {
    let data = tempfile::tempdir().unwrap();
    let (service, paid) = service().await;
    let manifest = manifest(data.path(), service, "{editable: true}");
    let dev = Dev::start_of(data.path(), &manifest);
    let run = begin(&dev, "(await tools.pay({ to: '<b>&', amount: 7 })).amount", "one").await;
    eventually("the call waits", async || waiting(&dev).await.len() == 1).await;
    let id = waiting(&dev).await[0]["id"].as_str().unwrap().to_owned();
    let (status, wrong) = post_json(&dev, &format!("{SESSION}/approvals/{id}/link"), json!({ "expiresSeconds": 0 })).await;
    assert_eq!((status, &wrong["error"]["code"]), (400, &json!("InvalidRequest")));
    let (status, made) = post_json(&dev, &format!("{SESSION}/approvals/{id}/link"), json!({})).await;
    assert_eq!(status, 200, "{made}");
    let url = made["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with(&format!("{}/approve?token=", dev.server)), "{url}");
    let page = http().get(&url).send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let text = page.text().await.unwrap();
    assert!(text.contains(&format!("made in epoch {}", waiting(&dev).await[0]["epoch"])), "{text}");
    assert!(text.contains("&lt;b&gt;&amp;") && !text.contains("<b>&\""), "{text}");
    assert!(paid.lock().unwrap().is_empty(), "to look decides nothing");
    let token = url.split("token=").nth(1).unwrap().to_owned();
    let decide = async |token: &str, decision: &str| {
        let form = format!("token={token}&decision={decision}");
        let request = http().post(format!("{}/approve", dev.server)).header("content-type", "application/x-www-form-urlencoded").body(form);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(decide(&token.replace('.', "x."), "approve").await, 403, "forged");
    assert!(text.contains("<textarea name=\"arguments\""), "whoever decides may change the arguments here: {text}");
    for wrong in ["%7B", "%7B%22to%22%3A%22b%22%7D"] {
        assert_eq!(decide(&token, &format!("approve&arguments={wrong}")).await, 400, "no JSON, and no arguments of the tool");
    }
    assert_eq!(decide(&token, "approve&arguments=%7B%22to%22%3A%22b%22%2C+%22amount%22%3A9%7D").await, 200);
    let ended = get(&dev, &format!("{run}?waitSeconds=60")).await;
    assert_eq!((&ended["result"]["value"], paid.lock().unwrap().len()), (&json!(9), 1), "{ended}");
    for decision in ["approve", "deny"] {
        assert!([404, 409].contains(&decide(&token, decision).await), "it works once");
    }
    assert_eq!(http().get(&url).send().await.unwrap().status().as_u16(), 404, "the call is over");
    assert_eq!(paid.lock().unwrap().len(), 1);
}
