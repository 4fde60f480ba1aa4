//! Timers fire, whatever dies.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use http::Method;
use tokio::time::Instant;

use super::{Stage, millis, scenario, seconds, stage};
use crate::{
    chaos::Fate,
    client::BUDGET,
    world::{World, key, spec},
};

const SETS: &str = "setTimeout(() => callTool('charge', {id: 'timer'}), 60000); 1";

#[test]
fn a_timer_fires_in_a_session_that_sleeps() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", SETS).await;
        assert!(client.order(&gateway, "s", "hibernate").await.is_ok());
        seconds(120).await;
        assert_eq!(world.service.times("timer"), 1);
    });
}

#[test]
fn a_timer_fires_although_its_pod_dies_before_anybody_heard_of_it() {
    scenario(|world| async move {
        let Stage { world, client, gateway, pod } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k0", "0").await;
        seconds(10).await;
        world.operator.deaf.store(true, Ordering::SeqCst);
        client.value(&gateway, "s", "k1", SETS).await;
        seconds(10).await;
        assert_eq!(world.status.get(&key("s")).unwrap().status.next_wake_time, None, "nobody has heard of it");
        world.kill(&pod);
        world.operator.deaf.store(false, Ordering::SeqCst);
        world.pod("p2").await;
        // Due after 60 s, of which some are over; docs/durability.md says how late it may be.
        seconds(60).await;
        assert_eq!(world.service.times("timer"), 1, "a timer fires in time, whatever dies");
    });
}

#[test]
fn a_timer_fires_although_its_pod_dies_later() {
    scenario(|world| async move {
        let Stage { world, client, gateway, pod } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", SETS).await;
        seconds(10).await;
        world.kill(&pod);
        world.pod("p2").await;
        seconds(300).await;
        assert_eq!(world.service.times("timer"), 1);
    });
}

/// The process that it is woken in cannot read the session, says so, and knows nothing of its timers.
#[test]
fn a_timer_fires_although_the_store_cannot_be_read_when_it_is_due() {
    scenario(|world| async move {
        let Stage { world, client, gateway, pod } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", SETS).await;
        assert!(client.order(&gateway, "s", "hibernate").await.is_ok());
        seconds(10).await;
        let before = world.status.get(&key("s")).unwrap().status;
        world.pod("p2").await;
        world.kill(&pod);
        seconds(10).await;
        world.chaos.rule(|act| (act.to == "store" && act.verb == "get").then_some(Fate::Busy));
        seconds(100).await;
        let failed = world.status.get(&key("s")).unwrap().status;
        assert_eq!(failed.placement.unwrap().pod, "p2", "it was to be woken");
        assert_eq!(
            (failed.next_wake_time, failed.cells),
            (before.next_wake_time, before.cells),
            "what nobody could read is as it was told"
        );
        world.chaos.forget_rules();
        seconds(120).await;
        assert_eq!(world.service.times("timer"), 1);
    });
}

/// No cell awaits what the callback began, so no client comes back for it.
#[test]
fn what_a_timer_did_goes_on_although_its_session_was_put_to_sleep_under_way() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        let code = "setTimeout(async () => { await callTool('look', {id: 'slow'}); await callTool('charge', {id: 'timer'}) }, 5000); 1";
        client.value(&gateway, "s", "k1", code).await;
        world.chaos.rule(|act| (act.verb == "CALL" && act.name == "slow").then_some(Fate::Arrives { before: 4_000, after: 0 }));
        seconds(6).await;
        assert!(client.order(&gateway, "s", "hibernate").await.is_ok());
        world.chaos.forget_rules();
        seconds(120).await;
        assert_eq!(world.service.times("timer"), 1);
    });
}

/// The broker goes on with a call whose session was put to sleep, and tells what came of it when it is asked again.
#[test]
fn a_call_under_way_keeps_its_answer_although_its_session_was_put_to_sleep() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        let code = "setTimeout(async () => { globalThis.paid = (await callTool('charge', {id: 'slow'})).times }, 5000); 1";
        client.value(&gateway, "s", "k1", code).await;
        world.chaos.rule(|act| (act.verb == "CALL" && act.name == "slow").then_some(Fate::Arrives { before: 2_000, after: 2_000 }));
        seconds(6).await;
        assert!(client.order(&gateway, "s", "hibernate").await.is_ok());
        seconds(120).await;
        assert_eq!(client.value(&gateway, "s", "k2", "paid").await, 1);
        assert_eq!(world.service.times("slow"), 1);
    });
}

/// A session whose timer has fired while nothing could be stored, after that: nobody knows what came of the commit behind it.
async fn in_doubt(world: World) -> Stage {
    let stage = stage(world, &spec()).await;
    let Stage { world, client, gateway, .. } = &stage;
    // So that there is a page of calls: it tells of a call of that session that nobody has made it.
    client.value(gateway, "s", "k0", "await callTool('charge', {id: 'first'}); 0").await;
    client.value(gateway, "s", "k1", SETS).await;
    seconds(50).await;
    world.chaos.rule(|act| (act.to == "store" && act.verb == "put").then_some(Fate::Refused));
    seconds(30).await;
    world.chaos.forget_rules();
    stage
}

/// The commit behind the timer is stored long after the instance that made it is gone, and holds a call that has not left.
#[test]
fn what_a_timer_did_goes_on_although_its_commit_was_in_doubt() {
    scenario(|world| async move {
        let Stage { world, .. } = in_doubt(world).await;
        seconds(300).await;
        assert_eq!(world.service.times("timer"), 1);
    });
}

/// The same, of a session that is put to sleep while its commit is in doubt: what is stored then is read all the same.
#[test]
fn what_a_timer_did_goes_on_although_its_session_was_put_to_sleep_in_doubt() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = in_doubt(world).await;
        assert!(client.order(&gateway, "s", "hibernate").await.is_ok());
        seconds(300).await;
        assert_eq!(world.service.times("timer"), 1);
    });
}

/// What the timer does is the end of every process that does it.
#[test]
fn a_session_that_ends_each_process_that_wakes_it_ends_few() {
    scenario(|world| async move {
        let Stage { world, client, gateway, mut pod } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", SETS).await;
        assert!(client.order(&gateway, "s", "hibernate").await.is_ok());
        let victim = Arc::new(Mutex::new(pod.node.clone()));
        let ends = Arc::clone(&victim);
        world.chaos.rule(move |act| {
            let commits = act.to == "store" && act.verb == "put" && act.name.contains("/s/");
            commits.then(|| ends.lock().unwrap().kill()).map(|()| Fate::RequestLost)
        });
        let begun = Instant::now();
        let mut ended = 0;
        while begun.elapsed() < Duration::from_secs(1_800) {
            if pod.node.is_dead() {
                world.kill(&pod);
                ended += 1;
                pod = world.pod(&format!("p{}", ended + 1)).await;
                *victim.lock().unwrap() = pod.node.clone();
            }
            millis(100).await;
        }
        assert!((10..=40).contains(&ended), "one a minute in the end: {ended} in half an hour");
        world.chaos.forget_rules();
        seconds(120).await;
        assert_eq!(world.service.times("timer"), 1, "and when it is mended, it does what it was to do");
    });
}

/// A gateway that sees nothing new asks an owner that was replaced, which may go on until the next one has stored something: within a second of being
/// left alone, or before it sleeps.
fn the_timer_of_a_replaced_owner_fires(method: Method, path: &'static str, then: &'static str) {
    scenario(move |world| async move {
        let Stage { world, client, gateway, pod } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k0", "0").await;
        seconds(5).await;
        world.pod("p2").await;
        seconds(1).await;
        gateway.seen.hold_back(Duration::from_secs(30));
        let other = world.gateway("g2");
        let first = world.status.pods().into_iter().find(|pod| pod.pod == "p1").unwrap();
        world.network.cut("g2", "p1");
        world.operator.drop_pod(&first.uid);
        seconds(1).await;
        assert!(client.send(&other, method, path, None, BUDGET).await.is_ok());
        client.value(&gateway, "s", "k1", SETS).await;
        world.kill(&pod);
        if !then.is_empty() {
            let _ = client.order(&other, "s", then).await;
        }
        seconds(90).await;
        assert_eq!(world.service.times("timer"), 1);
    });
}

#[test]
fn a_timer_of_a_replaced_owner_fires_though_its_successor_was_woken_before() {
    the_timer_of_a_replaced_owner_fires(Method::POST, "/s/wake", "");
}

#[test]
fn a_timer_of_a_replaced_owner_fires_though_its_successor_was_only_read() {
    the_timer_of_a_replaced_owner_fires(Method::GET, "/s/files?path=/", "");
}

#[test]
fn a_timer_of_a_replaced_owner_fires_though_its_successor_is_put_to_sleep_at_once() {
    the_timer_of_a_replaced_owner_fires(Method::POST, "/s/wake", "hibernate");
}
