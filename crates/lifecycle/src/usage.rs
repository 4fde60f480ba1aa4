//! What sessions have used, and how it is summed without counting anything twice.
//!
//! What a session's cells use is counted in its record, and committed with them: by day and by key, growing only. So of two accounts of the same day the
//! larger is the later one, and a sum takes the largest. What a process uses to keep a session live belongs to no commit: it is told once, on a numbered
//! sheet, and a sum adds the sheets up.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Days and keys that a record counts apart; the oldest day goes first.
pub const ENTRIES_MAX: usize = 32;

/// Milliseconds of an hour.
const HOUR_MS: i64 = 60 * 60 * 1000;

/// What cells under one key have used on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// Cells that have ended.
    pub evals: u64,
    /// Microseconds of running code.
    pub cpu_us: u64,
    /// Tool calls and fetches.
    pub tool_calls: u64,
    /// Bytes of what they sent and got.
    pub egress_bytes: u64,
    /// The last hour in which code ran, in hours since the Unix epoch.
    pub hour: i64,
    /// Microseconds of running code in that hour.
    pub hour_cpu_us: u64,
}

impl Counts {
    /// The hour of a time in milliseconds since the Unix epoch.
    #[must_use]
    pub fn hour_of(now_ms: i64) -> i64 {
        now_ms.div_euclid(HOUR_MS)
    }

    /// Adds what was used in the hour that `more` names.
    pub fn add(&mut self, more: &Self) {
        self.evals = self.evals.saturating_add(more.evals);
        self.cpu_us = self.cpu_us.saturating_add(more.cpu_us);
        self.tool_calls = self.tool_calls.saturating_add(more.tool_calls);
        self.egress_bytes = self.egress_bytes.saturating_add(more.egress_bytes);
        match more.hour.cmp(&self.hour) {
            std::cmp::Ordering::Greater => (self.hour, self.hour_cpu_us) = (more.hour, more.hour_cpu_us),
            std::cmp::Ordering::Equal => self.hour_cpu_us = self.hour_cpu_us.saturating_add(more.hour_cpu_us),
            std::cmp::Ordering::Less => {}
        }
    }

    /// Takes the later of two accounts of the same.
    fn raise_to(&mut self, other: &Self) {
        self.evals = self.evals.max(other.evals);
        self.cpu_us = self.cpu_us.max(other.cpu_us);
        self.tool_calls = self.tool_calls.max(other.tool_calls);
        self.egress_bytes = self.egress_bytes.max(other.egress_bytes);
        (self.hour, self.hour_cpu_us) = (self.hour, self.hour_cpu_us).max((other.hour, other.hour_cpu_us));
    }

    /// The same in the hour `hour`: what code used in another one does not count there.
    #[must_use]
    pub fn cpu_us_in(&self, hour: i64) -> u64 {
        if self.hour == hour { self.hour_cpu_us } else { 0 }
    }
}

/// Counts by key; no key's have the empty name.
pub type Keys = BTreeMap<String, Counts>;

/// What a session's cells have used, by day (`YYYY-MM-DD`) and key: a part of its record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Usage(BTreeMap<String, Keys>);

impl Usage {
    /// Whether nothing was used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds what cells under `key` have used on `day`.
    pub fn add(&mut self, day: &str, key: &str, more: &Counts) {
        if let Some(counts) = self.0.get_mut(day).and_then(|keys| keys.get_mut(key)) {
            return counts.add(more);
        }
        self.0.entry(day.to_owned()).or_default().insert(key.to_owned(), *more);
        while self.0.values().map(BTreeMap::len).sum::<usize>() > ENTRIES_MAX && self.0.len() > 1 {
            self.0.pop_first();
        }
    }

    /// Each day's counts.
    pub fn days(&self) -> impl DoubleEndedIterator<Item = (&str, &Keys)> {
        self.0.iter().map(|(day, keys)| (day.as_str(), keys))
    }
}

/// What a process has seen of one session on one day.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Seen {
    /// The session's name.
    pub name: String,
    /// What its commits say that its cells have used that day.
    pub keys: Keys,
    /// Times that it was woken.
    pub wakes: u64,
    /// Bytes of its live heap, times the seconds that it was live.
    pub heap_byte_seconds: u64,
    /// The most bytes that it had in the store.
    pub stored_bytes: u64,
}

impl Seen {
    /// Takes in another process's account, or another sheet of this one.
    fn merge(&mut self, other: &Self) {
        if self.name.is_empty() {
            self.name.clone_from(&other.name);
        }
        for (key, counts) in &other.keys {
            self.keys.entry(key.clone()).or_default().raise_to(counts);
        }
        self.wakes = self.wakes.saturating_add(other.wakes);
        self.heap_byte_seconds = self.heap_byte_seconds.saturating_add(other.heap_byte_seconds);
        self.stored_bytes = self.stored_bytes.max(other.stored_bytes);
    }

    /// What its cells have used, under all keys.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for counts in self.keys.values() {
            total.add(counts);
        }
        total
    }
}

/// What a process has to tell of one day: by uid, what it has seen of each session since its last sheet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sheet {
    /// By uid.
    pub sessions: BTreeMap<String, Seen>,
    /// Names of the sheets that this one is the sum of: they count no more.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub covers: BTreeSet<String>,
}

impl Sheet {
    /// The entry of a session.
    pub fn of(&mut self, uid: &str, name: &str) -> &mut Seen {
        let seen = self.sessions.entry(uid.to_owned()).or_default();
        if seen.name != name && !name.is_empty() {
            name.clone_into(&mut seen.name);
        }
        seen
    }

    /// Takes in what a commit of a session says of this day.
    pub fn committed(&mut self, uid: &str, name: &str, keys: &Keys) {
        let seen = self.of(uid, name);
        for (key, counts) in keys {
            seen.keys.entry(key.clone()).or_default().raise_to(counts);
        }
    }

    /// Adds another sheet of the same day.
    pub fn merge(&mut self, other: &Self) {
        for (uid, seen) in &other.sessions {
            self.sessions.entry(uid.clone()).or_default().merge(seen);
        }
    }
}

/// The sum of a day's stored sheets, by name, without those that another one covers.
#[must_use]
pub fn sum(sheets: &BTreeMap<String, Sheet>) -> Sheet {
    let covered: BTreeSet<&String> = sheets.values().flat_map(|sheet| &sheet.covers).collect();
    let mut sum = Sheet::default();
    for (name, sheet) in sheets {
        if !covered.contains(name) {
            sum.merge(sheet);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(evals: u64, cpu_us: u64, hour: i64) -> Counts {
        Counts { evals, cpu_us, hour, hour_cpu_us: cpu_us, ..Counts::default() }
    }

    fn sheet(evals: u64, wakes: u64) -> Sheet {
        let mut sheet = Sheet::default();
        sheet.committed("u", "a", &Keys::from([("key".to_owned(), counts(evals, evals * 10, 1))]));
        sheet.of("u", "a").wakes = wakes;
        sheet
    }

    #[test]
    fn what_is_committed_counts_once_and_what_a_process_used_adds_up() {
        let sheets = BTreeMap::from([("a-1".to_owned(), sheet(3, 1)), ("a-2".to_owned(), sheet(5, 1)), ("b-1".to_owned(), sheet(5, 1))]);
        let sum = sum(&sheets);
        let seen = &sum.sessions["u"];
        assert_eq!((seen.name.as_str(), seen.keys["key"].evals, seen.wakes), ("a", 5, 3));
        assert_eq!(seen.total().cpu_us_in(1), 50);
    }

    #[test]
    fn a_sum_takes_the_place_of_its_parts_also_beside_them() {
        let parts = BTreeMap::from([("a-1".to_owned(), sheet(3, 1)), ("a-2".to_owned(), sheet(5, 1))]);
        let whole = Sheet { covers: parts.keys().cloned().collect(), ..sum(&parts) };
        let mut beside = parts.clone();
        beside.insert("sum".to_owned(), whole.clone());
        assert_eq!(sum(&beside).sessions, whole.sessions);
        assert_eq!(sum(&BTreeMap::from([("sum".to_owned(), whole.clone())])).sessions, whole.sessions);
    }

    #[test]
    fn an_hour_counts_by_itself() {
        let mut all = counts(1, 10, 1);
        all.add(&counts(1, 5, 1));
        all.add(&counts(1, 7, 2));
        assert_eq!((all.cpu_us, all.cpu_us_in(2), all.cpu_us_in(1)), (22, 7, 0));
        assert_eq!(Counts::hour_of(2 * HOUR_MS - 1), 1);
    }

    #[test]
    fn a_record_keeps_a_bounded_number_of_days() {
        let mut usage = Usage::default();
        for day in 10..=10 + ENTRIES_MAX {
            usage.add(&format!("2026-01-{day}"), "", &counts(1, 1, 0));
        }
        assert_eq!(
            (usage.days().count(), usage.days().next().map(|(day, _)| day.to_owned())),
            (ENTRIES_MAX, Some("2026-01-11".to_owned()))
        );
        let read: Usage = serde_json::from_str(&serde_json::to_string(&usage).unwrap()).unwrap();
        assert_eq!(read, usage);
    }
}
