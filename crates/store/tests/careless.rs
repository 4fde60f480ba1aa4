//! A store that checks a condition first and writes afterwards is refused, on a real server that does so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use dormouse_store::{CredentialSource, Credentials, S3, S3Options, probe::conditional_writes};
use dormouse_testkit::careless;

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
        let mut refusals = Vec::new();
        for _ in 0..PROBES {
            refusals.push(conditional_writes(&store, "").await);
        }
        refusals
    };
    let refusals = tokio::select! {
        end = server => panic!("the server ended: {end:?}"),
        refusals = probes => refusals,
    };
    for refusal in refusals {
        assert!(matches!(&refusal, Err(reason) if reason.is_proof()), "{refusal:?}");
        eprintln!("{}", refusal.unwrap_err());
    }
}
