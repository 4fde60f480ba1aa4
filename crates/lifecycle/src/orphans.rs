//! What belongs to no session any more: left by a process that was cut off, and went on after its session's deletion had ended.
//!
//! The rule: list the store first, ask which sessions there are afterwards. An object of a session exists before anything is stored under
//! its uid, and no uid is ever given out twice. So a uid that was listed, and that is unknown *after* that, is of a session that has gone and
//! cannot come back. In the other order it could be of one that was made in between. A session that is being deleted is known until its
//! deletion has ended. Unknown to whom, and who may therefore act on it, is [`crate::clusters`]' part.

use std::collections::{BTreeMap, HashSet};

use crate::keys;

/// What a listing has of sessions: by tenant and uid, how many objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed(BTreeMap<String, BTreeMap<String, u64>>);

/// A session that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Its uid.
    pub uid: String,
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
        for (tenant, uid) in keys.iter().filter_map(|key| keys::session_of(store_prefix, key)) {
            *self.0.entry(tenant.to_owned()).or_default().entry(uid.to_owned()).or_default() += 1;
        }
    }

    /// Whether there is nothing of any session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each tenant with those of its sessions that are not among `known`, the uids of all sessions that there were after the listing.
    #[must_use]
    pub fn unknown(&self, known: &HashSet<String>) -> Vec<(&str, Vec<Orphan>)> {
        let of = |(tenant, uids)| {
            let uids: &BTreeMap<String, u64> = uids;
            let unknown = uids.iter().filter(|(uid, _)| !known.contains(*uid));
            let tenant: &String = tenant;
            (tenant.as_str(), unknown.map(|(uid, objects)| Orphan { uid: uid.clone(), objects: *objects }).collect())
        };
        self.0.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVE: &str = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e01";
    const GONE: &str = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e02";
    const CALLED: &str = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e03";

    #[test]
    fn what_was_listed_and_is_not_known_belongs_to_no_session() {
        let listed = [
            format!("p/t/team/s/{LIVE}/head"),
            format!("p/t/team/s/{GONE}/head"),
            format!("p/t/team/s/{GONE}/1-1-ab"),
            format!("p/t/team/b/{CALLED}/calls"),
            format!("p/t/other/s/{LIVE}/1-1-ab"),
            "p/t/team/clusters".to_owned(),
            format!("p/t/team/probe/{GONE}/sequence"),
            format!("t/team/s/{GONE}/head"),
            format!("p/t/team/s/{GONE}/more/head"),
            "p/t/team/s/notes/head".to_owned(),
        ];
        let listed = Listed::of("p/", &listed);
        let orphan = |uid: &str, objects| Orphan { uid: uid.to_owned(), objects };
        let known = HashSet::from([LIVE.to_owned()]);
        assert_eq!(listed.unknown(&known), [("other", vec![]), ("team", vec![orphan(GONE, 2), orphan(CALLED, 1)])]);
        assert!(!listed.is_empty() && Listed::of("q/", &["p/x".to_owned()]).is_empty());
    }
}
