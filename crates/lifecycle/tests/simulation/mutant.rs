//! Protocols that are wrong in one place. Each must be caught: else a checker, or the chaos, is worth nothing.

/// What is done wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A result is acked when the cell has run.
    AcksBeforeCommit,
    /// A PUT whose reply was lost counts as done.
    AcksUnknownOutcomes,
    /// A writer that meets a later epoch acks all the same.
    AcksAsZombie,
    /// Heads are put without a condition.
    IgnoresEtag,
    /// A put id names the version and not the attempt.
    ReusesPutIds,
    /// An unknown outcome is followed by a new commit of the same cell, not by the same bytes.
    ResendsUnderNewPutId,
    /// A writer that was overtaken puts its own bytes over what it has not seen.
    RebasesOverSupersession,
    /// A head of a later epoch is restored and continued.
    AcquireIgnoresEpoch,
    /// After a commit of unknown outcome was given up, its instance runs on.
    KeepsInstanceAfterTimeout,
    /// What a session has answered is not restored.
    ForgetsAnswers,
    /// A session remembers the key of its last answer only.
    RemembersOneAnswer,
    /// A whole image lacks a page.
    CompactionDropsPage,
    /// The pages inside the head are not laid back.
    RestoreIgnoresInline,
    /// A call leaves when the cell has run.
    EffectsBeforeCommit,
    /// The broker does not compare epochs.
    EffectsUnfenced,
    /// The broker does not compare call numbers.
    CallsNotJournaled,
    /// Each replica of the broker knows its own calls only.
    AnswersFromMemory,
    /// A call leaves though it is not known whether its intent is stored.
    SendsBeforeIntent,
    /// A call with an intent and no outcome is made again.
    TakesOverIntents,
    /// All brokers sign their intents alike.
    ReusesAttempts,
    /// An intent of one's own on a page that was read some time ago is the word to make the call.
    BelievesOldPages,
    /// Pages of calls are put without a condition.
    PutsPagesUnconditionally,
    /// Everything that the head does not name goes.
    GcIgnoresVersion,
    /// Only epochs are compared.
    GcComparesEpochOnly,
    /// What predecessors left is not looked at.
    GcSparesOlderEpochs,
    /// What the head names is not looked at.
    GcIgnoresNames,
    /// What the next head will not name goes before that head is there.
    SweepsBeforeCommit,
    /// Deletion removes the head first.
    TombstoneRemovedFirst,
    /// Deletion writes no tombstone.
    DeletesWithoutTombstone,
    /// Who collects what belongs to no session asks which there are, and lists the store afterwards.
    AsksBeforeListing,
    /// Who collects does not look for the mark of the archive once more.
    ForgetsTheMark,
    /// A session leaves for the archive before it is marked.
    LeavesUnmarked,
    /// A session that is being deleted counts as gone.
    TakesDeletingForGone,
    /// What other clusters store is collected.
    IgnoresOtherClusters,
    /// Who else uses the store is read before it is listed.
    JudgesBeforeListing,
    /// What was stored before any cluster wrote its name counts as known.
    AccountsUnseen,
    /// What has a head counts as a session.
    SparesHeads,
    /// Pages of calls do not count as anything of a session.
    SparesCalls,
    /// Gateways patch status without the version that they read.
    StatusWithoutCas,
    /// A result is acked when its commit is stored, though status does not have the assignment yet.
    AcksUnconfirmed,
    /// Calls that a restored heap awaits are sent again, though status does not have the assignment yet.
    EffectsUnconfirmed,
    /// A head of the own epoch is restored, whoever wrote it.
    SharesAnEpoch,
    /// A head is believed because it verifies, whatever is known to have been stored.
    IgnoresAnchor,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 43] = [
        Self::AcksBeforeCommit,
        Self::AcksUnknownOutcomes,
        Self::AcksAsZombie,
        Self::IgnoresEtag,
        Self::ReusesPutIds,
        Self::ResendsUnderNewPutId,
        Self::RebasesOverSupersession,
        Self::AcquireIgnoresEpoch,
        Self::KeepsInstanceAfterTimeout,
        Self::ForgetsAnswers,
        Self::RemembersOneAnswer,
        Self::CompactionDropsPage,
        Self::RestoreIgnoresInline,
        Self::EffectsBeforeCommit,
        Self::EffectsUnfenced,
        Self::CallsNotJournaled,
        Self::AnswersFromMemory,
        Self::SendsBeforeIntent,
        Self::TakesOverIntents,
        Self::ReusesAttempts,
        Self::BelievesOldPages,
        Self::PutsPagesUnconditionally,
        Self::GcIgnoresVersion,
        Self::GcComparesEpochOnly,
        Self::GcSparesOlderEpochs,
        Self::GcIgnoresNames,
        Self::SweepsBeforeCommit,
        Self::TombstoneRemovedFirst,
        Self::DeletesWithoutTombstone,
        Self::AsksBeforeListing,
        Self::ForgetsTheMark,
        Self::LeavesUnmarked,
        Self::TakesDeletingForGone,
        Self::IgnoresOtherClusters,
        Self::JudgesBeforeListing,
        Self::AccountsUnseen,
        Self::SparesHeads,
        Self::SparesCalls,
        Self::StatusWithoutCas,
        Self::AcksUnconfirmed,
        Self::EffectsUnconfirmed,
        Self::SharesAnEpoch,
        Self::IgnoresAnchor,
    ];
}

/// How a store lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It does not look at conditions.
    IgnoresConditions,
    /// It forgets some of what it has acknowledged.
    AcksWithoutStoring,
    /// It checks the condition first and writes some time later.
    ChecksThenWrites,
    /// Some reads answer what was there before.
    ReadsStale,
}

impl Lie {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::IgnoresConditions, Self::AcksWithoutStoring, Self::ChecksThenWrites, Self::ReadsStale];
}
