//! Conditions: always the whole set, with `lastTransitionTime` kept while the status stays.

use dormouse_crds::condition::Condition;
use jiff::Timestamp;

/// A time as conditions carry it: RFC 3339, whole seconds, UTC.
#[must_use]
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What a condition says, before it is compared with what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// Type of the condition.
    pub type_: &'static str,
    /// Its status; `None` is `Unknown`: nobody has told yet.
    pub status: Option<bool>,
    /// One word, from one of the sets in [`crate::reason`].
    pub reason: String,
    /// For people.
    pub message: String,
}

/// `update` as a condition about `generation`. `previous` are the conditions that the object has.
#[must_use]
pub fn condition(update: ConditionUpdate, generation: Option<i64>, previous: &[Condition], now: Timestamp) -> Condition {
    let status = match update.status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    let since = previous.iter().find(|old| old.type_ == update.type_ && old.status == status).map(|old| old.last_transition_time.clone());
    Condition {
        type_: update.type_.to_owned(),
        status: status.to_owned(),
        reason: update.reason,
        message: update.message,
        last_transition_time: since.unwrap_or_else(|| rfc3339(now)),
        observed_generation: generation,
    }
}

/// The condition of this type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of this type is `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let update = |status, reason: &str| ConditionUpdate { type_: "Ready", status, reason: reason.to_owned(), message: String::new() };
        let (first, later) = (Timestamp::from_second(1_000).unwrap(), Timestamp::from_second(2_000).unwrap());
        let a = condition(update(Some(true), "Idle"), Some(1), &[], first);
        let b = condition(update(Some(true), "Running"), Some(2), std::slice::from_ref(&a), later);
        assert_eq!((b.last_transition_time.as_str(), b.reason.as_str()), (a.last_transition_time.as_str(), "Running"));
        let c = condition(update(Some(false), "Waking"), Some(2), std::slice::from_ref(&b), later);
        assert_eq!(c.last_transition_time, "1970-01-01T00:33:20Z");
        assert!(!is_true(&[c], "Ready"));
        let d = condition(update(None, "Waking"), Some(2), &[b], later);
        assert_eq!((d.status.as_str(), is_true(std::slice::from_ref(&d), "Ready")), ("Unknown", false));
    }
}
