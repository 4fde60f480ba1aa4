//! Sessions leave etcd and come back when somebody asks for them: operator, gateway and kernel pod as processes, on a real API server and a real MinIO.

use crate::support::{
    attacks::{self, patient},
    fleet::{Fleet, TENANT, pod_address},
};
use dormouse_client::Client;
use dormouse_protocol::{
    ErrorCode,
    eval::EvalRequest,
    history::ForkSession,
    session::{CreateSession, Session, State},
};
use dormouse_testkit::wait::eventually;
use serde_json::{Value, json};

async fn eval(client: &Client, name: &str, code: &str) -> Option<Value> {
    let cell = EvalRequest { code: code.to_owned(), ..EvalRequest::default() };
    patient(|| client.eval(name, &cell)).await.value
}

fn objects(fleet: &Fleet) -> String {
    fleet.server.kubectl(&["get", "kernelsessions", "-n", TENANT, "-o", "jsonpath={.items[*].metadata.name}"]).unwrap()
}

/// The only kernel pod goes, as its kubelet lets it go, and with it whatever sleeps.
async fn without_pods(fleet: &mut Fleet, left: &str) {
    fleet.kernel.end().await;
    fleet.server.kubectl(&["delete", "pod", "kernel", "-n", TENANT, "--force", "--grace-period=0"]).unwrap();
    let what = format!("`{left}` is left in etcd\n{}", fleet.operator.process.output());
    eventually(&what, async || objects(fleet) == left).await;
}

async fn with_a_pod(fleet: &mut Fleet) {
    fleet.kernel.kill();
    fleet.kernel.ready().await;
    fleet.kernel_pod(TENANT, "kernel", pod_address(1));
}

async fn listed(client: &Client, selector: Option<&str>) -> Vec<(String, State)> {
    patient(|| client.list(selector)).await.into_iter().map(|it: Session| (it.name, it.state)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_left_etcd_is_listed_read_forked_woken_and_deleted_as_before() {
    let (outside, _) = attacks::outside().await;
    let mut fleet = Fleet::start(&outside).await;
    let client = fleet.client();
    let new = |name: &str, spec: Value| CreateSession {
        name: Some(name.to_owned()),
        labels: [("app".to_owned(), "x".to_owned())].into(),
        spec: serde_json::from_value(spec).unwrap(),
    };
    let (staying, leaving) =
        (new("stays", json!({})), new("leaves", json!({ "archiveAfterSeconds": 1, "toolBrokerRef": { "name": "tools" } })));
    let stays = patient(|| client.create(&staying)).await;
    let leaves = patient(|| client.create(&leaving)).await;
    for (name, code) in [("stays", "let here = 1"), ("leaves", "let x = 41")] {
        eval(&client, name, code).await;
        patient(|| client.hibernate(name)).await;
    }
    without_pods(&mut fleet, "stays").await;

    let archived = patient(|| client.get("leaves")).await;
    assert_eq!((archived.state, &archived.id, &archived.labels), (State::Archived, &leaves.id, &leaves.labels));
    assert_eq!((archived.status.cells, archived.spec.archive_after_seconds), (Some(1), 1));
    let both = [("stays".to_owned(), State::Hibernated), ("leaves".to_owned(), State::Archived)];
    assert_eq!(listed(&client, None).await, both);
    assert_eq!(listed(&client, Some("app=x")).await, both);
    assert!(listed(&client, Some("app=y")).await.is_empty());
    let again = new("leaves", json!({}));
    assert_eq!(patient(|| client.create(&again)).await.id, leaves.id, "the name is its own");
    assert_eq!(client.create_new(&again).await.unwrap_err().code(), Some(ErrorCode::Conflict));
    assert_eq!(client.get("nobody").await.unwrap_err().code(), Some(ErrorCode::SessionNotFound));
    assert_eq!(objects(&fleet), "stays", "whoever reads leaves it where it is");

    with_a_pod(&mut fleet).await;
    assert_eq!(eval(&client, "leaves", "x + 1").await, Some(json!(42)));
    let back = patient(|| client.get("leaves")).await;
    assert_eq!((&back.id, &back.labels, back.status.cells), (&leaves.id, &leaves.labels, Some(2)));
    let named_by = |session: &Session| session.spec.tool_broker_ref.clone().unwrap().named_by.unwrap();
    assert_eq!((named_by(&back), named_by(&back).user), (named_by(&leaves), format!("system:serviceaccount:{TENANT}:user")));
    let journal = serde_json::to_string(&patient(|| client.journal_page("leaves", 0)).await).unwrap();
    assert!(journal.contains("let x = 41") && journal.contains("x + 1"), "{journal}");
    patient(|| client.hibernate("leaves")).await;
    without_pods(&mut fleet, "stays").await;

    with_a_pod(&mut fleet).await;
    let fork = ForkSession { name: "child".to_owned(), ..ForkSession::default() };
    patient(|| client.fork("leaves", &fork)).await;
    assert_eq!(eval(&client, "child", "x").await, Some(json!(41)));
    patient(|| client.delete("child")).await;
    eventually("the child is gone", async || !objects(&fleet).contains("child")).await;
    without_pods(&mut fleet, "stays").await;

    patient(|| client.delete("leaves")).await;
    eventually("it is gone", async || listed(&client, None).await == [("stays".to_owned(), State::Hibernated)]).await;
    assert_eq!(client.get("leaves").await.unwrap_err().code(), Some(ErrorCode::SessionNotFound));
    assert_eq!(patient(|| client.get("stays")).await.id, stays.id);
}
