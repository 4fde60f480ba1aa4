//! What a process may do under an assignment that its gateway has begun to write into status, and status does not have yet.
//!
//! It restores and runs. It may commit, too: of all who commit from one state the store lets one win, whatever status says, and a head
//! that nobody was told about is a valid continuation. It acks nothing and lets no effect leave before the assignment is confirmed.
//!
//! Two gateways may claim the same epoch for two processes, and status has one of them in the end. So a claimant that has committed and lost leaves a head of an
//! epoch that status gives to another. An epoch belongs to the process whose commit was its first: the other finds [`taken`], and
//! another epoch has to be given out.

use crate::{Head, Owned};

/// Between the process and the attempt in a put id.
const SEPARATOR: char = '/';

/// A put id: unique to the attempt, and naming the process that made it. `process` is unique among processes and has no `/`.
#[must_use]
pub fn put_id(process: &str, attempt: &str) -> String {
    format!("{process}{SEPARATOR}{attempt}")
}

/// Whether `head` shows that the epoch `epoch` is another process's than `process`. Heads that name no process are nobody's.
#[must_use]
pub fn taken(head: &Head, epoch: u64, process: &str) -> bool {
    head.epoch == epoch && head.put_id.split_once(SEPARATOR).is_some_and(|(writer, _)| writer != process)
}

/// Whether a claim that is not confirmed may commit. Not a session's first head: its object may be gone already, and what is created
/// then nobody removes, while a head that is to be replaced is not there any more.
#[must_use]
pub fn may_commit(owned: &Owned) -> bool {
    owned.head.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionKey;

    fn head(epoch: u64, put_id: &str) -> Head {
        let session =
            SessionKey { store_prefix: String::new(), tenant: "team".into(), pool: "default".into(), uid: "u".into(), name: "n".into() };
        Head { epoch, put_id: put_id.to_owned(), tombstone: false, ..Head::empty(&session) }
    }

    #[test]
    fn an_epoch_is_the_first_committers() {
        let mine = head(5, &put_id("boot-a", "1"));
        assert!(!taken(&mine, 5, "boot-a"));
        assert!(taken(&mine, 5, "boot-b"));
        assert!(!taken(&mine, 6, "boot-b"), "a later epoch is free");
        assert!(!taken(&head(5, "of-no-process"), 5, "boot-b"), "nobody's");
    }
}
