//! What the watch of sessions tells, before anything is done about it: the index of sessions, and the sizes of pools.

use dormouse_control::{
    condition::find,
    pool::{
        demand::{has_to_start, wake_believed},
        index::Noted,
    },
};
use dormouse_crds::{condition::READY, session::KernelSession};
use jiff::Timestamp;
use kube::{
    ResourceExt as _,
    runtime::{reflector::ObjectRef, watcher},
};

use crate::{context::Context, pool};

/// Keeps the index of sessions as the watch tells of them, and has a pool looked at whose size that changes.
pub fn seen(context: &Context, event: &watcher::Event<KernelSession>) {
    let mut index = context.index();
    let touched = match event {
        watcher::Event::Init => {
            index.list_begins();
            None
        }
        watcher::Event::InitDone => {
            index.list_ended();
            None
        }
        watcher::Event::Delete(session) => {
            index.forget(&session.stored_uid());
            index.forget(&session.uid().unwrap_or_default());
            Some(session)
        }
        watcher::Event::InitApply(session) | watcher::Event::Apply(session) => {
            let gone = session.metadata.deletion_timestamp.is_some() || session.returning().is_some();
            let (namespace, uid, status) = (session.namespace().unwrap_or_default(), session.stored_uid(), session.status.as_ref());
            let left = status.and_then(|status| wake_believed(status, Timestamp::now()));
            context.hub.requested(&namespace, &session.spec.pool, &uid, left.map(|left| left.unsigned_abs()));
            if session.uid().is_some_and(|of_object| of_object != uid) {
                // By which it was known until the archive said which session it is.
                index.forget(&session.uid().unwrap_or_default());
            }
            let noted = Noted {
                namespace: &namespace,
                name: &session.name_any(),
                uid: &uid,
                pool: &session.spec.pool,
                broker: session.spec.tool_broker_ref.as_ref().map(|broker| broker.name.as_str()),
                pod_uid: status.and_then(|status| status.placement.as_ref()).map(|placement| placement.pod_uid.as_str()),
                has_to_start: has_to_start(&session.spec, status, gone),
                is_ready: status.and_then(|status| find(&status.conditions, READY)).is_some_and(|ready| ready.status == "True"),
            };
            index.note(&noted).then_some(session)
        }
    };
    let Some(session) = touched.or_else(|| wanted(event)) else { return };
    let (namespace, pool) = (session.namespace().unwrap_or_default(), &session.spec.pool);
    // With its first session a pool has to stay, and without its last it may go.
    let edge = index.count(&namespace, pool) <= 1;
    drop(index);
    // So has the pool where its calls are, which may be another one.
    let broker = session.spec.tool_broker_ref.as_ref().and_then(|broker| {
        let broker = ObjectRef::new(&broker.name).within(&namespace);
        context.caches.brokers.get(&broker)
    });
    if let Some(broker) = broker {
        pool::have_held(context, &namespace, &broker.spec.journal.pool);
    }
    if edge || pool::is_to_resize(context, &namespace, pool) {
        // A pool whose turn does not fit the queue is looked at before long in any case.
        let _ = context.pool_triggers.try_send(ObjectRef::new(pool).within(&namespace));
    }
}

/// The session of an event that says that somebody waits for it.
fn wanted(event: &watcher::Event<KernelSession>) -> Option<&KernelSession> {
    let (watcher::Event::Apply(session) | watcher::Event::InitApply(session)) = event else { return None };
    session.status.as_ref().and_then(|status| wake_believed(status, Timestamp::now())).map(|_| session)
}
