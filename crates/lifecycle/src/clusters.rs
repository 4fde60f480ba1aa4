//! Which clusters store sessions under a tenant's prefix: `<store prefix>t/<tenant>/clusters`, one small object.
//!
//! A cluster is whoever knows which sessions there are: an API server, named by the uid of its namespace `kube-system`, or a folder of
//! `dormouse dev`. A bucket can serve several, and what one of them does not know may live in another. Two promises make the object enough to tell:
//!
//! 1. Nothing of a cluster's sessions is written before its name stands here, and names only ever come (compare-and-swap by ETag).
//! 2. [`Clusters::accounted`] is written only by a cluster that stands here alone, and found when it listed the prefix that it knows every
//!    session there, or that there was none. It speaks for whatever was there before anybody wrote this object.
//!
//! So whoever lists the prefix first and reads this object afterwards, alone and accounted for, has listed nothing but its own.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The format that is written.
const FORMAT: u32 = 1;
/// Clusters that are named at most. Who comes later needs no name: no one is alone there any more.
pub const CLUSTERS_MAX: usize = 64;
/// Bytes of the object at most.
pub const CLUSTERS_BYTES_MAX: usize = 64 << 10;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clusters {
    format: u32,
    /// Their names.
    pub clusters: BTreeSet<String>,
    /// Whether everything that was there before this object is known to be of these clusters.
    pub accounted: bool,
}

/// Why an object is not a [`Clusters`].
#[derive(Debug, thiserror::Error)]
pub enum ClustersError {
    /// It is larger than any.
    #[error("it has {0} bytes, more than {CLUSTERS_BYTES_MAX}")]
    TooLarge(usize),
    /// It is not what was written.
    #[error("it is not the JSON that was written: {0}")]
    Json(#[from] serde_json::Error),
    /// A later version wrote it.
    #[error("it is of format {0}, and this version knows {FORMAT}")]
    Format(u32),
}

/// Why sessions that a cluster does not know are left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// No cluster has written its name: nobody knows whose they are.
    Unclaimed,
    /// Other clusters store sessions there.
    Shared,
    /// They were there before the first cluster wrote its name, or came before it had looked.
    Unaccounted,
}

/// What a cluster that listed a prefix may do there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Everything is known, and nothing is to be written.
    Nothing,
    /// Everything is known: that is to be put, under the condition that the object is still as it was read.
    Account(Clusters),
    /// What is not known belongs to no session.
    Collect,
    /// What is not known may live elsewhere.
    Leave(Left),
}

impl Clusters {
    fn alone(cluster: &str, accounted: bool) -> Self {
        Self { format: FORMAT, clusters: BTreeSet::from([cluster.to_owned()]), accounted }
    }

    /// Whether this cluster's is the only name.
    #[must_use]
    pub fn is_alone(&self, cluster: &str) -> bool {
        self.clusters.len() == 1 && self.clusters.contains(cluster)
    }

    /// What to put over `stored` before `cluster` writes anything; `None` when that is not needed. `empty`: the prefix was listed after
    /// `stored` was read as absent, and no session had anything there.
    #[must_use]
    pub fn join(stored: Option<&Self>, cluster: &str, empty: bool) -> Option<Self> {
        let Some(stored) = stored else { return Some(Self::alone(cluster, empty)) };
        if stored.clusters.contains(cluster) || stored.clusters.len() >= CLUSTERS_MAX {
            return None;
        }
        let mut joined = stored.clone();
        joined.clusters.insert(cluster.to_owned());
        Some(joined)
    }

    /// What `cluster` may do under a prefix that it listed *before* it read `stored`, and in which it knows every session, or does not.
    #[must_use]
    pub fn judge(stored: Option<&Self>, cluster: &str, all_known: bool) -> Verdict {
        match (stored, all_known) {
            (None, true) => Verdict::Account(Self::alone(cluster, true)),
            (None, false) => Verdict::Leave(Left::Unclaimed),
            (Some(stored), true) if stored.is_alone(cluster) && !stored.accounted => Verdict::Account(Self::alone(cluster, true)),
            (Some(_), true) => Verdict::Nothing,
            (Some(stored), false) if !stored.is_alone(cluster) => Verdict::Leave(Left::Shared),
            (Some(stored), false) if !stored.accounted => Verdict::Leave(Left::Unaccounted),
            (Some(_), false) => Verdict::Collect,
        }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// Never for one that was made here.
    pub fn encode(&self) -> Result<Bytes, ClustersError> {
        Ok(serde_json::to_vec(self)?.into())
    }

    /// The object that `bytes` are.
    ///
    /// # Errors
    /// They are none, or of a later format.
    pub fn decode(bytes: &[u8]) -> Result<Self, ClustersError> {
        if bytes.len() > CLUSTERS_BYTES_MAX {
            return Err(ClustersError::TooLarge(bytes.len()));
        }
        let decoded: Self = serde_json::from_slice(bytes)?;
        if decoded.format == FORMAT { Ok(decoded) } else { Err(ClustersError::Format(decoded.format)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(clusters: &[&str], accounted: bool) -> Clusters {
        Clusters { format: FORMAT, clusters: clusters.iter().map(|name| (*name).to_owned()).collect(), accounted }
    }

    #[test]
    fn only_who_is_alone_and_accounted_for_collects() {
        let judge = |stored: Option<&Clusters>, all_known| Clusters::judge(stored, "a", all_known);
        assert_eq!(judge(Some(&of(&["a"], true)), false), Verdict::Collect);
        for (stored, why) in [
            (None, Left::Unclaimed),
            (Some(of(&["a"], false)), Left::Unaccounted),
            (Some(of(&["b"], true)), Left::Shared),
            (Some(of(&["a", "b"], true)), Left::Shared),
            (Some(of(&[], true)), Left::Shared),
        ] {
            assert_eq!(judge(stored.as_ref(), false), Verdict::Leave(why), "{stored:?}");
        }
    }

    #[test]
    fn who_knows_everything_there_and_is_alone_says_so_once() {
        let judge = |stored: Option<&Clusters>| Clusters::judge(stored, "a", true);
        assert_eq!(judge(None), Verdict::Account(of(&["a"], true)));
        assert_eq!(judge(Some(&of(&["a"], false))), Verdict::Account(of(&["a"], true)));
        for stored in [of(&["a"], true), of(&["b"], false), of(&["a", "b"], false)] {
            assert_eq!(judge(Some(&stored)), Verdict::Nothing, "{stored:?}");
        }
    }

    #[test]
    fn names_only_ever_come() {
        assert_eq!(Clusters::join(None, "a", true), Some(of(&["a"], true)));
        assert_eq!(Clusters::join(None, "a", false), Some(of(&["a"], false)), "what was there is not accounted for");
        assert_eq!(Clusters::join(Some(&of(&["b"], false)), "a", true), Some(of(&["a", "b"], false)));
        assert_eq!(Clusters::join(Some(&of(&["a", "b"], true)), "a", true), None);
        let names: Vec<String> = (0..CLUSTERS_MAX).map(|n| format!("cluster-{n}")).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(Clusters::join(Some(&of(all.get(1..).unwrap(), true)), "a", true).is_some_and(|full| full.clusters.len() == CLUSTERS_MAX));
        assert_eq!(Clusters::join(Some(&of(&all, true)), "a", true), None, "nobody is alone there");
    }

    #[test]
    fn what_is_no_such_object_is_refused() {
        let some = of(&["a", "b"], true);
        assert_eq!(Clusters::decode(&some.encode().unwrap()).unwrap(), some);
        assert!(matches!(Clusters::decode(b"{}"), Err(ClustersError::Json(_))));
        assert!(matches!(Clusters::decode(br#"{"format":2,"clusters":[],"accounted":true}"#), Err(ClustersError::Format(2))));
        let mut padded = some.encode().unwrap().to_vec();
        padded.resize(CLUSTERS_BYTES_MAX, b' ');
        assert_eq!(Clusters::decode(&padded).unwrap(), some);
        padded.push(b' ');
        assert!(matches!(Clusters::decode(&padded), Err(ClustersError::TooLarge(_))));
    }
}
