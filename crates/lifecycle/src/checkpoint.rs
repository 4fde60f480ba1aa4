//! Earlier states of a session that can be restored.
//!
//! A checkpoint is the head of its moment, put aside as an object of its own: it names segments that are there already, so it copies no page
//! but those that rode inline. The head lists what has been put aside, and by that keeps the segments which those states need.

use bytes::Bytes;

use crate::{
    Head, SessionKey,
    blobs::{Blobs, KEPT_MAX},
    head::{CheckpointRef, HeadError},
    log::Log,
    segment::sha256_hex,
};

/// Commits from one automatic checkpoint to the next: what a checkpoint costs is one more PUT, shared by so many commits.
pub const COMMITS_PER_CHECKPOINT: u64 = 10;

/// The most automatic checkpoints that a session may keep.
pub const KEEP_MAX: u32 = 100;

/// Checkpoints with a label that a session may have. They stay until their label is given to a later one.
pub const NAMED_MAX: usize = 50;

/// Bytes of a label.
pub const LABEL_BYTES_MAX: usize = 63;

/// What to put aside with a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Which state.
    pub subject: Subject,
    /// The label; without one it is automatic, and the oldest automatic ones go.
    pub label: Option<String>,
    /// Automatic checkpoints that the session keeps, this one among them.
    pub keep: u32,
}

/// Which state to put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The one that the commit makes.
    This,
    /// The one that the commit replaces, unless it is put aside already.
    Before,
}

/// Why a checkpoint cannot be made or restored.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Not a label.
    #[error("`{label}` is no label: use 1 to {LABEL_BYTES_MAX} of A-Z, a-z, 0-9, '-', '_' and '.', not digits alone")]
    Label {
        /// What was given.
        label: String,
    },
    /// Too many with labels.
    #[error(
        "the session has {NAMED_MAX} checkpoints with labels, which is the most: give this one a label that is in use, and it takes its place"
    )]
    TooMany,
    /// What checkpoints with labels need is too much for a head to name.
    #[error(
        "the checkpoints with labels hold {KEPT_MAX} pieces of contents outside the heap, which is the most: give this one a label that is in use, or delete contents"
    )]
    TooMuchKept,
    /// Its bytes are not those that the head lists.
    #[error("checkpoint {id} is not what the head lists")]
    Mismatch {
        /// Its id.
        id: u64,
    },
    /// It does not decode.
    #[error("checkpoint {id}: {source}")]
    Head {
        /// Its id.
        id: u64,
        /// Why.
        source: HeadError,
    },
    /// It is another session's.
    #[error("checkpoint {id} belongs to another session")]
    Foreign {
        /// Its id.
        id: u64,
    },
}

impl CheckpointRef {
    /// The head that `bytes`, read at its key, are.
    ///
    /// # Errors
    /// When they do not verify, or belong to another session than `session`.
    pub fn open(&self, session: &SessionKey, bytes: &[u8]) -> Result<Head, CheckpointError> {
        let id = self.id;
        if bytes.len() as u64 != self.bytes || sha256_hex(bytes) != self.sha256 {
            return Err(CheckpointError::Mismatch { id });
        }
        let head = Head::decode(bytes).map_err(|source| CheckpointError::Head { id, source })?;
        if head.belongs_to(session) { Ok(head) } else { Err(CheckpointError::Foreign { id }) }
    }
}

/// Whether the commit after `head` is due to put itself aside.
#[must_use]
pub fn due(head: Option<&Head>, keep: u32) -> bool {
    let Some(head) = head.filter(|_| keep > 0) else { return false };
    let last = head.checkpoints.iter().map(|it| it.id).max().unwrap_or(0);
    head.sequence.saturating_add(1) >= last.saturating_add(COMMITS_PER_CHECKPOINT)
}

/// Whether a checkpoint of this label may be made after `head`.
///
/// # Errors
/// When the label is none, or there are too many.
pub fn admit(head: Option<&Head>, label: &str) -> Result<(), CheckpointError> {
    let fits = (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && !label.bytes().all(|byte| byte.is_ascii_digit());
    if !fits {
        return Err(CheckpointError::Label { label: label.to_owned() });
    }
    let others = head.iter().flat_map(|head| &head.checkpoints).filter(|it| it.label.as_deref().is_some_and(|other| other != label));
    let others: Vec<u64> = others.map(|it| it.id).collect();
    if others.len() >= NAMED_MAX {
        return Err(CheckpointError::TooMany);
    }
    let kept = head.map_or(0, |head| head.blobs.kept_for(&others));
    if kept <= KEPT_MAX { Ok(()) } else { Err(CheckpointError::TooMuchKept) }
}

/// The checkpoint that `wanted` names: an id or a label.
#[must_use]
pub fn find<'a>(checkpoints: &'a [CheckpointRef], wanted: &str) -> Option<&'a CheckpointRef> {
    checkpoints.iter().find(|it| it.label.as_deref() == Some(wanted) || it.id.to_string() == wanted)
}

/// What stays of `checkpoints` beside `new`: a label has one checkpoint, and of the automatic ones the newest `keep` stay, `new` among them.
#[must_use]
pub(crate) fn retain(checkpoints: Vec<CheckpointRef>, new: CheckpointRef, keep: u32) -> Vec<CheckpointRef> {
    let mut all: Vec<_> = checkpoints.into_iter().filter(|it| it.id != new.id && (it.label.is_none() || it.label != new.label)).collect();
    all.push(new);
    all.sort_by_key(|it| it.id);
    let automatic = all.iter().filter(|it| it.label.is_none()).count();
    let mut surplus = automatic.saturating_sub(keep.min(KEEP_MAX) as usize);
    all.retain(|it| {
        let goes = it.label.is_none() && surplus > 0;
        surplus -= usize::from(goes);
        !goes
    });
    all
}

/// Drops the oldest automatic checkpoint, unless it is the newest of all, which may be in the making. `false`: there is none.
pub(crate) fn forget_oldest(checkpoints: &mut Vec<CheckpointRef>) -> bool {
    let oldest = checkpoints.iter().position(|it| it.label.is_none());
    match oldest.filter(|at| at + 1 < checkpoints.len()) {
        Some(at) => {
            checkpoints.remove(at);
            true
        }
        None => false,
    }
}

/// `head` put aside at (epoch, sequence), those of the commit that lists it first: its entry in the list, and the object to put.
///
/// # Errors
/// See [`Head::encode`].
pub(crate) fn aside(
    session: &SessionKey,
    head: &Head,
    label: Option<String>,
    version: (u64, u64),
) -> Result<(CheckpointRef, Bytes), HeadError> {
    let blobs = Blobs { kept: Vec::new(), table: head.blobs.table.clone() };
    let alone =
        Head { checkpoints: Vec::new(), journal: Log::default(), events: Log::default(), blobs, label: label.clone(), ..head.clone() };
    let bytes = alone.encode()?;
    let mut reference = listed(&alone, session.checkpoint(version.0, version.1, &sha256_hex(&bytes)), &bytes);
    reference.label = label;
    Ok((reference, bytes))
}

/// How a head lists `head`, which lies at `key` as `bytes`.
#[must_use]
pub fn listed(head: &Head, key: String, bytes: &[u8]) -> CheckpointRef {
    CheckpointRef {
        id: head.sequence,
        label: head.label.clone(),
        time: head.time.clone(),
        snapshot_bytes: head.snapshot_bytes(),
        key,
        bytes: bytes.len() as u64,
        sha256: sha256_hex(bytes),
        segments: head.segments.iter().map(|segment| segment.key.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blobs::{Blob, Extent, ID_DIGITS, Kept};

    fn reference(id: u64, label: Option<&str>) -> CheckpointRef {
        CheckpointRef { id, label: label.map(str::to_owned), ..CheckpointRef::default() }
    }

    fn session() -> SessionKey {
        SessionKey { store_prefix: String::new(), tenant: "team".into(), pool: "default".into(), uid: "u".into(), name: "n".into() }
    }

    fn ids(checkpoints: &[CheckpointRef]) -> Vec<u64> {
        checkpoints.iter().map(|it| it.id).collect()
    }

    #[test]
    fn the_newest_automatic_ones_stay_and_the_named_ones_all() {
        let mut all = Vec::new();
        for id in 1..=6 {
            all = retain(all, reference(id, (id == 2).then_some("kept")), 2);
        }
        assert_eq!(ids(&all), [2, 5, 6]);
        assert_eq!(ids(&retain(all.clone(), reference(7, Some("kept")), 2)), [5, 6, 7], "a label moves");
        assert_eq!(ids(&retain(all.clone(), reference(7, None), 0)), [2], "none is kept");
        assert_eq!(ids(&retain(all, reference(6, Some("six")), 2)), [2, 5, 6], "a state is listed once");
        let many = (1..=200).fold(Vec::new(), |all, id| retain(all, reference(id, None), u32::MAX));
        assert_eq!(many.len(), KEEP_MAX as usize);
    }

    #[test]
    fn one_is_due_after_so_many_commits() {
        let mut head = Head::empty(&session());
        head.sequence = COMMITS_PER_CHECKPOINT - 2;
        assert!(!due(None, 20) && !due(Some(&head), 20));
        head.sequence += 1;
        assert!(due(Some(&head), 20) && !due(Some(&head), 0));
        head.checkpoints = vec![reference(head.sequence, Some("by hand"))];
        assert!(!due(Some(&head), 20));
    }

    #[test]
    fn labels_are_bounded_and_never_look_like_ids() {
        for good in ["a", "before-import", "v1.2_3", &"x".repeat(LABEL_BYTES_MAX)] {
            assert!(admit(None, good).is_ok(), "{good}");
        }
        for bad in ["", "12", "a b", "ä", "a/b", &"x".repeat(LABEL_BYTES_MAX + 1)] {
            assert!(matches!(admit(None, bad), Err(CheckpointError::Label { .. })), "{bad}");
        }
        let mut head = Head::empty(&session());
        head.checkpoints = (0..NAMED_MAX as u64).map(|id| reference(id, Some(&format!("label-{id}")))).collect();
        assert!(matches!(admit(Some(&head), "one-more"), Err(CheckpointError::TooMany)));
        assert!(admit(Some(&head), "label-3").is_ok());
        assert_eq!(find(&head.checkpoints, "label-3").map(|it| it.id), Some(3));
        assert_eq!(find(&head.checkpoints, "4").map(|it| it.id), Some(4));
        assert_eq!(find(&head.checkpoints, "label-x"), None);
    }

    #[test]
    fn named_checkpoints_hold_so_many_pieces_of_contents_and_not_one_more() {
        let extent = |n: usize| Extent { version: (1, 1), id: format!("{n:0width$x}", width = ID_DIGITS), bytes: u64::MAX, sealed: true };
        let mut head = Head::empty(&session());
        head.checkpoints = vec![reference(1, Some("named"))];
        head.blobs.kept = (1..=KEPT_MAX).map(|n| Kept { extent: extent(n), last: u64::MAX }).collect();
        assert!(admit(Some(&head), "another").is_ok());
        assert!(head.encode().is_ok(), "so many fit a manifest");
        head.blobs.table.insert("ctx:one".into(), Blob { extents: vec![extent(0)], text: false });
        assert!(matches!(admit(Some(&head), "another"), Err(CheckpointError::TooMuchKept)));
        assert!(admit(Some(&head), "named").is_ok(), "what the label moves from is held no longer");
    }

    #[test]
    fn only_the_bytes_that_are_listed_open() {
        let mut head = Head::empty(&session());
        (head.epoch, head.sequence, head.tombstone) = (2, 9, false);
        let (reference, bytes) = aside(&session(), &head, Some("l".into()), (2, 10)).unwrap();
        assert_eq!((reference.id, reference.key.contains("/c2-10-")), (9, true));
        let back = reference.open(&session(), &bytes).unwrap();
        assert_eq!((back.sequence, back.label.as_deref()), (9, Some("l")));
        let mut flipped = bytes.to_vec();
        flipped[20] ^= 1;
        assert!(matches!(reference.open(&session(), &flipped), Err(CheckpointError::Mismatch { id: 9 })));
        let other = SessionKey { uid: "other".into(), ..session() };
        assert!(matches!(reference.open(&other, &bytes), Err(CheckpointError::Foreign { id: 9 })));
    }
}
