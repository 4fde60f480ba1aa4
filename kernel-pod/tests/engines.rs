//! Sessions of earlier engines, and cells that end inside a builtin.

use crate::common::{World, assign, assign_spec, earlier, eval, spec, try_eval, upgraded, value};
use dormouse_crds::session::KernelSessionSpec;
use dormouse_lifecycle::Head;
use dormouse_protocol::ErrorCode;
use dormouse_store::{Condition, SnapshotStore as _};
use serde_json::json;

const HEAD: &str = "p/t/team/s/default/u1/head";

const COUNTER: &str = "let n = 40; const next = () => ++n; next()";

async fn stored(world: &World) -> Head {
    Head::decode(&world.store.get(HEAD).await.unwrap().expect("the head is stored").bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_upgrade_a_session_keeps_its_engine_and_new_ones_get_the_new() {
    let world = World::default();
    let earlier = earlier();
    let old = world.pod_of("old", 10, earlier.clone());
    value(&old, &assign(&old, "u1", 1), COUNTER).await;
    old.drain().await;

    let new = world.pod_of("new", 10, upgraded());
    let session = assign(&new, "u1", 2);
    assert_eq!(value(&new, &session, "next()").await, json!(42));
    assert_eq!(stored(&world).await.engine_digest, earlier.digest().as_str());
    new.hibernate(session.clone()).await.unwrap();
    assert_eq!(value(&new, &session, "next()").await, json!(43));

    eval(&new, &assign(&new, "u2", 1), "1").await;
    let head = world.store.get("p/t/team/s/default/u2/head").await.unwrap().unwrap();
    assert_eq!(Head::decode(&head.bytes).unwrap().engine_digest, new.info().engine_digest);
    assert_ne!(new.info().engine_digest, earlier.digest().as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_an_engine_that_is_not_here_is_a_typed_error() {
    let world = World::default();
    let pod = world.pod("a");
    eval(&pod, &assign(&pod, "u1", 1), COUNTER).await;
    pod.drain().await;
    let head = Head { engine_digest: "0".repeat(64), ..stored(&world).await };
    world.store.put(HEAD, head.encode().unwrap(), Condition::None).await.unwrap();
    let pod = world.pod("b");
    let refused = try_eval(&pod, &assign(&pod, "u1", 2), "1").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::EngineMismatch);
    assert!(refused.message.contains(&"0".repeat(64)), "{}", refused.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_builtin_ends_with_a_timeout_and_the_last_commit_is_there() {
    let pod = World::default().pod("a");
    let mut limited = KernelSessionSpec { idle_seconds: 3600, ..spec() };
    limited.limits.eval_timeout_ms = 600;
    let session = assign_spec(&pod, "u1", 1, limited);
    value(&pod, &session, COUNTER).await;
    let stopped = eval(&pod, &session, "n = 1000; new Array(4e9).join('')").await;
    assert_eq!(stopped.error.as_ref().map(|error| error.code), Some(ErrorCode::TimeoutError), "{stopped:?}");
    assert_eq!(value(&pod, &session, "next()").await, json!(42));
    // Its jobs are of a cell that has ended, so they would go on behind the one that is stopped.
    value(
        &pod,
        &session,
        "let go; new Promise((resolve) => { go = resolve }).then(function f() { queueMicrotask(f); queueMicrotask(f) }); 0",
    )
    .await;
    let stopped = eval(&pod, &session, "n = 1000; go()").await;
    assert_eq!(stopped.error.as_ref().map(|error| error.code), Some(ErrorCode::TimeoutError), "{stopped:?}");
    assert_eq!(value(&pod, &session, "next()").await, json!(43));
}
