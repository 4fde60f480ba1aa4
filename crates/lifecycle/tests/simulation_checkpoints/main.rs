//! Checkpoints, time travel, forks and the journal: by seed, under crashes, takeovers, lost and late replies and garbage collection.
//!
//! Checked at every head that is written: everything it names is there. Checked at every look: each listed checkpoint opens to exactly the pages of
//! its cells, the journal has no gap and tells every acknowledged commit once, whatever was acknowledged last is what a restore finds. The
//! checkers are checked by processes that do it wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod store;
mod world;

use store::Violation;
use world::{Count, Mutant, World};

const SEEDS: u64 = 60;
const ACTIONS: usize = 500;

fn run(seed: u64, mutant: Mutant) -> Result<Count, Violation> {
    let mut world = World::new(seed, mutant);
    world.take_over(0)?;
    for _ in 0..ACTIONS {
        world.act()?;
    }
    world.settle()?;
    Ok(world.count)
}

#[test]
fn checkpoints_forks_and_journal_survive_every_fault() {
    let mut all = Count::default();
    for seed in 1..=SEEDS {
        let count = run(seed, Mutant::None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        all.acked += count.acked;
        all.restored += count.restored;
        all.forked += count.forked;
        all.replanned += count.replanned;
        all.marked += count.marked;
        all.rolled += count.rolled;
    }
    // The simulation is worth something only if it gets somewhere.
    assert!(all.acked > SEEDS * 30 && all.marked > SEEDS * 20 && all.rolled > SEEDS * 5, "{all:?}");
    assert!(all.restored > SEEDS * 2 && all.forked > SEEDS / 2 && all.replanned > 0, "{all:?}");
}

#[test]
fn each_mutant_is_caught() {
    for mutant in [Mutant::CollectsCheckpoints, Mutant::ForksByReference, Mutant::RestoresWholeHead, Mutant::DropsAside] {
        assert!((1..=SEEDS).any(|seed| run(seed, mutant).is_err()), "mutant {} was not caught", mutant as u8);
    }
}
