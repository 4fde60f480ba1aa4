//! Who named the ToolBroker of a session is known, and asked about each time the session is placed.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use dormouse_gateway::{
    Directory as _, Gateway,
    auth::{Access, AuthError, Authenticator, Caller, Verb, keys::file::KeyFile},
    directory::Key,
};
use serde_json::{Value, json};

use crate::support::{Client, FakePod, Trust, directory, serve_routes};

const SESSIONS: &str = "/v1/namespaces/default/sessions";

/// Callers are who they say. Whoever is of a group may do everything, but use a ToolBroker only while the group is among these.
#[derive(Clone, Default)]
struct Cluster {
    groups: Arc<Mutex<BTreeSet<String>>>,
    /// Questions about ToolBrokers that it does not answer any more.
    silences: Arc<AtomicUsize>,
}

#[async_trait]
impl Authenticator for Cluster {
    async fn authenticate(&self, bearer: Option<&str>) -> Result<Caller, AuthError> {
        let user = bearer.ok_or(AuthError::Unauthenticated)?.to_owned();
        // As a token without the claim.
        let groups = if user == "nobody" { Vec::new() } else { vec![format!("of-{user}")] };
        Ok(Caller { groups, uid: "7".to_owned(), user, ..Caller::default() })
    }

    async fn authorize(&self, caller: &Caller, access: &Access) -> Result<(), AuthError> {
        let may = self.groups.lock().unwrap();
        if access.verb == Verb::Use && self.silences.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(AuthError::Unavailable("no answer".into()));
        }
        if access.verb != Verb::Use || may.contains("everybody") || caller.groups.iter().any(|group| may.contains(group)) {
            return Ok(());
        }
        assert_eq!((access.namespace.as_str(), access.name.as_deref()), ("default", Some("shop")));
        let (user, namespace) = (caller.user.clone(), access.namespace.clone());
        Err(AuthError::Forbidden { user, verb: access.verb.as_str(), resource: access.part.resource(), namespace })
    }
}

impl Cluster {
    fn may_use(&self, groups: &[&str]) {
        *self.groups.lock().unwrap() = groups.iter().map(|group| (*group).to_owned()).collect();
    }
}

async fn send(client: &Client, user: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
    let sent = client.request(method, path).bearer_auth(user).json(&body).send().await.unwrap();
    (sent.status().as_u16(), sent.json().await.unwrap_or_default())
}

async fn eval(client: &Client, user: &str, session: &str) -> (u16, Value) {
    send(client, user, "POST", &format!("{SESSIONS}/{session}/eval"), json!({ "code": "1" })).await
}

async fn world() -> (tempfile::TempDir, Cluster, Client, Arc<FakePod>, Arc<dormouse_gateway::directory::folder::FolderDirectory>) {
    let trust = Trust::new();
    let pod = trust.pod("one", 8).await;
    let (folder, directory) = directory(&trust, &[&pod]).await;
    let cluster = Cluster::default();
    cluster.may_use(&["of-ann", "of-bob"]);
    let keys = Arc::new(KeyFile::open(&folder.path().join("keys.json")).unwrap());
    let gateway = Gateway::new(directory.clone(), trust.kernels(), Arc::new(cluster.clone())).with_keys(keys);
    (folder, cluster, serve_routes(gateway).await, pod, directory)
}

#[tokio::test]
async fn a_session_is_placed_only_while_who_named_its_tool_broker_may_use_it() {
    let (_folder, cluster, client, pod, directory) = world().await;
    let named_by = |name: &str| json!(directory.get(&Key::new("default", name)).unwrap().spec.tool_broker_ref.as_ref().unwrap().named_by);
    // Whatever a client says of others.
    let spec = json!({ "toolBrokerRef": { "name": "shop", "namedBy": { "user": "root", "groups": ["system:masters"] } } });
    for name in ["live", "asleep"] {
        assert_eq!(send(&client, "ann", "POST", SESSIONS, json!({ "name": name, "spec": spec })).await.0, 201);
        assert_eq!(named_by(name), json!({ "user": "ann", "groups": ["of-ann"] }));
    }
    assert_eq!(eval(&client, "ann", "live").await.0, 200);
    assert_eq!(pod.evals()[0].assignment.spec.tool_broker_ref.as_ref().unwrap().named_by, None, "it is nothing that a pod must know");

    cluster.may_use(&["of-bob"]);
    let (status, refused) = eval(&client, "bob", "asleep").await;
    let error = &refused["error"];
    assert_eq!((status, error["code"].as_str(), error["retryable"].as_bool()), (403, Some("Forbidden"), Some(false)), "{refused}");
    assert!(
        error["message"].as_str().unwrap().starts_with("`ann`, who named the ToolBroker `shop` for this session, may not use it any more")
    );
    assert!(directory.get(&Key::new("default", "asleep")).unwrap().status.placement.is_none(), "it was not placed");
    assert_eq!(eval(&client, "bob", "live").await.0, 200, "one that has its place keeps it");

    // Somebody who may takes it over; nobody does by writing something else.
    let path = format!("{SESSIONS}/asleep");
    assert_eq!(send(&client, "bob", "PATCH", &path, json!({ "spec": { "idleSeconds": 9 } })).await.0, 200);
    assert_eq!(named_by("asleep")["user"], "ann");
    assert_eq!(eval(&client, "bob", "asleep").await.0, 403);
    assert_eq!(send(&client, "bob", "PATCH", &path, json!({ "spec": { "toolBrokerRef": { "name": "shop" } } })).await.0, 200);
    assert_eq!(named_by("asleep"), json!({ "user": "bob", "groups": ["of-bob"] }));
    assert_eq!(eval(&client, "bob", "asleep").await.0, 200);

    // A patch that does not say which one names nobody.
    for nameless in [json!({}), json!({ "namedBy": null }), json!({ "namedBy": { "user": "root", "groups": [] } })] {
        let (status, refused) = send(&client, "bob", "PATCH", &path, json!({ "spec": { "toolBrokerRef": nameless } })).await;
        assert_eq!((status, refused["error"]["code"].as_str()), (400, Some("InvalidRequest")), "{refused}");
    }
    assert_eq!(named_by("asleep")["user"], "bob");
    // Nobody's groups stay with somebody else.
    let body = json!({ "spec": { "toolBrokerRef": { "name": "shop" } } });
    assert_eq!(send(&client, "nobody", "PATCH", &path, body.clone()).await.0, 403);
    cluster.may_use(&["of-bob", "everybody"]);
    assert_eq!(send(&client, "nobody", "PATCH", &path, body).await.0, 200);
    assert_eq!(named_by("asleep"), json!({ "user": "nobody", "groups": [] }));

    // A fork is by whoever forks.
    let forked = send(&client, "bob", "POST", &format!("{SESSIONS}/live/fork"), json!({ "name": "child" })).await;
    assert_eq!(forked.0, 201, "{forked:?}");
    assert_eq!(named_by("child")["user"], "bob");
}

#[tokio::test]
async fn a_request_waits_while_it_cannot_be_asked_who_may_use_a_tool_broker() {
    let (_folder, cluster, client, pod, _directory) = world().await;
    let body = json!({ "name": "a", "spec": { "toolBrokerRef": { "name": "shop" } } });
    assert_eq!(send(&client, "ann", "POST", SESSIONS, body).await.0, 201);
    cluster.silences.store(3, Ordering::SeqCst);
    assert_eq!(eval(&client, "ann", "a").await.0, 200);
    assert_eq!((cluster.silences.load(Ordering::SeqCst), pod.evals().len()), (0, 1));
}

#[tokio::test]
async fn for_a_session_that_an_api_key_made_whoever_made_the_key_is_asked_about() {
    let (_folder, cluster, client, _pod, _directory) = world().await;
    let keys = "/v1/namespaces/default/keys";
    let verbs = ["create", "get", "eval", "use"];
    let (status, made) = send(&client, "ann", "POST", keys, json!({ "name": "ci", "verbs": verbs })).await;
    assert_eq!(status, 201, "{made}");
    let key = made["key"].as_str().unwrap();
    for name in ["one", "two"] {
        let body = json!({ "name": name, "spec": { "toolBrokerRef": { "name": "shop" } } });
        let (status, session) = send(&client, key, "POST", SESSIONS, body).await;
        assert_eq!((status, &session["spec"]["toolBrokerRef"]["namedBy"]["user"]), (201, &json!("ann")), "{session}");
    }
    // A key comes and goes: its sessions stay.
    assert_eq!(send(&client, "ann", "DELETE", &format!("{keys}/ci"), json!({})).await.0, 204);
    assert_eq!(eval(&client, "bob", "one").await.0, 200);
    cluster.may_use(&["of-bob"]);
    assert_eq!(eval(&client, "bob", "two").await.0, 403);
}
