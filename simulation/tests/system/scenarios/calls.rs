//! Calls whose outcome is not known, a store that says "not now", and forks beside a busy parent.

use http::Method;
use serde_json::json;

use super::{Stage, scenario, seconds, stage};
use crate::{
    chaos::Fate,
    client::BUDGET,
    world::{key, session_key, spec},
};

#[test]
fn a_store_that_answers_409_a_while_is_not_called_unsafe() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "globalThis.n = 1").await;
        world.chaos.first(8, |act| act.to == "store" && act.verb == "put" && act.name.ends_with("/head"), Fate::Conflict);
        let answer = client.eval(&gateway, "s", "k2", "n += 1").await;
        assert!(answer.code() != "StorageUnsafe", "another write under way proves nothing: {}", answer.json);
        assert_eq!(client.value(&gateway, "s", "k3", "n").await, 2);
    });
}

/// A parent that goes on while it is copied is busy, and not damaged: the fork begins as soon as it rests.
#[test]
fn a_fork_beside_a_busy_parent_begins() {
    scenario(|world| async move {
        let mut spec = spec();
        spec.checkpoints.keep = 0;
        let Stage { world, client, gateway, .. } = stage(world, &spec).await;
        let noise = "globalThis.all = new Uint8Array(200000); crypto.getRandomValues(all.subarray(0, 65536)); crypto.getRandomValues(all.subarray(65536, 131072)); 1";
        client.value(&gateway, "s", "k1", noise).await;
        // Copies are slow, and the parent goes on.
        world.chaos.rule(|act| (act.to == "store" && act.verb == "copy").then_some(Fate::Arrives { before: 400, after: 400 }));
        let (busy, at) = (client.clone(), gateway.clone());
        let parent = tokio::spawn(async move {
            for n in 0..60 {
                busy.value(&at, "s", &format!("b{n}"), noise).await;
            }
        });
        let body = json!({"name": "child"}).to_string().into_bytes();
        let forked = client.insist(&gateway, Method::POST, "/s/fork", Some(body), BUDGET).await;
        parent.await.unwrap();
        assert!(forked.is_ok(), "{} {}", forked.status, forked.json);
        assert_eq!(client.value(&gateway, "child", "c1", "all.length").await, 200_000);
    });
}

#[test]
fn a_call_that_may_have_been_made_is_not_said_to_have_failed() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        let mut sent = 0;
        world.chaos.rule(move |act| {
            if act.name != "POST /v1/call" {
                return None;
            }
            sent += 1;
            Some(if sent == 1 { Fate::ReplyLost { before: 5 } } else { Fate::Busy })
        });
        let (caller, at) = (client.clone(), gateway.clone());
        let code = "globalThis.caught = null; callTool('charge', {id: 'a'}).catch((error) => { caught = error.name }); 1";
        caller.value(&at, "s", "k1", code).await;
        seconds(1_200).await;
        let caught = client.value(&gateway, "s", "k2", "caught").await;
        assert_eq!(world.service.times("a"), 1);
        assert!(caught != "ToolResultInvalid", "nobody knows what came of it: {caught}");
    });
}

/// The page of calls is put back to before a call, and its session is not: what the page does not hold any more may have been made.
#[test]
fn a_page_of_calls_that_went_back_behind_its_session_is_not_gone_on_from() {
    scenario(|world| async move {
        let Stage { world, client, gateway, pod } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k0", "(await callTool('charge', {id: 'first'})).times").await;
        let then = world.disk.snapshot();
        client.value(&gateway, "s", "k1", "(await callTool('charge', {id: 'a'})).times").await;
        client.value(&gateway, "s", "k2", "1").await;
        world.kill(&pod);
        let uid = world.status.get(&key("s")).unwrap().uid;
        let page = session_key(&uid, "s").calls();
        assert!(world.disk.keys(&page) != Vec::<String>::new(), "there is a page of calls");
        world.disk.roll_back(&then, &page);
        world.pod("p2").await;
        // A process that remembers nothing.
        world.network.forget("tools.team.broker.dormouse.internal");
        world.broker("b2");
        let code = "globalThis.told = await callTool('charge', {id: 'b'}).then(() => 'made', (error) => error.name); told";
        let told = client.value(&gateway, "s", "k3", code).await;
        assert!(told != "made", "a page that is older than its session is not believed");
        assert_eq!(world.service.times("b"), 0);
    });
}

/// A request is for the session that its client meant, and not for another one that has got its name.
#[test]
fn a_request_is_not_repeated_in_a_session_that_took_the_name() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "globalThis.n = 1").await;
        // The cell arrives nowhere, and before it is sent again there is another session of this name.
        let evals = |act: &crate::chaos::Act| act.verb == "SEND" && act.name.contains("/eval") && !act.from.starts_with("client");
        world.chaos.first(1, evals, Fate::RequestLost);
        let (sender, at) = (client.clone(), gateway.clone());
        let sending = tokio::spawn(async move { sender.try_eval(&at, "s", "k2", "globalThis.taken = true").await });
        super::millis(500).await;
        assert!(client.insist(&gateway, Method::DELETE, "/s", None, BUDGET).await.is_ok());
        while world.status.get(&key("s")).is_some() {
            super::millis(50).await;
        }
        client.create(&gateway, "s", &spec()).await;
        let answer = sending.await.unwrap();
        assert_eq!(answer.code(), "SessionNotFound", "{} {}", answer.status, answer.json);
        assert_eq!(client.value(&gateway, "s", "k3", "globalThis.taken ?? null").await, serde_json::Value::Null);
    });
}
