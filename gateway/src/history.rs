//! Checkpoints, time travel, forks and the journal: each function is one verb of the API, free of HTTP.

use dormouse_crds::session::{KernelSessionSpec, OperatingMode, Source, Subject, ToolBrokerRef};
use dormouse_protocol::{
    ApiError, ErrorCode,
    history::{Checkpoint, CheckpointList, Difference, ForkSession, JournalPage, Migration},
    kernel::{CheckpointCall, DifferenceCall, JournalCall, MigrateCall, ResetCall, RestoreCall},
    session::{CreateSession, Session},
};

use crate::{
    directory::Key,
    expiry::refuse_expired,
    in_flight::{Asleep, InFlight},
    kernels::stored,
    metrics::Source as Origin,
    router::Router,
    service::{self, Created, Existing},
    stored::ask,
};

/// Entries of the journal on a page, unless the client says otherwise.
pub const JOURNAL_PAGE_DEFAULT: usize = 1_000;
/// Most entries of the journal on a page.
pub const JOURNAL_PAGE_MAX: usize = 10_000;

/// The checkpoints of a session.
pub async fn checkpoints(router: &Router, key: &Key) -> Result<CheckpointList, ApiError> {
    let record = router.find(key).await?;
    let call = stored(&record);
    ask(router, &record, |pod| {
        let call = &call;
        async move { router.kernels().stored_checkpoints(&pod, call).await }
    })
    .await
}

/// Entries of a session's journal behind `after`.
pub async fn journal(router: &Router, key: &Key, after: u64, limit: Option<usize>) -> Result<JournalPage, ApiError> {
    let limit = limit.unwrap_or(JOURNAL_PAGE_DEFAULT).clamp(1, JOURNAL_PAGE_MAX);
    let record = router.find(key).await?;
    let call = JournalCall { session: stored(&record), after, limit };
    ask(router, &record, |pod| {
        let call = &call;
        async move { router.kernels().stored_journal(&pod, call).await }
    })
    .await
}

/// What changed from one checkpoint of a session to another, or to its last commit.
pub async fn difference(router: &Router, key: &Key, from: String, to: Option<String>) -> Result<Difference, ApiError> {
    let record = router.find(key).await?;
    let call = DifferenceCall { session: stored(&record), from, to };
    ask(router, &record, |pod| {
        let call = &call;
        async move { router.kernels().stored_difference(&pod, call).await }
    })
    .await
}

/// Puts a session's present state aside under `label`. The pod knows by `operation` what it has done, so an answer that was lost is asked for again.
pub async fn checkpoint(router: &Router, key: &Key, label: &str, operation: &str) -> Result<Checkpoint, ApiError> {
    let sent = router.send(key, Asleep::Refuse, Origin::Request, |pod, assignment| async move {
        let call = CheckpointCall { assignment, label: label.to_owned(), operation: Some(operation.to_owned()) };
        router.kernels().checkpoint(&pod, &call).await
    });
    Ok(sent.await?.0)
}

/// Takes a session back to a checkpoint; answers when it is so. The pod knows by `operation` what it has done: a cell that was answered after the
/// session had gone back is not set aside by another sending.
pub async fn restore(router: &Router, key: &Key, checkpoint: &str, operation: &str) -> Result<Session, ApiError> {
    refuse_expired(router, key).await?;
    let sent = router.send(key, Asleep::Refuse, Origin::Request, |pod, assignment| async move {
        let call = RestoreCall { assignment, checkpoint: checkpoint.to_owned(), operation: Some(operation.to_owned()) };
        router.kernels().restore(&pod, &call).await
    });
    let (report, route) = sent.await?;
    Ok(service::reported(router, &route.record, &report))
}

/// Empties a session; answers when it is so. A cell that runs is interrupted first: it would hold the session up.
pub async fn reset(router: &Router, key: &Key, operation: &str) -> Result<Session, ApiError> {
    refuse_expired(router, key).await?;
    let record = router.whole(&router.find(key).await?).await?;
    if let Some(route) = router.placed(&record, 0)
        && let Err(error) = router.kernels().interrupt(&route.pod, &route.assignment()).await
    {
        // One that cannot be woken to be interrupted runs nothing.
        tracing::debug!(session = %key, %error, "a session is reset without an interrupt");
    }
    let mut in_flight = InFlight { anew: true, ..InFlight::new(Asleep::Refuse, Origin::Request) };
    let sent = router.send_on(&mut in_flight, key, |pod, assignment| async move {
        router.kernels().reset(&pod, &ResetCall { assignment, operation: Some(operation.to_owned()) }).await
    });
    let (report, route) = sent.await?;
    Ok(service::reported(router, &route.record, &report))
}

/// Moves a session to the current engine, or only tells what would come of it.
pub async fn migrate(router: &Router, key: &Key, dry_run: bool) -> Result<Migration, ApiError> {
    let sent = router.send(key, Asleep::Refuse, Origin::Request, |pod, assignment| async move {
        router.kernels().migrate(&pod, &MigrateCall { assignment, dry_run }).await
    });
    Ok(sent.await?.0)
}

/// Makes a session that begins as what this one is; answers when it has its own copy. One that cannot begin leaves nothing. `by` is who has it use the
/// parent's ToolBroker.
pub async fn fork(router: &Router, key: &Key, body: ForkSession, by: Option<Subject>) -> Result<Session, ApiError> {
    let parent = router.whole(&router.find(key).await?).await?;
    let source = Source { session: key.name.clone(), checkpoint: body.checkpoint };
    let operating_mode = match parent.spec.operating_mode {
        OperatingMode::Hibernated => OperatingMode::Auto,
        mode => mode,
    };
    let tool_broker_ref = parent.spec.tool_broker_ref.clone().map(|broker| ToolBrokerRef { named_by: by, ..broker });
    let spec = KernelSessionSpec { source: Some(source), operating_mode, tool_broker_ref, ..parent.spec.clone() };
    let child = Key::new(&key.namespace, &body.name);
    let new = CreateSession { name: Some(body.name), spec, ..CreateSession::default() };
    match service::create(router, &key.namespace, new, Existing::Refuse).await? {
        Created::New(_) => {}
        Created::Old(_) => return Err(ApiError::new(ErrorCode::Internal, "an existing session was answered where it was to be refused")),
    }
    match service::wake(router, &child).await {
        Ok(session) => Ok(session),
        Err(error) => {
            if let Err(left) = service::delete(router, &child).await {
                tracing::warn!(session = %child, error = %left, "a fork that could not begin is left behind");
            }
            Err(error)
        }
    }
}
