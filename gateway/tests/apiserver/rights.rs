//! Who may do what, by the cluster's roles, its policies and keys.

use std::{path::Path, sync::Arc};

use dormouse_gateway::{
    Directory,
    auth::{
        Access, AuthError, Authenticator as _, Caller, Part, Verb,
        keys::{self, KeyStore, Keys, REVOKED_WITHIN, objects::KeyObjects},
        kubernetes::KubernetesAuthenticator,
        loopback::Loopback,
    },
    directory::{Key, kubernetes::KubernetesDirectory},
};
use dormouse_protocol::{ErrorCode, key::CreateKey};
use dormouse_service::Clock;
use dormouse_testkit::{apiserver::ApiServer, tools, wait::eventually};

use super::{apply, new, placement};

pub(super) async fn a_key_of_one_gateway_is_the_others_and_its_end_too(
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

pub(super) async fn rights_are_the_clusters(server: &ApiServer, authenticator: &KubernetesAuthenticator) {
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
pub(super) async fn which_broker_a_session_names_is_a_right(server: &ApiServer, authenticator: &KubernetesAuthenticator) {
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
pub(super) async fn fields_are_listed_of_sessions_that_somebody_applies(server: &ApiServer, directory: &KubernetesDirectory) {
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
