//! What a session was: checkpoints, forks of them, and the journal.

use serde::{Deserialize, Serialize};

use crate::{ErrorCode, eval::Language};

/// Longest idempotency key, in bytes: of a cell, and of a request that makes a checkpoint or goes back to one.
pub const KEY_BYTES_MAX: usize = 128;

/// An earlier state of a session that can be restored or forked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// Names it in `restore` and `fork`, as its label does: the sequence of the commit that it is.
    pub id: String,
    /// Its label; automatic ones have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The sequence of the commit that it is.
    pub sequence: u64,
    /// When that was, RFC 3339.
    pub time: String,
    /// Bytes of its snapshot. What it shares with the session and with other checkpoints is stored once and counted in each.
    pub bytes: u64,
}

/// Answer of `GET …/{name}/checkpoints`, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointList {
    /// The checkpoints.
    pub items: Vec<Checkpoint>,
    /// Why this may not be all: what is stored of the session does not verify.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// Body of `POST …/{name}/checkpoints`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MakeCheckpoint {
    /// Its label: 1 to 63 of A-Z, a-z, 0-9, '-', '_' and '.', not digits alone. A label that is in use moves to the new one.
    pub label: String,
    /// A retry with the same key makes no other checkpoint. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Body of `POST …/{name}/restore`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestoreSession {
    /// Id or label of a checkpoint.
    pub checkpoint: String,
    /// A retry with the same key does not go back once more: cells that ran since then stay. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Body of `POST …/{name}/fork`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForkSession {
    /// Name of the new session, a DNS label.
    pub name: String,
    /// Id or label of a checkpoint; the last commit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

/// How a name of two states differs between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// Only the later state has it.
    Added,
    /// Only the earlier state has it.
    Removed,
    /// Both have it, and it is not the same.
    Changed,
    /// One that whoever reads it does not know, because who answers is newer.
    #[serde(other)]
    Unknown,
}

/// A global that is not the same in two states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlobalChange {
    /// Its name.
    pub name: String,
    /// How it differs.
    pub change: ChangeKind,
    /// How it reads in the earlier state, cut when it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// How it reads in the later state, cut when it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A file that is not the same in two states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    /// Its path.
    pub path: String,
    /// How it differs.
    pub change: ChangeKind,
    /// Its size in the earlier state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_before: Option<u64>,
    /// Its size in the later state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_after: Option<u64>,
}

/// Answer of `GET …/{name}/checkpoints/diff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The earlier state.
    pub from: Checkpoint,
    /// The later one; without `to` in the request it is the last commit, which is no checkpoint.
    pub to: Checkpoint,
    /// Globals that cells made and that differ, by name.
    pub globals: Vec<GlobalChange>,
    /// Files that differ, by path.
    pub files: Vec<FileChange>,
    /// Globals that are the same as far as they were looked at, and go further than that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsure: Vec<String>,
    /// There are more globals or files than were looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// What happened, as the journal tells it. What a tool was sent and answered, and what a cell answered, is told by its digest only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum JournalBody {
    /// A cell began.
    #[serde(rename_all = "camelCase")]
    Cell {
        /// Its number.
        cell: u64,
        /// Its source, cut when it is long.
        source: String,
        /// Bytes of the whole source.
        source_bytes: u64,
        /// Hex sha256 of the whole source.
        source_digest: String,
        /// The language that it was sent as.
        #[serde(default, skip_serializing_if = "is_typescript")]
        language: Language,
        /// The name that it was sent under.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filename: Option<String>,
        /// The key under which it was sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
        /// Number of the last of the session's events before it: its own are behind that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        events_after: Option<u64>,
    },
    /// A cell ended.
    #[serde(rename_all = "camelCase")]
    Result {
        /// Its number.
        cell: u64,
        /// Whether it ended well.
        ok: bool,
        /// Hex sha256 of its value as JSON, or of its preview when it has no value.
        digest: String,
        /// How it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<ErrorCode>)]
        error: Option<ErrorCode>,
        /// The error's message, cut when it is long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A cell called a tool.
    #[serde(rename_all = "camelCase")]
    ToolCall {
        /// The call's number in the session.
        call: u64,
        /// The tool.
        tool: String,
        /// Hex sha256 of the arguments as JSON.
        digest: String,
    },
    /// A tool's answer reached the session.
    #[serde(rename_all = "camelCase")]
    ToolResult {
        /// The call's number in the session.
        call: u64,
        /// Whether it is a result and not an error.
        ok: bool,
        /// Hex sha256 of the result as JSON, or of the error's message.
        digest: String,
    },
    /// It went to sleep.
    Hibernated,
    /// It woke.
    #[serde(rename_all = "camelCase")]
    Woke {
        /// Where its heap came from.
        from: crate::eval::Woke,
    },
    /// A checkpoint was made.
    #[serde(rename_all = "camelCase")]
    Checkpoint {
        /// Its id.
        id: String,
        /// Its label.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
    /// It went back: from here on it continues what it was then.
    #[serde(rename_all = "camelCase")]
    Restored {
        /// Id of the checkpoint.
        checkpoint: String,
    },
    /// It was emptied: from here on nothing is left of what its cells made.
    #[serde(rename_all = "camelCase")]
    Reset {
        /// Id of the checkpoint that is the state before; absent where nothing could be put aside.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<String>,
    },
    /// It began as what another session was.
    #[serde(rename_all = "camelCase")]
    Forked {
        /// Public id of the parent.
        parent: String,
        /// The sequence of the parent's commit that it was.
        sequence: u64,
    },
    /// Its cells were replayed into another engine, under which it goes on.
    #[serde(rename_all = "camelCase")]
    Migrated {
        /// Digest of the engine that it had.
        from: String,
        /// Digest of the one that it has.
        to: String,
    },
}

fn is_typescript(language: &Language) -> bool {
    *language == Language::Typescript
}

/// An entry without its number, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalRecord {
    /// RFC 3339, from the clock of the pod.
    pub time: String,
    /// The assignment under which it happened.
    pub epoch: u64,
    /// What happened.
    #[serde(flatten)]
    pub body: JournalBody,
}

/// An entry of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntry {
    /// Its number, which grows by one with each entry of the session's life.
    pub seq: u64,
    /// RFC 3339, from the clock of the pod.
    pub time: String,
    /// The assignment under which it happened.
    pub epoch: u64,
    /// What happened.
    #[serde(flatten)]
    pub body: JournalBody,
}

/// Answer of `GET …/{name}/journal`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JournalPage {
    /// Entries in order.
    pub entries: Vec<JournalEntry>,
    /// The `after` of the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// Number of the newest entry that is stored, whatever the page shows; 0 where there is none.
    #[serde(default)]
    pub last: u64,
    /// Why this may not be all: what is stored of the session does not verify.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

impl JournalEntry {
    /// The record `record` as the entry of this number.
    #[must_use]
    pub fn new(seq: u64, record: JournalRecord) -> Self {
        let JournalRecord { time, epoch, body } = record;
        Self { seq, time, epoch, body }
    }
}

/// Body of `POST …/{name}/reset`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ResetSession {
    /// Another request under this key changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Body of `POST …/{name}/migrate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MigrateSession {
    /// Only tell what would come of it.
    pub dry_run: bool,
}

/// What came, or would come, of moving a session to the current engine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// Digest of the engine that the session had.
    pub from: String,
    /// Digest of the current engine. The same: there is nothing to do.
    pub to: String,
    /// Nothing was changed.
    pub dry_run: bool,
    /// The session goes on under the current engine.
    pub migrated: bool,
    /// Label of the checkpoint that is the state before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Cells that were run again.
    pub replayed: u64,
    /// Calls of tools that they made, and that were not made again.
    pub calls: u64,
    /// Cells that came to something else, or could not be run again.
    pub cells: Vec<NotCarried>,
    /// Globals that are missing or look different.
    pub globals: Vec<NotCarried>,
    /// Files that are missing or of another size.
    pub files: Vec<NotCarried>,
    /// What else is not as it was, or cannot be told.
    pub notes: Vec<String>,
}

/// Something that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotCarried {
    /// What.
    pub name: String,
    /// Why, or how.
    pub reason: String,
}
