//! What a pod reads of sessions without running them: also while another pod runs them.

use dormouse_lifecycle::SessionKey;
use dormouse_lifecycle::usage::Sheet;
use dormouse_protocol::approval::ApprovalList;
use dormouse_protocol::broker::WaitsFor;
use dormouse_protocol::history::{CheckpointList, Difference, JournalPage};
use dormouse_protocol::kernel::{DifferenceCall, JournalCall, LiveUsage, McpCatalog, StoredCall, StoredStatus, StoredUsage, UsageCall};
use dormouse_protocol::{ApiError, ErrorCode};
use jiff::SignedDuration;

use super::Pod;
use crate::record::{ParkedCall, SessionState};
use crate::session::gone;
use crate::stored::{self, Stored};
use crate::usage::{self, StoredSheets};

/// After so long nobody writes about a day any more.
const SETTLED_AFTER: SignedDuration = SignedDuration::from_hours(24);

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
        let Some(record) = self.stored_record(call).await? else { return Ok(ApprovalList::default()) };
        Ok(ApprovalList { items: record.approvals().map(ParkedCall::view).collect(), truncated: false })
    }

    /// The calls of a session that wait for a client, as committed.
    ///
    /// # Errors
    /// The store cannot be read, or what is stored does not verify.
    pub async fn stored_hostcalls(&self, call: &StoredCall) -> Result<ApprovalList, ApiError> {
        let Some(record) = self.stored_record(call).await? else { return Ok(ApprovalList::default()) };
        let waits = record.parked().filter(|parked| parked.waits_for == WaitsFor::Client);
        Ok(ApprovalList { items: waits.map(ParkedCall::view).collect(), truncated: false })
    }

    /// What a session's MCP server has, as committed.
    ///
    /// # Errors
    /// The store cannot be read, or what is stored does not verify.
    pub async fn stored_mcp(&self, call: &StoredCall) -> Result<McpCatalog, ApiError> {
        let Some(record) = self.stored_record(call).await? else { return Ok(McpCatalog::default()) };
        Ok(record.mcp.0)
    }

    async fn stored_record(&self, call: &StoredCall) -> Result<Option<SessionState>, ApiError> {
        let (_, Some(stored)) = self.stored(call).await? else { return Ok(None) };
        if let Some(damage) = stored.damage {
            return Err(ApiError::new(ErrorCode::SnapshotCorrupt, damage));
        }
        let record = SessionState::decode(&stored.head.state);
        record.map(Some).map_err(|error| ApiError::new(ErrorCode::SnapshotCorrupt, error.to_string()))
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
        // Whoever ran it last may not have come to tell what it used.
        self.host().meter.found(&self.shared.host.storage, &head.uid, &head.name, &record.usage, usize::MAX);
        Ok(StoredStatus {
            next_wake_time: record.needed_at(&head.time).map(|time| time.to_string()),
            snapshot: Some(stored::snapshot(&head)),
            last_active_time: record.last_active,
            damage: None,
        })
    }

    /// What this process saw used on these days and has not stored yet.
    ///
    /// # Errors
    /// The pod runs sessions of another namespace.
    pub fn live_usage(&self, call: &UsageCall) -> Result<LiveUsage<Sheet>, ApiError> {
        self.of_namespace(&call.namespace)?;
        Ok(self.host().meter.unstored(&call.days))
    }

    /// What all processes have stored of what was used on these days.
    ///
    /// # Errors
    /// The store cannot be read; `SessionGone` of a pod that reads of its own session only.
    pub async fn stored_usage(&self, call: &UsageCall) -> Result<StoredUsage<Sheet>, ApiError> {
        self.of_namespace(&call.namespace)?;
        let host = self.host();
        if host.only.is_some() {
            return Err(reads_its_own());
        }
        host.storage.ready().await?;
        let sheets =
            StoredSheets { storage: &host.storage, store_prefix: &host.store_prefix, namespace: &host.namespace, boot: &host.boot };
        // Whatever was used the day before yesterday has its sheet by now.
        let settled = host.environment.clock.now().saturating_sub(SETTLED_AFTER).map(usage::day).unwrap_or_default();
        sheets.read(&call.days, &settled).await
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

    /// Where a session is stored, if it is one of this namespace, and the one of a pod that has no other.
    fn readable(&self, call: &StoredCall) -> Result<SessionKey, ApiError> {
        self.of_namespace(&call.namespace)?;
        if self.host().only.as_ref().is_some_and(|only| !only.is_granted(&call.uid)) {
            return Err(reads_its_own());
        }
        Ok(self.host().session_key(&call.uid, &call.name))
    }

    fn of_namespace(&self, namespace: &str) -> Result<(), ApiError> {
        let own = &self.host().namespace;
        if namespace == own {
            return Ok(());
        }
        Err(ApiError::new(ErrorCode::Forbidden, format!("this pod reads sessions of namespace {own} only")))
    }
}

/// What sends callers to another pod.
fn reads_its_own() -> ApiError {
    gone("this pod reads of its own session only")
}
