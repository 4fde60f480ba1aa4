//! Who waits for the operator finds an API server that takes sessions.

use dormouse_testkit::{apiserver::ApiServer, minio::Minio};

use crate::support::{
    Cluster, apply,
    between::{Between, Fault},
    rendered,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_ready_says_that_sessions_may_be_made() {
    dormouse_service::telemetry::install_tls_provider();
    let (server, minio) = tokio::try_join!(ApiServer::start(), Minio::start()).unwrap();
    let flags = ["--show-only=templates/admission.yaml", "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"];
    apply(&server, &rendered(&flags));
    // The API server does so itself for up to five seconds after the CRDs were made, or not at all: it looks that often.
    let between = Between::start(&server).await;
    between.does(Fault::TooEarly);
    let cluster = Cluster::start_with(server, minio, &[], &[], Some(&between)).await;
    let says = async |what: &str| cluster.readiness().await.contains(what);
    cluster
        .until("it says why it is not ready", async || says("the API server takes no sessions yet: Resource kind not found").await)
        .await;
    between.does(Fault::None);
    cluster.until("it is ready", async || says("200 ").await).await;
    cluster.session("a", "toolBrokerRef: {name: tools}");
    assert_eq!(cluster.get(&["kernelsession", "a"], "{.spec.toolBrokerRef.name}"), "tools");
}
