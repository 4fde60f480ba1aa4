//! What was loaded is the session's, whatever becomes of registry, spec, pod and engine.

use dormouse_protocol::kernel::Assignment;
use serde_json::json;

use super::place::{Place, assign, failure};
use crate::common::value;

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_resolved_once_whatever_comes_after() {
    let place = Place::new().await;
    place.registry.publish("counter", "1.0.0", &json!({}), &[("index.js", "exports.version = '1.0.0'; exports.n = 0;")]);
    let (a, b) = (place.pod("a"), place.pod("b"));
    let on_a = assign(&a, "u1", 1, &["npm:counter@^1"]);
    assert_eq!(value(&a, &on_a, "import counter from 'counter'; counter.n += 1; counter.version").await, json!("1.0.0"));
    place.registry.publish("counter", "1.1.0", &json!({}), &[("index.js", "exports.version = '1.1.0'")]);
    let asked = place.registry.seen().len();
    place.registry.set_down(true);
    let same = "const again = require('counter'); [again === counter, again.n, (await import('npm:counter@^1')).version]";
    assert_eq!(value(&a, &on_a, same).await, json!([true, 1, "1.0.0"]), "in the heap");
    a.hibernate(on_a.clone()).await.unwrap();
    assert_eq!(value(&a, &on_a, same).await, json!([true, 1, "1.0.0"]), "asleep and awake");
    a.forget(on_a).await.unwrap();
    let on_b = assign(&b, "u1", 2, &["npm:counter@^1"]);
    assert_eq!(value(&b, &on_b, same).await, json!([true, 1, "1.0.0"]), "on another pod");
    assert_eq!(place.registry.seen().len(), asked);
    place.registry.set_down(false);
    let other = assign(&b, "u2", 1, &["npm:counter@^1"]);
    assert_eq!(value(&b, &other, "require('counter').version").await, json!("1.1.0"), "another session resolves for itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_loaded_and_not_evaluated_needs_no_registry_either() {
    let place = Place::new().await;
    let files = [("index.js", "exports.late = () => require('./late.js')"), ("late.js", "module.exports = 'late'")];
    place.registry.publish("lazy", "1.0.0", &json!({}), &files);
    let (a, b) = (place.pod("a"), place.pod("b"));
    let on_a = assign(&a, "u1", 1, &["lazy"]);
    value(&a, &on_a, "const lazy = require('lazy'); 0").await;
    a.forget(on_a).await.unwrap();
    place.registry.set_down(true);
    let on_b = assign(&b, "u1", 2, &["lazy"]);
    assert_eq!(value(&b, &on_b, "[lazy.late(), require('lazy/late')]").await, json!(["late", "late"]));
    let mut fork = assign(&b, "u2", 1, &["lazy"]);
    (fork.spec.source, fork.source_uid) = (Some(serde_json::from_value(json!({"session": "session-u1"})).unwrap()), Some("u1".to_owned()));
    assert_eq!(value(&b, &fork, "[lazy.late(), require('lazy/late')]").await, json!(["late", "late"]), "nor does a fork");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_spec_allows_more_and_takes_nothing_away() {
    let place = Place::new().await;
    place.registry.publish("one", "1.0.0", &json!({}), &[("index.js", "module.exports = 1")]);
    place.registry.publish("two", "2.0.0", &json!({}), &[("index.js", "module.exports = 2")]);
    let a = place.pod("a");
    let mut session = assign(&a, "u1", 1, &["one"]);
    assert_eq!(value(&a, &session, "require('one')").await, json!(1));
    session = Assignment { generation: 2, ..assign(&a, "u1", 1, &["two"]) };
    assert_eq!(value(&a, &session, "[require('one'), require('two')]").await, json!([1, 2]));
    let (name, message) = failure(&a, &session, "require('npm:two@^9')").await;
    assert!(name == "Conflict" && message.contains("two@2.0.0"), "{name} {message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_have_the_packages_of_their_time() {
    let place = Place::new().await;
    place.registry.publish("tool", "1.0.0", &json!({}), &[("index.js", "module.exports = 1")]);
    let a = place.pod("a");
    let session = assign(&a, "u1", 1, &["tool"]);
    value(&a, &session, "0").await;
    a.checkpoint(session.clone(), "before".to_owned()).await.unwrap();
    assert_eq!(value(&a, &session, "require('tool')").await, json!(1));
    place.registry.publish("tool", "2.0.0", &json!({}), &[("index.js", "module.exports = 2")]);
    assert_eq!(value(&a, &session, "require('tool')").await, json!(1));
    a.restore(session.clone(), "before".to_owned()).await.unwrap();
    assert_eq!(value(&a, &session, "require('tool')").await, json!(2), "before it was resolved it was not resolved");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_cells_make_the_same_memory() {
    let place = Place::new().await;
    place.registry.publish(
        "dice",
        "1.0.0",
        &json!({"type": "module"}),
        &[("index.js", "export const roll = () => Math.floor(Math.random() * 1e9);")],
    );
    let (a, b) = (place.pod("a"), place.pod("b"));
    let mut rolls = Vec::new();
    for (pod, uid) in [(&a, "u1"), (&b, "u2")] {
        let mut session = assign(pod, uid, 1, &["dice"]);
        session.spec.determinism = Some(serde_json::from_value(json!({"seed": 7})).unwrap());
        rolls.push(value(pod, &session, "import { roll } from 'dice'; [roll(), roll(), Date.now()]").await);
    }
    assert_eq!(rolls[0], rolls[1]);
}
