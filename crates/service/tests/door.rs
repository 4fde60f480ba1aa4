//! TLS at the door, over real connections: what is shown, and that a rotated certificate is shown without a restart.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use axum::{Router, routing::get};
use dormouse_service::{
    public::{Door, Limits},
    telemetry::install_tls_provider,
    tls::DoorCertificate,
};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// Writes a certificate of its own authority, and answers with it.
fn write(folder: &Path) -> rcgen::Certificate {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["door.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    certificate
}

async fn answer(address: SocketAddr, trusted: &rcgen::Certificate) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der().clone()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = TlsConnector::from(Arc::new(client)).connect(ServerName::try_from("door.example").unwrap(), stream).await.ok()?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: door.example\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    // A server that closes without a close_notify is no failure of the answer.
    let _ = stream.read_to_string(&mut answer).await;
    Some(answer)
}

#[tokio::test]
async fn the_door_shows_its_certificate_and_a_rotated_one_without_a_restart() {
    install_tls_provider();
    let folder = tempfile::tempdir().unwrap();
    assert!(DoorCertificate::load(folder.path()).is_err(), "there is none");
    let first = write(folder.path());
    let certificate = DoorCertificate::checked_every(folder.path(), Duration::ZERO).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", get(|| async { "behind the door" }));
    let door = Door { certificate: Some(certificate), ..Door::new(Limits::default()) };
    tokio::spawn(door.serve(listener, router, CancellationToken::new()));
    assert!(answer(address, &first).await.unwrap().ends_with("behind the door"));

    std::fs::write(folder.path().join("tls.crt"), "half a certificate").unwrap();
    assert!(answer(address, &first).await.is_some(), "one that cannot be used does not replace the one before");
    let second = write(folder.path());
    assert!(answer(address, &second).await.unwrap().ends_with("behind the door"));
    assert!(answer(address, &first).await.is_none(), "the first is not shown any more");

    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut heard = Vec::new();
    let _ = plain.read_to_end(&mut heard).await;
    assert!(!String::from_utf8_lossy(&heard).contains("behind"), "nothing is answered without TLS");
}
