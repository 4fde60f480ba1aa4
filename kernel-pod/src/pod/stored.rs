//! What a pod reads of sessions without running them: also while another pod runs them.

use dormouse_lifecycle::{Head, SessionKey};
use dormouse_protocol::approval::ApprovalList;
use dormouse_protocol::history::{CheckpointList, Difference, JournalPage};
use dormouse_protocol::kernel::{DifferenceCall, JournalCall, StoredCall, StoredStatus};
use dormouse_protocol::{ApiError, ErrorCode};
use jiff::Timestamp;

use super::Pod;
use crate::record::{ParkedCall, Pending, SessionState};
use crate::stored::{self, Stored};

impl Pod {
    /// The checkpoints of a session.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stored_checkpoints(&self, call: &StoredCall) -> Result<CheckpointList, ApiError> {
        let (_, Some(stored)) = self.stored(call).await? else { return Ok(CheckpointList::default()) };
        Ok(CheckpointList { items: stored.head.checkpoints.iter().map(stored::view).collect(), damage: stored.damage })
    }

    /// Entries of a session's journal. Objects that do not verify are left out, and the answer says so.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stored_journal(&self, call: &JournalCall) -> Result<JournalPage, ApiError> {
        let (_, Some(stored)) = self.stored(&call.session).await? else { return Ok(JournalPage::default()) };
        stored::journal(&self.host().storage, stored, call.after, call.limit).await
    }

    /// The calls of a session that wait for a person, as committed.
    ///
    /// # Errors
    /// The store cannot be read, or what is stored does not verify.
    pub async fn stored_approvals(&self, call: &StoredCall) -> Result<ApprovalList, ApiError> {
        let (_, Some(stored)) = self.stored(call).await? else { return Ok(ApprovalList::default()) };
        if let Some(damage) = stored.damage {
            return Err(ApiError::new(ErrorCode::SnapshotCorrupt, damage));
        }
        let record =
            SessionState::decode(&stored.head.state).map_err(|error| ApiError::new(ErrorCode::SnapshotCorrupt, error.to_string()))?;
        Ok(ApprovalList { items: record.parked().map(ParkedCall::view).collect() })
    }

    /// What status should say of a session whose process is gone: it may have stored more than it told.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stored_status(&self, call: &StoredCall) -> Result<StoredStatus, ApiError> {
        let (_, Some(stored)) = self.stored(call).await? else { return Ok(StoredStatus::default()) };
        if stored.damage.is_some() {
            return Ok(StoredStatus { damage: stored.damage, ..StoredStatus::default() });
        }
        let head = stored.head;
        let record = match SessionState::decode(&head.state) {
            Ok(record) => record,
            Err(error) => return Ok(StoredStatus { damage: Some(error.to_string()), ..StoredStatus::default() }),
        };
        Ok(StoredStatus { next_wake_time: next_wake_time(&record, &head), snapshot: Some(stored::snapshot(&head)), damage: None })
    }

    /// What changed from one checkpoint of a session to another, or to its last commit.
    ///
    /// # Errors
    /// The store cannot be read, there is no such checkpoint, or a state cannot be looked at.
    pub async fn stored_difference(&self, call: &DifferenceCall) -> Result<Difference, ApiError> {
        let key = self.readable(&call.session)?;
        self.shared.differences.between(self.host(), &key, call).await
    }

    /// What is stored of a session of this namespace, and where.
    pub(super) async fn stored(&self, call: &StoredCall) -> Result<(SessionKey, Option<Stored>), ApiError> {
        let key = self.readable(call)?;
        let storage = &self.host().storage;
        storage.ready().await?;
        let stored = stored::read(storage, &key, u64::MAX, call.anchor).await?;
        Ok((key, stored))
    }

    /// Where a session is stored, if it is one of this namespace.
    fn readable(&self, call: &StoredCall) -> Result<SessionKey, ApiError> {
        let host = self.host();
        if call.namespace != host.namespace {
            let message = format!("this pod reads sessions of namespace {} only", host.namespace);
            return Err(ApiError::new(ErrorCode::Forbidden, message));
        }
        Ok(host.session_key(&call.uid, &call.name))
    }
}

/// When a process is needed: when the first timer is due, or since the commit, when anything else is under way.
fn next_wake_time(record: &SessionState, head: &Head) -> Option<String> {
    if record.runs.open().next().is_some()
        || record.pending.values().any(|pending| !matches!(pending, Pending::Timer { .. } | Pending::Parked(_)))
    {
        return Some(head.time.clone());
    }
    let due = Timestamp::from_millisecond(record.next_timer_ms()?).ok()?;
    Some(due.to_string())
}
