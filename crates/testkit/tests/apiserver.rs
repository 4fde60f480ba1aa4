//! The API server of the kit answers, authorizes and keeps objects.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use dormouse_testkit::apiserver::ApiServer;

#[tokio::test]
async fn keeps_what_kubectl_creates() {
    let server = ApiServer::start().await.unwrap();
    server.kubectl(&["create", "namespace", "team-a"]).unwrap();
    let names = server.kubectl(&["get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}"]).unwrap();
    assert!(names.split(' ').any(|name| name == "team-a"), "{names}");
    let error = server.kubectl(&["create", "namespace", "team-a"]).unwrap_err().to_string();
    assert!(error.contains("AlreadyExists") || error.contains("already exists"), "{error}");
}

#[tokio::test]
async fn starts_again_over_what_it_has_stored() {
    let mut server = ApiServer::start().await.unwrap();
    server.kubectl(&["create", "namespace", "team-a"]).unwrap();
    server.restart().await.unwrap();
    server.kubectl(&["get", "namespace", "team-a"]).unwrap();
    server.kubectl(&["create", "namespace", "team-b"]).unwrap();
    let written = server.writes().unwrap();
    let made = |name: &str| written.iter().any(|write| write.verb == "create" && write.object.ends_with(name));
    assert!(made("team-a") && made("team-b"), "what was written before is in the audit log, too: {written:?}");
}
