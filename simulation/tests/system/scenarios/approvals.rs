//! Calls that wait for a person: for long, and whoever dies meanwhile.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{Stage, millis, scenario, seconds, stage};
use crate::{
    chaos::Fate,
    client::{BUDGET, Client},
    world::{Door, spec},
};

const ASKS: &str = "globalThis.asked = callTool('transfer', {id: 'large'}).then((done) => done.times, (error) => error.name); 'waits'";

async fn waiting(client: &Client, gateway: &Door) -> Value {
    let listed = client.send(gateway, Method::GET, "/s/approvals", None, BUDGET).await;
    assert!(listed.is_ok(), "{} {}", listed.status, listed.json);
    listed.json["items"].clone()
}

/// Has the session ask, and waits until its call waits.
async fn ask(client: &Client, gateway: &Door) -> Value {
    client.value(gateway, "s", "k1", ASKS).await;
    loop {
        let asked = waiting(client, gateway).await;
        if asked != json!([]) {
            return asked;
        }
        millis(100).await;
    }
}

async fn agree(client: &Client, gateway: &Door) -> crate::client::Answer {
    agree_to(client, gateway, Value::Null).await
}

/// The same about the call of this epoch.
async fn agree_to(client: &Client, gateway: &Door, epoch: Value) -> crate::client::Answer {
    let body = json!({"decision": "approve", "epoch": epoch, "idempotencyKey": "agreed"}).to_string().into_bytes();
    client.send(gateway, Method::POST, "/s/approvals/a_1", Some(body), BUDGET).await
}

/// Half a year under one build, half a year under the next; the third one makes the call.
#[test]
fn a_call_waits_for_a_year_through_three_engines() {
    scenario(|world| async move {
        let (pod, broker, gateway) = (world.earlier_pod("p1", 2).await, world.broker("b1"), world.gateway("g1"));
        let client = Client::new(&world, "client");
        client.create(&gateway, "s", &spec()).await;
        let asked = ask(&client, &gateway).await;
        assert_eq!((&asked[0]["toolName"], &asked[0]["args"]), (&json!("transfer"), &json!({"id": "large"})), "{asked}");
        let mut before = (pod, broker, gateway);
        let mut world = world;
        for (round, builds) in [(2, 1), (3, 0)] {
            let (pod, broker, gateway) = before;
            assert!(client.order(&gateway, "s", "hibernate").await.is_ok());
            seconds(10).await;
            let session = client.send(&gateway, Method::GET, "/s", None, BUDGET).await.json;
            assert_eq!(session["state"], "WaitingForApproval", "it sleeps while it waits: {session}");
            broker.kill();
            gateway.node.kill();
            world.kill(&pod);
            seconds(10).await;
            world = world.later(183);
            before = (
                world.earlier_pod(&format!("p{round}"), builds).await,
                world.broker(&format!("b{round}")),
                world.gateway(&format!("g{round}")),
            );
            // It looks by itself whether somebody has decided, and goes on waiting.
            seconds(2 * 3_600).await;
            assert_eq!(waiting(&client, &before.2).await, asked, "what waits is what was asked");
            assert_eq!(world.service.times("large"), 0, "nobody has agreed");
        }
        let (_, _, gateway) = before;
        // It was made in the first epoch, and the session is in a later one by now: a decision is about the former.
        let session = client.send(&gateway, Method::GET, "/s", None, BUDGET).await.json;
        let (made_in, now) = (asked[0]["epoch"].as_u64().unwrap(), session["status"]["lastEpoch"].as_u64().unwrap());
        assert!(made_in < now, "{made_in}: {session}");
        let wrong = agree_to(&client, &gateway, json!(now)).await;
        assert_eq!(wrong.json["error"]["code"], "ApprovalMismatch", "{}", wrong.json);
        let decided = agree_to(&client, &gateway, json!(made_in)).await;
        assert!(decided.is_ok(), "{} {}", decided.status, decided.json);
        assert_eq!(client.value(&gateway, "s", "k2", "await asked").await, 1, "the closure of a year ago has its answer");
        assert_eq!(world.service.times("large"), 1);
        assert_eq!(waiting(&client, &gateway).await, json!([]));
    });
}

/// Whoever agrees too late agrees to nothing.
#[test]
fn a_call_of_an_interrupted_cell_waits_no_longer_and_is_never_made() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        let (other, at) = (client.clone(), gateway.clone());
        let cell = tokio::spawn(async move { other.try_eval(&at, "s", "k1", "await callTool('transfer', {id: 'large'})").await });
        while waiting(&client, &gateway).await == json!([]) {
            millis(100).await;
        }
        assert!(client.order(&gateway, "s", "interrupt").await.is_ok());
        assert_eq!(cell.await.unwrap().json["error"]["code"], "Interrupted");
        assert_eq!(waiting(&client, &gateway).await, json!([]));
        let late = agree(&client, &gateway).await;
        assert!(!late.is_ok(), "{}", late.json);
        assert_eq!(client.value(&gateway, "s", "k2", "1").await, 1);
        seconds(2 * 3_600).await;
        assert_eq!(world.service.times("large"), 0);
    });
}

/// The broker knows, and whoever was to tell the session is gone: it asks by itself, within an hour.
#[test]
fn a_decision_that_nobody_tells_is_found() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        ask(&client, &gateway).await;
        assert!(client.order(&gateway, "s", "hibernate").await.is_ok());
        // Days pass, so it looks as seldom as it ever does.
        seconds(6 * 3_600).await;
        world.chaos.rule(|act| act.name.ends_with("/v1/decided").then_some(Fate::RequestLost));
        let decided = tokio::time::timeout(Duration::from_secs(20), agree(&client, &gateway)).await;
        gateway.node.kill();
        assert!(decided.is_err() || decided.is_ok_and(|answer| answer.json["told"] != true), "nobody has told the session");
        world.chaos.forget_rules();
        let gateway = world.gateway("g2");
        seconds(3_600 + 60).await;
        assert_eq!(world.service.times("large"), 1, "it is made within an hour, though nobody asks");
        assert_eq!(client.value(&gateway, "s", "k2", "await asked").await, 1);
    });
}

/// Everybody who hears of it tells: the call is made once.
#[test]
fn two_gateways_that_carry_one_decision_make_one_call() {
    scenario(|world| async move {
        let Stage { world, client, gateway, pod } = stage(world, &spec()).await;
        let other = world.gateway("g2");
        ask(&client, &gateway).await;
        let (one, two) = tokio::join!(agree(&client, &gateway), agree(&client, &other));
        assert!(one.is_ok() || two.is_ok(), "{} {}", one.json, two.json);
        world.kill(&pod);
        world.pod("p2").await;
        assert_eq!(client.value(&other, "s", "k2", "await asked").await, 1);
        assert_eq!(world.service.times("large"), 1);
    });
}
