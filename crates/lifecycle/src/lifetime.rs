//! How long a session lives that nobody uses.

/// What a session is by its last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// It takes cells.
    Active {
        /// When it expires, in milliseconds since the Unix epoch; `None`: never.
        until_ms: Option<i64>,
    },
    /// It can be read and takes no cells.
    Expired {
        /// When it is to be deleted, in milliseconds since the Unix epoch; `None`: never.
        until_ms: Option<i64>,
    },
    /// It is to be deleted.
    Over,
}

/// What a session is that was used last at `used_ms`, which is its creation where it never was. Times are milliseconds since the Unix epoch; of both
/// lengths 0 means for ever.
#[must_use]
pub fn lifetime(active_seconds: u64, retained_seconds: u64, used_ms: i64, now_ms: i64) -> Lifetime {
    let after = |from_ms: i64, seconds: u64| from_ms.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000));
    if active_seconds == 0 {
        return Lifetime::Active { until_ms: None };
    }
    let expires_ms = after(used_ms, active_seconds);
    if now_ms < expires_ms {
        return Lifetime::Active { until_ms: Some(expires_ms) };
    }
    if retained_seconds == 0 {
        return Lifetime::Expired { until_ms: None };
    }
    let over_ms = after(expires_ms, retained_seconds);
    if now_ms < over_ms { Lifetime::Expired { until_ms: Some(over_ms) } } else { Lifetime::Over }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_expires_and_ends_when_its_times_are_over_and_not_before() {
        let at = |now_ms| lifetime(10, 5, 1_000, now_ms);
        assert_eq!(at(10_999), Lifetime::Active { until_ms: Some(11_000) });
        assert_eq!(at(11_000), Lifetime::Expired { until_ms: Some(16_000) });
        assert_eq!(at(15_999), Lifetime::Expired { until_ms: Some(16_000) });
        assert_eq!(at(16_000), Lifetime::Over);
    }

    #[test]
    fn nought_is_for_ever() {
        assert_eq!(lifetime(0, 5, 0, i64::MAX), Lifetime::Active { until_ms: None });
        assert_eq!(lifetime(1, 0, 0, i64::MAX), Lifetime::Expired { until_ms: None });
        assert_eq!(lifetime(u64::MAX, u64::MAX, 0, i64::MAX - 1), Lifetime::Active { until_ms: Some(i64::MAX) });
    }
}
