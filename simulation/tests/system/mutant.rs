//! Surroundings that are wrong in one place: what the processes count on, broken, must be noticed by the checks.

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// The store puts whatever the condition says.
    IgnoresConditions,
    /// One of some PUTs of heads is acknowledged and not made.
    AcksWithoutStoring,
    /// A head is read as it was before the last PUT, now and then.
    ReadsStale,
    /// What is deleted stays.
    KeepsWhatIsDeleted,
    /// Every list is empty.
    ListsNothing,
    /// Epochs are given out without compare-and-swap.
    StatusWithoutCas,
    /// Each broker has pages of calls of its own.
    BrokersForThemselves,
    /// Who wants an epoch gets the one before.
    EpochsRepeat,
}

impl Mutant {
    /// What some seeds notice.
    pub const PLAIN: [Self; 5] =
        [Self::IgnoresConditions, Self::AcksWithoutStoring, Self::ReadsStale, Self::KeepsWhatIsDeleted, Self::ListsNothing];

    /// What takes thousands of seeds, if the processes do not make up for it altogether.
    pub const SUBTLE: [Self; 3] = [Self::StatusWithoutCas, Self::BrokersForThemselves, Self::EpochsRepeat];
}
