//! `fetch` in `dormouse dev`: through a real broker, against a real HTTP server on loopback, beside Node.

use std::{path::Path, process::Command};

use crate::support::Dev;
use dormouse_client::Client;
use dormouse_protocol::{
    eval::{EvalRequest, EvalResult},
    session::CreateSession,
};
use dormouse_testkit::web::Web;
use serde_json::{Value, json};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fetch");

/// A broker for loopback, one for the internet, and one that lets nothing through.
fn manifest() -> String {
    let methods = "[GET, HEAD, POST, PUT, DELETE]";
    format!(
        "apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: net}}\nspec:\n  egress:\n    allow:\n    - {{host: \"127.0.0.1:*\", methods: {methods}, private: true}}\n\
         ---\napiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: public}}\nspec:\n  egress:\n    allow:\n    - {{host: \"*:*\"}}\n\
         ---\napiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: none}}\n\
"
    )
}

struct Place {
    web: Web,
    dev: Dev,
    client: Client,
    data: tempfile::TempDir,
}

fn start_dev(data: &Path) -> (Dev, Client) {
    let dev = Dev::start(data, &["--broker", data.join("brokers.yaml").to_str().unwrap()]);
    dormouse_service::telemetry::install_tls_provider();
    let client = Client::new(&dev.server, "default", None).unwrap();
    (dev, client)
}

impl Place {
    async fn new() -> Self {
        let web = Web::start().await.unwrap();
        let data = tempfile::tempdir().unwrap();
        std::fs::write(data.path().join("brokers.yaml"), manifest()).unwrap();
        let (dev, client) = start_dev(data.path());
        Self { web, dev, client, data }
    }

    /// A session whose broker and rules are these.
    async fn session(&self, name: &str, broker: Option<&str>, allow: Option<Value>) {
        let spec = json!({
            "idleSeconds": 3600, "toolBrokerRef": broker.map(|name| json!({ "name": name })), "egress": allow.map(|allow| json!({ "allow": allow })),
        });
        let session =
            CreateSession { name: Some(name.to_owned()), spec: serde_json::from_value(spec).unwrap(), ..CreateSession::default() };
        self.client.create(&session).await.unwrap();
    }

    async fn eval(&self, name: &str, code: &str) -> EvalResult {
        self.client.eval(name, &EvalRequest { code: code.to_owned(), ..EvalRequest::default() }).await.unwrap()
    }

    async fn value(&self, name: &str, code: &str) -> Value {
        let answer = self.eval(name, code).await;
        assert!(answer.ok, "{code}: {:?}", answer.error);
        answer.value.unwrap_or_default()
    }
}

fn everything() -> Value {
    json!([{"host": "*:*", "methods": ["GET", "HEAD", "POST", "PUT", "DELETE"]}])
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_print_what_they_print_in_node() {
    let place = Place::new().await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut programs: Vec<_> = std::fs::read_dir(PROGRAMS).unwrap().map(|entry| entry.unwrap().path()).collect();
    programs.sort();
    assert!(programs.len() >= 8);
    place.session("node", Some("net"), Some(everything())).await;
    let mut wrong = Vec::new();
    for program in programs {
        let name = program.file_stem().unwrap().to_str().unwrap().to_owned();
        let source = std::fs::read_to_string(&program).unwrap();
        let source = source.replace("$WEB", &place.web.url()).replace("$CLOSED", &format!("http://{closed}"));
        let file = place.data.path().join(format!("{name}.mjs"));
        std::fs::write(&file, &source).unwrap();
        let node = tokio::task::spawn_blocking(move || Command::new("node").arg(file).output().unwrap()).await.unwrap();
        assert!(node.status.success(), "{name}: {}", String::from_utf8_lossy(&node.stderr));
        let theirs = String::from_utf8(node.stdout).unwrap();
        // A block of its own, so that programs may use one name each.
        let answer = place.eval("node", &format!("await (async () => {{ {source} }})()")).await;
        let ours: String = answer.console.iter().map(|line| format!("{}\n", line.text)).collect();
        if !answer.ok || ours != theirs {
            wrong.push(format!("{name}: {:?}\n--- node\n{theirs}--- cell\n{ours}", answer.error));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_sleeps_on_a_fetch_gets_its_answer_and_the_request_is_made_once() {
    let place = Place::new().await;
    place.session("s", Some("net"), Some(everything())).await;
    let code = format!("const r = await fetch('{}/hang', {{ method: 'POST', body: 'once' }}); r.status + await r.text()", place.web.url());
    let cell = EvalRequest { code, idempotency_key: Some("one".to_owned()), ..EvalRequest::default() };
    let waiting = tokio::spawn({
        let (client, cell) = (place.client.clone(), cell.clone());
        async move { client.eval("s", &cell).await }
    });
    place.web.until_seen("POST /hang").await;
    place.client.hibernate("s").await.unwrap();
    place.web.open();
    // The gateway may have sent it again by itself.
    let woken = waiting.await.unwrap();
    let answer = match woken {
        Ok(answer) => answer,
        Err(_) => place.client.eval("s", &cell).await.unwrap(),
    };
    assert_eq!(answer.value, Some(json!("200at last")), "{:?}", answer.error);
    assert_eq!(place.web.seen(), ["POST /hang"]);
    assert_eq!(answer.stats.tool_calls, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_outlives_sleep_and_its_loss_can_be_caught() {
    let mut place = Place::new().await;
    place.session("s", Some("net"), Some(everything())).await;
    let begin = format!(
        "globalThis.reader = (await fetch('{}/endless')).body.getReader(); const text = new TextDecoder(); text.decode((await reader.read()).value)",
        place.web.url()
    );
    assert_eq!(place.value("s", &begin).await, json!("begun"));
    place.client.hibernate("s").await.unwrap();
    place.web.open();
    assert_eq!(place.value("s", "(await reader.read()).value.length > 0").await, json!(true), "the broker has it still");
    place.client.hibernate("s").await.unwrap();

    // Another process of the broker has not.
    place.dev.kill();
    (place.dev, place.client) = start_dev(place.data.path());
    let caught = "try { for (;;) await reader.read() } catch (e) { [e.name, e.code, (await reader.closed.catch((e) => e.name))] }";
    assert_eq!(place.value("s", caught).await, json!(["StreamInterrupted", "StreamInterrupted", "StreamInterrupted"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_and_a_restored_session_do_not_get_the_others_answers() {
    let place = Place::new().await;
    place.session("s", Some("net"), Some(everything())).await;
    let url = place.web.url();
    place
        .value(
            "s",
            &format!("globalThis.out = []; const p = fetch('{url}/hang').then((r) => r.text(), (e) => e.name).then((x) => out.push(x)); 1"),
        )
        .await;
    place.web.until_seen("GET /hang").await;
    let fork = serde_json::from_value(json!({"name": "t"})).unwrap();
    place.client.fork("s", &fork).await.unwrap();
    assert_eq!(place.value("t", "await p; out").await, json!(["Interrupted"]));
    place.web.open();
    assert_eq!(place.value("s", "await p; out").await, json!(["at last"]));
    assert_eq!(place.web.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_rules_nothing_is_reached() {
    let place = Place::new().await;
    let code = format!("await fetch('{}/echo').catch((e) => [e.name, e.code, e.message])", place.web.url());
    for (name, broker, allow, part) in [
        ("nothing", None, None, "spec.toolBrokerRef"),
        ("no-broker", None, Some(everything()), "spec.toolBrokerRef"),
        ("no-rules", Some("net"), None, "spec.egress.allow"),
        ("other-host", Some("net"), Some(json!([{"host": "api.example"}])), "the session's spec.egress.allow"),
        ("no-broker-rules", Some("none"), Some(everything()), "the ToolBroker's spec.egress.allow"),
        ("public-only", Some("public"), Some(everything()), "private: true"),
    ] {
        place.session(name, broker, allow).await;
        let said = place.value(name, &code).await;
        assert_eq!((&said[0], &said[1]), (&json!("EgressDenied"), &json!("EgressDenied")), "{name}");
        assert!(said[2].as_str().unwrap().contains(part), "{name}: {said}");
    }
    assert!(place.web.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_makes_so_many_fetches_and_requests_are_so_large() {
    let place = Place::new().await;
    place.session("s", Some("net"), Some(everything())).await;
    let url = place.web.url();
    let many = format!(
        "(await Promise.allSettled(Array.from({{ length: 101 }}, () => fetch('{url}/status/200')))).map((r) => r.reason?.name ?? r.value.status)"
    );
    let mut said: Vec<Value> = serde_json::from_value(place.value("s", &many).await).unwrap();
    assert_eq!(said.pop(), Some(json!("QuotaExceeded")), "limits.toolCalls is 100");
    assert!(said.iter().all(|one| *one == json!(200)));
    let send = |bytes: usize| {
        format!(
            "await fetch('{url}/echo', {{ method: 'POST', body: new Uint8Array({bytes}) }}).then(async (r) => (await r.json()).bytes, (e) => e.name)"
        )
    };
    assert_eq!(place.value("s", &send(1 << 20)).await, json!(1 << 20));
    assert_eq!(place.value("s", &send((1 << 20) + 1)).await, json!("SizeAdmissionError"));
    assert_eq!(place.value("s", &send(3 << 20)).await, json!("SizeAdmissionError"), "what would not even reach the broker");
    let at_once = format!(
        "(await Promise.allSettled(Array.from({{ length: 5 }}, () => fetch('{url}/echo', {{ method: 'POST', body: new Uint8Array(1 << 20) }})))).map((r) => r.reason?.name ?? r.value.status)"
    );
    assert_eq!(place.value("s", &at_once).await, json!([200, 200, 200, 200, "QuotaExceeded"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_the_docs_works() {
    let web = Web::start().await.unwrap();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/egress.md")).unwrap();
    let manifest = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("example.yaml");
    std::fs::write(&file, manifest.replace("*.internal.example:8080", &web.address.to_string())).unwrap();
    let file = file.to_str().unwrap();
    let dev = Dev::start(data.path(), &["--broker", file, "--session", file]);
    dormouse_service::telemetry::install_tls_provider();
    let client = Client::new(&dev.server, "default", None).unwrap();
    let cells = crate::support::cells(&page);
    assert!(cells.len() >= 3);
    for (line, code, promised) in cells {
        let code = code.replace("stock.internal.example:8080", &web.address.to_string());
        let answer = client.eval("stock", &EvalRequest { code: code.clone(), ..EvalRequest::default() }).await.unwrap();
        assert!(answer.ok, "docs/egress.md:{line}: {code}: {:?}", answer.error);
        assert_eq!(answer.preview, promised, "docs/egress.md:{line}: {code}");
    }
}
