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
