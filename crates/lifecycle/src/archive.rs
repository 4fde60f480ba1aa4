//! Sessions whose API object is gone, and how they are kept: in groups by a hash of their name, each an object that is replaced by compare-and-swap.
//!
//! A session is in a group or it is an API object; where it is both, because a process was cut off in between, the API object counts. A group holds all
//! that there is of a session beside what it stores itself, so a listing reads a few groups, and whoever looks for a name reads one.
//! What a session's record says is not looked at here.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{compression, json::Json};

/// The format that is written.
const FORMAT: u32 = 1;
/// Hex digits of a group's name: a namespace has at most 4,096 of them.
const GROUP_DIGITS: usize = 3;
/// Bytes of a session's record as JSON. One that has more stays an API object.
pub const RECORD_BYTES_MAX: usize = 64 << 10;
/// Bytes of a group before it is compressed, at most: some 8,000 sessions, 30 million of a namespace. What finds no place stays an API object.
pub const GROUP_BYTES_MAX: usize = 8 << 20;
/// Bytes of a group as stored, at most.
pub const STORED_BYTES_MAX: usize = GROUP_BYTES_MAX + (1 << 20);
const ZSTD_LEVEL: i32 = 3;

/// A session in the archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// Its identity, under which it is stored.
    pub uid: String,
    /// What its API object was.
    pub record: Json,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    format: u32,
    /// By name.
    sessions: BTreeMap<String, Kept>,
}

impl Default for Group {
    fn default() -> Self {
        Self { format: FORMAT, sessions: BTreeMap::new() }
    }
}

/// Why a session is not put into a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another session has the name.
    #[error("another session of this name is in the archive")]
    Taken,
    /// Its record is too large.
    #[error("its object has more than {RECORD_BYTES_MAX} bytes")]
    TooLarge,
    /// The group is full.
    #[error("the archive of the namespace is full where its name belongs")]
    Full,
}

/// Why an object is no [`Group`].
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// It is no zstd frame, or a larger one.
    #[error("it cannot be decompressed: {0}")]
    Compression(#[from] std::io::Error),
    /// It is not what was written.
    #[error("it is not the JSON that was written: {0}")]
    Json(#[from] serde_json::Error),
    /// A later version wrote it.
    #[error("it is of format {0}, and this version knows {FORMAT}")]
    Format(u32),
}

/// The group that a session of this name belongs to.
#[must_use]
pub fn group_of(name: &str) -> String {
    hex::encode(Sha256::digest(name.as_bytes())).get(..GROUP_DIGITS).unwrap_or_default().to_owned()
}

impl Group {
    /// The session of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Kept> {
        self.sessions.get(name)
    }

    /// Puts a session there, in place of what was kept of the same one.
    ///
    /// # Errors
    /// See [`Refused`]: then nothing has changed.
    pub fn put(&mut self, name: &str, kept: Kept) -> Result<(), Refused> {
        if kept.record.text().len() > RECORD_BYTES_MAX {
            return Err(Refused::TooLarge);
        }
        let before = self.sessions.get(name);
        if before.is_some_and(|before| before.uid != kept.uid) {
            return Err(Refused::Taken);
        }
        let replaced = before.map_or(0, crate::json::bytes);
        if crate::json::bytes(self) - replaced + crate::json::bytes(&kept) + name.len() > GROUP_BYTES_MAX - 1024 {
            return Err(Refused::Full);
        }
        self.sessions.insert(name.to_owned(), kept);
        Ok(())
    }

    /// Removes the session, if it is the one with this identity. Whether it was there.
    pub fn remove(&mut self, name: &str, uid: &str) -> bool {
        let there = self.sessions.get(name).is_some_and(|kept| kept.uid == uid);
        if there {
            self.sessions.remove(name);
        }
        there
    }

    /// Those whose names come after `name`, in their order; all without one.
    pub fn after(&self, name: Option<&str>) -> impl Iterator<Item = (&str, &Kept)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.sessions.range::<str, _>((from, Bound::Unbounded)).map(|(name, kept)| (name.as_str(), kept))
    }

    /// Whether nobody is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// What is stored.
    ///
    /// # Errors
    /// It cannot be compressed.
    pub fn encode(&self) -> Result<Bytes, GroupError> {
        Ok(compression::compress(&serde_json::to_vec(self)?, ZSTD_LEVEL)?.into())
    }

    /// What was stored.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, GroupError> {
        let group: Self = serde_json::from_slice(&compression::decompress(bytes, GROUP_BYTES_MAX)?)?;
        if group.format == FORMAT { Ok(group) } else { Err(GroupError::Format(group.format)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(uid: &str, bytes: usize) -> Kept {
        Kept { uid: uid.to_owned(), record: Json::of(&"x".repeat(bytes - 2)).unwrap() }
    }

    #[test]
    fn a_name_belongs_to_one_session_at_a_time() {
        let mut group = Group::default();
        group.put("a", kept("u", 10)).unwrap();
        assert_eq!(group.put("a", kept("v", 10)), Err(Refused::Taken));
        group.put("a", kept("u", 20)).unwrap();
        group.put("b", kept("v", 10)).unwrap();
        assert!(!group.remove("a", "v") && !group.remove("c", "u"));
        assert_eq!(Group::decode(&group.encode().unwrap()).unwrap(), group);
        assert_eq!(group.after(Some("a")).map(|(name, _)| name).collect::<Vec<_>>(), ["b"]);
        assert_eq!(group.after(None).count(), 2);
        assert!(group.remove("a", "u") && group.remove("b", "v") && group.is_empty());
    }

    #[test]
    fn what_is_too_much_is_refused_and_changes_nothing() {
        let mut group = Group::default();
        assert_eq!(group.put("a", kept("u", RECORD_BYTES_MAX + 1)), Err(Refused::TooLarge));
        let mut count = 0;
        let refused = loop {
            match group.put(&format!("s-{count}"), kept("u", RECORD_BYTES_MAX)) {
                Ok(()) => count += 1,
                Err(refused) => break refused,
            }
        };
        assert_eq!((refused, group.after(None).count()), (Refused::Full, count));
        assert!(count >= 126, "{count}");
        group.put("s-0", kept("u", RECORD_BYTES_MAX)).unwrap();
        assert_eq!(Group::decode(&group.encode().unwrap()).unwrap(), group, "a full one is read again");
    }

    #[test]
    fn what_is_no_group_is_told() {
        assert!(matches!(Group::decode(b"?"), Err(GroupError::Compression(_))));
        let later = compression::compress(br#"{"format":2,"sessions":{}}"#, 1).unwrap();
        assert!(matches!(Group::decode(&later), Err(GroupError::Format(2))));
        let other = compression::compress(b"[]", 1).unwrap();
        assert!(matches!(Group::decode(&other), Err(GroupError::Json(_))));
    }

    #[test]
    fn groups_are_named_by_three_digits() {
        assert_eq!((group_of("analyst"), group_of("")), (group_of("analyst"), "e3b".to_owned()));
        let names: std::collections::BTreeSet<String> = (0..10_000).map(|number| group_of(&format!("s-{number}"))).collect();
        assert!(names.len() > 3_000 && names.iter().all(|name| name.len() == GROUP_DIGITS), "{}", names.len());
    }
}
