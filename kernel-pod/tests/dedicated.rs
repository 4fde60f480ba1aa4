//! A pod of the isolation class `dedicated`: one session in its life, and nothing that is kept of it. `processes::dedicated` has the process.

use crate::common::{World, assign, eval, metric, try_eval, value};
use dormouse_protocol::{ErrorCode, eval::Woke};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_dedicated_pod_takes_one_session_and_refuses_every_other() {
    let world = World::default();
    let pod = world.dedicated_pod("a");
    assert_eq!((pod.info().slots, pod.info().used, pod.info().idle), (1, 0, 0), "whatever it is told of slots");
    let session = assign(&pod, "u1", 1);
    assert_eq!(value(&pod, &session, "let n = 1; n").await, json!(1));
    assert_eq!((pod.info().used, pod.info().idle), (1, 0), "nobody else is to be sent here");
    let other = assign(&pod, "u2", 1);
    let refused = try_eval(&pod, &other, "1").await.unwrap_err();
    assert_eq!((refused.code, refused.retryable), (ErrorCode::CapacityExhausted, true));
    assert_eq!(pod.wake(other.clone()).await.unwrap_err().code, ErrorCode::CapacityExhausted);
    assert_eq!(value(&pod, &session, "++n").await, json!(2), "its own goes on");

    pod.hibernate(session).await.unwrap();
    pod.spent().await;
    assert_eq!(pod.info().used, 1, "it is used up, also without the session");
    assert_eq!(try_eval(&pod, &other, "1").await.unwrap_err().code, ErrorCode::CapacityExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dedicated_pod_keeps_no_copy_of_a_session_that_sleeps() {
    let world = World::default();
    let (shared, dedicated) = (world.pod("a"), world.dedicated_pod("b"));
    for (pod, uid, woke) in [(&shared, "u1", Woke::Cache), (&dedicated, "u2", Woke::Storage)] {
        let session = assign(pod, uid, 1);
        value(pod, &session, "let n = 1; n").await;
        pod.hibernate(session.clone()).await.unwrap();
        assert_eq!(metric(pod, "kernel_copies_bytes") > 0, woke == Woke::Cache, "{uid}");
        assert_eq!(eval(pod, &session, "n").await.stats.woke, woke, "{uid}");
    }
}
