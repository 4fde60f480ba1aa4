//! One key, one run, one effect, one answer.

use http::Method;

use super::{Stage, scenario, seconds, stage};
use crate::{
    chaos::Fate,
    client::{BUDGET, SPINS},
    world::spec,
};

/// Pays, counts, and then never ends: what stops it takes its instance with it.
const PAYS_AND_OVERRUNS: &str = "globalThis.runs = (globalThis.runs ?? 0) + 1; await callTool('charge', {id: 'paid'}); spin()";

/// A spec under which an endless cell ends soon.
fn short() -> dormouse_crds::session::KernelSessionSpec {
    let mut spec = spec();
    spec.limits.eval_ticks = 12;
    spec
}

#[test]
fn a_cell_is_answered_and_has_one_effect() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        let code = "globalThis.n = 41; (await callTool('charge', {id: 'a'})).times + n";
        assert_eq!(client.value(&gateway, "s", "k1", code).await, 42);
        assert_eq!(client.value(&gateway, "s", "k1", code).await, 42);
        assert_eq!(world.service.times("a"), 1);
    });
}

#[test]
fn a_cell_that_overruns_after_a_call_is_not_begun_again() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &short()).await;
        client.value(&gateway, "s", "k0", SPINS).await;
        let first = client.eval(&gateway, "s", "k1", PAYS_AND_OVERRUNS).await;
        for _ in 0..3 {
            let again = client.eval(&gateway, "s", "k1", PAYS_AND_OVERRUNS).await;
            assert_eq!(world.service.times("paid"), 1, "one key, one effect");
            assert_eq!((again.status, again.code()), (first.status, first.code()), "one key, one answer");
        }
        let alive = client.value(&gateway, "s", "k2", "1 + 1").await;
        assert_eq!(alive, 2);
    });
}

/// It pays every second, until somebody stops it: from then on it does not, whoever has the session.
#[test]
fn an_interrupted_cell_does_not_go_on() {
    scenario(|world| async move {
        let Stage { world, client, gateway, pod } = stage(world, &spec()).await;
        let (other, at) = (client.clone(), gateway.clone());
        let code = "for (;;) { await callTool('charge', {id: 'again'}); await sleep(1000) }";
        let cell = tokio::spawn(async move { other.try_eval(&at, "s", "k1", code).await });
        seconds(10).await;
        assert!(client.order(&gateway, "s", "interrupt").await.is_ok());
        assert_eq!(cell.await.unwrap().json["error"]["code"], "Interrupted");
        let paid = world.service.times("again");
        assert!(paid > 1, "it was at work: {paid}");
        seconds(60).await;
        world.kill(&pod);
        world.pod("p2").await;
        assert_eq!(client.value(&gateway, "s", "k2", "1").await, 1);
        seconds(60).await;
        assert_eq!(world.service.times("again"), paid, "a cell that has its end has no effect any more");
        let session = client.send(&gateway, Method::GET, "/s", None, BUDGET).await.json;
        assert_eq!(session["nextWakeTime"], serde_json::Value::Null, "nothing is left to wake for: {session}");
    });
}

#[test]
fn a_cell_whose_pod_dies_after_its_call_is_answered_once() {
    scenario(|world| async move {
        let Stage { world, client, gateway, pod } = stage(world, &spec()).await;
        world.pod("p2").await;
        let code = "globalThis.runs = (globalThis.runs ?? 0) + 1; const r = await callTool('charge', {id: 'a'}); await sleep(500); [runs, r.times].join()";
        let (killed, at) = (pod.clone(), world.clone());
        tokio::spawn(async move {
            while at.service.times("a") == 0 {
                super::millis(5).await;
            }
            at.kill(&killed);
        });
        assert_eq!(client.value(&gateway, "s", "k1", code).await, "1,1");
        assert_eq!(world.service.times("a"), 1);
    });
}

#[test]
fn an_error_is_the_same_for_every_retry() {
    scenario(|world| async move {
        let Stage { client, gateway, .. } = stage(world, &spec()).await;
        let code = "globalThis.n = (globalThis.n ?? 0) + 1; throw new RangeError('n is ' + n)";
        let first = client.eval(&gateway, "s", "k1", code).await;
        assert_eq!(first.json["error"]["message"], "n is 1");
        assert_eq!(client.eval(&gateway, "s", "k1", code).await.json["error"], first.json["error"]);
        assert_eq!(client.value(&gateway, "s", "k2", "n").await, 1);
    });
}

/// A key that was answered long ago is known, whatever came between.
#[test]
fn a_late_retry_gets_the_first_answer() {
    scenario(|world| async move {
        let Stage { client, gateway, .. } = stage(world, &spec()).await;
        for n in 0..31 {
            let value = client.value(&gateway, "s", &format!("k{n}"), "globalThis.n = (globalThis.n ?? 0) + 1").await;
            assert_eq!(value, n + 1);
        }
        assert_eq!(client.value(&gateway, "s", "k0", "globalThis.n = (globalThis.n ?? 0) + 1").await, 1);
    });
}

#[test]
fn an_answer_whose_reply_was_lost_is_given_to_the_retry() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k0", "globalThis.n = 0").await;
        world.chaos.first(1, |act| act.name == "POST /v1/eval", Fate::ReplyLost { before: 2 });
        assert_eq!(client.value(&gateway, "s", "k1", "n += 1").await, 1);
        seconds(1).await;
        assert_eq!(client.value(&gateway, "s", "k2", "n").await, 1);
    });
}
