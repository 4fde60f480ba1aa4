//! Whom the command line believes to be a gateway.

use std::{process::Command, time::Duration};

use axum::{Json, Router, routing::get};
use dormouse_service::{
    ca::Ca,
    public::{Door, Limits},
    tls::DoorCertificate,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_certificate_is_of_a_private_authority_is_believed_by_that_authority_alone() {
    dormouse_service::telemetry::install_tls_provider();
    let folder = tempfile::tempdir().unwrap();
    let pem = Ca::generate().unwrap().issue(&["localhost".to_owned()], Duration::from_secs(3_600)).unwrap();
    let another = Ca::generate().unwrap();
    for (file, text) in [("ca.crt", pem.ca.as_str()), ("tls.crt", &pem.cert), ("tls.key", &pem.key), ("another.crt", another.cert_pem())] {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let sessions = Router::new().route("/v1/namespaces/default/sessions", get(async || Json(json!({ "items": [] }))));
    let door = Door { certificate: Some(DoorCertificate::load(folder.path()).unwrap()), ..Door::new(Limits::default()) };
    tokio::spawn(door.serve(listener, sessions, CancellationToken::new()));

    let lists = async |ca: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dormouse"));
        command.args(["sessions", "--server", &server]);
        if let Some(file) = ca {
            command.arg("--ca").arg(folder.path().join(file));
        }
        let said = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        (said.status.success(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    let (ok, said) = lists(Some("ca.crt")).await;
    assert!(ok, "{said}");
    for ca in [None, Some("another.crt")] {
        let (ok, said) = lists(ca).await;
        assert!(!ok && said.contains("certificate"), "{ca:?}: {said}");
    }
    let (ok, said) = lists(Some("tls.key")).await;
    assert!(!ok && said.contains("no certificate"), "{said}");
}
