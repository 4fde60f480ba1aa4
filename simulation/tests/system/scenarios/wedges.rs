//! No session can be wedged: every request is answered within its budget.

use dormouse_crds::session::{Bootstrap, Durability, KernelSessionSpec};
use http::Method;
use serde_json::json;

use super::{Stage, scenario, seconds, stage};
use crate::{
    chaos::Fate,
    client::BUDGET,
    world::{key, spec},
};

#[test]
fn calls_that_do_not_fit_a_commit_end_their_cell_and_not_their_session() {
    scenario(|world| async move {
        let Stage { client, gateway, .. } = stage(world, &spec()).await;
        let code = "await sleep(1); const x = 'x'.repeat(9 << 20); await Promise.all([callTool('charge', {id: 'a', x}), callTool('charge', {id: 'b', x})])";
        let refused = client.eval(&gateway, "s", "k1", code).await;
        assert!(refused.status != 0 && refused.json["ok"] != true, "{refused:?}");
        for n in 0..3 {
            assert_eq!(client.value(&gateway, "s", &format!("after-{n}"), "1 + 1").await, 2);
        }
        let again = client.eval(&gateway, "s", "k1", code).await;
        assert_eq!((again.status, again.code()), (refused.status, refused.code()), "one key, one answer");
    });
}

#[test]
fn a_bootstrap_that_never_ends_can_be_left() {
    scenario(|world| async move {
        let mut spec = spec();
        spec.bootstrap = Some(Bootstrap { code: "await sleep(1e12)".to_owned(), ..Bootstrap::default() });
        let Stage { world, client, gateway, .. } = stage(world, &spec).await;
        let refused = client.try_eval(&gateway, "s", "k1", "1").await;
        assert!(!refused.is_ok(), "{refused:?}");
        assert_ne!(client.order(&gateway, "s", "interrupt").await.status, 0);
        client.order(&gateway, "s", "hibernate").await;
        assert!(client.send(&gateway, Method::DELETE, "/s", None, BUDGET).await.is_ok());
        seconds(120).await;
        assert_eq!(world.status.get(&key("s")), None, "it is deleted");
    });
}

#[test]
fn a_store_that_takes_nothing_more_is_told() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        assert_eq!(client.value(&gateway, "s", "k1", "globalThis.n = 1").await, 1);
        world.chaos.rule(|act| (act.to == "store" && act.verb == "put").then_some(Fate::Refused));
        let refused = client.try_eval(&gateway, "s", "k2", "n += 1").await;
        assert!(!refused.is_ok(), "{refused:?}");
        // What is stored may await something, and the session cannot be woken for that now.
        let interrupted = client.order(&gateway, "s", "interrupt").await;
        assert_eq!(interrupted.json["error"]["code"], "StorageUnavailable", "{interrupted:?}");
        client.order(&gateway, "s", "hibernate").await;
        world.chaos.forget_rules();
        assert_eq!(client.value(&gateway, "s", "k2", "n += 1").await, 2);
    });
}

/// Each request is answered, and what was answered before the store came back is there when it is back.
async fn a_store_fails_for_good(world: crate::world::World, durability: Durability, fate: Fate) {
    let spec = KernelSessionSpec { durability, ..spec() };
    let Stage { world, client, gateway, .. } = stage(world, &spec).await;
    assert_eq!(client.value(&gateway, "s", "k0", "globalThis.n = 0").await, 0);
    assert!(client.order(&gateway, "s", "hibernate").await.is_ok());
    world.chaos.rule(move |act| (act.to == "store" && act.verb == "put").then_some(fate));
    let mut answered = 0;
    for n in 1..=6 {
        if client.try_eval(&gateway, "s", &format!("k{n}"), "n += 1").await.is_ok() {
            answered += 1;
        }
    }
    assert!(!client.order(&gateway, "s", "hibernate").await.is_ok(), "nothing can be stored");
    let kept = client.send(&gateway, Method::POST, "/s/checkpoints", Some(br#"{"label": "l"}"#.to_vec()), BUDGET).await;
    assert!(!kept.is_ok(), "{kept:?}");
    let upload = client.send(&gateway, Method::PUT, "/s/files/f", Some(b"f".to_vec()), BUDGET).await;
    assert!(!upload.is_ok(), "{upload:?}");
    client.order(&gateway, "s", "interrupt").await;
    super::seconds(400).await;
    client.order(&gateway, "s", "wake").await;
    world.chaos.forget_rules();
    let found = client.value(&gateway, "s", "look", "n").await.as_u64().expect("a number");
    assert!((answered..=6).contains(&found), "its process lives: {answered} answered, {found} there");
    for n in 1..=6 {
        client.value(&gateway, "s", &format!("k{n}"), "n += 1").await;
    }
    assert_eq!(client.value(&gateway, "s", "end", "n").await, 6, "one key, one run");
    assert!(client.send(&gateway, Method::DELETE, "/s", None, BUDGET).await.is_ok());
}

#[test]
fn a_store_that_fails_for_good_wedges_nobody_in_any_mode() {
    for durability in [Durability::PerEval, Durability::Batched, Durability::OnIdle] {
        for fate in [Fate::Refused, Fate::Busy, Fate::RequestLost] {
            scenario(move |world| a_store_fails_for_good(world, durability, fate));
        }
    }
}

#[test]
fn a_store_that_does_not_answer_is_told() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        assert_eq!(client.value(&gateway, "s", "k1", "globalThis.n = 1").await, 1);
        world.chaos.rule(|act| (act.to == "store").then_some(Fate::RequestLost));
        for n in 0..3 {
            assert!(!client.try_eval(&gateway, "s", &format!("lost-{n}"), "n += 1").await.is_ok());
        }
        client.order(&gateway, "s", "hibernate").await;
        client.order(&gateway, "s", "wake").await;
        world.chaos.forget_rules();
        for n in 0..3 {
            client.value(&gateway, "s", &format!("lost-{n}"), "n += 1").await;
        }
        assert_eq!(client.value(&gateway, "s", "k2", "n").await, 4);
    });
}

/// Of three slots none is free; a client that leaves keeps nobody waiting.
#[test]
fn a_cell_whose_client_left_does_not_hold_the_queue() {
    scenario(|world| async move {
        let Stage { client, gateway, .. } = stage(world, &spec()).await;
        let (left, at) = (client.clone(), gateway.clone());
        let waiting = tokio::spawn(async move { left.try_eval(&at, "s", "k1", "await sleep(1e9)").await });
        super::seconds(1).await;
        waiting.abort();
        assert_eq!(client.value(&gateway, "s", "k2", "1 + 1").await, 2);
    });
}

/// A process that comes by a session once more has had a cell of it wait for somebody. That cell has ended elsewhere since: nothing waits behind it.
#[test]
fn who_is_given_a_session_again_does_not_wait_for_a_cell_that_has_ended_elsewhere() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        let (other, at) = (client.clone(), gateway.clone());
        let cell = tokio::spawn(async move { other.try_eval(&at, "s", "k1", "await callTool('transfer', {id: 'large'}); 'done'").await });
        let waits = async || client.send(&gateway, Method::GET, "/s/approvals", None, BUDGET).await.json["items"] != json!([]);
        while !waits().await {
            seconds(1).await;
        }
        // It sleeps at p1, and is taken to p2, where it ends.
        assert!(client.order(&gateway, "s", "hibernate").await.is_ok());
        world.network.cut("g1", "p1");
        let second = world.pod("p2").await;
        world.operator.clear(&key("s"));
        seconds(60).await;
        let yes = json!({"decision": "approve"}).to_string().into_bytes();
        assert!(client.insist(&gateway, Method::POST, "/s/approvals/a_1", Some(yes), BUDGET).await.is_ok());
        assert_eq!(client.value(&gateway, "s", "k1", "").await, "done");
        drop(cell);
        // p1 has it once more.
        world.network.mend();
        world.kill(&second);
        assert_eq!(client.value(&gateway, "s", "k2", "1 + 1").await, 2);
        assert_eq!(client.value(&gateway, "s", "k1", "").await, "done");
        assert_eq!(world.service.times("large"), 1);
    });
}
