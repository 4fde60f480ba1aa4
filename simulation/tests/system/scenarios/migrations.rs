//! A session of an earlier engine moves to the current one whole, or stays as it was: whatever is lost, and whoever dies meanwhile.

use std::time::Duration;

use dormouse_crds::session::{Durability, KernelSessionSpec};
use dormouse_lifecycle::Head;
use http::Method;
use tokio::time::sleep;

use crate::{
    chaos::Rates,
    client::{BUDGET, Client},
    random::Random,
    world::{self, World, engine, key, session_key, spec},
};

/// Runs, of which each draws what fails, and when its pods die.
const SEEDS: u64 = 24;
/// Cells before it moves.
const CELLS: usize = 6;
/// How often messages are lost, in a thousand.
const LOSSY: Rates = Rates { request_lost: 8, reply_lost: 30, late: 10, busy: 30, conflict: 10, delay_ms_max: 40 };

fn engine_of(world: &World) -> String {
    let head = session_key(&world.status.get(&key("s")).expect("it is there").uid, "s").head();
    Head::decode(&world.disk.get(&head).expect("a head")).expect("a head that verifies").engine_digest
}

/// The cell of this number: what it answers holds all that ran before it.
fn cell(number: usize) -> (String, String) {
    let id = format!("k{number}");
    let code = format!("globalThis.log ??= []; log.push('{id}'); log.join()");
    (id, code)
}

async fn moves(world: World, seed: u64, durability: Durability) {
    let mut random = Random::of(seed, &"migration");
    let old = world.earlier_pod("old", 1).await;
    world.broker("b1");
    let (gateway, client) = (world.gateway("g1"), Client::new(&world, "client"));
    client.create(&gateway, "s", &KernelSessionSpec { durability, ..spec() }).await;
    let mut answers = Vec::new();
    for (id, code) in (0..CELLS).map(cell) {
        answers.push(client.value(&gateway, "s", &id, &code).await);
    }
    let asleep = client.insist(&gateway, Method::POST, "/s/hibernate", None, BUDGET * 4).await;
    assert!(asleep.is_ok(), "{} {}", asleep.status, asleep.json);
    let before = engine_of(&world);

    let mut pod = world.earlier_pod("new-0", 0).await;
    world.kill(&old);
    let (dies, mut times) = (world.clone(), Random::of(seed, &"deaths"));
    let deaths = tokio::spawn(async move {
        for death in 1..=2 {
            sleep(Duration::from_millis(times.between(0, 1_500))).await;
            dies.kill(&pod);
            pod = dies.earlier_pod(&format!("new-{death}"), 0).await;
        }
    });
    sleep(Duration::from_millis(random.below(200))).await;
    let moved = client.insist(&gateway, Method::POST, "/s/migrate", None, BUDGET * 4).await;
    let after = engine_of(&world);
    if moved.is_ok() {
        assert_eq!(after, engine().digest().as_str(), "it said that it has moved: {}", moved.json);
    }
    assert!(after == before || after == engine().digest().as_str());
    deaths.await.expect("pods die and come");

    world.chaos.calm();
    let log: Vec<String> = (0..CELLS).map(|number| cell(number).0).collect();
    assert_eq!(client.value(&gateway, "s", "look", "log.join()").await, log.join(","), "seed {seed}: each cell is there, once");
    for ((id, code), first) in (0..CELLS).map(cell).zip(answers) {
        assert_eq!(client.value(&gateway, "s", &id, &code).await, first, "seed {seed}: one key, one answer");
    }
    let moved = client.insist(&gateway, Method::POST, "/s/migrate", None, BUDGET).await;
    assert!(moved.is_ok() && engine_of(&world) == engine().digest().as_str(), "when nothing fails it moves: {}", moved.json);
}

#[test]
fn a_session_moves_to_another_engine_whole_or_not_at_all() {
    for seed in 1..=SEEDS {
        for durability in [Durability::PerEval, Durability::Batched, Durability::OnIdle] {
            world::run(seed, LOSSY, None, move |world| moves(world, seed, durability));
        }
    }
}
