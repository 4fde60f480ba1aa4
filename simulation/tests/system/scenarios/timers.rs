//! Timers fire, whatever dies.

use super::{Stage, scenario, seconds, stage};
use crate::{chaos::Fate, world::spec};

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
        client.value(&gateway, "s", "k1", SETS).await;
        world.kill(&pod);
        world.pod("p2").await;
        seconds(900).await;
        assert_eq!(world.service.times("timer"), 1, "a timer fires, whatever dies");
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

/// The commit behind the timer is stored long after the instance that made it is gone, and holds a call that has not left.
#[test]
fn what_a_timer_did_goes_on_although_its_commit_was_in_doubt() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        // So that there is a page of calls: it tells of a call of that session that nobody has made it.
        client.value(&gateway, "s", "k0", "await callTool('charge', {id: 'first'}); 0").await;
        client.value(&gateway, "s", "k1", SETS).await;
        seconds(50).await;
        world.chaos.rule(|act| (act.to == "store" && act.verb == "put").then_some(Fate::Refused));
        seconds(30).await;
        world.chaos.forget_rules();
        seconds(300).await;
        assert_eq!(world.service.times("timer"), 1);
    });
}
