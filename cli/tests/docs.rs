//! The cells that `docs/cells.md` shows answer what it says they do.

use crate::support::Dev;
use dormouse_client::Client;
use dormouse_protocol::{eval::EvalRequest, session::CreateSession};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cells.md");

#[test]
fn the_cells_of_the_docs_answer_as_they_say() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dormouse_service::telemetry::install_tls_provider();
    let client = Client::new(&dev.server, "default", None).unwrap();
    let cells = crate::support::cells(&std::fs::read_to_string(DOCS).unwrap());
    assert!(cells.len() > 10, "the page has lost its cells: {cells:?}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        client.create(&CreateSession { name: Some("docs".to_owned()), ..CreateSession::default() }).await.unwrap();
        for (line, code, promised) in cells {
            let answer = client.eval("docs", &EvalRequest { code: code.clone(), ..EvalRequest::default() }).await.unwrap();
            assert!(answer.ok, "docs/cells.md:{line}: {code}: {:?}", answer.error);
            assert_eq!(answer.preview, promised, "docs/cells.md:{line}: {code}");
            // Half of the promise is that it survives sleep.
            client.hibernate("docs").await.unwrap();
        }
    });
}
