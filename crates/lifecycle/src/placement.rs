//! Which pod runs a session.

/// A pod that could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Pod name.
    pub pod: String,
    /// Live sessions that still fit.
    pub free_slots: u32,
    /// It is stopping and takes nothing.
    pub draining: bool,
    /// It still holds a copy of the session.
    pub has_copy: bool,
}

/// The best pod: one that holds a copy, then the one with the most free slots; names break ties, so that concurrent gateways agree.
#[must_use]
pub fn choose(candidates: &[Candidate]) -> Option<&Candidate> {
    candidates
        .iter()
        .filter(|c| !c.draining && c.free_slots > 0)
        .max_by(|a, b| (a.has_copy, a.free_slots).cmp(&(b.has_copy, b.free_slots)).then_with(|| b.pod.cmp(&a.pod)))
}

/// The epoch of the next placement: above the last that was given out, above that of the placement, and above `floor`, which a process has named.
#[must_use]
pub fn next_epoch(last: Option<u64>, placed: Option<u64>, floor: u64) -> u64 {
    last.unwrap_or(0).max(placed.unwrap_or(0)).max(floor).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(pod: &str, free_slots: u32, draining: bool, has_copy: bool) -> Candidate {
        Candidate { pod: pod.into(), free_slots, draining, has_copy }
    }

    fn chosen(candidates: &[Candidate]) -> Option<&str> {
        choose(candidates).map(|c| c.pod.as_str())
    }

    #[test]
    fn a_copy_comes_before_room_and_room_before_names() {
        assert_eq!(chosen(&[candidate("a", 9, false, false), candidate("b", 1, false, true)]), Some("b"));
        assert_eq!(chosen(&[candidate("a", 1, false, false), candidate("b", 9, false, false)]), Some("b"));
        assert_eq!(chosen(&[candidate("b", 3, false, false), candidate("a", 3, false, false)]), Some("a"));
    }

    #[test]
    fn full_and_draining_pods_take_nothing() {
        assert_eq!(chosen(&[candidate("a", 0, false, true), candidate("b", 9, true, true)]), None);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn an_epoch_is_above_all_that_is_known() {
        assert_eq!(next_epoch(None, None, 0), 1);
        assert_eq!(next_epoch(Some(5), Some(3), 0), 6);
        assert_eq!(next_epoch(Some(5), Some(7), 0), 8);
        assert_eq!(next_epoch(Some(5), None, 41), 42, "a directory that was put back knows less than the store");
    }
}
