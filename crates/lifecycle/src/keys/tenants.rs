//! Keys of what is kept for a tenant and belongs to no session.

use super::tenant_prefix;

/// Key of a part of the audit of a tenant's brokers. `day` is `YYYY-MM-DD`; `process` is never used twice.
#[must_use]
pub fn audit(store_prefix: &str, tenant: &str, day: &str, process: &str, number: u64) -> String {
    format!("{}audit/{day}/{process}-{number:08}.ndjson", tenant_prefix(store_prefix, tenant))
}

/// Prefix of the keys that name what runners of a capability may claim, with the trailing `/`.
#[must_use]
pub fn jobs_open(store_prefix: &str, tenant: &str, broker: &str, capability: &str) -> String {
    format!("{}{capability}/", jobs_open_all(store_prefix, tenant, broker))
}

/// The same of all capabilities of a ToolBroker.
#[must_use]
pub fn jobs_open_all(store_prefix: &str, tenant: &str, broker: &str) -> String {
    format!("{}jobs/{broker}/", tenant_prefix(store_prefix, tenant))
}

/// Prefix of the keys of messages that a ToolBroker is delivering, with the trailing `/`; the message's id follows.
#[must_use]
pub fn webhooks_open(store_prefix: &str, tenant: &str, broker: &str) -> String {
    format!("{}webhooks/{broker}/open/", tenant_prefix(store_prefix, tenant))
}

/// Prefix of the keys of messages that a ToolBroker has delivered, or given up, with the trailing `/`; [`newest_first`], `-` and the id follow.
#[must_use]
pub fn webhooks_done(store_prefix: &str, tenant: &str, broker: &str) -> String {
    format!("{}webhooks/{broker}/done/", tenant_prefix(store_prefix, tenant))
}

/// A part of a key that sorts later times first. Milliseconds since the Unix epoch.
#[must_use]
pub fn newest_first(time_ms: i64) -> String {
    format!("{:014}", NEWEST_FIRST_MAX.saturating_sub(u64::try_from(time_ms).unwrap_or(0)))
}

/// The time that [`newest_first`] wrote, in milliseconds since the Unix epoch.
#[must_use]
pub fn time_of(newest_first: &str) -> Option<i64> {
    let back: u64 = newest_first.parse().ok().filter(|_| newest_first.len() == NEWEST_FIRST_DIGITS)?;
    i64::try_from(NEWEST_FIRST_MAX.checked_sub(back)?).ok()
}

const NEWEST_FIRST_DIGITS: usize = 14;
/// The time, in the year 5138, from which [`newest_first`] counts back.
const NEWEST_FIRST_MAX: u64 = 99_999_999_999_999;

/// Before the keys of what a tenant's sessions used on `day`, `YYYY-MM-DD`.
#[must_use]
pub fn usage_prefix(store_prefix: &str, tenant: &str, day: &str) -> String {
    format!("{}usage/{day}/", tenant_prefix(store_prefix, tenant))
}

/// Key of what a process tells of that day. `process` is never used twice.
#[must_use]
pub fn usage(store_prefix: &str, tenant: &str, day: &str, process: &str, number: u64) -> String {
    format!("{}{process}-{number:08}.json", usage_prefix(store_prefix, tenant, day))
}

/// Prefix of the keys of documents that a tenant puts in the store for its sessions to search, with the trailing `/`; `below` is a name, or several with `/`.
#[must_use]
pub fn knowledge(store_prefix: &str, tenant: &str, below: &str) -> String {
    format!("{}knowledge/{below}/", tenant_prefix(store_prefix, tenant))
}

/// Prefixes of all that is kept for a tenant beside its sessions, its audit and the names of its clusters.
#[must_use]
pub fn shared(store_prefix: &str, tenant: &str) -> [String; 4] {
    let prefix = tenant_prefix(store_prefix, tenant);
    ["webhooks/", "jobs/", "usage/", "b/all/"].map(|folder| format!("{prefix}{folder}"))
}

/// What is kept for a tenant and belongs to no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared<'a> {
    /// A ToolBroker's: a message that it delivers, or the name of a call that runners may make.
    Open {
        /// The ToolBroker.
        broker: &'a str,
    },
    /// A message that a ToolBroker has delivered or given up.
    Done {
        /// The ToolBroker.
        broker: &'a str,
        /// When it was made, in milliseconds since the Unix epoch.
        created_ms: i64,
    },
    /// What was used on a day.
    Used {
        /// `YYYY-MM-DD`.
        day: &'a str,
    },
}

/// The tenant of the object at `key`, and what it is kept for. `None` for a session's, and for what is not ours.
#[must_use]
pub fn shared_of<'a>(store_prefix: &str, key: &'a str) -> Option<(&'a str, Shared<'a>)> {
    let rest = key.strip_prefix(store_prefix)?.strip_prefix("t/")?;
    let parts: Vec<&str> = rest.split('/').collect();
    let (tenant, shared) = match parts.as_slice() {
        [tenant, "webhooks", broker, "open", _] | [tenant, "jobs", broker, _, _] => (tenant, Shared::Open { broker }),
        [tenant, "webhooks", broker, "done", name] => {
            let created_ms = name.split_once('-').and_then(|(time, _)| time_of(time))?;
            (tenant, Shared::Done { broker, created_ms })
        }
        [tenant, "usage", day, _] => (tenant, Shared::Used { day }),
        _ => return None,
    };
    (!tenant.is_empty()).then_some((*tenant, shared))
}

#[cfg(test)]
mod tests {
    use super::super::{ALL, clusters, spent};
    use super::*;

    #[test]
    fn what_is_no_sessions_is_known_by_its_key() {
        fn of(key: &str) -> Option<(&str, Shared<'_>)> {
            shared_of("p/", key)
        }
        let done = format!("{}{}-msg_a", webhooks_done("p/", "team", "shop"), newest_first(17));
        assert_eq!(of(&done), Some(("team", Shared::Done { broker: "shop", created_ms: 17 })));
        let open = [webhooks_open("p/", "team", "shop") + "msg_a", jobs_open("p/", "team", "shop", "browser") + "1_u_2"];
        assert!(open.iter().all(|key| of(key) == Some(("team", Shared::Open { broker: "shop" }))));
        assert_eq!(of(&usage("p/", "team", "2030-01-02", "x", 3)), Some(("team", Shared::Used { day: "2030-01-02" })));
        let others = [
            audit("p/", "team", "2030-01-02", "x", 3),
            clusters("p/", "team"),
            "p/t/team/s/default/u/head".to_owned(),
            spent("p/", "team", ALL),
        ];
        assert!(others.iter().all(|key| of(key).is_none()));
        for key in [done.as_str(), &open[0], &open[1], &others[3]] {
            assert!(shared("p/", "team").iter().any(|prefix| key.starts_with(prefix)), "{key}");
        }
        for wrong in ["p/t/team/webhooks/shop/done/1-msg", "p/t//usage/2030-01-02/x", "t/team/usage/2030-01-02/x", "p/t/team/usage/x"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
