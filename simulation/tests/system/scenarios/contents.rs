//! What was uploaded can be read.

use dormouse_crds::session::{Durability, KernelSessionSpec};
use futures::future::{join, join_all};
use http::Method;

use super::{Stage, millis, scenario, seconds, stage};
use crate::{
    chaos::{Fate, Rates},
    client::BUDGET,
    world::{self, key, spec},
};

/// More than what stays in the heap.
const SMALL: usize = 200_000;
/// More than two pieces, so that a content that is put and gone on with keeps a part of what it had.
const LARGE: usize = 2_300_000;

fn content(bytes: usize, n: usize) -> Vec<u8> {
    let mut content = format!("file {n} ").into_bytes();
    content.resize(bytes + n * 1_000, b'a' + (n % 26) as u8);
    content
}

async fn six_at_once(world: world::World, bytes: usize) {
    let Stage { client, gateway, .. } = stage(world, &spec()).await;
    client.value(&gateway, "s", "k0", "1").await;
    for round in 0..3 {
        let all = (0..6).map(|n| {
            let (client, gateway) = (client.clone(), gateway.clone());
            async move {
                let path = format!("/s/files/f{n}");
                let put = client.send(&gateway, Method::PUT, &path, Some(content(bytes, n + round)), BUDGET).await;
                assert!(put.status != 500, "an upload is not refused as a fault of ours: {} {}", put.status, put.json);
                put.is_ok()
            }
        });
        // Cells commit what has come so far.
        let cells = async {
            for n in 0..5 {
                client.value(&gateway, "s", &format!("k{round} {n}"), "1").await;
            }
        };
        let (put, ()) = join(join_all(all), cells).await;
        seconds(5).await;
        for (n, put) in put.into_iter().enumerate() {
            let read = client.send(&gateway, Method::GET, &format!("/s/files/f{n}"), None, BUDGET).await;
            assert!(
                !put || (read.status == 200 && read.body == content(bytes, n + round)),
                "an upload that was acked is read: f{n} {} {}",
                read.status,
                read.json
            );
        }
    }
}

#[test]
fn six_uploads_at_once_are_all_kept() {
    scenario(|world| six_at_once(world, SMALL));
}

#[test]
fn uploads_beside_each_other_are_kept_whatever_their_order() {
    for seed in 1..30 {
        world::run(seed, Rates { delay_ms_max: 60, ..Rates::QUIET }, None, |world| six_at_once(world, SMALL));
    }
}

#[test]
fn large_uploads_beside_each_other_are_kept() {
    for seed in 1..4 {
        world::run(seed, Rates { delay_ms_max: 60, ..Rates::QUIET }, None, |world| six_at_once(world, LARGE));
    }
}

/// Whoever loses its placement and gets it back, under a later epoch, goes on with what it has.
#[test]
fn contents_written_across_a_change_of_epoch_are_kept() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "require('fs').writeFileSync('/a', 'a'.repeat(200000)); 1").await;
        world.operator.clear(&key("s"));
        seconds(2).await;
        client.value(&gateway, "s", "k2", "require('fs').writeFileSync('/b', 'b'.repeat(200000)); 2").await;
        seconds(5).await;
        client.value(&gateway, "s", "k3", "require('fs').writeFileSync('/c', 'c'.repeat(200000)); 3").await;
        seconds(5).await;
        client.order(&gateway, "s", "hibernate").await;
        for (file, byte) in [("a", b'a'), ("b", b'b'), ("c", b'c')] {
            let read = client.send(&gateway, Method::GET, &format!("/s/files/{file}"), None, BUDGET).await;
            assert!(
                read.status == 200 && read.body == vec![byte; 200_000],
                "contents that were acked are read: {file} {} {}",
                read.status,
                read.json
            );
        }
    });
}

/// A cell that writes while a sweep of the first commit under a new epoch is on its way.
#[test]
fn a_sweep_after_a_change_of_epoch_leaves_what_is_being_written() {
    scenario(|world| async move {
        let Stage { world, client, gateway, .. } = stage(world, &spec()).await;
        client.value(&gateway, "s", "k1", "require('fs').writeFileSync('/a', 'a'.repeat(200000)); 1").await;
        // The sweep sees everything that is there when it lists, and takes its time.
        world.chaos.rule(|act| (act.verb == "list").then_some(Fate::Arrives { before: 400, after: 10 }));
        for n in 0..4 {
            world.operator.clear(&key("s"));
            seconds(1).await;
            client.value(&gateway, "s", &format!("e{n}"), &format!("require('fs').appendFileSync('/a', 'a'.repeat(200000)); {n}")).await;
            let written =
                client.value(&gateway, "s", &format!("w{n}"), &format!("require('fs').writeFileSync('/b', 'b'.repeat(300000)); {n}")).await;
            assert_eq!(written, n);
            seconds(2).await;
            client.order(&gateway, "s", "hibernate").await;
            for (file, bytes) in [("a", 200_000 * (n + 2)), ("b", 300_000)] {
                let read = client.send(&gateway, Method::GET, &format!("/s/files/{file}"), None, BUDGET).await;
                assert!(
                    read.status == 200 && read.body.len() == bytes,
                    "contents that were acked are read: {file} {} {}",
                    read.status,
                    read.json
                );
            }
        }
    });
}

/// A cell that has written and awaits has not been answered. Whoever reads what it wrote has it stored by that.
#[test]
fn what_a_reader_was_shown_of_a_cell_under_way_is_there_when_its_process_dies() {
    scenario(|world| async move {
        // With a seed of its own a cell that is begun again would write the same once more.
        let spec = KernelSessionSpec { durability: Durability::OnIdle, determinism: None, ..spec() };
        let Stage { world, client, gateway, pod } = stage(world, &spec).await;
        let (writer, at) = (client.clone(), gateway.clone());
        // What is first under an epoch is stored before it is told, in every mode (`session/lag.rs`).
        assert_eq!(client.value(&gateway, "s", "k0", "1").await, 1);
        // In the heap: what has pieces outside it is stored for those anyway.
        let code = "require('fs').writeFileSync('/a', String(Math.random())); await sleep(1e9)";
        let writing = tokio::spawn(async move { writer.try_eval(&at, "s", "k1", code).await });
        // A second after it was last asked it would be stored in any case (`session/rest.rs`).
        millis(300).await;
        let read = async || client.insist(&gateway, Method::GET, "/s/files/a", None, BUDGET).await;
        let shown = read().await;
        assert_eq!(shown.status, 200, "{}", shown.json);
        world.kill(&pod);
        world.pod("p2").await;
        let again = read().await;
        assert_eq!((again.status, again.body), (200, shown.body), "what was shown is there: {}", again.json);
        writing.abort();
    });
}
