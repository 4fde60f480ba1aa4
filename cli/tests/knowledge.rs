//! The examples of `docs/knowledge.md` answer what it says they do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use dormouse_client::Client;
use dormouse_protocol::eval::EvalRequest;
use support::Dev;

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_docs_work() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/knowledge.md")).unwrap();
    let manifest = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("desk.yaml");
    std::fs::write(&file, manifest).unwrap();
    let file = file.to_str().unwrap();
    let dev = Dev::start(data.path(), &["--broker", file, "--session", file]);
    dormouse_service::telemetry::install_tls_provider();
    let client = Client::new(&dev.server, "default", None).unwrap();
    let cells = support::cells(&page);
    assert!(cells.len() >= 4);
    for (line, code, promised) in cells {
        let answer = client.eval("agent", &EvalRequest { code: code.clone(), ..EvalRequest::default() }).await.unwrap();
        assert!(answer.ok, "docs/knowledge.md:{line}: {code}: {:?}", answer.error);
        assert_eq!(answer.preview, promised, "docs/knowledge.md:{line}: {code}");
        client.hibernate("agent").await.unwrap();
    }
}
