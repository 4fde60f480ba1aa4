//! How much may be kept of what pods say, in all and of each namespace.

use std::collections::HashMap;

use dormouse_protocol::{ApiError, kernel::SessionReport};

/// What is kept of the process's memory for reports, in parts of a hundred of its limit.
const ROOM_PERCENT: u64 = 50;

/// Bytes that are kept, and may be.
///
/// A namespace may have no more than what would still be free then. However many are greedy, somebody else finds room: one of them has half of it, two a
/// third each ("dynamic thresholds": Choudhury and Hahne, Dynamic queue length thresholds for shared-memory packet switches, 1998, with α = 1).
#[derive(Debug, Default)]
pub(super) struct Room {
    /// `None`: there is no limit.
    bytes_max: Option<usize>,
    kept: usize,
    by_namespace: HashMap<String, usize>,
}

impl Room {
    /// Room in a process whose memory has this limit.
    pub(super) fn within(memory_bytes: Option<u64>) -> Self {
        let bytes_max = memory_bytes.map(|bytes| usize::try_from(bytes / 100 * ROOM_PERCENT).unwrap_or(usize::MAX));
        Self { bytes_max, ..Self::default() }
    }

    /// Whether a namespace may have `after` bytes kept in place of `before`. Less is always admitted.
    pub(super) fn admits(&self, namespace: &str, before: usize, after: usize) -> bool {
        let Some(bytes_max) = self.bytes_max.filter(|_| after > before) else { return true };
        let own = self.by_namespace.get(namespace).copied().unwrap_or_default() + after - before;
        own <= bytes_max.saturating_sub(self.kept + after - before)
    }

    /// Notes that a namespace has `after` bytes kept in place of `before`.
    pub(super) fn change(&mut self, namespace: &str, before: usize, after: usize) {
        self.kept = (self.kept + after).saturating_sub(before);
        let own = self.by_namespace.entry(namespace.to_owned()).or_default();
        *own = (*own + after).saturating_sub(before);
        if *own == 0 {
            self.by_namespace.remove(namespace);
        }
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.kept
    }
}

/// About how many bytes a report holds; the same whenever it is asked.
pub(super) fn weight(report: &SessionReport) -> usize {
    const FIELDS_BYTES: usize = 1_024;
    let details = |error: &ApiError| error.details.as_ref().map_or(0, |details| details.to_string().len());
    let failure = report.failure.as_ref().map_or(0, |error| error.message.len() + details(error));
    let texts = [&report.last_active_time, &report.next_wake_time].into_iter().flatten().map(String::len).sum::<usize>();
    let snapshot = report.snapshot.as_ref().map_or(0, |snapshot| snapshot.engine_digest.len() + snapshot.time.len());
    FIELDS_BYTES + report.name.len() + report.uid.len() + failure + texts + snapshot
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as much as it is given, a byte at a time.
    fn fill(room: &mut Room, namespace: &str) -> usize {
        let mut own = 0;
        while room.admits(namespace, own, own + 1) {
            room.change(namespace, own, own + 1);
            own += 1;
        }
        own
    }

    #[test]
    fn the_greedy_leave_room_for_somebody_else() {
        let mut room = Room::within(Some(2_400));
        assert_eq!([fill(&mut room, "a"), fill(&mut room, "b"), fill(&mut room, "c")], [600, 300, 150], "of 1,200");
        assert!(room.admits("honest", 0, 75));
        room.change("a", 600, 0);
        assert!(room.admits("honest", 0, 300) && room.admits("b", 300, 500), "what is given back is there for all");
        room.change("b", 300, 0);
        room.change("c", 150, 0);
        assert!(room.kept() == 0 && room.by_namespace.is_empty());
    }

    #[test]
    fn without_a_limit_there_is_always_room() {
        assert!(Room::within(None).admits("a", 0, usize::MAX / 2));
    }
}
