//! The examples of `docs/knowledge.md` answer what it says they do.

use crate::support::Dev;
use dormouse_client::Client;
use dormouse_protocol::eval::EvalRequest;

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/knowledge.md")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_searches_and_reads_what_its_spec_names() {
    let page = page();
    let manifest = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("desk.yaml");
    let named =
        manifest.replace("spec: {toolBrokerRef: {name: desk}}", "spec: {toolBrokerRef: {name: desk}, knowledge: [handbook/prices.csv]}");
    assert_ne!(named, manifest);
    std::fs::write(&file, named).unwrap();
    let file = file.to_str().unwrap();
    let dev = Dev::start(data.path(), &["--broker", file, "--session", file]);
    dormouse_service::telemetry::install_tls_provider();
    let client = Client::new(&dev.server, "default", None).unwrap();
    for (code, promised) in [
        ("(await knowledge.list()).map(it => it.document)", "[ 'prices.csv' ]"),
        ("(await knowledge.search('holiday')).length", "0"),
        ("await knowledge.read('handbook/leave.md').catch(error => error.code)", "'FileNotFound'"),
        ("(await knowledge.read('handbook/prices.csv')).length > 0", "true"),
    ] {
        let answer = client.eval("agent", &EvalRequest { code: code.to_owned(), ..EvalRequest::default() }).await.unwrap();
        assert_eq!(answer.preview, promised, "{code}: {:?}", answer.error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_docs_work() {
    let page = page();
    let manifest = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("desk.yaml");
    std::fs::write(&file, manifest).unwrap();
    let file = file.to_str().unwrap();
    let dev = Dev::start(data.path(), &["--broker", file, "--session", file]);
    dormouse_service::telemetry::install_tls_provider();
    let client = Client::new(&dev.server, "default", None).unwrap();
    let cells = crate::support::cells(&page);
    assert!(cells.len() >= 4);
    for (line, code, promised) in cells {
        let answer = client.eval("agent", &EvalRequest { code: code.clone(), ..EvalRequest::default() }).await.unwrap();
        assert!(answer.ok, "docs/knowledge.md:{line}: {code}: {:?}", answer.error);
        assert_eq!(answer.preview, promised, "docs/knowledge.md:{line}: {code}");
        client.hibernate("agent").await.unwrap();
    }
}
