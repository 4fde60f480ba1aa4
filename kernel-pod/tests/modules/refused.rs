//! What a session does not get, and what it is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use dormouse_crds::session::KernelSessionSpec;
use dormouse_kernel::Tools;
use dormouse_protocol::broker::{ModulesAnswer, ModulesCall, Package, ToolAnswer, ToolCall};
use dormouse_protocol::kernel::Assignment;
use dormouse_protocol::{ApiError, ErrorCode};
use serde_json::json;

use super::place::{ENGINE, Place, assign, failure, pod};
use crate::common::{World, try_eval, value};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_allowed_is_not_there() {
    let place = Place::new().await;
    place.registry.publish("secret", "1.0.0", &json!({}), &[("index.js", "")]);
    let a = place.pod("a");
    let on_a = assign(&a, "u1", 1, &["other"]);
    for code in ["import 'secret'", "require('secret')", "await import('npm:secret@1')"] {
        let (name, message) = failure(&a, &on_a, code).await;
        assert!(name == "Error" && message.contains("Cannot find module") && message.contains("spec.modules.allow"), "{name} {message}");
    }
    assert_eq!(place.registry.seen(), Vec::<String>::new());
    let (name, message) = failure(&a, &on_a, "require('other')").await;
    assert_eq!((name.as_str(), message.as_str()), ("ModuleNotFound", "the registry has no package other"));
    let without = Assignment { spec: KernelSessionSpec { tool_broker_ref: None, ..on_a.spec.clone() }, ..assign(&a, "u2", 1, &[]) };
    let (name, message) = failure(&a, &without, "require('other')").await;
    assert!(name == "EgressDenied" && message.contains("spec.toolBrokerRef"), "{name} {message}");
    let code = "try { require('other') } catch (error) { [error.code, error instanceof Error] }";
    assert_eq!(value(&a, &on_a, code).await, json!(["ModuleNotFound", true]), "a cell can tell");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_is_lost_leaves_nothing_and_a_package_that_fails_is_told() {
    let place = Place::new().await;
    let broken = [
        ("index.js", "exports.x = 1; throw new Error('not today')"),
        ("bad.js", "let let = 1"),
        ("lost.mjs", "import { a } from './none.mjs'; import 'no-such';"),
    ];
    place.registry.publish("broken", "1.0.0", &json!({}), &broken);
    let a = place.pod("a");
    let session = assign(&a, "u1", 1, &["broken"]);
    assert_eq!(failure(&a, &session, "require('broken')").await, ("Error".to_owned(), "not today".to_owned()));
    assert_eq!(failure(&a, &session, "await import('broken')").await, ("Error".to_owned(), "not today".to_owned()));
    assert_eq!(failure(&a, &session, "require('broken/bad')").await.0, "SyntaxError");
    let (_, message) = failure(&a, &session, "await import('broken/lost.mjs')").await;
    assert!(message.contains("Cannot find module './none.mjs'"), "{message}");
    let (_, message) = failure(&a, &session, "require('broken/nowhere')").await;
    assert!(message.contains("Cannot find module 'broken@1.0.0/nowhere'"), "{message}");
    assert_eq!(value(&a, &session, "1 + 1").await, json!(2));
}

/// Answers each name with as many packages as it says, the first of which is an empty module.
struct Many;

#[async_trait]
impl Tools for Many {
    async fn call(&self, _: &str, _: ToolCall) -> Result<ToolAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::ToolNotFound, "there are no tools"))
    }

    async fn modules(&self, _: &str, call: ModulesCall) -> Result<ModulesAnswer, ApiError> {
        let count: usize = call.specifier.trim_start_matches('n').parse().unwrap();
        let packages = (0..count).map(|at| Package {
            id: format!("{}-{at}@1.0.0", call.specifier),
            integrity: "sha512-".to_owned(),
            manifest: json!({}),
            dependencies: BTreeMap::new(),
            files: [("index.js".to_owned(), String::new())].into(),
        });
        Ok(ModulesAnswer { root: format!("{}-0@1.0.0", call.specifier), packages: packages.collect() })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_have_so_many_packages_and_no_more() {
    let a = pod("a", ENGINE.clone(), &World::default(), Arc::new(Many));
    let session = assign(&a, "u1", 1, &["n999", "n2", "n1"]);
    value(&a, &session, "require('n999'); 0").await;
    assert_eq!(failure(&a, &session, "require('n2')").await.0, "QuotaExceeded");
    assert_eq!(value(&a, &session, "typeof require('n1')").await, json!("object"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_an_api_server_would_refuse_is_refused() {
    let place = Place::new().await;
    let a = place.pod("a");
    let names: Vec<String> = (0..65).map(|at| format!("p{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(try_eval(&a, &assign(&a, "u1", 1, &names[..64]), "0").await.is_ok());
    for (uid, allow) in [("u2", &names[..]), ("u3", &["fine", "../not"])] {
        let error = try_eval(&a, &assign(&a, uid, 1, allow), "0").await.unwrap_err();
        assert!(error.code == ErrorCode::InvalidRequest && error.message.contains("spec.modules.allow"), "{error}");
    }
}
