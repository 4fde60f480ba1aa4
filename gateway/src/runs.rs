//! Runs: cells that nobody has to wait for. Each function is one verb of the API, free of HTTP.

use std::time::Duration;

use dormouse_protocol::{
    ApiError, ErrorCode,
    eval::EvalRequest,
    kernel::{CancelRunCall, EvalCall, RunsCall},
    run::{Run, RunList, WAIT_SECONDS_MAX},
};
use tokio::time::Instant;

use crate::{directory::Key, expiry::refuse_expired, in_flight::Asleep, kernels::stored, metrics::Source, router::Router, stored::ask};

/// Runs on a page of a list, unless the client says otherwise, and at most.
pub const PAGE_MAX: usize = 64;
/// While no process has a session whose run is waited for, the store is looked at this often.
const STORED_POLL: Duration = Duration::from_secs(1);

/// Accepts a cell as a run; answers once it is committed that it will be run. The cell's idempotency key names it.
pub async fn accept(router: &Router, key: &Key, eval: &EvalRequest, request_id: &str) -> Result<Run, ApiError> {
    refuse_expired(router, key).await?;
    let sent = router.send(key, Asleep::Refuse, Source::Request, |pod, assignment| async move {
        let call = EvalCall { assignment, eval: eval.clone(), request_id: request_id.to_owned(), run: true, lost: false };
        router.kernels().accept_run(&pod, &call).await
    });
    Ok(named(key, sent.await?.0))
}

/// A page of the runs of a session, newest first. Wakes nothing.
pub async fn list(router: &Router, key: &Key, limit: Option<usize>, after: Option<&str>) -> Result<RunList, ApiError> {
    let limit = limit.unwrap_or(PAGE_MAX).clamp(1, PAGE_MAX);
    let all = look(router, key, None, Duration::ZERO).await?;
    let skipped = after.map_or(0, |after| all.iter().position(|run| run.id == after).map_or(all.len(), |at| at + 1));
    let mut items: Vec<_> = all.into_iter().skip(skipped).collect();
    let more = items.len() > limit;
    items.truncate(limit);
    let continue_token = items.last().filter(|_| more).map(|last| last.id.clone());
    Ok(RunList { items, continue_token })
}

/// A run, when it has ended or `wait` is over. Wakes nothing: what was accepted wakes its session by itself.
pub async fn get(router: &Router, key: &Key, id: &str, wait: Duration) -> Result<Run, ApiError> {
    let until = Instant::now() + wait.min(Duration::from_secs(WAIT_SECONDS_MAX));
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let found = look(router, key, Some(id), left).await?.into_iter().next().ok_or_else(|| not_found(id))?;
        let left = until.saturating_duration_since(Instant::now());
        if found.state.is_end() || left.is_zero() {
            return Ok(found);
        }
        tokio::time::sleep(STORED_POLL.min(left)).await;
    }
}

/// Ends a run; answers with its end once that is stored. One that has ended stays as it is, and its session asleep.
pub async fn cancel(router: &Router, key: &Key, id: &str) -> Result<Run, ApiError> {
    let found = get(router, key, id, Duration::ZERO).await?;
    if found.state.is_end() {
        return Ok(found);
    }
    let sent = router.send(key, Asleep::Accept, Source::Request, |pod, assignment| async move {
        router.kernels().cancel_run(&pod, &CancelRunCall { assignment, run: id.to_owned() }).await
    });
    Ok(named(key, sent.await?.0))
}

async fn look(router: &Router, key: &Key, id: Option<&str>, wait: Duration) -> Result<Vec<Run>, ApiError> {
    let record = router.find(key).await?;
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let call = RunsCall { session: stored(&record), run: id.map(str::to_owned), wait_ms };
    let found: RunList = ask(router, &record, |pod| {
        let call = &call;
        async move { router.kernels().runs(&pod, call).await }
    })
    .await?;
    Ok(found.items.into_iter().map(|run| named(key, run)).collect())
}

fn named(key: &Key, run: Run) -> Run {
    Run { url: format!("/v1/namespaces/{}/sessions/{}/runs/{}", key.namespace, key.name, run.id), ..run }
}

fn not_found(id: &str) -> ApiError {
    ApiError::new(ErrorCode::RunNotFound, format!("there is no run `{id}` in this session, or it ended so long ago that it is forgotten"))
}
