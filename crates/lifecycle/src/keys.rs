//! Where a session's objects lie in the store.
//!
//! `<store prefix>t/<tenant>/s/<uid>/head` and `<store prefix>t/<tenant>/s/<uid>/<epoch>-<sequence>-<hash>`. A uid is never used twice, and
//! neither is a segment's key: (epoch, sequence) grows, and the hash tells attempts at the same number apart.

/// Hex digits of a segment's sha256 that go into its key: 128 bits.
pub const HASH_DIGITS: usize = 32;

const HEAD: &str = "head";

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
    let hash = hash.get(..HASH_DIGITS).unwrap_or(hash);
    format!("{}{epoch}-{sequence}-{hash}", prefix(store_prefix, tenant, uid))
}

/// Whether `key` is a session's head.
#[must_use]
pub fn is_head(key: &str) -> bool {
    key.rsplit('/').next() == Some(HEAD)
}

/// (epoch, sequence) of a segment's key; `None` for anything else.
#[must_use]
pub fn parse_segment(key: &str) -> Option<(u64, u64)> {
    let mut parts = key.rsplit('/').next()?.splitn(3, '-');
    let epoch = parts.next()?.parse().ok()?;
    let sequence = parts.next()?.parse().ok()?;
    let hash = parts.next()?;
    (!hash.is_empty() && hash.bytes().all(|b| b.is_ascii_hexdigit())).then_some((epoch, sequence))
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
        assert_eq!(parse_segment(&key), Some((3, 17)));
        assert!(is_head(&head("p/", "team", "u-1")));
    }

    #[test]
    fn other_names_are_not_segments() {
        for key in ["t/a/s/u/head", "t/a/s/u/1-2", "t/a/s/u/1-2-", "t/a/s/u/x-2-ab", "t/a/s/u/1-2-zz", "", "/", "t/a/s/u/-1-2-ab"] {
            assert_eq!(parse_segment(key), None, "{key}");
        }
    }
}
