//! Sessions, placements and rights on a real API server.

mod approvals;
mod quotas;
mod rights;

use std::{path::Path, sync::Arc};

use crate::support::until;
use dormouse_crds::{
    quota::KernelQuotaSpec,
    session::{BOOTSTRAP_BYTES_MAX, Bootstrap, KernelSessionSpec, Placement, Source},
};
use dormouse_gateway::{
    Directory,
    auth::kubernetes::KubernetesAuthenticator,
    directory::{DirectoryError, Key, NewSession, Role, SessionPatch, kubernetes::KubernetesDirectory},
    peers::{Members, Peers, follow},
};
use dormouse_testkit::{apiserver::ApiServer, soak, wait::eventually};
use dormouse_watch::WatchScope;
use tokio_util::sync::CancellationToken;

fn new(key: &Key) -> NewSession {
    NewSession { key: key.clone(), labels: Default::default(), spec: KernelSessionSpec::default() }
}

fn placement(pod: &str, epoch: u64) -> Placement {
    Placement { pod: pod.into(), pod_uid: format!("uid-{pod}"), boot: format!("boot-{pod}"), epoch }
}

fn apply(server: &ApiServer, yaml: &str) -> anyhow::Result<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), yaml).unwrap();
    server.kubectl(&["apply", "-f", file.path().to_str().unwrap()])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_directory_and_the_rights_on_a_real_api_server() {
    dormouse_service::telemetry::install_tls_provider();
    let server = ApiServer::start().await.unwrap();
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds/yaml");
    server.kubectl(&["apply", "-f", crds.to_str().unwrap()]).unwrap();
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).unwrap();
    server.kubectl(&["create", "namespace", "team"]).unwrap();
    let kubeconfig = kube::config::Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let kube_client = client.clone();
    let shutdown = CancellationToken::new();
    let directory = KubernetesDirectory::start(client.clone(), WatchScope::default(), &shutdown);
    until(&*directory, "the caches are full", || directory.pending().is_empty()).await;

    sessions_are_made_changed_and_removed(&*directory).await;
    of_many_claimants_each_epoch_has_one_owner(&directory).await;
    what_a_session_begins_as_never_changes(&*directory).await;
    of_two_placements_one_wins(&*directory).await;
    who_finds_no_pod_says_so_in_status_and_not_all_the_time(&*directory).await;
    a_large_spec_is_read_where_it_is_needed(&client, &directory).await;
    what_kubectl_does_is_seen(&server, &directory).await;
    quotas_and_config_maps_are_read(&server, &directory).await;
    quotas::what_a_quota_says_follows_what_there_is(&server, &directory).await;
    quotas::of_two_gateways_and_kubectl_none_goes_beyond_a_resource_quota(&server, &client, &directory).await;
    let authenticator = KubernetesAuthenticator::new(client, "dormouse".into());
    rights::rights_are_the_clusters(&server, &authenticator).await;
    rights::which_broker_a_session_names_is_a_right(&server, &authenticator).await;
    rights::fields_are_listed_of_sessions_that_somebody_applies(&server, &directory).await;
    rights::a_key_of_one_gateway_is_the_others_and_its_end_too(&server, &kube_client, &directory).await;
    gateways_know_each_other(&server, kube_client.clone(), &directory).await;
    approvals::kubectl_lists_and_decides_calls_that_wait(&server, kube_client, &directory).await;
    shutdown.cancel();
}

async fn sessions_are_made_changed_and_removed(directory: &dyn Directory) {
    let key = Key::new("team", "a");
    let made = directory.create(new(&key)).await.unwrap();
    assert!(made.finalizer, "whoever makes a session promises to clean up after it");
    assert_eq!(directory.get(&key).as_deref(), Some(&*made), "what was written is seen at once");
    assert!(matches!(directory.create(new(&key)).await, Err(DirectoryError::AlreadyExists)));
    assert!(matches!(directory.create(new(&Key::new("nowhere", "a"))).await, Err(DirectoryError::NamespaceNotFound)));
    let patch = |spec| SessionPatch { spec: Some(spec), labels: Some([("app".to_owned(), Some("x".to_owned()))].into()) };
    let patched = directory.patch(&key, patch(serde_json::json!({"idleSeconds": 7}))).await.unwrap();
    assert_eq!((patched.spec.idle_seconds, patched.generation, patched.labels["app"].as_str()), (7, made.generation + 1, "x"));
    let refused = directory.patch(&key, patch(serde_json::json!({"limits": {"heapBytes": 1}}))).await;
    assert!(matches!(refused, Err(DirectoryError::Invalid(message)) if message.contains("heapBytes")));
    directory.delete(&key).await.unwrap();
    assert!(directory.get(&key).unwrap().deleting);
    assert!(matches!(directory.read(&Key::new("team", "missing")).await, Err(DirectoryError::NotFound)));
}

async fn a_large_spec_is_read_where_it_is_needed(client: &kube::Client, one: &KubernetesDirectory) {
    let spec = |code: String| KernelSessionSpec {
        bootstrap: Some(Bootstrap { code, config_map_ref: None }),
        egress: Some(serde_json::from_value(serde_json::json!({"allow": [{"host": "a.example"}]})).unwrap()),
        // Who is asked about before it is placed.
        tool_broker_ref: Some(serde_json::from_value(serde_json::json!({"name": "b", "namedBy": {"user": "u", "groups": ["g"]}})).unwrap()),
        ..KernelSessionSpec::default()
    };
    // Characters of four bytes: as large as may be, and what the API server allows is bytes.
    let most = "\u{10348}".repeat(BOOTSTRAP_BYTES_MAX / 4);
    let key = Key::new("team", "large");
    let refused = one.create(NewSession { spec: spec(most.clone() + "x"), ..new(&key) }).await;
    assert!(matches!(&refused, Err(DirectoryError::Invalid(message)) if message.contains("262144 bytes")), "{refused:?}");
    let made = one.create(NewSession { spec: spec(most.clone()), ..new(&key) }).await.unwrap();
    let shutdown = CancellationToken::new();
    let two = KubernetesDirectory::start(client.clone(), WatchScope::default(), &shutdown);
    eventually("the second gateway is ready", async || two.pending().is_empty()).await;
    for directory in [one, &*two] {
        let cached = directory.get(&key).unwrap();
        assert!(cached.left_out && cached.spec.bootstrap.is_none() && cached.spec.egress.is_none(), "{:?}", cached.spec);
        let whole = directory.whole(&cached).await.unwrap();
        assert_eq!((&whole.spec, whole.left_out, whole.generation), (&spec(most.clone()), false, made.generation));
        assert_eq!((&whole.resource_version, &whole.status), (&cached.resource_version, &cached.status));
    }
    let patch = SessionPatch { spec: Some(serde_json::json!({"idleSeconds": 7})), labels: None };
    let patched = one.patch(&key, patch).await.unwrap();
    let placed = two.assign(&two.read(&key).await.unwrap(), placement("p", 1)).await.unwrap();
    assert!(patched.left_out && placed.left_out);
    let expected = KernelSessionSpec { idle_seconds: 7, ..spec(most) };
    for (directory, record) in [(one, &patched), (&*two, &placed)] {
        let whole = directory.whole(record).await.unwrap();
        assert_eq!((&whole.spec, whole.generation), (&expected, made.generation + 1));
    }
    one.delete(&key).await.unwrap();
    let small = KernelSessionSpec { idle_seconds: 9, ..spec("1".to_owned()) };
    let made = one.create(NewSession { spec: small.clone(), ..new(&Key::new("team", "small")) }).await.unwrap();
    assert_eq!((&made.spec, made.left_out), (&small, false), "what is small costs no request");
    shutdown.cancel();
}

async fn who_finds_no_pod_says_so_in_status_and_not_all_the_time(directory: &dyn Directory) {
    let key = Key::new("team", "waits");
    let made = directory.create(new(&key)).await.unwrap();
    directory.request_wake(&made).await.unwrap();
    let told = directory.get(&key).unwrap();
    assert!(told.status.wake_requested_time.is_some());
    directory.request_wake(&told).await.unwrap();
    assert_eq!(directory.read(&key).await.unwrap().resource_version, told.resource_version, "it was written a moment ago");
    let placed = directory.assign(&told, placement("p", 1)).await.unwrap();
    assert_eq!(placed.status.wake_requested_time, None, "who has a place waits for none");
}

fn quota(namespace: &str, name: &str, spec: &str) -> String {
    format!("apiVersion: dormouse.dev/v1alpha1\nkind: KernelQuota\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n")
}

async fn quotas_and_config_maps_are_read(server: &ApiServer, directory: &KubernetesDirectory) {
    server.kubectl(&["create", "configmap", "boot", "-n", "team", "--from-literal=main.ts=let n = 1"]).unwrap();
    assert_eq!(directory.config("team", "boot", "main.ts").await.unwrap().as_deref(), Some("let n = 1"));
    assert_eq!(directory.config("team", "boot", "other").await.unwrap(), None);
    assert_eq!(directory.config("team", "nothing", "main.ts").await.unwrap(), None);

    let quota = |name: &str, spec: &str| quota("team", name, spec);
    assert!(apply(server, &quota("none", "{}")).unwrap_err().to_string().contains("limits something"));
    apply(server, &quota("one", "{sessions: 5, evalsPerSecond: 9}")).unwrap();
    apply(server, &quota("two", "{sessions: 3}")).unwrap();
    eventually("both quotas are seen", async || directory.limits("team").sessions == Some(3)).await;
    assert_eq!((directory.limits("team").evals_per_second, directory.limits("other").sessions), (Some(9), None));
    server.kubectl(&["delete", "kq", "one", "two", "-n", "team"]).unwrap();
    eventually("they are gone", async || directory.limits("team") == KernelQuotaSpec::default()).await;

    let session = |spec: &str| {
        format!("apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: ruled, namespace: team}}\nspec: {spec}\n")
    };
    for (spec, said) in [
        ("{bootstrap: {code: '1', configMapRef: {name: boot, key: main.ts}}}", "write either code"),
        ("{bootstrap: {configMapRef: {name: boot}}}", "needs a key"),
        ("{ttl: {retainedSeconds: 5}}", "counts from the end of activeSeconds"),
    ] {
        assert!(apply(server, &session(spec)).unwrap_err().to_string().contains(said), "{spec}");
    }
    apply(server, &session("{bootstrap: {configMapRef: {name: boot, key: main.ts}}, ttl: {activeSeconds: 5}}")).unwrap();
}

async fn what_a_session_begins_as_never_changes(directory: &dyn Directory) {
    let key = Key::new("team", "child");
    let source = Source { session: "parent".into(), checkpoint: Some("one".into()) };
    let spec = KernelSessionSpec { source: Some(source), ..KernelSessionSpec::default() };
    let made = directory.create(NewSession { spec: spec.clone(), ..new(&key) }).await.unwrap();
    assert_eq!((&made.spec, made.spec.checkpoints.keep), (&spec, 20));
    let refused = [
        (serde_json::json!({"source": null}), "forked when it is made"),
        (serde_json::json!({"source": {"session": "other"}}), "forked when it is made"),
        (serde_json::json!({"checkpoints": {"keep": 101}}), "write 0 to 100"),
    ];
    for (patch, said) in refused {
        let outcome = directory.patch(&key, SessionPatch { spec: Some(patch.clone()), labels: None }).await;
        assert!(matches!(&outcome, Err(DirectoryError::Invalid(message)) if message.contains(said)), "{patch}: {outcome:?}");
    }
    let fewer = SessionPatch { spec: Some(serde_json::json!({"checkpoints": {"keep": 0}})), labels: None };
    assert_eq!(directory.patch(&key, fewer).await.unwrap().spec.checkpoints.keep, 0);
    let bad = Source { session: "Not A Name".into(), checkpoint: None };
    let spec = KernelSessionSpec { source: Some(bad), ..KernelSessionSpec::default() };
    let outcome = directory.create(NewSession { spec, ..new(&Key::new("team", "bad")) }).await;
    assert!(matches!(&outcome, Err(DirectoryError::Invalid(message)) if message.contains("source.session")), "{outcome:?}");
    directory.delete(&key).await.unwrap();
}

async fn of_two_placements_one_wins(directory: &dyn Directory) {
    let key = Key::new("team", "raced");
    let seen = directory.create(new(&key)).await.unwrap();
    let (one, two) = tokio::join!(directory.assign(&seen, placement("one", 1)), directory.assign(&seen, placement("two", 1)));
    let winner = match (one, two) {
        (Ok(winner), Err(DirectoryError::Conflict)) | (Err(DirectoryError::Conflict), Ok(winner)) => winner,
        outcome => panic!("one wins and one learns that it lost: {outcome:?}"),
    };
    let now = directory.read(&key).await.unwrap();
    assert_eq!((now.status.placement.clone(), now.status.last_epoch), (winner.status.placement.clone(), Some(1)));
    let moved = directory.assign(&now, placement("three", 2)).await.unwrap();
    assert_eq!((moved.status.placement.clone().unwrap().pod.as_str(), moved.status.last_epoch), ("three", Some(2)));
    assert_eq!(moved.spec, seen.spec);
}

/// Claimants that know what anybody could know: each has read the session, and takes the epoch that comes next.
async fn of_many_claimants_each_epoch_has_one_owner(directory: &Arc<KubernetesDirectory>) {
    let (claimants, sessions) = (soak::count(40, 500), 10);
    for session in 0..sessions {
        directory.create(new(&Key::new("team", format!("claimed-{session}")))).await.unwrap();
    }
    let claim = |claimant: u64| {
        let directory = Arc::clone(directory);
        tokio::spawn(async move {
            let mut won = Vec::new();
            for session in 0..sessions {
                let seen = directory.read(&Key::new("team", format!("claimed-{}", (session + claimant) % sessions))).await.unwrap();
                let epoch = seen.status.last_epoch.unwrap_or(0) + 1;
                match directory.assign(&seen, placement(&format!("pod-{claimant}"), epoch)).await {
                    Ok(_) => won.push((seen.key.name.clone(), epoch)),
                    Err(DirectoryError::Conflict) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            won
        })
    };
    let claims = futures::future::join_all((0..claimants).map(claim)).await;
    let won: Vec<(String, u64)> = claims.into_iter().flat_map(Result::unwrap).collect();
    let owned: std::collections::BTreeSet<&(String, u64)> = won.iter().collect();
    assert_eq!(owned.len(), won.len(), "an epoch was given out twice");
    for session in 0..sessions {
        let now = directory.read(&Key::new("team", format!("claimed-{session}"))).await.unwrap();
        let epochs = won.iter().filter(|(name, _)| *name == now.key.name).count() as u64;
        assert_eq!(now.status.last_epoch, Some(epochs), "no epoch was left out");
    }
    soak::report(&format!(
        "{claimants} claimants on {sessions} sessions, {} epochs given out in {} claims, 0 with two owners",
        won.len(),
        claimants * sessions
    ));
}

async fn what_kubectl_does_is_seen(server: &ApiServer, directory: &Arc<KubernetesDirectory>) {
    let key = Key::new("team", "applied");
    apply(server, "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {name: applied, namespace: team}\nspec: {}\n")
        .unwrap();
    until(&**directory, "the applied session", || directory.get(&key).is_some()).await;
    assert!(!directory.get(&key).unwrap().finalizer);
    server.kubectl(&["delete", "kernelsession", "-n", "team", "applied"]).unwrap();
    until(&**directory, "its end", || directory.get(&key).is_none()).await;

    apply(
        server,
        "apiVersion: v1\nkind: Pod\nmetadata: {name: k1, namespace: team, labels: {dormouse.dev/component: kernel, dormouse.dev/pool: default}}\n\
         spec: {containers: [{name: kernel, image: none}]}\n",
    )
    .unwrap();
    let status =
        r#"{"status":{"phase":"Running","podIP":"10.1.2.3","podIPs":[{"ip":"10.1.2.3"}],"conditions":[{"type":"Ready","status":"True"}]}}"#;
    server.kubectl(&["patch", "pod", "-n", "team", "k1", "--subresource=status", "--type=merge", "-p", status]).unwrap();
    until(&**directory, "the pod", || directory.pods("team", "default").iter().any(|pod| pod.ready)).await;
    let pod = directory.pods("team", "default").remove(0);
    assert_eq!((pod.pod.as_str(), pod.address.to_string().as_str()), ("k1", "10.1.2.3:7443"));
    assert!(directory.pods("team", "other").is_empty() && directory.pods("other", "default").is_empty());
    let named = Placement { pod_uid: pod.uid.clone(), ..placement("k1", 1) };
    assert!(directory.pod("team", &named).is_some());
    assert!(directory.pod("team", &placement("k1", 1)).is_none(), "a later pod of the same name is another");

    assert_eq!((pod.role, pod.given_to), (Role::Both, None));
    let is_given_to = |uid: Option<&str>| directory.pods("team", "default").iter().any(|pod| pod.given_to.as_deref() == uid);
    server.kubectl(&["label", "pod", "-n", "team", "k1", "dormouse.dev/role=session"]).unwrap();
    server.kubectl(&["annotate", "pod", "-n", "team", "k1", "dormouse.dev/granted=containerd://0 u-1"]).unwrap();
    until(&**directory, "whose it is", || is_given_to(Some("u-1"))).await;
    assert_eq!(directory.pods("team", "default").remove(0).role, Role::Session);
}

/// The other gateways are the ready pods behind the Service.
async fn gateways_know_each_other(server: &ApiServer, client: kube::Client, directory: &KubernetesDirectory) {
    let slice = |ready: bool| {
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\nports: []\n\
             metadata: {{name: gateways-1, namespace: team, labels: {{kubernetes.io/service-name: gateways}}}}\nendpoints:\n\
             - {{addresses: [10.0.0.1], conditions: {{ready: true}}, targetRef: {{kind: Pod, name: one}}}}\n\
             - {{addresses: [10.0.0.2], conditions: {{ready: {ready}}}, targetRef: {{kind: Pod, name: two}}}}\n"
        )
    };
    apply(server, &slice(false)).unwrap();
    apply(server, &slice(true).replace("gateways", "others")).unwrap();
    let (_peers, tell) = Peers::new("one");
    let mut told = tell.subscribe();
    let rollbacks = directory.rollbacks();
    let following = tokio::spawn(async move { follow(client, "team", "gateways", rollbacks, tell).await });
    let names = |members: &Members| members.names().iter().map(|(name, address)| format!("{name} {address}")).collect::<Vec<_>>();
    assert_eq!(told.wait_for(|members| !names(members).is_empty()).await.map(|now| names(&now)).unwrap(), ["one 10.0.0.1"]);
    apply(server, &slice(true)).unwrap();
    let both = ["one 10.0.0.1", "two 10.0.0.2"];
    assert_eq!(told.wait_for(|members| names(members).len() > 1).await.map(|now| names(&now)).unwrap(), both);
    server.kubectl(&["delete", "endpointslice", "gateways-1", "-n", "team"]).unwrap();
    assert!(told.wait_for(|members| names(members).is_empty()).await.is_ok());
    following.abort();
}
