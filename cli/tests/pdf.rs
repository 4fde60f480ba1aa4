//! Documents in PDF are read by a process of their own, which nobody's document holds up for long.

use std::io::Write as _;

use crate::support::Dev;
use axum::{Router, routing::get};
use dormouse_client::Client;
use dormouse_protocol::eval::EvalRequest;
use flate2::{Compression, write::ZlibEncoder};
use serde_json::{Value, json};

/// Bytes that a page's content becomes when it is unpacked: more than a process that reads a document may have.
const UNPACKED_BYTES: usize = 700 << 20;

/// What docs/knowledge.md says.
const TEXT_BYTES_MAX: usize = 4 << 20;
const PAGES_MAX: usize = 5_000;

fn quoted(url: &str) -> String {
    format!("`{url}`")
}

/// A document of these pages, each the bytes of its content and how they are packed.
fn pdf(pages: &[(Vec<u8>, &str)]) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|page| format!("{} 0 R", 4 + 2 * page)).collect();
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()).into_bytes(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_vec(),
    ];
    for (number, (content, filters)) in pages.iter().enumerate() {
        let page = format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents {} 0 R >>",
            5 + 2 * number
        );
        objects.push(page.into_bytes());
        let head = format!("<< /Length {} {filters} >>\nstream\n", content.len());
        objects.push([head.as_bytes(), content, b"\nendstream"].concat());
    }
    let (mut out, mut offsets) = (b"%PDF-1.4\n".to_vec(), Vec::new());
    for (number, object) in (1..).zip(&objects) {
        offsets.push(out.len());
        out.extend([format!("{number} 0 obj\n").as_bytes(), object, b"\nendobj\n"].concat());
    }
    let at = out.len();
    let table: String = offsets.iter().map(|offset| format!("{offset:010} 00000 n \n")).collect();
    let count = objects.len() + 1;
    let end = format!("xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{at}\n%%EOF\n");
    out.extend(end.into_bytes());
    out
}

fn line(text: &str) -> (Vec<u8>, &'static str) {
    (format!("BT /F1 12 Tf 72 720 Td ({text}) Tj ET").into_bytes(), "")
}

/// A page of so many bytes of text.
fn words(bytes: usize) -> (Vec<u8>, &'static str) {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&line(&"x".repeat(bytes)).0).unwrap();
    (packed.finish().unwrap(), "/Filter /FlateDecode")
}

/// A page whose content is small, and large when it is unpacked twice.
fn bomb() -> (Vec<u8>, &'static str) {
    let mut once = ZlibEncoder::new(Vec::new(), Compression::fast());
    let block = vec![b' '; 1 << 20];
    for _ in 0..UNPACKED_BYTES / block.len() {
        once.write_all(&block).unwrap();
    }
    let mut twice = ZlibEncoder::new(Vec::new(), Compression::best());
    twice.write_all(&once.finish().unwrap()).unwrap();
    (twice.finish().unwrap(), "/Filter [/FlateDecode /FlateDecode]")
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_found_and_a_document_that_does_harm_is_left_out() {
    let handbook = pdf(&[line("How we work"), line("Everybody has thirty days of holiday in a year.")]);
    let (bombed, broken) = (pdf(&[bomb()]), handbook[..200].to_vec());
    let (wordy, long) = (pdf(&[words(TEXT_BYTES_MAX + 1)]), pdf(&vec![line("x"); PAGES_MAX + 1]));
    let routes = Router::new()
        .route("/handbook.pdf", get(async move || handbook))
        .route("/bomb.pdf", get(async move || bombed))
        .route("/wordy.pdf", get(async move || wordy))
        .route("/long.pdf", get(async move || long))
        .route("/broken.pdf", get(async move || broken));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let urls = ["handbook", "bomb", "broken", "wordy", "long"].map(|name| format!("{site}/{name}.pdf"));
    let broker = json!({
        "apiVersion": "dormouse.dev/v1alpha1", "kind": "ToolBroker", "metadata": {"name": "desk"},
        "spec": {"knowledge": [{"name": "site", "urls": urls}]},
    });
    let session = json!({
        "apiVersion": "dormouse.dev/v1alpha1", "kind": "KernelSession", "metadata": {"name": "agent"},
        "spec": {"toolBrokerRef": {"name": "desk"}},
    });
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("desk.yaml");
    std::fs::write(&file, format!("{broker}\n---\n{session}\n")).unwrap();
    let file = file.to_str().unwrap();
    let log = data.path().join("log");
    let dev = Dev::start_logging(data.path(), &["--broker", file, "--session", file], &[], std::fs::File::create(&log).unwrap());
    dormouse_service::telemetry::install_tls_provider();
    let client = Client::new(&dev.server, "default", None).unwrap();
    let eval = async |code: &str| {
        let answer = client.eval("agent", &EvalRequest { code: code.to_owned(), ..EvalRequest::default() }).await.unwrap();
        assert!(answer.ok, "{code}: {:?}", answer.error);
        answer.value.unwrap_or(Value::Null)
    };
    let found = eval("(await callTool('knowledge.search', { query: 'days of holiday' }))[0]").await;
    assert_eq!((&found["document"], &found["section"]), (&json!(urls[0]), &json!("Page 2")));
    assert!(found["snippet"].as_str().unwrap().contains("thirty days"), "{found}");
    let listed = eval("(await callTool('knowledge.list')).map(it => [it.document, it.sections])").await;
    assert_eq!(listed, json!([[urls[0], ["Page 1", "Page 2"]]]));
    let told = std::fs::read_to_string(&log).unwrap();
    for why in [
        format!("{} takes more than 20 s or 402653184 bytes", quoted(&urls[1])),
        format!("{} is no PDF that can be read", quoted(&urls[2])),
        format!("{} has more than {TEXT_BYTES_MAX} bytes of text", quoted(&urls[3])),
        format!("{} has more than {PAGES_MAX} pages", quoted(&urls[4])),
    ] {
        assert!(told.contains(&why), "{why}: {told}");
    }
}
