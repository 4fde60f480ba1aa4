//! Calls that wait for a person: each function is one verb of the API, free of HTTP.
//!
//! What waits is read from the store, so nothing is woken for it. A decision goes to the broker first, where the first one stands, and then to the
//! session, which asks the broker again. If nobody lives to tell the session, it asks by itself.

use std::sync::Arc;

use dormouse_lifecycle::keys::broker_name;
use dormouse_protocol::{
    ApiError, ErrorCode,
    approval::{Approval, ApprovalList, ApprovalState, Decide, Decided, Verdict},
    broker::{DecideCall, ToolAnswer, digest},
    kernel::{AnswerCall, DecidedCall},
};
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;

use crate::{
    directory::{Key, Record},
    in_flight::Asleep,
    kernels::{KernelError, stored},
    metrics::Source,
    router::Router,
    stored::ask,
};

/// Sessions of a namespace that are read at one time.
const READS_IN_FLIGHT_MAX: usize = 8;
/// Sessions whose calls one list shows.
const SESSIONS_MAX: usize = 200;

/// The calls of a session that wait. Wakes nothing.
pub async fn list(router: &Router, key: &Key) -> Result<ApprovalList, ApiError> {
    waiting(router, &router.find(key).await?).await
}

async fn waiting(router: &Router, record: &Arc<Record>) -> Result<ApprovalList, ApiError> {
    let call = stored(record);
    let found: ApprovalList = ask(router, record, |pod| {
        let call = &call;
        async move { router.kernels().stored_approvals(&pod, call).await }
    })
    .await?;
    let now = router.clock().now();
    let named = |approval: Approval| Approval { session: record.key.name.clone(), state: state_of(&approval, now), ..approval };
    Ok(ApprovalList { items: found.items.into_iter().map(named).collect(), truncated: false })
}

/// The calls of a session that wait for one of its clients. Wakes nothing.
pub async fn for_clients(router: &Router, key: &Key) -> Result<ApprovalList, ApiError> {
    let record = router.find(key).await?;
    let call = stored(&record);
    ask(router, &record, |pod| {
        let call = &call;
        async move { router.kernels().stored_hostcalls(&pod, call).await }
    })
    .await
}

/// Delivers what a client says of a call that waits for one; returns when that is stored.
pub async fn answer(router: &Router, key: &Key, call: u64, answer: &ToolAnswer) -> Result<(), ApiError> {
    let sent = router.send(key, Asleep::Refuse, Source::Request, |pod, assignment| async move {
        router.kernels().answer(&pod, &AnswerCall { assignment, call, answer: answer.clone() }).await
    });
    sent.await.map(drop)
}

/// Whether somebody may decide about a call.
fn state_of(approval: &Approval, now: Timestamp) -> ApprovalState {
    let over = approval.expires_at.parse::<Timestamp>().is_ok_and(|until| until <= now);
    if over { ApprovalState::Expired } else { ApprovalState::Pending }
}

/// The first of these, and whether there are more.
fn first<T>(all: impl Iterator<Item = T>, max: usize) -> (Vec<T>, bool) {
    let mut found: Vec<T> = all.take(max + 1).collect();
    let more = found.len() > max;
    found.truncate(max);
    (found, more)
}

/// Those of the sessions of a namespace that `visible` lets through, of [`SESSIONS_MAX`] sessions at most.
pub async fn list_all(router: &Router, namespace: &str, visible: impl Fn(&Key) -> bool) -> Result<ApprovalList, ApiError> {
    let waits =
        router.directory().list(Some(namespace)).into_iter().filter(|record| record.status.pending_approvals.is_some_and(|n| n > 0));
    let (keys, truncated) = first(waits.map(|record| record.key.clone()).filter(visible), SESSIONS_MAX);
    let lists: Vec<ApprovalList> = futures::stream::iter(keys)
        .map(|key| async move {
            match list(router, &key).await {
                // It was deleted meanwhile.
                Err(error) if error.code == ErrorCode::SessionNotFound => Ok(ApprovalList::default()),
                listed => listed,
            }
        })
        .buffered(READS_IN_FLIGHT_MAX)
        .try_collect()
        .await?;
    Ok(ApprovalList { items: lists.into_iter().flat_map(|list| list.items).collect(), truncated })
}

/// Decides about a call that waits; answers when the decision is stored.
pub async fn decide(router: &Router, key: &Key, id: &str, body: Decide, by: &str, decision_id: String) -> Result<Decided, ApiError> {
    let approve = body.decision == Verdict::Approve;
    if body.arguments.is_some() && !approve {
        return Err(ApiError::new(ErrorCode::InvalidRequest, "a denial has no arguments: leave them out"));
    }
    let record = router.find(key).await?;
    let waiting = waiting(router, &record).await?.items.into_iter().find(|approval| approval.id == id).ok_or_else(|| not_found(id))?;
    if body.arguments.is_some() && !waiting.editable {
        return Err(ApiError::new(ErrorCode::Forbidden, "the arguments of this call may not be changed: it is not `editable`"));
    }
    if let Some(epoch) = body.epoch.filter(|epoch| *epoch != waiting.epoch) {
        let message = format!(
            "`{id}` was made in epoch {}, and this decision is about one of epoch {epoch}: look at the call, and decide again",
            waiting.epoch
        );
        return Err(ApiError::new(ErrorCode::ApprovalMismatch, message));
    }
    if waiting.state == ApprovalState::Expired {
        return Err(ApiError::new(ErrorCode::ApprovalExpired, format!("the time of `{id}` was over at {}", waiting.expires_at)));
    }
    let call = waiting.call_id.parse().map_err(|_| ApiError::new(ErrorCode::Internal, "a kernel pod's call has no number"))?;
    let Some(broker) = record.spec.tool_broker_ref.as_ref().map(|broker| broker.name.clone()) else {
        return Err(ApiError::new(ErrorCode::ToolNotFound, "the session has no ToolBroker any more: name one in spec.toolBrokerRef"));
    };
    let decision = DecideCall {
        namespace: key.namespace.clone(),
        session: key.name.clone(),
        session_uid: broker_name(&router.directory().pool_of(&record), &record.uid),
        epoch: waiting.epoch,
        call,
        digest: digest(&waiting.tool_name, &waiting.args),
        tool: waiting.tool_name,
        id: decision_id,
        approve,
        reason: body.reason,
        arguments: body.arguments,
        by: by.to_owned(),
    };
    let decided = router.kernels().decide(&broker, &decision).await.map_err(|error| unheard(&broker, error));
    // Whoever decided first may not have lived to tell the session.
    let stands = match &decided {
        Ok(()) => true,
        Err(error) => matches!(error.code, ErrorCode::ApprovalUsed | ErrorCode::ApprovalExpired),
    };
    let told = stands && tell(router, key, call).await;
    decided.map(|()| Decided { id: id.to_owned(), decision: body.decision, told })
}

/// Lets the session ask its broker again.
pub(crate) async fn tell(router: &Router, key: &Key, call: u64) -> bool {
    let sent = router.send(key, Asleep::Refuse, Source::Request, |pod, assignment| async move {
        router.kernels().decided(&pod, &DecidedCall { assignment, call }).await
    });
    match sent.await {
        Ok(_) => true,
        Err(error) => {
            tracing::info!(session = %key, call, %error, "a session does not know yet that somebody has decided; it asks by itself");
            false
        }
    }
}

pub(crate) fn unheard(broker: &str, error: KernelError) -> ApiError {
    match error {
        KernelError::Refused(refusal) => refusal,
        error => {
            tracing::info!(broker, %error, "a broker does not answer");
            let message = format!("ToolBroker {broker} does not answer: send it again; a decision with its idempotencyKey");
            ApiError::new(ErrorCode::StorageUnavailable, message)
        }
    }
}

pub(crate) fn not_found(id: &str) -> ApiError {
    ApiError::new(ErrorCode::ApprovalNotFound, format!("no call of this session waits as `{id}`: it was decided, or there was none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_says_whether_there_is_more() {
        for (sessions, shown, more) in [(0, 0, false), (SESSIONS_MAX, SESSIONS_MAX, false), (SESSIONS_MAX + 1, SESSIONS_MAX, true)] {
            let (found, truncated) = first(0..sessions, SESSIONS_MAX);
            assert_eq!((found.len(), truncated), (shown, more), "{sessions}");
        }
    }
}
