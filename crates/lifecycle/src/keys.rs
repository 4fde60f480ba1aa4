//! Where a session's objects lie in the store.
//!
//! `<store prefix>t/<tenant>/s/<pool>/<uid>/head`, and beside it `<epoch>-<sequence>-<hash>` for segments, the same after `c` for checkpoints, after
//! `j` for the journal, after `e` for events and after `b` for pieces of what lies outside the heap, whose hash is no hash but an id and a number. A uid is never used
//! twice, and neither is such a key: (epoch, sequence) grows, and the hash tells attempts at the same number apart. The calls that brokers made
//! for the session are in `<store prefix>t/<tenant>/b/<pool>_<uid>/calls`, what it has spent on models in `spent` beside them, `<store prefix>t/<tenant>/clusters` names who stores sessions there, and what brokers
//! were asked is told in `<store prefix>t/<tenant>/audit/<day>/<process>-<number>.ndjson`. Messages of a ToolBroker's webhooks are in
//! `<store prefix>t/<tenant>/jobs/<broker>/<capability>/` names calls that runners may make, which are in `job-<call>` beside the page, and
//! `<store prefix>t/<tenant>/webhooks/<broker>/open/<id>` until they are delivered, and in `…/done/<order>-<id>` afterwards.
//! `archived` among a session's objects, and among those that brokers keep for it, says that its uid may be that of no API object; the sessions that are in
//! the archive are in `<store prefix>archive/<cluster>/<tenant>/<group>`, which no credentials of a tenant reach. What its sessions used is in `<store prefix>t/<tenant>/usage/<day>/<process>-<number>.json`.

mod tenants;

pub use tenants::{
    Shared, audit, jobs_open, jobs_open_all, knowledge, newest_first, shared, shared_of, time_of, usage, usage_prefix, webhooks_done,
    webhooks_open,
};

/// Prefix of the keys of the calls that runners make for the session of this [`broker_name`]; the call's number follows.
#[must_use]
pub fn jobs_of(store_prefix: &str, tenant: &str, name: &str) -> String {
    format!("{}b/{name}/{JOB}", tenant_prefix(store_prefix, tenant))
}

/// Hex digits of a sha256 that go into a key: 128 bits.
pub const HASH_DIGITS: usize = 32;

const HEAD: &str = "head";
/// The last part of the key of a session's page of calls.
pub const CALLS: &str = "calls";
/// The last part of the key of [`spent`].
pub const SPENT: &str = "spent";
/// What the last part of the key of a call that runners make begins with.
const JOB: &str = "job-";
/// The last part of the keys of [`SessionKey::archived`].
pub const ARCHIVED: &str = "archived";
/// All sessions of a tenant, for [`spent`].
pub const ALL: &str = "all";
/// The last part of the key of [`clusters`].
pub const CLUSTERS: &str = "clusters";
/// Where a uid has its hyphens: Kubernetes and `dormouse dev` make UUIDs.
const UID_HYPHENS: [usize; 4] = [8, 13, 18, 23];
const UID_LENGTH: usize = 36;

/// What an object beside the head is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Pages.
    Segment,
    /// A head of an earlier moment.
    Checkpoint,
    /// Entries of the journal.
    Journal,
    /// Events.
    Events,
    /// A piece of a content outside the heap.
    Piece,
}

impl Kind {
    /// What the last part of its keys begins with.
    fn letter(self) -> &'static str {
        match self {
            Self::Segment => "",
            Self::Checkpoint => "c",
            Self::Journal => "j",
            Self::Events => "e",
            Self::Piece => "b",
        }
    }
}

/// Which of a session's logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichLog {
    /// What happened in a session, for people.
    Journal,
    /// What those see who follow it.
    Events,
}

/// Which session, and under which prefix of the store it lies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// Prefix of every key in the bucket: empty, or ending in `/`.
    pub store_prefix: String,
    /// The tenant, which is the namespace.
    pub tenant: String,
    /// The pool that runs the session: its processes reach what lies below its name, and nothing of another pool's sessions.
    pub pool: String,
    /// The uid of the session's object.
    pub uid: String,
    /// The name of the session's object; not part of any key.
    pub name: String,
}

impl SessionKey {
    /// Key of this session's head.
    #[must_use]
    pub fn head(&self) -> String {
        format!("{}{HEAD}", self.prefix())
    }

    /// Key of the page of calls that this session's broker made: beside the session's prefix, because no commit decides about it.
    #[must_use]
    pub fn calls(&self) -> String {
        format!("{}{CALLS}", self.of_brokers())
    }

    /// Key of what brokers have counted for this session on models.
    #[must_use]
    pub fn spent(&self) -> String {
        format!("{}{SPENT}", self.of_brokers())
    }

    /// Keys of the objects that say that this session has been archived: among its own, and among those that brokers keep for it.
    #[must_use]
    pub fn archived(&self) -> [String; 2] {
        [format!("{}{ARCHIVED}", self.prefix()), format!("{}{ARCHIVED}", self.of_brokers())]
    }

    /// Prefix of what brokers keep for this session, with the trailing `/`.
    #[must_use]
    pub fn of_brokers(&self) -> String {
        format!("{}b/{}/", tenant_prefix(&self.store_prefix, &self.tenant), broker_name(&self.pool, &self.uid))
    }

    /// Prefix of the keys of this session's calls that runners make; the call's number follows.
    #[must_use]
    pub fn jobs(&self) -> String {
        format!("{}{JOB}", self.of_brokers())
    }

    /// Prefix of every key of this session, with the trailing `/`.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("{}{}/", sessions(&self.store_prefix, &self.tenant, &self.pool), self.uid)
    }

    /// Key of a segment of this session. `hash` is a hex sha256 over its bytes, of which the first [`HASH_DIGITS`] count.
    #[must_use]
    pub fn segment(&self, epoch: u64, sequence: u64, hash: &str) -> String {
        object(&self.prefix(), Kind::Segment, epoch, sequence, hash)
    }

    /// Key of a checkpoint of this session.
    #[must_use]
    pub fn checkpoint(&self, epoch: u64, sequence: u64, hash: &str) -> String {
        object(&self.prefix(), Kind::Checkpoint, epoch, sequence, hash)
    }

    /// Key of a part of one of this session's logs.
    #[must_use]
    pub fn log(&self, which: WhichLog, epoch: u64, sequence: u64, hash: &str) -> String {
        let kind = match which {
            WhichLog::Journal => Kind::Journal,
            WhichLog::Events => Kind::Events,
        };
        object(&self.prefix(), kind, epoch, sequence, hash)
    }

    /// Key of a piece of a content that this session keeps outside its heap; `name` is the id and the number of the piece.
    #[must_use]
    pub fn piece(&self, epoch: u64, sequence: u64, name: &str) -> String {
        object(&self.prefix(), Kind::Piece, epoch, sequence, name)
    }
}

/// How brokers name a session: with the pool whose certificate its pod has. So a pod of another pool that knows the uid means another session. No name of a
/// pool has a `_`.
#[must_use]
pub fn broker_name(pool: &str, uid: &str) -> String {
    format!("{pool}_{uid}")
}

/// The pool and the uid in a [`broker_name`].
#[must_use]
pub fn of_broker_name(name: &str) -> (&str, &str) {
    name.split_once('_').unwrap_or(("", name))
}

/// Key of what brokers have counted on models for `whom`: a session's [`broker_name`], or [`ALL`].
#[must_use]
pub fn spent(store_prefix: &str, tenant: &str, whom: &str) -> String {
    format!("{}b/{whom}/{SPENT}", tenant_prefix(store_prefix, tenant))
}

/// Prefix of the groups of the sessions of a tenant that `cluster` has archived, with the trailing `/`. It is beside all tenants' prefixes.
#[must_use]
pub fn archive(store_prefix: &str, cluster: &str, tenant: &str) -> String {
    format!("{store_prefix}archive/{cluster}/{tenant}/")
}

/// Prefix of every key of a tenant, with the trailing `/`.
#[must_use]
pub fn tenant_prefix(store_prefix: &str, tenant: &str) -> String {
    format!("{store_prefix}t/{tenant}/")
}

/// Comes after every key of a tenant, and before those of the next, in the order of their bytes.
#[must_use]
pub fn past_tenant(store_prefix: &str, tenant: &str) -> String {
    // What follows `/`.
    format!("{store_prefix}t/{tenant}0")
}

/// Prefix of every key of every tenant, with the trailing `/`.
#[must_use]
pub fn tenants_prefix(store_prefix: &str) -> String {
    format!("{store_prefix}t/")
}

/// Key of the object that names the clusters which store sessions of a tenant. See [`crate::clusters`].
#[must_use]
pub fn clusters(store_prefix: &str, tenant: &str) -> String {
    format!("{}{CLUSTERS}", tenant_prefix(store_prefix, tenant))
}

/// Prefix of every key of the sessions of a pool, with the trailing `/`.
#[must_use]
pub fn sessions(store_prefix: &str, tenant: &str, pool: &str) -> String {
    format!("{}s/{pool}/", tenant_prefix(store_prefix, tenant))
}

fn object(prefix: &str, kind: Kind, epoch: u64, sequence: u64, hash: &str) -> String {
    let hash = hash.get(..HASH_DIGITS).unwrap_or(hash);
    format!("{prefix}{}{epoch}-{sequence}-{hash}", kind.letter())
}

/// Whether `key` is a session's head.
#[must_use]
pub fn is_head(key: &str) -> bool {
    key.rsplit('/').next() == Some(HEAD)
}

/// What the object at `key` is, and its (epoch, sequence); `None` for the head and for anything that is not ours.
#[must_use]
pub fn parse_object(key: &str) -> Option<(Kind, (u64, u64))> {
    let name = key.rsplit('/').next()?;
    let (kind, name) = [Kind::Checkpoint, Kind::Journal, Kind::Events, Kind::Piece]
        .into_iter()
        .find_map(|kind| Some((kind, name.strip_prefix(kind.letter())?)))
        .unwrap_or((Kind::Segment, name));
    let mut parts = name.splitn(3, '-');
    let epoch = parts.next()?.parse().ok()?;
    let sequence = parts.next()?.parse().ok()?;
    let hash = parts.next()?;
    (!hash.is_empty() && hash.bytes().all(|b| b.is_ascii_hexdigit())).then_some((kind, (epoch, sequence)))
}

/// Whose an object of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The pool.
    pub pool: &'a str,
    /// The session.
    pub uid: &'a str,
}

/// The tenant whose the object at `key` is.
#[must_use]
pub fn tenant_of<'a>(store_prefix: &str, key: &'a str) -> Option<&'a str> {
    key.strip_prefix(store_prefix)?.strip_prefix("t/")?.split('/').next()
}

/// Whose the object at `key` is: anything below a session's prefix, or what brokers keep for it. `None` for what is not ours.
#[must_use]
pub fn session_of<'a>(store_prefix: &str, key: &'a str) -> Option<Owner<'a>> {
    let parts: Vec<&str> = key.strip_prefix(store_prefix)?.strip_prefix("t/")?.split('/').collect();
    let (tenant, pool, uid, name) = match parts.as_slice() {
        [tenant, "s", pool, uid, name] => (*tenant, *pool, *uid, *name),
        [tenant, "b", of, name] if [CALLS, SPENT, ARCHIVED].contains(name) || name.starts_with(JOB) => {
            let (pool, uid) = of_broker_name(of);
            (*tenant, pool, uid, *name)
        }
        _ => return None,
    };
    (!tenant.is_empty() && !pool.is_empty() && !name.is_empty() && is_uid(uid)).then_some(Owner { tenant, pool, uid })
}

fn is_uid(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| if UID_HYPHENS.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() };
    text.len() == UID_LENGTH && text.bytes().enumerate().all(fits)
}

/// The uid of the session that `key` lies below, and the last part of it.
#[must_use]
pub fn owner_and_name(key: &str) -> Option<(&str, &str)> {
    let (rest, name) = key.rsplit_once('/')?;
    Some((rest.rsplit('/').next()?, name))
}

/// Whether what session `writer` wrote as `name` may lie at `key`: in its own place, or as the copy of a segment or piece that a fork made, which
/// keeps the hash of the name.
#[must_use]
pub fn may_lie_at(key: &str, writer: &str, name: &str) -> bool {
    let Some((owner, now)) = owner_and_name(key) else { return false };
    let copied = |name| {
        let (kind, _) = parse_object(name).filter(|(kind, _)| matches!(kind, Kind::Segment | Kind::Piece))?;
        Some((kind, name_hash(name)?))
    };
    if owner == writer { now == name } else { copied(now).is_some() && copied(now) == copied(name) }
}

/// The hash in the name of an object.
#[must_use]
pub fn name_hash(key: &str) -> Option<&str> {
    key.rsplit('-').next().filter(|hash| !hash.contains('/') && !hash.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_the_operator_and_policies_expect() {
        let session =
            SessionKey { store_prefix: "p/".into(), tenant: "team".into(), pool: "default".into(), uid: "u-1".into(), name: "n".into() };
        assert_eq!(session.head(), "p/t/team/s/default/u-1/head");
        let key = session.segment(3, 17, &"ab".repeat(32));
        assert_eq!(key, format!("p/t/team/s/default/u-1/3-17-{}", "ab".repeat(16)));
        assert_eq!(parse_object(&key), Some((Kind::Segment, (3, 17))));
        assert!(is_head(&session.head()) && key.starts_with(&sessions("p/", "team", "default")));
    }

    #[test]
    fn a_key_tells_what_it_is_of() {
        let session =
            SessionKey { store_prefix: "p/".into(), tenant: "team".into(), pool: "default".into(), uid: "u-1".into(), name: "n".into() };
        assert_eq!(session.checkpoint(3, 17, "ab"), "p/t/team/s/default/u-1/c3-17-ab");
        assert_eq!(parse_object(&session.checkpoint(3, 17, "ab")), Some((Kind::Checkpoint, (3, 17))));
        assert_eq!(parse_object(&session.log(WhichLog::Journal, 3, 17, "ab")), Some((Kind::Journal, (3, 17))));
        assert_eq!(parse_object(&session.log(WhichLog::Events, 3, 17, "ab")), Some((Kind::Events, (3, 17))));
        assert_eq!(parse_object(&session.segment(3, 17, "ab")), Some((Kind::Segment, (3, 17))));
        assert_eq!(parse_object("t/a/s/u/cj1-2-ab"), None);
        assert_eq!(session.calls(), "p/t/team/b/default_u-1/calls");
        assert_eq!(parse_object(&session.calls()), None);
        assert!(!is_head(&session.calls()) && !session.calls().starts_with(&session.prefix()));
    }

    #[test]
    fn an_object_lies_in_its_place_or_is_a_copied_segment() {
        let at = |key, writer, name| may_lie_at(key, writer, name);
        assert!(at("p/t/a/s/u/head", "u", "head") && at("t/a/s/u/1-2-ab", "u", "1-2-ab") && at("t/a/s/u/c1-2-ab", "u", "c1-2-ab"));
        assert!(at("t/a/s/child/4-1-ab", "u", "1-2-ab"), "a fork copies segments");
        for (key, writer, name) in [
            ("t/a/s/u/head", "v", "head"),
            ("t/a/s/u/head", "u", "c1-2-ab"),
            ("t/a/s/u/1-2-ab", "u", "1-3-ab"),
            ("t/a/s/child/4-1-ab", "u", "1-2-cd"),
            ("t/a/s/child/4-1-ab", "u", "c1-2-ab"),
            ("t/a/s/child/c4-1-ab", "u", "c1-2-ab"),
            ("t/a/s/child/j4-1-ab", "u", "1-2-ab"),
            ("head", "", "head"),
        ] {
            assert!(!at(key, writer, name), "{key} {writer} {name}");
        }
    }

    #[test]
    fn a_key_tells_whose_it_is() {
        let uid = "0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e01";
        let session =
            SessionKey { store_prefix: "p/".into(), tenant: "team".into(), pool: "default".into(), uid: uid.into(), name: "n".into() };
        let [own, of_brokers] = session.archived();
        let others = [session.calls(), session.spent(), of_brokers, format!("{}7", session.jobs())];
        for key in [session.head(), session.segment(1, 2, "ab"), own, format!("{}anything", session.prefix())].into_iter().chain(others) {
            assert_eq!(session_of("p/", &key), Some(Owner { tenant: "team", pool: "default", uid }), "{key}");
            assert_eq!(session_of("", &key), None, "{key}");
        }
        for key in [
            clusters("p/", "team"),
            spent("p/", "team", ALL),
            format!("p/t/team/s/default/{uid}/"),
            format!("p/t/team/s/default/{uid}/a/b"),
            format!("p/t/team/s/{uid}/head"),
            format!("p/t/team/s//{uid}/head"),
            format!("p/t/team/b/default_{uid}/head"),
            format!("p/t/team/b/{uid}/calls"),
            format!("p/t//s/default/{uid}/head"),
            format!("p/t/team/probe/{uid}/race-0"),
            format!("p/t/team/s/default/{}/head", uid.replace('-', "_")),
            format!("p/t/team/s/default/{uid}0/head"),
            "p/t/team/s/default/u/head".to_owned(),
        ] {
            assert_eq!(session_of("p/", &key), None, "{key}");
        }
        assert!(clusters("p/", "team").starts_with(&tenants_prefix("p/")));
    }

    #[test]
    fn other_names_are_none_of_ours() {
        for key in ["t/a/s/u/head", "t/a/s/u/1-2", "t/a/s/u/1-2-", "t/a/s/u/x-2-ab", "t/a/s/u/1-2-zz", "", "/", "t/a/s/u/-1-2-ab"] {
            assert_eq!(parse_object(key), None, "{key}");
        }
    }
}
