//! Packages from a registry on loopback: which versions, verified how, and within which limits.
use std::collections::BTreeMap;

use dormouse_broker::{Broker, Secrets};
use dormouse_crds::broker::ToolBrokerSpec;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{ModulesAnswer, ModulesCall, Package},
};
use dormouse_testkit::registry::{Registry, TOKEN};
use serde_json::{Value, json};

fn spec(modules: &Value) -> ToolBrokerSpec {
    serde_json::from_value(json!({ "modules": modules })).unwrap()
}

async fn world() -> (Registry, Broker) {
    let registry = Registry::start().await.unwrap();
    let broker = Broker::new(spec(&json!({"registry": registry.url()})), Secrets::memory(BTreeMap::new())).unwrap();
    (registry, broker)
}

async fn load(broker: &Broker, specifier: &str, pinned: &[&str]) -> Result<ModulesAnswer, ApiError> {
    let pinned = pinned.iter().map(|id| (*id).to_owned()).collect();
    let specifier = specifier.to_owned();
    broker.modules(ModulesCall { namespace: "team-a".into(), session: "s".into(), session_uid: "u".into(), specifier, pinned }).await
}

async fn code(broker: &Broker, specifier: &str) -> ErrorCode {
    load(broker, specifier, &[]).await.unwrap_err().code
}

fn ids(answer: &ModulesAnswer) -> Vec<&str> {
    answer.packages.iter().map(|package| package.id.as_str()).collect()
}

fn needs(names: &Value) -> Value {
    json!({ "dependencies": names })
}

#[tokio::test]
async fn a_package_comes_with_all_that_it_needs_each_of_one_version() {
    let (registry, broker) = world().await;
    for version in ["1.0.0", "1.2.0", "2.0.0"] {
        registry.publish("leaf", version, &json!({}), &[("index.js", "0")]);
    }
    registry.publish("@scope/branch", "1.0.0", &needs(&json!({"leaf": "^1.1.0", "tree": "*"})), &[]);
    registry.publish("other", "3.0.0", &needs(&json!({"leaf": ">=1", "alias": "npm:leaf@^2"})), &[]);
    let manifest = json!({"main": "lib/x.js", "dependencies": {"@scope/branch": "1.x", "other": "^3"}, "peerDependencies": {"leaf": "1"}});
    registry.publish("tree", "1.0.0", &manifest, &[("lib/x.js", "exports.x = 1"), ("README.md", "no")]);
    let answer = load(&broker, "npm:tree@1", &[]).await.unwrap();
    assert_eq!(
        (answer.root.as_str(), ids(&answer)),
        ("tree@1.0.0", vec!["tree@1.0.0", "@scope/branch@1.0.0", "leaf@1.2.0", "other@3.0.0", "leaf@2.0.0"])
    );
    let by_id: BTreeMap<&str, &Package> = answer.packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let meant = |id: &str| json!(by_id[id].dependencies);
    assert_eq!(meant("tree@1.0.0"), json!({"@scope/branch": "@scope/branch@1.0.0", "leaf": "leaf@1.2.0", "other": "other@3.0.0"}));
    assert_eq!(
        meant("@scope/branch@1.0.0"),
        json!({"leaf": "leaf@1.2.0", "tree": "tree@1.0.0"}),
        "a cycle ends, and what is there is used"
    );
    assert_eq!(meant("other@3.0.0"), json!({"alias": "leaf@2.0.0", "leaf": "leaf@2.0.0"}), "the highest that is there");
    let tree = by_id["tree@1.0.0"];
    assert_eq!(tree.files.keys().collect::<Vec<_>>(), ["lib/x.js", "package.json"]);
    assert_eq!(tree.manifest, json!({"name": "tree", "version": "1.0.0", "main": "lib/x.js"}));
    assert!(tree.integrity.starts_with("sha512-"));
}

#[tokio::test]
async fn what_a_session_has_is_used_and_not_sent_again() {
    let (registry, broker) = world().await;
    registry.publish("leaf", "1.0.0", &json!({}), &[]);
    registry.publish("leaf", "1.5.0", &json!({}), &[]);
    registry.publish("tree", "1.0.0", &needs(&json!({"leaf": "^1"})), &[]);
    let answer = load(&broker, "tree", &["leaf@1.0.0", "leaf@0.9.0"]).await.unwrap();
    assert_eq!(ids(&answer), ["tree@1.0.0"]);
    assert_eq!(json!(answer.packages[0].dependencies), json!({"leaf": "leaf@1.0.0"}));
    assert!(!registry.seen().iter().any(|path| path.contains("leaf")), "{:?}", registry.seen());
    let answer = load(&broker, "npm:leaf@^1", &["leaf@1.0.0"]).await.unwrap();
    assert_eq!((answer.root.as_str(), answer.packages.len()), ("leaf@1.0.0", 0));
}

#[tokio::test]
async fn a_version_is_asked_for_anew_and_its_tarball_is_not() {
    let (registry, broker) = world().await;
    registry.publish("leaf", "1.0.0", &json!({}), &[]);
    for _ in 0..2 {
        assert_eq!(load(&broker, "leaf", &[]).await.unwrap().root, "leaf@1.0.0");
    }
    assert_eq!(registry.seen(), ["/npm/leaf", "/npm/leaf/-/leaf-1.0.0.tgz", "/npm/leaf"]);
    registry.publish("leaf", "1.1.0", &json!({}), &[]);
    assert_eq!(load(&broker, "leaf", &[]).await.unwrap().root, "leaf@1.1.0");
}

#[tokio::test]
async fn what_does_not_verify_is_refused() {
    let (registry, broker) = world().await;
    registry.publish("leaf", "1.0.0", &json!({}), &[]);
    registry.publish("tree", "1.0.0", &needs(&json!({"leaf": "1"})), &[]);
    registry.edit("leaf", "1.0.0", |version| version["dist"]["integrity"] = json!(format!("sha512-{}", "A".repeat(86))));
    assert_eq!(code(&broker, "tree").await, ErrorCode::ModuleUnavailable);
    for weak in [json!("sha1-abc"), json!(""), Value::Null] {
        registry.edit("leaf", "1.0.0", |version| version["dist"]["integrity"] = weak);
        let error = load(&broker, "leaf", &[]).await.unwrap_err();
        assert!(error.code == ErrorCode::ModuleUnavailable && error.message.contains("sha512"), "{error}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_told_apart_from_what_cannot_be_reached() {
    let (registry, broker) = world().await;
    registry.publish("leaf", "1.0.0", &json!({}), &[]);
    registry.publish("tree", "1.0.0", &needs(&json!({"leaf": "^2"})), &[]);
    registry.publish("odd", "1.0.0", &needs(&json!({"leaf": "git+https://example.com/leaf"})), &[]);
    let error = load(&broker, "tree", &[]).await.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (ErrorCode::ModuleNotFound, "the registry has no version of leaf that is ^2, which tree@1.0.0 needs")
    );
    assert_eq!(code(&broker, "nothing").await, ErrorCode::ModuleNotFound);
    assert_eq!(code(&broker, "npm:leaf@9").await, ErrorCode::ModuleNotFound);
    assert_eq!(code(&broker, "odd").await, ErrorCode::ModuleUnavailable);
    assert_eq!(code(&broker, "../x").await, ErrorCode::InvalidRequest);
    registry.set_down(true);
    assert_eq!(code(&broker, "leaf").await, ErrorCode::ModuleUnavailable);
    let without =
        Broker::new(ToolBrokerSpec { modules: None, ..spec(&json!({"registry": "http://x"})) }, Secrets::memory(BTreeMap::new())).unwrap();
    assert_eq!(code(&without, "leaf").await, ErrorCode::EgressDenied);
}

#[tokio::test]
async fn a_credential_goes_to_the_registry_and_a_tarball_elsewhere_must_be_public() {
    let (registry, other) = (Registry::start().await.unwrap(), Registry::start().await.unwrap());
    registry.demand_token();
    registry.publish("leaf", "1.0.0", &json!({}), &[]);
    let open = Broker::new(spec(&json!({"registry": registry.url()})), Secrets::memory(BTreeMap::new())).unwrap();
    assert_eq!(code(&open, "leaf").await, ErrorCode::ModuleUnavailable);
    let token = TOKEN.trim_start_matches("Bearer ").as_bytes().to_vec();
    let secrets = Secrets::memory([("npm".to_owned(), [("token".to_owned(), token)].into())].into());
    let auth = json!({"type": "bearer", "secretRef": {"name": "npm", "key": "token"}});
    let broker = Broker::new(spec(&json!({"registry": registry.url(), "auth": auth})), secrets).unwrap();
    assert!(load(&broker, "leaf", &[]).await.is_ok());
    other.publish("leaf", "1.0.1", &json!({}), &[]);
    registry.publish("leaf", "1.0.1", &json!({}), &[]);
    let elsewhere = format!("{}leaf/-/leaf-1.0.1.tgz", other.url());
    registry.edit("leaf", "1.0.1", |version| version["dist"]["tarball"] = json!(elsewhere));
    assert_eq!(code(&broker, "leaf").await, ErrorCode::ModuleUnavailable);
    assert_eq!(other.seen(), Vec::<String>::new());
}

#[tokio::test]
async fn a_load_brings_so_many_packages_and_no_more() {
    let (registry, broker) = world().await;
    let names: Vec<String> = (0..200).map(|at| format!("p{at}")).collect();
    for name in &names {
        registry.publish(name, "1.0.0", &json!({}), &[]);
    }
    let of = |count: usize| needs(&json!(names[..count].iter().map(|name| (name.clone(), "*")).collect::<BTreeMap<_, _>>()));
    registry.publish("fits", "1.0.0", &of(199), &[]);
    registry.publish("does-not", "1.0.0", &of(200), &[]);
    assert_eq!(load(&broker, "fits", &[]).await.unwrap().packages.len(), 200);
    assert_eq!(code(&broker, "does-not").await, ErrorCode::SizeAdmissionError);
}

#[tokio::test]
async fn a_session_may_have_had_so_many_before() {
    let (registry, broker) = world().await;
    registry.publish("leaf", "1.0.0", &json!({}), &[]);
    let pinned = vec!["other@1.0.0"; 2_001];
    assert!(load(&broker, "leaf", &pinned[1..]).await.is_ok());
    assert_eq!(load(&broker, "leaf", &pinned).await.unwrap_err().code, ErrorCode::QuotaExceeded);
}

#[test]
fn a_registry_that_is_no_url_is_refused() {
    for bad in ["npm", "ftp://registry", "http://user:pass@registry", "http://registry?x"] {
        let error = Broker::new(spec(&json!({"registry": bad})), Secrets::memory(BTreeMap::new())).unwrap_err();
        assert!(error.to_string().contains("spec.modules.registry"), "{error}");
    }
}
