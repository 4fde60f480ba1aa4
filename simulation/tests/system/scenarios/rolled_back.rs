//! A bucket that is put back to what it was: nobody goes on from that, and when it is put right everything does.

use http::Method;

use super::{Stage, scenario, seconds, stage};
use crate::{
    client::BUDGET,
    world::{PREFIX, key, session_key, spec},
};

fn goes_back_and_forth(asleep: bool) {
    scenario(move |world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "globalThis.log = ['k1']; log.join()").await;
        assert!(client.send(&gateway, Method::PUT, "/s/files/f", Some(b"old".to_vec()), BUDGET).await.is_ok());
        let then = world.disk.snapshot();
        client.value(&gateway, "s", "k2", "log.push('k2'); log.join()").await;
        assert!(client.send(&gateway, Method::PUT, "/s/files/f", Some(b"new".to_vec()), BUDGET).await.is_ok());
        client.value(&gateway, "s", "k3", "setTimeout(() => callTool('charge', {id: 'timer'}), 100000); log.push('k3'); log.join()").await;
        if asleep {
            assert!(client.order(&gateway, "s", "hibernate").await.is_ok());
        }
        seconds(5).await;
        let newest = world.disk.snapshot();
        world.disk.roll_back(&then, PREFIX);
        let head = session_key(&world.status.get(&key("s")).unwrap().uid, "s").head();
        let old = world.disk.get(&head).unwrap();

        for attempt in 0..3 {
            let answer = client.try_eval(&gateway, "s", "k4", "log.push('k4'); log.join()").await;
            assert!(["SnapshotCorrupt", "StorageUnsafe"].contains(&answer.code()), "{attempt}: {} {}", answer.status, answer.json);
        }
        let read = client.send(&gateway, Method::GET, "/s/files/f", None, BUDGET).await;
        assert!(read.body != b"old", "a read never goes back");
        // The timer is due meanwhile, and whoever is woken for it reads the same.
        seconds(400).await;
        assert_eq!(world.service.times("timer"), 0, "nothing is done on the strength of it");
        assert_eq!(world.disk.get(&head), Some(old), "nothing is written over it");

        world.disk.roll_back(&newest, PREFIX);
        let log = client.value(&gateway, "s", "k5", "log.join()").await;
        assert_eq!(log, "k1,k2,k3", "what was refused has not been done");
        let read = client.send(&gateway, Method::GET, "/s/files/f", None, BUDGET).await;
        assert_eq!(read.body, b"new");
        seconds(200).await;
        assert_eq!(world.service.times("timer"), 1);
    });
}

#[test]
fn a_bucket_that_went_back_under_a_live_session_is_not_gone_on_from() {
    goes_back_and_forth(false);
}

#[test]
fn a_bucket_that_went_back_under_a_session_that_sleeps_is_not_gone_on_from() {
    goes_back_and_forth(true);
}
