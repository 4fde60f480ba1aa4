//! Does what was decided about a session: its status first, then its placement, then what this process remembers of it.

use std::time::{Duration, Instant};

use dormouse_control::{
    condition::find,
    reason::SessionReason,
    session::{Decision, Next, StatusUpdate, UnreadUpdate},
};
use dormouse_crds::{
    condition::READY,
    session::{KernelSession, KernelSessionStatus},
};
use dormouse_protocol::session::State;
use kube::ResourceExt as _;

use super::{
    archive, own_pool,
    patch::{clear_placement, patch_status},
    stored, strays,
};
use crate::{context::Context, error::ReconcileError, unread};

/// Even when nothing happens, a session is looked at this often.
const RESYNC: Duration = Duration::from_secs(600);
/// How soon a session is looked at again whose pod says nothing.
const SILENT_AGAIN: Duration = Duration::from_secs(2);

/// Does it. `previous` is the status that it was decided by. The answer is when to look again.
///
/// # Errors
/// The API server, the store or a kernel pod failed.
pub(super) async fn apply(
    decision: Decision,
    session: &KernelSession,
    previous: &KernelSessionStatus,
    context: &Context,
) -> Result<Duration, ReconcileError> {
    let again = update_status(&decision.status, session, previous, context).await?;
    if decision.clear_placement {
        clear_placement(context, session).await?;
        if let Some(placement) = &previous.placement {
            // Nobody asks any more what its process told last.
            context.hub.forget_last_word(&placement.pod_uid, &session.stored_uid());
        }
    }
    remember(decision.unread, session, context);
    if decision.resize_pool {
        own_pool::resize(session, context);
    }
    let again = match decision.next {
        Next::AtOnce => Duration::ZERO,
        Next::AskAgain => stored::ASK_AGAIN,
        Next::ReadAgain => unread::READ_AFTER.into_iter().min().unwrap_or(RESYNC),
        Next::Resync => RESYNC,
        Next::Tend { is_silent, may_leave } => {
            let unread = context.unread.due_in(&session.stored_uid(), Instant::now());
            let again = again.min(unread.unwrap_or(again));
            if strays::call_back(session, previous, context).await || is_silent {
                again.min(SILENT_AGAIN)
            } else if may_leave && unread.is_none() {
                archive::consider(session, context).await?.map_or(again, |archive| archive.min(again))
            } else {
                again
            }
        }
    };
    Ok(again)
}

fn remember(update: UnreadUpdate, session: &KernelSession, context: &Context) {
    let (uid, pool, now) = (session.stored_uid(), own_pool::key(session), Instant::now());
    match update {
        UnreadUpdate::Keep => {}
        UnreadUpdate::Forget => context.unread.forget(&uid),
        UnreadUpdate::Read => context.unread.read(&uid),
        UnreadUpdate::Cleared => context.unread.cleared(&uid, pool, now),
        UnreadUpdate::Silent => context.unread.silent(&uid, pool, now),
    }
}

/// Writes the status if it is time. The answer is when to look again.
async fn update_status(
    update: &StatusUpdate,
    session: &KernelSession,
    previous: &KernelSessionStatus,
    context: &Context,
) -> Result<Duration, ReconcileError> {
    let (uid, now, writes) = (session.stored_uid(), Instant::now(), &context.writes);
    let (new, turn) = match update {
        StatusUpdate::Unknown => return Ok(RESYNC),
        StatusUpdate::Current => {
            writes.caught_up(&uid);
            return Ok(RESYNC);
        }
        StatusUpdate::Later(new) => (new, writes.busy(&uid, Duration::from_millis(context.config.status_interval_ms), now)),
        StatusUpdate::Now(new) => (new, writes.settled(&session.namespace().unwrap_or_default(), now)),
        StatusUpdate::Last(new) => (new, Ok(())),
    };
    if let Err(wait) = turn {
        return Ok(wait);
    }
    patch_status(&context.client, session, new).await?;
    context.metrics.status_writes.inc();
    writes.caught_up(&uid);
    announce(session, previous, new, context).await;
    Ok(RESYNC)
}

/// An Event when the session cannot run, and when it can again: what a person should see. Sleeping and waking is what sessions do all day.
async fn announce(session: &KernelSession, old: &KernelSessionStatus, new: &KernelSessionStatus, context: &Context) {
    let failure = |status: &KernelSessionStatus| {
        let ready = find(&status.conditions, READY).filter(|ready| ready.status == "False");
        ready.filter(|ready| SessionReason::state(&ready.reason, false) == State::Failed).map(|ready| ready.reason.clone())
    };
    let (before, after) = (failure(old), failure(new));
    let Some(ready) = find(&new.conditions, READY).filter(|_| before != after) else { return };
    match after {
        Some(reason) => context.event(session, false, &reason, &ready.message).await,
        None => context.event(session, true, "Recovered", "The session can run again.").await,
    }
}
