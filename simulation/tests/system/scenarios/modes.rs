//! What each durability mode may lose, and large images over slow links.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use dormouse_crds::session::{Durability, KernelSessionSpec};

use super::{Stage, scenario, seconds, stage};
use crate::{chaos::Fate, client::SPINS, world::spec};

fn with(durability: Durability) -> KernelSessionSpec {
    let mut spec = KernelSessionSpec { durability, ..spec() };
    spec.limits.eval_ticks = 12;
    spec
}

async fn a_failed_cell_after_a_hundred(world: crate::world::World, durability: Durability) {
    let Stage { client, gateway, .. } = stage(world, &with(durability)).await;
    client.value(&gateway, "s", "k0", "globalThis.n = 0").await;
    for n in 1..=100 {
        assert_eq!(client.value(&gateway, "s", &format!("k{n}"), "n += 1").await, n);
    }
    client.value(&gateway, "s", "spins", SPINS).await;
    let failed = client.eval(&gateway, "s", "over", "spin()").await;
    assert!(failed.json["ok"] != true);
    assert_eq!(client.value(&gateway, "s", "end", "n").await, 100, "what was answered is there while its process lives");
}

#[test]
fn a_cell_that_overruns_takes_no_answered_cell_with_it_batched() {
    scenario(|world| a_failed_cell_after_a_hundred(world, Durability::Batched));
}

#[test]
fn a_cell_that_overruns_takes_no_answered_cell_with_it_on_idle() {
    scenario(|world| a_failed_cell_after_a_hundred(world, Durability::OnIdle));
}

#[test]
fn an_outage_when_a_session_goes_to_sleep_takes_no_answered_cell_with_it() {
    scenario(|world| async move {
        let spec = KernelSessionSpec { idle_seconds: 5, ..with(Durability::OnIdle) };
        let Stage { world, client, gateway, .. } = stage(world, &spec).await;
        client.value(&gateway, "s", "k0", "globalThis.n = 0").await;
        for n in 1..=10 {
            client.value(&gateway, "s", &format!("k{n}"), "n += 1").await;
        }
        world.chaos.rule(|act| (act.to == "store" && act.verb == "put").then_some(Fate::Busy));
        seconds(60).await;
        world.chaos.forget_rules();
        assert_eq!(client.value(&gateway, "s", "end", "n").await, 10, "what was answered is there while its process lives");
    });
}

#[test]
fn an_outage_of_a_minute_takes_no_answered_cell_with_it_batched() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &with(Durability::Batched)).await;
        client.value(&gateway, "s", "k0", "globalThis.n = 0").await;
        world.chaos.rule(|act| (act.to == "store" && act.verb == "put").then_some(Fate::Busy));
        let mut acked = 0;
        for n in 1..=10 {
            if client.try_eval(&gateway, "s", &format!("k{n}"), "n += 1").await.is_ok() {
                acked += 1;
            }
        }
        seconds(60).await;
        world.chaos.forget_rules();
        let found = client.value(&gateway, "s", "end", "n").await.as_u64().unwrap();
        assert!(found >= acked, "what was answered is there while its process lives: {acked} answered, {found} there");
    });
}

#[test]
fn a_retry_is_told_that_its_answer_is_ahead_of_storage_as_the_first_was() {
    scenario(|world| async move {
        let Stage { client, gateway, .. } = stage(world, &with(Durability::OnIdle)).await;
        client.value(&gateway, "s", "k0", "globalThis.n = 0").await;
        let first = client.eval(&gateway, "s", "k1", "n += 1").await;
        let again = client.eval(&gateway, "s", "k1", "n += 1").await;
        assert_eq!((&first.json["durable"], &again.json["durable"]), (&false.into(), &false.into()));
        assert!(client.order(&gateway, "s", "hibernate").await.is_ok());
        let stored = client.eval(&gateway, "s", "k1", "n += 1").await;
        assert_eq!((stored.json["durable"].clone(), stored.value().clone()), (true.into(), 1.into()));
    });
}

/// Nothing above 600 kB gets through in time; what a cell changes does, for as many increments as a head may name.
#[test]
fn a_link_that_takes_increments_only_does_not_stop_a_session() {
    scenario(|world| async move {
        let mut spec = spec();
        spec.checkpoints.keep = 0;
        let Stage { world, client, gateway, .. } = stage(world, &spec).await;
        // A megabyte that does not compress, in steps.
        let noise = "globalThis.all ??= []; const bytes = new Uint8Array(150000); crypto.getRandomValues(bytes.subarray(0, 65536)); crypto.getRandomValues(bytes.subarray(65536, 131072)); all.push(bytes); all.length";
        world.chaos.rule(|act| (act.to == "store" && act.verb == "put" && act.bytes > 600_000).then_some(Fate::RequestLost));
        for n in 1..=30 {
            assert_eq!(client.value(&gateway, "s", &format!("k{n}"), noise).await, n, "every increment fits the link");
        }
    });
}

/// 32 MiB that do not compress take 53 s of this link, more than a commit has otherwise; and the reply to the first sending is lost.
#[test]
fn a_large_image_has_as_long_as_a_slow_link_takes() {
    const LINK_BYTES_PER_SECOND: u64 = 620 << 10;
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        let lost = Arc::new(AtomicBool::new(false));
        let is_lost = Arc::clone(&lost);
        world.chaos.rule(move |act| {
            let takes_ms = 5 + act.bytes as u64 * 1_000 / LINK_BYTES_PER_SECOND;
            let fate = match takes_ms {
                // What is waited for a lost reply is 51 times that.
                40_000.. if !is_lost.swap(true, Ordering::SeqCst) => Fate::ReplyLost { before: takes_ms / 51 },
                before => Fate::Arrives { before, after: 5 },
            };
            (act.to == "store" && act.verb == "put").then_some(fate)
        });
        let noise = "globalThis.all = Array.from({length: 512}, () => crypto.getRandomValues(new Uint8Array(65536))); all.length";
        let answer = client.try_eval(&gateway, "s", "k1", noise).await;
        assert_eq!(*answer.value(), 512, "{} {}", answer.status, answer.json);
        assert!(lost.load(Ordering::SeqCst), "it was one object");
    });
}
