//! KernelSession: a finalizer for its storage, a pool to run in, a status that is true, and a clean end.
//!
//! What is decided here follows what gateways and kernel pods did, and no eval and no wake waits for it. In three stages, of which only the
//! first and the last hold a client: `dereference` reads what is known of the session, `dormouse_control::session::decide` decides what is done
//! about it, and `apply` does it: status, then the rest. A session becomes no other object, so there is nothing to validate or to build.
//! Beside that, `grant` gives a dedicated pod what its session needs, for which that session's wake does wait.

mod apply;
pub mod archive;
pub mod deletion;
mod dereference;
mod finalizer;
mod grant;
mod own_pool;
mod patch;
mod seen;
pub mod stored;
mod strays;
mod told;

use std::sync::Arc;

use dormouse_control::session::decide;
use dormouse_crds::session::{KernelSession, KernelSessionStatus};
use kube::runtime::controller::Action;

use crate::{context::Context, controller::Outcome};
use apply::apply;
use dereference::dereference;
pub use seen::seen;

/// Reconciles a session.
///
/// # Errors
/// The API server, the store or a kernel pod failed; it will be tried again.
pub async fn reconcile(session: Arc<KernelSession>, context: Arc<Context>) -> Outcome {
    if let Some(uid) = session.returning() {
        // Before anything else: it has another identity then.
        return archive::adopt(&session, uid, &context).await;
    }
    if session.metadata.deletion_timestamp.is_some() {
        context.unread.forget(&session.stored_uid());
        return deletion::reconcile(&session, &context).await;
    }
    if !finalizer::is_there(&session) {
        finalizer::add(&context.client, &session).await?;
    }
    own_pool::ensure(&session, &context).await?;
    let empty = KernelSessionStatus::default();
    let previous = session.status.as_ref().unwrap_or(&empty);
    let followed = async {
        let decision = decide(&dereference(&session, previous, &context).await?);
        apply(decision, &session, previous, &context).await
    };
    // Neither waits for the other, nor is kept by it.
    let (granted, followed) = tokio::join!(grant::ensure(&session, &context), followed);
    let again = followed?;
    Ok(Action::requeue(granted.map_or(again, |granted| granted.min(again))))
}
