//! Sessions, placements and rights on a real API server.

mod quotas;

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use crate::support::until;
use dormouse_crds::{
    quota::KernelQuotaSpec,
    session::{BOOTSTRAP_BYTES_MAX, Bootstrap, KernelSessionSpec, Placement, Source},
};
use dormouse_gateway::{
    Directory,
    auth::{
        Access, AuthError, Authenticator as _, Caller, Part, Verb,
        keys::{self, KeyStore, Keys, REVOKED_WITHIN, objects::KeyObjects},
        kubernetes::KubernetesAuthenticator,
        loopback::Loopback,
    },
    directory::{DirectoryError, Key, NewSession, SessionPatch, kubernetes::KubernetesDirectory},
    objects::{ApprovalObjects, Approvals},
    peers::{Members, Peers, follow},
};
use dormouse_protocol::{
    ApiError, ErrorCode,
    approval::{Approval, ApprovalList, Decide, Decided, Verdict},
    key::CreateKey,
};
use dormouse_service::Clock;
use dormouse_testkit::{apiserver::ApiServer, soak, tools, wait::eventually};
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
    of_two_gateways_and_kubectl_none_goes_beyond_a_resource_quota(&server, &client, &directory).await;
    let authenticator = KubernetesAuthenticator::new(client, "dormouse".into());
    rights_are_the_clusters(&server, &authenticator).await;
    which_broker_a_session_names_is_a_right(&server, &authenticator).await;
    fields_are_listed_of_sessions_that_somebody_applies(&server, &directory).await;
    a_key_of_one_gateway_is_the_others_and_its_end_too(&server, &kube_client, &directory).await;
    gateways_know_each_other(&server, kube_client.clone(), &directory).await;
    kubectl_lists_and_decides_calls_that_wait(&server, kube_client, &directory).await;
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

/// The manifest in `docs/lifetimes.md` for a count across all who make sessions.
async fn of_two_gateways_and_kubectl_none_goes_beyond_a_resource_quota(
    server: &ApiServer,
    client: &kube::Client,
    one: &KubernetesDirectory,
) {
    server.kubectl(&["create", "namespace", "counted"]).unwrap();
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/lifetimes.md")).unwrap();
    let (_, manifest) = page.split_once("kind: ResourceQuota\n").unwrap();
    let (manifest, _) = manifest.split_once("```").unwrap();
    let manifest = manifest.replace("team-a", "counted").replace("1000", "5");
    apply(server, &format!("apiVersion: v1\nkind: ResourceQuota\n{manifest}")).unwrap();
    // What its controller does; and until admission has heard of it.
    let session = "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {name: by-hand, namespace: counted}\nspec: {}\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), session).unwrap();
    let by_hand = |more: &[&str]| server.kubectl(&[&["create", "-f", file.path().to_str().unwrap()], more].concat());
    let counted = |used: &str| {
        let counts = |count: &str| serde_json::json!({ "count/kernelsessions.dormouse.dev": count });
        let status = serde_json::json!({ "status": { "hard": counts("5"), "used": counts(used) } }).to_string();
        server
            .kubectl(&["patch", "resourcequota", "sessions", "-n", "counted", "--subresource=status", "--type=merge", "-p", &status])
            .unwrap();
    };
    counted("5");
    eventually("the API server refuses one more", async || by_hand(&["--dry-run=server"]).is_err()).await;
    counted("0");
    eventually("the API server takes one", async || by_hand(&["--dry-run=server"]).is_ok()).await;
    let shutdown = CancellationToken::new();
    let two = KubernetesDirectory::start(client.clone(), WatchScope::default(), &shutdown);
    eventually("the second gateway is ready", async || two.pending().is_empty()).await;
    let refused =
        |made: &Result<_, DirectoryError>| matches!(made, Err(DirectoryError::Quota(message)) if message.contains("exceeded quota"));
    let make = |n: usize| {
        let directory: &dyn Directory = if n.is_multiple_of(2) { one } else { &*two };
        async move { directory.create(new(&Key::new("counted", format!("s{n}")))).await }
    };
    let made = futures::future::join_all((0..20).map(make)).await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 5, "{made:?}");
    assert!(made.iter().filter(|made| made.is_err()).all(refused), "{made:?}");
    assert!(by_hand(&[]).unwrap_err().to_string().contains("exceeded quota"));
    shutdown.cancel();
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
}

async fn a_key_of_one_gateway_is_the_others_and_its_end_too(
    server: &ApiServer,
    client: &kube::Client,
    directory: &Arc<KubernetesDirectory>,
) {
    server.kubectl(&["create", "namespace", "gateways"]).unwrap();
    let [one, two] = [(); 2].map(|()| Arc::new(KeyObjects::new(client.clone(), "gateways")));
    let door = |store: &Arc<KeyObjects>| {
        Keys::new(Arc::clone(store) as Arc<dyn KeyStore>, Arc::clone(directory) as Arc<dyn Directory>, Arc::new(Loopback::default()))
    };
    let (first, second) = (door(&one), door(&two));
    let ann = Caller { user: "ann".into(), ..Caller::default() };
    let asked = || -> CreateKey { serde_json::from_value(serde_json::json!({ "name": "app", "verbs": ["eval"] })).unwrap() };
    let made = keys::create(&*one, "team", asked(), (&ann, None), Clock::system()).await.unwrap();
    let caller = second.authenticate(Some(&made.key)).await.unwrap();
    assert_eq!(caller.user, "dormouse:key:team:app");
    let access = |namespace: &str, verb, part| Access { namespace: namespace.into(), name: Some("a".into()), verb, part };
    assert!(second.authorize(&caller, &access("team", Verb::Create, Part::Eval)).await.is_ok());
    for denied in [access("team", Verb::Delete, Part::Session), access("other", Verb::Create, Part::Eval)] {
        assert!(matches!(second.authorize(&caller, &denied).await, Err(AuthError::Forbidden { .. })), "{denied:?}");
    }
    let listed = keys::list(&*two, "team").await.unwrap();
    assert_eq!(listed.items.iter().map(|key| (key.name.as_str(), key.created_by.as_str())).collect::<Vec<_>>(), [("app", "ann")]);
    let taken = keys::create(&*two, "team", asked(), (&ann, None), Clock::system()).await.unwrap_err();
    assert_eq!(taken.code, ErrorCode::Conflict);

    // All that the cluster keeps of it.
    let stored = server.kubectl(&["get", "configmaps,secrets", "--all-namespaces", "-o", "yaml"]).unwrap();
    assert!(stored.contains(&keys::digest(&made.key)) && !stored.contains(made.key.trim_start_matches("dmk_")), "only its digest");

    let refuses = async |door: &Keys, key: &str| matches!(door.authenticate(Some(key)).await, Err(AuthError::Unauthenticated));
    keys::revoke(&*one, "team", "app").await.unwrap();
    assert!(refuses(&first, &made.key).await, "at once where it was revoked");
    assert!(!refuses(&second, &made.key).await, "the other one still remembers it");
    two.age(REVOKED_WITHIN);
    assert!(refuses(&second, &made.key).await, "and no longer than that");
    // The name is free again, and nothing of the earlier key is in the new one.
    let again = keys::create(&*two, "team", asked(), (&ann, None), Clock::system()).await.unwrap();
    assert!(!refuses(&first, &again.key).await && refuses(&first, &made.key).await && refuses(&second, &made.key).await);
}

async fn rights_are_the_clusters(server: &ApiServer, authenticator: &KubernetesAuthenticator) {
    apply(
        server,
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: app, namespace: team}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: app, namespace: team}\n\
         rules: [{apiGroups: [dormouse.dev], resources: [kernelsessions/eval], verbs: [create]}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: app, namespace: team}\n\
         roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: app}\nsubjects: [{kind: ServiceAccount, name: app}]\n",
    )
    .unwrap();
    let token = |audience: &str| {
        server.kubectl(&["create", "token", "app", "-n", "team", &format!("--audience={audience}")]).unwrap().trim().to_owned()
    };
    let caller = authenticator.authenticate(Some(&token("dormouse"))).await.unwrap();
    assert_eq!(caller.user, "system:serviceaccount:team:app");
    let elsewhere = token("elsewhere");
    for bad in [None, Some(""), Some("nonsense"), Some(elsewhere.as_str())] {
        assert!(matches!(authenticator.authenticate(bad).await, Err(AuthError::Unauthenticated)), "{bad:?}");
    }
    let access = |namespace: &str, verb, part| Access { namespace: namespace.into(), name: Some("a".into()), verb, part };
    assert!(authenticator.authorize(&caller, &access("team", Verb::Create, Part::Eval)).await.is_ok());
    for denied in
        [access("team", Verb::Get, Part::Session), access("team", Verb::Create, Part::Session), access("other", Verb::Create, Part::Eval)]
    {
        assert!(matches!(authenticator.authorize(&caller, &denied).await, Err(AuthError::Forbidden { .. })), "{denied:?}");
    }
    let nobody = Caller { user: "system:anonymous".into(), ..Caller::default() };
    assert!(authenticator.authorize(&nobody, &access("team", Verb::Create, Part::Eval)).await.is_err());
}

/// By the gateway's word and by the cluster's own: `kubectl` asks no gateway.
async fn which_broker_a_session_names_is_a_right(server: &ApiServer, authenticator: &KubernetesAuthenticator) {
    apply(
        server,
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: maker, namespace: team}\n\
         rules: [{apiGroups: [dormouse.dev], resources: [kernelsessions], verbs: [get, create, patch, update]}, \
         {apiGroups: [dormouse.dev], resources: [toolbrokers], verbs: [use], resourceNames: [mine]}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: maker, namespace: team}\n\
         roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: maker}\nsubjects:\n\
         - {kind: User, name: maker, apiGroup: rbac.authorization.k8s.io}\n- {kind: User, name: heir, apiGroup: rbac.authorization.k8s.io}\n\
         - {kind: User, name: 'system:serviceaccount:dormouse-system:dormouse-gateway', apiGroup: rbac.authorization.k8s.io}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: editor, namespace: team}\n\
         rules: [{apiGroups: [dormouse.dev], resources: [kernelsessions], verbs: [get, create, patch, update]}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: editor, namespace: team}\n\
         roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: editor}\nsubjects: [{kind: User, name: editor, apiGroup: rbac.authorization.k8s.io}]\n",
    )
    .unwrap();
    let caller = Caller { user: "maker".into(), ..Caller::default() };
    let uses = |broker: &str| Access { namespace: "team".into(), name: Some(broker.into()), verb: Verb::Use, part: Part::Broker };
    assert!(authenticator.authorize(&caller, &uses("mine")).await.is_ok());
    assert!(matches!(authenticator.authorize(&caller, &uses("theirs")).await, Err(AuthError::Forbidden { resource: "toolbrokers", .. })));

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifests = std::fs::read_to_string(root.join("deploy/dormouse.yaml")).unwrap();
    let everywhere = manifests.split("\n---\n").filter(|document| document.contains("kind: ValidatingAdmissionPolicy")).count();
    assert_eq!(everywhere, 2, "a policy and its binding");
    let mut helm = std::process::Command::new(tools::path("helm").unwrap());
    helm.args(["template", "dormouse", "charts/dormouse", "--namespace", "dormouse-system", "--show-only", "templates/admission.yaml"]);
    helm.args(["--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"]).current_dir(root);
    let policies = String::from_utf8(helm.output().unwrap().stdout).unwrap();
    assert_eq!(policies.matches("kind: MutatingAdmissionPolicy").count(), 4, "policies and their bindings: {policies}");
    apply(server, &policies).unwrap();
    let write = |user: &str, name: &str, broker: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let named = if broker.is_empty() { String::new() } else { format!("toolBrokerRef: {broker}") };
        let text = format!(
            "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: {name}, namespace: team}}\nspec: {{{named}}}\n"
        );
        std::fs::write(file.path(), text).unwrap();
        let user = format!("--as={user}");
        server.kubectl(&["apply", "--server-side", "--force-conflicts", &user, "-f", file.path().to_str().unwrap()])
    };
    let named_by =
        |name: &str| server.kubectl(&["get", "kernelsession", name, "-n", "team", "-o", "jsonpath={.spec.toolBrokerRef.namedBy}"]).unwrap();
    // A policy is in force some time after it was written.
    let (mut tries, mut refused) = (0, String::new());
    eventually("what is not allowed is refused", async || {
        tries += 1;
        write("maker", &format!("theirs-{tries}"), "{name: theirs}").is_err_and(|error| {
            refused = error.to_string();
            true
        })
    })
    .await;
    assert!(refused.contains("you may not use the ToolBroker theirs: ask for a Role with the verb use on toolbrokers"), "{refused}");
    let maker = "{\"groups\":[\"system:authenticated\"],\"user\":\"maker\"}";
    let written_until = async |what: &str, expected: &str| {
        let mut tries = 0;
        let mut last = String::new();
        eventually(what, async || {
            tries += 1;
            last = format!("{what}-{tries}").replace(' ', "-");
            write("maker", &last, "{name: mine}").unwrap();
            named_by(&last) == expected
        })
        .await;
        last
    };
    let mine = written_until("it is written down", maker).await;
    write("maker", "none", "").unwrap();
    assert!(write("maker", &mine, "{name: theirs}").is_err(), "nor may it be changed to another");
    // Whatever is said of others.
    write("maker", "said", "{name: mine, namedBy: {user: root, groups: [system:masters]}}").unwrap();
    assert_eq!(named_by("said"), maker);
    // Who may not use it changes all else, and not by whom it was named.
    let patch = |user: &str, patch: &str| {
        server.kubectl(&["patch", "kernelsession", &mine, "-n", "team", "--type=merge", &format!("--as={user}"), "-p", patch])
    };
    patch("editor", r#"{"spec":{"idleSeconds":9}}"#).unwrap();
    assert_eq!(named_by(&mine), maker);
    for other in [r#"{"namedBy":null}"#, r#"{"namedBy":{"user":"root"}}"#, r#"{"namedBy":{"user":"editor"}}"#] {
        let refused = patch("editor", &format!(r#"{{"spec":{{"toolBrokerRef":{other}}}}}"#)).unwrap_err().to_string();
        assert!(refused.contains("you may not use the ToolBroker mine"), "{refused}");
    }
    // Who may takes it over.
    patch("heir", r#"{"spec":{"toolBrokerRef":{"namedBy":null}}}"#).unwrap();
    assert_eq!(named_by(&mine), maker.replace("maker", "heir"));
    // The gateway writes down its callers.
    write("system:serviceaccount:dormouse-system:dormouse-gateway", "called", "{name: mine, namedBy: {user: ann, groups: [a, b]}}")
        .unwrap();
    assert_eq!(named_by("called"), r#"{"groups":["a","b"],"user":"ann"}"#);
    // Where nothing writes it down, nobody writes another than themselves, and it may be left out.
    server.kubectl(&["delete", "mutatingadmissionpolicybinding", "dormouse-toolbroker-named-by"]).unwrap();
    let unknown = written_until("it is not written down", "").await;
    let refused = write("maker", &unknown, "{name: mine, namedBy: {user: root}}").unwrap_err().to_string();
    assert!(refused.contains("spec.toolBrokerRef.namedBy is somebody else: leave it out"), "{refused}");
    write("maker", &unknown, "{name: mine, namedBy: {user: maker, groups: ['system:authenticated']}}").unwrap();
    assert_eq!(named_by(&unknown), maker);
}

/// By the chart's policy, which was applied with those for ToolBrokers.
async fn fields_are_listed_of_sessions_that_somebody_applies(server: &ApiServer, directory: &KubernetesDirectory) {
    let managers = |name: &str| {
        let path = "jsonpath={.metadata.managedFields[*].manager}";
        server.kubectl(&["get", "kernelsession", name, "-n", "team", "--show-managed-fields", "-o", path]).unwrap()
    };
    let write = |name: &str, how: &[&str]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let session = "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nspec: {idleSeconds: 9}\nmetadata: {namespace: team, name: ";
        std::fs::write(file.path(), format!("{session}{name}}}\n")).unwrap();
        server.kubectl(&[how, &["-f", file.path().to_str().unwrap()]].concat()).unwrap();
    };
    let mut tries = 0;
    eventually("what the gateway makes has none", async || {
        tries += 1;
        let made = directory.create(new(&Key::new("team", format!("fields-{tries}")))).await.unwrap();
        directory.assign(&made, placement("p", 1)).await.unwrap();
        managers(&made.key.name).is_empty()
    })
    .await;
    write("created", &["create"]);
    write("client-side", &["apply"]);
    assert_eq!((managers("created"), managers("client-side")), (String::new(), String::new()));
    write("applied", &["apply", "--server-side"]);
    let applied = directory.read(&Key::new("team", "applied")).await.unwrap();
    directory.assign(&applied, placement("p", 1)).await.unwrap();
    assert_eq!(managers("applied"), "kubectl dormouse-gateway");
    // Who takes one over has a list from then on.
    for name in [&format!("fields-{tries}"), "client-side"] {
        write(name, &["apply", "--server-side", "--force-conflicts"]);
        assert!(managers(name).contains("kubectl"), "{}", managers(name));
    }
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

/// A session with calls that wait, and what was decided about them.
#[derive(Default)]
struct Waiting {
    calls: Mutex<Vec<Approval>>,
    decided: Mutex<Vec<(String, Verdict, String)>>,
    /// What was made of the arguments.
    changed: Mutex<Vec<(String, serde_json::Value)>>,
}

#[async_trait::async_trait]
impl Approvals for Waiting {
    async fn waiting(&self, _: &Key) -> Result<ApprovalList, ApiError> {
        Ok(ApprovalList { items: self.calls.lock().unwrap().clone(), truncated: false })
    }

    async fn decide(&self, _: &Key, id: &str, body: Decide, _: &str, decision: String) -> Result<Decided, ApiError> {
        assert_eq!(body.epoch, Some(3), "the object's");
        let mut decided = self.decided.lock().unwrap();
        if !decided.iter().any(|(_, _, known)| *known == decision) {
            decided.push((id.to_owned(), body.decision, decision));
            self.changed.lock().unwrap().extend(body.arguments.map(|arguments| (id.to_owned(), arguments)));
        }
        match id {
            "a_8" => Err(ApiError::new(ErrorCode::ApprovalUsed, "somebody was first")),
            _ => Ok(Decided { id: id.to_owned(), decision: body.decision, told: true }),
        }
    }
}

fn approval(call: u64) -> Approval {
    Approval {
        id: format!("a_{call}"),
        session: "asks".into(),
        tool_name: "pay".into(),
        args: serde_json::json!({ "to": "a", "amount": [1, { "of": 2 }] }),
        call_id: call.to_string(),
        epoch: 3,
        created_at: "2030-01-01T00:00:00Z".into(),
        expires_at: "2030-01-08T00:00:00Z".into(),
        editable: false,
        state: Default::default(),
    }
}

async fn kubectl_lists_and_decides_calls_that_wait(server: &ApiServer, client: kube::Client, directory: &Arc<KubernetesDirectory>) {
    let (key, waiting) = (Key::new("team", "asks"), Arc::new(Waiting::default()));
    directory.create(new(&key)).await.unwrap();
    let say = |pending: u32, sequence: u32| {
        let snapshot = format!(r#"{{"epoch":1,"sequence":{sequence},"bytes":1,"engineDigest":"d","time":"2030-01-01T00:00:00Z"}}"#);
        let status = format!(r#"{{"status":{{"pendingApprovals":{pending},"snapshot":{snapshot}}}}}"#);
        server.kubectl(&["patch", "kernelsession", "-n", "team", "asks", "--subresource=status", "--type=merge", "-p", &status]).unwrap();
    };
    let objects = || {
        ApprovalObjects::new(
            client.clone(),
            WatchScope::default(),
            Arc::clone(directory) as Arc<dyn Directory>,
            Arc::clone(&waiting) as Arc<dyn Approvals>,
        )
    };
    // Two gateways.
    let running = [tokio::spawn(objects().run()), tokio::spawn(objects().run())];
    *waiting.calls.lock().unwrap() = vec![approval(7), approval(8), Approval { editable: true, ..approval(9) }];
    say(3, 1);
    let shown = || server.kubectl(&["get", "ta", "-n", "team", "--no-headers"]).unwrap_or_default();
    eventually("the calls are shown", async || shown().lines().filter(|line| line.contains("asks") && line.contains("pay")).count() == 3)
        .await;
    let args = server.kubectl(&["get", "ta", "-n", "team", "asks.a-7", "-o", "jsonpath={.spec.args.amount[1].of}"]).unwrap();
    assert_eq!(args, "2", "as the call has them");
    let epoch = server.kubectl(&["get", "ta", "-n", "team", "asks.a-7", "-o", "jsonpath={.spec.epoch}"]).unwrap();
    assert_eq!(epoch, "3", "the one in which it was made");

    let patch = |name: &str, spec: &str| {
        server.kubectl(&["patch", "ta", "-n", "team", name, "--type=merge", "-p", &format!(r#"{{"spec":{spec}}}"#)])
    };
    for wrong in [r#"{"toolName":"other"}"#, r#"{"epoch":4}"#, r#"{"arguments":{"to":"b"}}"#, r#"{"decision":"perhaps"}"#] {
        assert!(patch("asks.a-7", wrong).is_err(), "{wrong}");
    }
    patch("asks.a-7", r#"{"decision":"approve"}"#).unwrap();
    patch("asks.a-8", r#"{"decision":"deny","reason":"no"}"#).unwrap();
    let edited = r#"{"decision":"approve","arguments":{"to":"b","amount":[2]}}"#;
    patch("asks.a-9", edited).unwrap();
    let state = |name: &str| {
        server.kubectl(&["get", "ta", "-n", "team", name, "-o", "jsonpath={.status.state} {.status.message}"]).unwrap_or_default()
    };
    let told =
        async || ["asks.a-7", "asks.a-9"].iter().all(|it| state(it).starts_with("Decided")) && state("asks.a-8").starts_with("Refused");
    eventually("what came of it is told", told).await;
    assert!(state("asks.a-8").contains("somebody was first"));
    let mut decided: Vec<(String, Verdict)> =
        waiting.decided.lock().unwrap().iter().map(|(id, verdict, _)| (id.clone(), *verdict)).collect();
    decided.sort_by(|one, other| one.0.cmp(&other.0));
    let each = [("a_7", Verdict::Approve), ("a_8", Verdict::Deny), ("a_9", Verdict::Approve)].map(|(id, verdict)| (id.to_owned(), verdict));
    assert_eq!(decided, each, "each once, by whichever gateway");
    assert_eq!(*waiting.changed.lock().unwrap(), [("a_9".to_owned(), serde_json::json!({ "to": "b", "amount": [2] }))]);
    assert!(patch("asks.a-7", r#"{"decision":"deny"}"#).is_err(), "the first decision stands");

    waiting.calls.lock().unwrap().clear();
    say(0, 2);
    eventually("what does not wait is not shown", async || !shown().contains("asks")).await;
    running.iter().for_each(tokio::task::JoinHandle::abort);
}
