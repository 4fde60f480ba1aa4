//! How many pods a pool has: pure.

/// Of a pod's slots, how many are planned to be used, in percent: the rest lets a session wake without waiting for a new pod.
const FILL_PERCENT: u64 = 80;
/// A pool shrinks only when its sessions would fill the smaller one to no more than this, so that it does not swing.
const SHRINK_FILL_PERCENT: u64 = 50;

/// How large a pool is and may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Pods that there are to be now.
    pub current: u32,
    /// `spec.warmPods`
    pub warm: u32,
    /// `spec.maxPods`
    pub max: u32,
    /// `spec.slotsPerPod`
    pub slots: u32,
    /// Pods beyond those that its sessions need: of a dedicated pool `spec.warmPods`, since a pod that runs a session has room for no other.
    pub spare: u32,
}

/// What the number of pods depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// The pool.
    pub size: Size,
    /// Sessions that hold a slot or wait for one.
    pub live: u32,
    /// Free slots that nobody can have: of pods whose memory has no room for another session. Such a pod counts as full.
    pub blocked: u32,
    /// Whether a pod is needed to read what processes that are gone have stored.
    pub unread: bool,
    /// Whether every pod has told of its sessions, and none was short of memory of late; else there may be more to do than it seems.
    pub certain: bool,
}

/// How many pods there should be.
#[must_use]
pub fn replicas(demand: Demand) -> u32 {
    let Demand { size, live, blocked, unread, certain } = demand;
    let taken = live.saturating_add(blocked);
    let least = size.warm.max(u32::from(unread)).min(size.max);
    let needed = |fill_percent| pods_for(taken, size.slots, fill_percent).saturating_add(size.spare);
    let wanted = needed(FILL_PERCENT).clamp(least, size.max);
    if wanted >= size.current {
        return wanted;
    }
    if !certain {
        return size.current.min(size.max);
    }
    needed(SHRINK_FILL_PERCENT).clamp(wanted, size.current.min(size.max)).max(least)
}

fn pods_for(taken: u32, slots: u32, fill_percent: u64) -> u32 {
    let usable = (u64::from(slots) * fill_percent / 100).max(1);
    u32::try_from(u64::from(taken).div_ceil(usable)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(current: u32, live: u32) -> Demand {
        Demand { size: Size { current, warm: 1, max: 4, slots: 10, spare: 0 }, live, blocked: 0, unread: false, certain: true }
    }

    #[test]
    fn a_pool_grows_before_it_is_full_and_never_above_its_maximum() {
        for (live, pods) in [(0, 1), (8, 1), (9, 2), (16, 2), (17, 3), (1000, 4)] {
            assert_eq!(replicas(demand(1, live)), pods, "{live} live");
        }
    }

    #[test]
    fn a_pool_shrinks_only_when_there_is_room_to_spare() {
        assert_eq!(replicas(demand(3, 15)), 3, "15 of 20 slots: too full for two");
        assert_eq!(replicas(demand(3, 10)), 2, "10 of 20 slots");
        assert_eq!(replicas(demand(3, 0)), 1);
    }

    #[test]
    fn a_pod_without_memory_for_another_session_counts_as_full() {
        for (current, full, live, pods) in [(1, 0, 3, 1), (1, 1, 3, 2), (2, 1, 3, 2), (2, 2, 3, 3), (3, 3, 7, 4), (4, 4, 9, 4)] {
            // Each of the full ones has one session, and whoever else is live waits or is in another.
            let blocked = full * 9;
            assert_eq!(replicas(Demand { blocked, ..demand(current, live) }), pods, "{full} full of {current}, {live} live");
        }
        assert_eq!(replicas(Demand { blocked: 9, ..demand(2, 2) }), 2, "nor does the pool shrink onto it");
    }

    #[test]
    fn a_pool_does_not_shrink_before_every_pod_has_told() {
        assert_eq!(replicas(Demand { certain: false, ..demand(3, 0) }), 3);
        assert_eq!(replicas(Demand { certain: false, ..demand(1, 9) }), 2, "but it grows");
    }

    #[test]
    fn without_warm_pods_a_pool_has_none_while_nobody_is_awake_and_nothing_is_to_be_read() {
        let size = Size { current: 0, warm: 0, max: 4, slots: 10, spare: 0 };
        let cold = Demand { size, live: 0, blocked: 0, unread: false, certain: true };
        assert_eq!(replicas(cold), 0);
        assert_eq!(replicas(Demand { live: 1, ..cold }), 1);
        assert_eq!(replicas(Demand { unread: true, ..cold }), 1);
        let two = Demand { size: Size { current: 2, ..size }, ..cold };
        assert_eq!(replicas(two), 0);
        assert_eq!(replicas(Demand { certain: false, ..two }), 2);
    }

    #[test]
    fn a_lowered_maximum_counts_at_once() {
        let (full, empty) = (demand(4, 39), demand(1, 0));
        assert_eq!(replicas(Demand { size: Size { max: 2, ..full.size }, ..full }), 2);
        assert_eq!(replicas(Demand { size: Size { warm: 9, ..empty.size }, ..empty }), 4, "warm is bounded by the maximum");
    }

    #[test]
    fn a_dedicated_pool_has_a_pod_for_each_session_and_some_that_wait_for_the_next() {
        let pods = |live, spare, current| {
            let some = demand(current, live);
            replicas(Demand { size: Size { slots: 1, spare, ..some.size }, ..some })
        };
        assert_eq!((pods(3, 0, 1), pods(2, 1, 1), pods(0, 1, 1), pods(9, 2, 1)), (3, 3, 1, 4));
        assert_eq!((pods(1, 2, 4), pods(0, 2, 3)), (3, 2), "and as many when it gets smaller");
    }
}
