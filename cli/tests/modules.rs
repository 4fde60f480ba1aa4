//! Packages of npm in `dormouse dev`: the page's own example, against a registry on loopback.

use crate::support::Dev;
use dormouse_client::Client;
use dormouse_protocol::eval::EvalRequest;
use dormouse_testkit::registry::Registry;
use serde_json::json;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/modules.md");
const REGISTRY: &str = "http://registry.internal.example:4873/";

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_the_docs_works() {
    let registry = Registry::start().await.unwrap();
    let slugs = "import { strip } from './strip.js'; export const slug = (text) => strip(text).toLowerCase().replaceAll('ß', 'ss').match(/[a-z]+/g).join('-');";
    let strip = "export const strip = (text) => text.normalize('NFD').replace(/[\\u0300-\\u036f]/g, '');";
    registry.publish("slugs", "1.0.0", &json!({"type": "module", "exports": "./slug.js"}), &[("slug.js", slugs), ("strip.js", strip)]);
    registry.publish(
        "@words/plural",
        "2.1.0",
        &json!({"main": "lib"}),
        &[
            ("lib/index.js", "exports.plural = (word) => require('./odd.json')[word] ?? word + 's';"),
            ("lib/odd.json", "{\"mouse\": \"mice\"}"),
        ],
    );
    registry.publish("@words/plural", "3.0.0", &json!({}), &[("index.js", "")]);
    let page = std::fs::read_to_string(PAGE).unwrap();
    let manifest = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(manifest.contains(REGISTRY));
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("example.yaml");
    std::fs::write(&file, manifest.replace(REGISTRY, &registry.url())).unwrap();
    let flags = ["--broker", file.to_str().unwrap(), "--session", file.to_str().unwrap()];
    let dev = Dev::start(data.path(), &flags);
    dormouse_service::telemetry::install_tls_provider();
    let client = Client::new(&dev.server, "default", None).unwrap();
    let cells = crate::support::cells(&page);
    assert!(cells.len() >= 4);
    for (line, code, promised) in &cells {
        let answer = client.eval("words", &EvalRequest { code: code.clone(), ..EvalRequest::default() }).await.unwrap();
        assert!(answer.ok, "docs/modules.md:{line}: {code}: {:?}", answer.error);
        assert_eq!(answer.preview, *promised, "docs/modules.md:{line}: {code}");
    }

    // Another process, and no registry any more.
    registry.set_down(true);
    dev.kill();
    let dev = Dev::start(data.path(), &flags);
    let client = Client::new(&dev.server, "default", None).unwrap();
    let code = "[slug('A b'), require('@words/plural').plural('mouse')]".to_owned();
    let answer = client.eval("words", &EvalRequest { code, ..EvalRequest::default() }).await.unwrap();
    assert_eq!(answer.value, Some(json!(["a-b", "mice"])), "{:?}", answer.error);
}
