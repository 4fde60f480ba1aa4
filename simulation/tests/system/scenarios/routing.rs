//! What gateways may repeat, what reads may answer, and a status that went back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dormouse_crds::session::{Durability, KernelSessionSpec};
use http::Method;
use serde_json::json;

use super::{Stage, millis, scenario, seconds, stage};
use crate::{
    chaos::Fate,
    client::BUDGET,
    status::Backup,
    world::{World, key, spec},
};

fn order(body: serde_json::Value) -> Option<Vec<u8>> {
    Some(body.to_string().into_bytes())
}

#[test]
fn a_restore_is_not_repeated_over_a_cell_that_was_acked_after_it() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "globalThis.log = ['a']; log.join()").await;
        assert!(client.send(&gateway, Method::POST, "/s/checkpoints", order(json!({"label": "then"})), BUDGET).await.is_ok());
        client.value(&gateway, "s", "k2", "log.push('b'); log.join()").await;
        // The restore is made, and its answer is lost for a while.
        world.chaos.first(1, |act| act.name == "POST /v1/restore", Fate::ReplyLost { before: 2 });
        let (restorer, at) = (client.clone(), gateway.clone());
        // Another gateway's client meanwhile.
        let other = world.gateway("g2");
        let lives = world.chaos.clone();
        // Whether the pod lives is asked before the repetition, and that takes a second.
        lives.first(1, |act| act.name == "GET /v1/info" && act.from == "g1", Fate::Arrives { before: 900, after: 900 });
        let restoring =
            tokio::spawn(async move { restorer.send(&at, Method::POST, "/s/restore", order(json!({"checkpoint": "then"})), BUDGET).await });
        millis(600).await;
        assert_eq!(client.value(&other, "s", "k3", "log.push('c'); log.join()").await, "a,c");
        restoring.await.unwrap();
        let log = client.value(&gateway, "s", "k4", "log.join()").await;
        assert_eq!(log, "a,c", "what was acked is in every later state");
    });
}

#[test]
fn a_label_does_not_move_when_its_answer_was_lost() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "globalThis.log = ['a']; log.join()").await;
        world.chaos.first(1, |act| act.name == "POST /v1/checkpoint", Fate::ReplyLost { before: 2 });
        world.chaos.first(1, |act| act.name == "GET /v1/info" && act.from == "g1", Fate::Arrives { before: 900, after: 900 });
        let other = world.gateway("g2");
        let (maker, at) = (client.clone(), gateway.clone());
        let making =
            tokio::spawn(async move { maker.send(&at, Method::POST, "/s/checkpoints", order(json!({"label": "then"})), BUDGET).await });
        millis(600).await;
        client.value(&other, "s", "k2", "log.push('b'); log.join()").await;
        making.await.unwrap();
        client.send(&gateway, Method::POST, "/s/restore", order(json!({"checkpoint": "then"})), BUDGET).await;
        assert_eq!(client.value(&gateway, "s", "k3", "log.join()").await, "a", "a label stands where it was put");
    });
}

#[test]
fn a_file_is_not_read_from_an_owner_that_was_replaced() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        assert!(client.send(&gateway, Method::PUT, "/s/files/f", Some(b"old".to_vec()), BUDGET).await.is_ok());
        seconds(5).await;
        // The first owner is believed gone; it lives, and an old gateway sees nothing new.
        world.pod("p2").await;
        seconds(1).await;
        gateway.seen.hold_back(Duration::from_secs(3_600));
        let other = world.gateway("g2");
        let first = world.status.pods().into_iter().find(|pod| pod.pod == "p1").unwrap();
        world.network.cut("g2", "p1");
        world.operator.drop_pod(&first.uid);
        seconds(1).await;
        assert!(client.send(&other, Method::PUT, "/s/files/f", Some(b"new".to_vec()), BUDGET).await.is_ok());
        let read = client.send(&gateway, Method::GET, "/s/files/f", None, BUDGET).await;
        assert!(
            !read.is_ok() || read.body == b"new",
            "a read never goes back behind what was acked: {}",
            String::from_utf8_lossy(&read.body)
        );
    });
}

/// An owner that was replaced may still store what it has answered ahead of storage. Whoever reads at its successor meanwhile sees what stays.
#[test]
fn a_file_is_not_denied_that_the_owner_before_stores_after_that() {
    scenario(|world| async move {
        let spec = KernelSessionSpec { durability: Durability::Batched, ..spec() };
        let Stage { world, client, gateway, .. } = stage(world, &spec).await;
        client.value(&gateway, "s", "k0", "1").await;
        seconds(1).await;
        // It is on its way when the read is answered, and arrives before the successor stores by itself (`session/rest.rs`).
        world
            .chaos
            .rule(|act| (act.from == "p1" && act.to == "store" && act.verb == "put").then_some(Fate::Arrives { before: 1_000, after: 1 }));
        client.value(&gateway, "s", "k1", "require('fs').writeFileSync('/f', 'x'); 1").await;
        // It is believed gone, and lives.
        world.pod("p2").await;
        let first = world.status.pods().into_iter().find(|pod| pod.pod == "p1").unwrap();
        world.operator.drop_pod(&first.uid);
        seconds(1).await;
        let read = async || client.insist(&gateway, Method::GET, "/s/files/f", None, BUDGET).await.status;
        let seen = read().await;
        assert_eq!(seen, 404, "what is not stored is lost with its process, and this one is believed lost");
        seconds(60).await;
        assert_eq!(read().await, seen, "a read never sees what a later one does not");
    });
}

/// Whoever looks changes nothing, so there is nothing to store.
#[test]
fn to_look_at_files_stores_nothing() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "require('fs').writeFileSync('/f', 'x'); 1").await;
        let puts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&puts);
        world.chaos.rule(move |act| {
            let counts = act.from == "p1" && act.to == "store" && act.verb == "put";
            counted.fetch_add(usize::from(counts), Ordering::Relaxed);
            None
        });
        for _ in 0..10 {
            for path in ["/s/files/f", "/s/files?path=/"] {
                assert!(client.send(&gateway, Method::GET, path, None, BUDGET).await.is_ok());
            }
        }
        assert_eq!(puts.load(Ordering::Relaxed), 0);
        client.order(&gateway, "s", "hibernate").await;
        assert_eq!(client.value(&gateway, "s", "k2", "require('fs').readFileSync('/f', 'utf8').length").await, 1);
    });
}

/// What a cell has done and no commit has yet is not seen from outside.
#[test]
fn a_file_is_not_read_before_it_is_committed() {
    scenario(|world| async move {
        let Stage { world, client, gateway, pod } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "require('fs').writeFileSync('/f', 'one'); 1").await;
        // It writes, awaits, and writes again after the await: that is not committed until it ends.
        let (runner, at) = (client.clone(), gateway.clone());
        let running = tokio::spawn(async move {
            runner.try_eval(&at, "s", "k2", "await sleep(1000); require('fs').writeFileSync('/f', 'two'); await sleep(100000); 2").await
        });
        seconds(5).await;
        let read = client.send(&gateway, Method::GET, "/s/files/f", None, BUDGET).await;
        let seen = read.body.clone();
        world.kill(&pod);
        world.pod("p2").await;
        running.abort();
        client.order(&gateway, "s", "interrupt").await;
        seconds(10).await;
        let later = client.send(&gateway, Method::GET, "/s/files/f", None, BUDGET).await;
        assert!(read.status != 200 || seen == b"one" || later.body == seen, "a read never sees what a later one does not");
    });
}

#[test]
fn a_restored_status_is_noticed_and_epochs_do_not_climb() {
    scenario(|world| async move {
        let Stage { world, client, gateway, pod } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "globalThis.n = 1").await;
        let backup = world.status.backup();
        // The session moves on, far.
        let mut last = pod;
        for n in 0..12 {
            let next = world.pod(&format!("p{}", n + 2)).await;
            world.kill(&last);
            last = next;
            seconds(10).await;
            client.value(&gateway, "s", &format!("move-{n}"), "n += 1").await;
        }
        seconds(5).await;
        world.status.restore(&backup);
        seconds(5).await;
        let restarted = world.gateway("g2");
        let before = world.status.get(&key("s")).unwrap().status.last_epoch.unwrap_or(0);
        // One request finds the way: it is told which epoch has taken over.
        let answer = client.try_eval(&restarted, "s", "k2", "n").await;
        let after = world.status.get(&key("s")).unwrap().status.last_epoch.unwrap_or(0);
        assert!(answer.status == 200 && answer.value() == 13, "what was acked is there: {answer:?}");
        assert!(after <= before + 15, "epochs do not climb by ten a request: {before} to {after}");
        let placed = world.chaos.trace().iter().filter(|line| line.contains(" g2 -> status assign ")).count();
        assert!(placed <= 3, "nor one by one: {placed} placements");
    });
}

#[test]
fn a_running_gateway_notices_that_status_went_back() {
    scenario(|world| async move {
        let Stage { world, client, gateway, pod } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "globalThis.n = 1").await;
        seconds(5).await;
        let backup = world.status.backup();
        let next = world.pod("p2").await;
        world.kill(&pod);
        seconds(10).await;
        client.value(&gateway, "s", "k2", "n += 1").await;
        seconds(5).await;
        world.status.restore(&backup);
        world.kill(&next);
        world.pod("p3").await;
        seconds(30).await;
        assert_eq!(client.value(&gateway, "s", "k3", "n").await, 2);
    });
}

#[test]
fn a_key_that_the_gateway_made_is_told() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "1").await;
        world.chaos.rule(|act| (act.to == "store" && act.verb == "put").then_some(Fate::Busy));
        let code = order(json!({"code": "globalThis.n = (globalThis.n ?? 0) + 1"}));
        let refused = client.send(&gateway, Method::POST, "/s/eval", code, BUDGET).await;
        let whole = String::from_utf8_lossy(&refused.body).to_string();
        assert!(!refused.is_ok() && whole.contains("idempotencyKey\":"), "an answer carries the key that it speaks of: {whole}");
    });
}

#[test]
fn a_status_that_does_not_answer_is_worth_another_try() {
    scenario(|world| async move {
        let Stage { world, client, gateway, pod } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "1").await;
        world.pod("p2").await;
        seconds(5).await;
        world.chaos.rule(|act| (act.to == "status" && act.verb != "watch").then_some(Fate::Busy));
        world.kill(&pod);
        let refused = client.try_eval(&gateway, "s", "k2", "2").await;
        assert!(!refused.is_ok());
        assert_eq!(refused.json["error"]["retryable"], true, "a blip is worth another try: {}", refused.json);
    });
}

/// A session that sleeps since long, and a backup of status.
async fn backed_up(world: World) -> (Stage, Backup) {
    let stage = stage(world, &spec()).await;
    stage.client.value(&stage.gateway, "s", "k1", "globalThis.n = 1").await;
    assert!(stage.client.order(&stage.gateway, "s", "hibernate").await.is_ok());
    seconds(60).await;
    let backup = stage.world.status.backup();
    (stage, backup)
}

/// Others have written since the sessions were: the watch of a gateway that has just begun is from a revision that nothing which it has read has.
#[test]
fn a_gateway_that_has_heard_of_nothing_yet_notices_that_status_went_back() {
    scenario(|world| async move {
        let (Stage { world, client, pod, .. }, backup) = backed_up(world).await;
        let late = world.gateway("g2");
        seconds(1).await;
        world.status.restore(&backup);
        world.kill(&pod);
        world.pod("p2").await;
        seconds(60).await;
        assert_eq!(client.try_eval(&late, "s", "k2", "n").await.value(), 1, "it knows the pod that came since");
    });
}

/// No session has changed since the backup, so only pods tell of revisions that are not there any more.
#[test]
fn a_gateway_that_has_heard_of_pods_only_notices_that_status_went_back() {
    scenario(|world| async move {
        let (Stage { world, client, gateway, pod }, backup) = backed_up(world).await;
        let second = world.pod("p2").await;
        seconds(1).await;
        world.status.restore(&backup);
        for gone in [&pod, &second] {
            world.kill(gone);
        }
        world.pod("p3").await;
        seconds(60).await;
        assert_eq!(client.try_eval(&gateway, "s", "k2", "n").await.value(), 1, "it knows the pod that came since");
    });
}
