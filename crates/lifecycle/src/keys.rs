//! Where a session's objects lie in the store.
//!
//! `<store prefix>t/<tenant>/s/<uid>/head`, and beside it `<epoch>-<sequence>-<hash>` for segments, the same after `c` for checkpoints and after
//! `j` for the journal. A uid is never used twice, and neither is such a key: (epoch, sequence) grows, and the hash tells attempts at the same
//! number apart.

/// Hex digits of a segment's sha256 that go into its key: 128 bits.
pub const HASH_DIGITS: usize = 32;

const HEAD: &str = "head";

/// What an object beside the head is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Pages.
    Segment,
    /// A head of an earlier moment.
    Checkpoint,
    /// Entries of the journal.
    Journal,
}

impl Kind {
    /// What the last part of its keys begins with.
    fn letter(self) -> &'static str {
        match self {
            Self::Segment => "",
            Self::Checkpoint => "c",
            Self::Journal => "j",
        }
    }
}

/// Which session, and under which prefix of the store it lies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// Prefix of every key in the bucket: empty, or ending in `/`.
    pub store_prefix: String,
    /// The tenant, which is the namespace.
    pub tenant: String,
    /// The uid of the session's object.
    pub uid: String,
    /// The name of the session's object; not part of any key.
    pub name: String,
}

impl SessionKey {
    /// Key of this session's head.
    #[must_use]
    pub fn head(&self) -> String {
        head(&self.store_prefix, &self.tenant, &self.uid)
    }

    /// Prefix of every key of this session, with the trailing `/`.
    #[must_use]
    pub fn prefix(&self) -> String {
        prefix(&self.store_prefix, &self.tenant, &self.uid)
    }

    /// Key of a segment of this session. See [`segment`].
    #[must_use]
    pub fn segment(&self, epoch: u64, sequence: u64, hash: &str) -> String {
        segment(&self.store_prefix, &self.tenant, &self.uid, epoch, sequence, hash)
    }

    /// Key of a checkpoint of this session.
    #[must_use]
    pub fn checkpoint(&self, epoch: u64, sequence: u64, hash: &str) -> String {
        object(&self.prefix(), Kind::Checkpoint, epoch, sequence, hash)
    }

    /// Key of a part of this session's journal.
    #[must_use]
    pub fn journal(&self, epoch: u64, sequence: u64, hash: &str) -> String {
        object(&self.prefix(), Kind::Journal, epoch, sequence, hash)
    }
}

/// Prefix of every key of a tenant, with the trailing `/`.
#[must_use]
pub fn tenant_prefix(store_prefix: &str, tenant: &str) -> String {
    format!("{store_prefix}t/{tenant}/")
}

/// Prefix of every key of a session, with the trailing `/`.
#[must_use]
pub fn prefix(store_prefix: &str, tenant: &str, uid: &str) -> String {
    format!("{store_prefix}t/{tenant}/s/{uid}/")
}

/// Key of a session's head.
#[must_use]
pub fn head(store_prefix: &str, tenant: &str, uid: &str) -> String {
    format!("{}{HEAD}", prefix(store_prefix, tenant, uid))
}

/// Key of a segment. `hash` is the hex sha256 of its bytes, of which the first [`HASH_DIGITS`] count.
#[must_use]
pub fn segment(store_prefix: &str, tenant: &str, uid: &str, epoch: u64, sequence: u64, hash: &str) -> String {
    object(&prefix(store_prefix, tenant, uid), Kind::Segment, epoch, sequence, hash)
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
    let (kind, name) = [Kind::Checkpoint, Kind::Journal]
        .into_iter()
        .find_map(|kind| Some((kind, name.strip_prefix(kind.letter())?)))
        .unwrap_or((Kind::Segment, name));
    let mut parts = name.splitn(3, '-');
    let epoch = parts.next()?.parse().ok()?;
    let sequence = parts.next()?.parse().ok()?;
    let hash = parts.next()?;
    (!hash.is_empty() && hash.bytes().all(|b| b.is_ascii_hexdigit())).then_some((kind, (epoch, sequence)))
}

/// The digits that name the content of the object at `key`, if it is one that never changes: [`HASH_DIGITS`] of them. A copy has those of its original.
#[must_use]
pub fn content(key: &str) -> Option<&str> {
    parse_object(key)?;
    key.rsplit('-').next().filter(|hash| hash.len() == HASH_DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_the_operator_and_policies_expect() {
        assert_eq!(head("p/", "team", "u-1"), "p/t/team/s/u-1/head");
        let hash = "ab".repeat(32);
        let key = segment("", "team", "u-1", 3, 17, &hash);
        assert_eq!(key, format!("t/team/s/u-1/3-17-{}", "ab".repeat(16)));
        assert_eq!(parse_object(&key), Some((Kind::Segment, (3, 17))));
        assert!(is_head(&head("p/", "team", "u-1")));
    }

    #[test]
    fn a_key_tells_what_it_is_of() {
        let session = SessionKey { store_prefix: "p/".into(), tenant: "team".into(), uid: "u-1".into(), name: "n".into() };
        assert_eq!(session.checkpoint(3, 17, "ab"), "p/t/team/s/u-1/c3-17-ab");
        assert_eq!(parse_object(&session.checkpoint(3, 17, "ab")), Some((Kind::Checkpoint, (3, 17))));
        assert_eq!(parse_object(&session.journal(3, 17, "ab")), Some((Kind::Journal, (3, 17))));
        assert_eq!(parse_object(&session.segment(3, 17, "ab")), Some((Kind::Segment, (3, 17))));
        assert_eq!(parse_object("t/a/s/u/cj1-2-ab"), None);
    }

    #[test]
    fn a_key_tells_the_content_unless_it_may_change() {
        let digits = "ab".repeat(16);
        let session = SessionKey { store_prefix: "p/".into(), tenant: "team".into(), uid: "u-1".into(), name: "n".into() };
        for key in [session.segment(3, 17, &digits), session.checkpoint(3, 17, &digits), session.journal(3, 17, &"ab".repeat(32))] {
            assert_eq!(content(&key), Some(digits.as_str()), "{key}");
        }
        for key in [session.head(), session.segment(3, 17, "ab"), format!("{}probe-{digits}", session.prefix())] {
            assert_eq!(content(&key), None, "{key}");
        }
    }

    #[test]
    fn other_names_are_none_of_ours() {
        for key in ["t/a/s/u/head", "t/a/s/u/1-2", "t/a/s/u/1-2-", "t/a/s/u/x-2-ab", "t/a/s/u/1-2-zz", "", "/", "t/a/s/u/-1-2-ab"] {
            assert_eq!(parse_object(key), None, "{key}");
        }
    }
}
