//! A store that checks a condition first and writes afterwards is refused, on two real servers that do so.

use dormouse_store::{CredentialSource, Credentials, S3, S3Options, probe::conditional_writes};
use dormouse_testkit::{careless, versitygw::VersityGw};

/// Times that the probe is made, each of which must refuse.
const PROBES: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_checks_then_writes_is_refused_every_time() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("bucket")).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = careless::serve(listener, root.path(), "access", "secret");
    let probes = async {
        let store = S3::new(&S3Options {
            endpoint,
            region: "us-east-1".to_owned(),
            bucket: "bucket".to_owned(),
            credentials: CredentialSource::Static(Credentials::new("access", "secret")),
        });
        refused_every_time(&store).await;
    };
    tokio::select! {
        end = server => panic!("the server ended: {end:?}"),
        () = probes => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_checks_then_renames_is_refused_every_time() {
    let server = VersityGw::start().await.unwrap();
    refused_every_time(&server.create_bucket("sessions").await.unwrap()).await;
}

async fn refused_every_time(store: &S3) {
    for _ in 0..PROBES {
        let refusal = conditional_writes(store, "").await;
        assert!(matches!(&refusal, Err(reason) if reason.is_proof()), "{refusal:?}");
        eprintln!("{}", refusal.unwrap_err());
    }
}
