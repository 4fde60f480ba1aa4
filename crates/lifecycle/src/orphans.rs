//! What belongs to no session any more: left by a process that was cut off, and went on after its session's deletion had ended.
//!
//! The rule: list the store first, ask which sessions there are afterwards. An object of a session exists before anything is stored under
//! its uid, and no uid is ever given out twice. So a uid that was listed, and that is unknown *after* that, is of a session that has gone and
//! cannot come back. In the other order it could be of one that was made in between. A session that is being deleted is known until its
//! deletion has ended. Unknown to whom, and who may therefore act on it, is [`crate::clusters`]' part.
//!
//! One more may be unknown: a session that leaves for the archive while it is listed. Its objects are marked before its API object goes. So whoever
//! is about to remove something looks for the mark once more, after it was found unknown.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::keys::{self, Owner, Shared};

/// How long a message of a webhook is kept that was delivered or given up, in days.
pub const MESSAGES_KEPT_DAYS: u32 = 30;
/// How long it is kept what sessions used on a day, in days.
pub const USAGE_KEPT_DAYS: u32 = 400;
/// Keys that one sweep remembers of what is no session's; the next one does the rest.
const REMEMBERED_MAX: usize = 100_000;

/// What a listing has of sessions: by tenant and uid, how many objects. Those that have been archived are not remembered, however many they are: their
/// uids may be those of no API object, and whoever deletes them erases them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    sessions: BTreeMap<String, BTreeMap<String, Orphan>>,
    /// The folder of the last session that has been archived: a store lists what is in one folder together.
    archived: Option<String>,
}

/// A session that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Its uid.
    pub uid: String,
    /// Below the names of which pools.
    pub pools: BTreeSet<String>,
    /// Objects that were listed.
    pub objects: u64,
}

impl Listed {
    /// What of `keys`, all that a store has under some prefix, is of sessions. Names that are none of ours do not count.
    #[must_use]
    pub fn of(store_prefix: &str, keys: &[String]) -> Self {
        let mut listed = Self::default();
        listed.add(store_prefix, keys);
        listed
    }

    /// Takes in a further part of the listing.
    pub fn add(&mut self, store_prefix: &str, keys: &[String]) {
        for key in keys {
            let Some(Owner { tenant, pool, uid }) = keys::session_of(store_prefix, key) else { continue };
            let Some((folder, name)) = key.rsplit_once('/') else { continue };
            if name == keys::ARCHIVED {
                self.forget(tenant, uid);
                self.archived = Some(folder.to_owned());
            }
            if self.archived.as_deref() != Some(folder) {
                let of_tenant = self.sessions.entry(tenant.to_owned()).or_default();
                let none = || Orphan { uid: uid.to_owned(), pools: BTreeSet::new(), objects: 0 };
                let session = of_tenant.entry(uid.to_owned()).or_insert_with(none);
                session.objects += 1;
                if !session.pools.contains(pool) {
                    session.pools.insert(pool.to_owned());
                }
            }
        }
    }

    fn forget(&mut self, tenant: &str, uid: &str) {
        let Some(sessions) = self.sessions.get_mut(tenant) else { return };
        sessions.remove(uid);
        if sessions.is_empty() {
            self.sessions.remove(tenant);
        }
    }

    /// Whether there is nothing of any session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.archived.is_none()
    }

    /// Each tenant with those of its sessions that are not among `known`, the uids of all sessions that there were after the listing.
    #[must_use]
    pub fn unknown(&self, known: &HashSet<String>) -> Vec<(&str, Vec<Orphan>)> {
        let of = |(tenant, uids)| {
            let uids: &BTreeMap<String, Orphan> = uids;
            let unknown = uids.values().filter(|session| !known.contains(&session.uid));
            let tenant: &String = tenant;
            (tenant.as_str(), unknown.cloned().collect())
        };
        self.sessions.iter().map(of).collect()
    }
}

/// Before when something is too old.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Age {
    /// A message, in milliseconds since the Unix epoch.
    pub messages_ms: i64,
    /// What was used, `YYYY-MM-DD`.
    pub usage_day: String,
}

/// What a listing has of that which is kept for tenants and no session, and that may be removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// What is too old, by tenant.
    old: BTreeMap<String, Vec<String>>,
    /// What brokers keep, by tenant and broker.
    brokers: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    remembered: usize,
}

impl Leftovers {
    /// Takes in a part of the listing.
    pub fn add(&mut self, store_prefix: &str, keys: &[String], age: &Age) {
        for key in keys {
            let Some((tenant, shared)) = keys::shared_of(store_prefix, key) else { continue };
            let list = match shared {
                Shared::Done { created_ms, .. } if created_ms < age.messages_ms => self.old.entry(tenant.to_owned()).or_default(),
                Shared::Used { day } if day < age.usage_day.as_str() => self.old.entry(tenant.to_owned()).or_default(),
                Shared::Used { .. } => continue,
                Shared::Open { broker } | Shared::Done { broker, .. } => {
                    self.brokers.entry(tenant.to_owned()).or_default().entry(broker.to_owned()).or_default()
                }
            };
            if self.remembered < REMEMBERED_MAX {
                list.push(key.clone());
                self.remembered += 1;
            }
        }
    }

    /// Tenants of which something was listed.
    pub fn tenants(&self) -> impl Iterator<Item = &str> {
        self.old.keys().chain(self.brokers.keys()).map(String::as_str)
    }

    /// What of a tenant is to go, where these are the names of all its ToolBrokers that there were after the listing.
    #[must_use]
    pub fn of(&self, tenant: &str, brokers: &HashSet<&str>) -> Vec<&str> {
        let old = self.old.get(tenant).into_iter().flatten();
        let gone = self.brokers.get(tenant).into_iter().flatten().filter(|(broker, _)| !brokers.contains(broker.as_str()));
        old.chain(gone.flat_map(|(_, keys)| keys)).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_old_or_a_broker_kept_that_is_gone_is_to_go() {
        let age = Age { messages_ms: 100, usage_day: "2030-01-02".to_owned() };
        let done = |broker, ms| format!("{}{}-m", keys::webhooks_done("p/", "team", broker), keys::newest_first(ms));
        let (old, new, other) = (done("shop", 99), done("shop", 100), done("gone", 500));
        let open = keys::jobs_open("p/", "team", "gone", "browser") + "1_u_2";
        let used = ["2030-01-01", "2030-01-02"].map(|day| keys::usage("p/", "team", day, "x", 1));
        let mut leftovers = Leftovers::default();
        leftovers.add("p/", &[old.clone(), new, other.clone(), open.clone(), used[0].clone(), used[1].clone()], &age);
        assert_eq!(leftovers.of("team", &HashSet::from(["shop", "gone"])), [&old, &used[0]]);
        assert_eq!(leftovers.of("team", &HashSet::from(["shop"])), [&old, &used[0], &other, &open]);
        assert!(leftovers.of("another", &HashSet::new()).is_empty());
        let many: Vec<String> = (0..=REMEMBERED_MAX).map(|n| format!("{}{n}", keys::webhooks_open("p/", "team", "b"))).collect();
        let mut leftovers = Leftovers::default();
        leftovers.add("p/", &many, &age);
        assert_eq!(leftovers.of("team", &HashSet::new()).len(), REMEMBERED_MAX);
    }

    const LIVE: &str = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e01";
    const GONE: &str = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e02";
    const CALLED: &str = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e03";

    #[test]
    fn what_was_listed_and_is_not_known_belongs_to_no_session() {
        let listed = [
            format!("p/t/team/s/default/{LIVE}/head"),
            format!("p/t/team/s/default/{GONE}/head"),
            format!("p/t/team/s/default/{GONE}/1-1-ab"),
            format!("p/t/team/b/default_{CALLED}/calls"),
            format!("p/t/other/s/default/{LIVE}/1-1-ab"),
            "p/t/team/clusters".to_owned(),
            format!("p/t/team/probe/{GONE}/sequence"),
            format!("t/team/s/default/{GONE}/head"),
            format!("p/t/team/s/default/{GONE}/more/head"),
            "p/t/team/s/default/notes/head".to_owned(),
        ];
        let listed = Listed::of("p/", &listed);
        let orphan = |uid: &str, objects| Orphan { uid: uid.to_owned(), pools: BTreeSet::from(["default".to_owned()]), objects };
        let known = HashSet::from([LIVE.to_owned()]);
        assert_eq!(listed.unknown(&known), [("other", vec![]), ("team", vec![orphan(GONE, 2), orphan(CALLED, 1)])]);
        assert!(!listed.is_empty() && Listed::of("q/", &["p/x".to_owned()]).is_empty());
    }

    #[test]
    fn a_session_that_has_been_archived_is_none_and_takes_no_memory() {
        let key = |uid: &str| crate::SessionKey {
            store_prefix: "p/".to_owned(),
            tenant: "team".to_owned(),
            pool: "default".into(),
            uid: uid.to_owned(),
            name: String::new(),
        };
        let (of, gone, [own, calls]) = (key(LIVE), key(GONE), key(LIVE).archived());
        let mut stored = [of.segment(1, 1, "ab"), own, of.head(), calls, of.calls(), gone.segment(1, 1, "ab"), gone.head()];
        stored.sort_unstable();
        let mut listed = Listed::default();
        for page in stored.chunks(2) {
            listed.add("p/", page);
        }
        let orphan = Orphan { uid: GONE.to_owned(), pools: BTreeSet::from(["default".to_owned()]), objects: 2 };
        assert_eq!(listed.unknown(&HashSet::new()), [("team", vec![orphan])]);
        let only = Listed::of("p/", &[of.archived()[0].clone(), of.head()]);
        assert!(only.unknown(&HashSet::new()).is_empty() && !only.is_empty(), "something of a session is there");
    }
}
