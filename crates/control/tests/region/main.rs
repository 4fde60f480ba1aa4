//! A region: very many nodes, pods, gateways and sessions in virtual time. Where a session goes, and what of it is written when, is decided by the same
//! core that operator and gateways are shells around; here its writes are counted. `docs/scale.md` holds what it came to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod place;
mod status;
mod world;

use std::time::Duration;

use dormouse_testkit::soak;

use world::{Counts, Region, World};

/// Statuses a second that `Writes` lets through: 100 of what somebody may wait for, 4 of what is merely busy, and a little for their bursts.
const WRITES_OF_STATUS_MAX: f64 = 105.0;

fn report(what: &str, region: &Region, world: &World<'_>, counts: &Counts, seconds: f64) {
    let each = |count: u64| count as f64 / seconds;
    soak::report(&format!(
        "{what}: {} pods of {} slots, {} gateways, {} sessions, {} awake; a second: {:.0} wakes, {:.0} in place, {:.1} moves \
         ({:.1} refused by a pod), {:.1} placements, {:.1} statuses at once, {:.1} later and {:.1} of processes that \
         go, {:.1} cleared, {:.0} looks of the operator; {:.1} \
         pods asked a move, {} at most; a settled status is {} ms late at p99; the fullest pod has {} of {} slots",
        world.pods(),
        region.slots,
        region.gateways,
        region.sessions,
        world.awake(),
        each(counts.wakes),
        each(counts.in_place),
        each(counts.moves),
        each(counts.refused),
        each(counts.placed),
        each(counts.settled),
        each(counts.busy),
        each(counts.last),
        each(counts.cleared),
        each(counts.looks),
        counts.asked as f64 / counts.moves.max(1) as f64,
        counts.asked_max,
        counts.late_ms(99),
        world.fullest(),
        region.slots,
    ));
}

/// What a second costs while sessions wake and sleep where they are, and what an hour in which every pod is replaced adds.
#[test]
fn a_region_costs_its_api_server_what_moves_and_what_settles() {
    // 1,000 of them have four pods each.
    let nodes = soak::count(20, 1_000);
    let region = Region {
        slots: 100,
        pools: 2 * nodes.div_ceil(50) as usize,
        gateways: 10,
        sessions: nodes * 1_000,
        wakes_per_second: nodes * 5,
        awake: Duration::from_secs(60),
    };
    let mut world = World::new(&region);
    // Everybody has a place by then, and as many are awake as there will be.
    world.warm_up();
    let minutes = 5;
    let quiet = world.run(Duration::from_secs(60 * minutes), None);
    report("a region at rest", &region, &world, &quiet, 60.0 * minutes as f64);
    let hour = Duration::from_secs(3_600);
    let upgrade = world.run(hour, Some(hour));
    report("a region whose pods are all replaced within an hour", &region, &world, &upgrade, 3_600.0);

    for (counts, seconds) in [(&quiet, 60.0 * minutes as f64), (&upgrade, 3_600.0)] {
        assert_eq!(counts.without_room, 0, "there is room for all");
        assert_eq!(counts.in_place + counts.moves, counts.wakes, "a wake is in place or by move");
        assert_eq!(counts.placed, counts.moves, "a move is one write, a wake in place none");
        assert!((counts.settled + counts.busy) as f64 / seconds <= WRITES_OF_STATUS_MAX, "{counts:?}");
    }
    assert_eq!(quiet.cleared + quiet.last, 0, "nothing is gone");
    assert!(quiet.moves * 20 < quiet.wakes, "a session moves when its pod is full, and seldom: {quiet:?}");
    assert!(quiet.asked_max <= 2 * 8 + 16, "however many pods there are, few are asked: {quiet:?}");
    assert!(upgrade.last <= upgrade.cleared && upgrade.cleared <= region.sessions, "a session is cleared once: {upgrade:?}");
}
