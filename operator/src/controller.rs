//! The loop around a reconciler: a watch into a store, triggers from elsewhere, bounded concurrency, retries.

use std::{collections::HashMap, convert::Infallible, fmt::Debug, future::Future, hash::Hash, sync::Arc};

use dormouse_watch::WatchScope;
use futures::{FutureExt as _, Stream, StreamExt as _, future, stream};
use kube::{
    Client, Resource, ResourceExt as _,
    core::{DeserializeGuard, NamespaceResourceScope, error_boundary::InvalidObject},
    runtime::{
        WatchStreamExt as _, applier,
        controller::{self, Action, ReconcileRequest},
        reflector::{ObjectRef, store::Writer},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::{context::Context, error::ReconcileError, fair::Fair, revision::Revisions, triggers::Triggers, trim};

/// Objects of one kind that are reconciled at the same time.
const CONCURRENCY: u16 = 64;
/// Those of one namespace.
pub const CONCURRENCY_OF_NAMESPACE: usize = 8;
/// What is done to an object.
pub type Outcome = Result<Action, ReconcileError>;

/// The objects of a watch, whenever one changes or goes, after `seen` has seen what the watch tells. A watch that breaks is logged and taken up again.
pub fn watched<K>(
    revisions: &Revisions,
    (scope, client): (&WatchScope, &Client),
    config: watcher::Config,
    seen: impl Fn(&watcher::Event<K>) + Send + 'static,
) -> impl Stream<Item = K> + Send + 'static
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (scope, client) = (scope.clone(), client.clone());
    let events = revisions.renewed(move || scope.watch(&client, config.clone()));
    let events = events.inspect(move |event| {
        if let Ok(event) = event {
            seen(event);
        }
    });
    events.touched_objects().filter_map(|result| future::ready(logged(result)))
}

/// What can be read of a kind. An object that cannot (it may be older than a rule of its schema) is left out and stalls no other.
fn readable<K>(
    revisions: &Arc<Revisions>,
    (scope, client): (&WatchScope, &Client),
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    use watcher::Event;
    fn read<K: Resource<DynamicType = ()>>(guard: DeserializeGuard<K>) -> Option<K> {
        let of = |error: &InvalidObject| (error.metadata.namespace.clone(), error.metadata.name.clone());
        guard
            .0
            .inspect_err(|error| tracing::warn!(kind = %K::kind(&()), object = ?of(error), %error, "cannot be read and is left alone"))
            .ok()
    }
    let (seen, scope, client) = (Arc::clone(revisions), scope.clone(), client.clone());
    let config = watcher::Config::default().page_size(trim::LIST_PAGE_OBJECTS);
    let events = revisions.renewed(move || scope.watch::<DeserializeGuard<K>>(&client, config.clone()));
    events.filter_map(move |event| {
        if let Ok(Event::InitApply(guard) | Event::Apply(guard) | Event::Delete(guard)) = &event {
            seen.saw(guard.resource_version().as_deref());
        }
        future::ready(match event {
            Ok(Event::Init) => Some(Ok(Event::Init)),
            Ok(Event::InitDone) => Some(Ok(Event::InitDone)),
            Ok(Event::InitApply(guard)) => read(guard).map(|object| Ok(Event::InitApply(object))),
            Ok(Event::Apply(guard)) => read(guard).map(|object| Ok(Event::Apply(object))),
            Ok(Event::Delete(guard)) => read(guard).map(|object| Ok(Event::Delete(object))),
            Err(error) => Some(Err(error)),
        })
    })
}

/// Keeps what a watch tells in a cache, until `shutdown`.
pub async fn kept<K>(revisions: &Arc<Revisions>, of: (&WatchScope, &Client), writer: Writer<K>, shutdown: CancellationToken)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let events = readable(revisions, of).reflect(writer).take_until(shutdown.cancelled_owned());
    let seen = events.map(|event| logged(event).is_some());
    seen.for_each(|_| future::ready(())).await;
}

fn logged<T>(result: Result<T, watcher::Error>) -> Option<T> {
    result.inspect_err(|error| tracing::warn!(%error, "watch")).ok()
}

/// What of an object changes when its user changes it, and not when its status does.
pub fn generation<K: Resource>(object: &K) -> Option<u64> {
    object.meta().generation.and_then(|generation| u64::try_from(generation).ok())
}

/// Nothing is done about what the watch tells.
pub fn unseen<K: Resource>(_: &Context, _: &watcher::Event<K>) {}

/// What is done about the objects of a kind.
pub struct Reconciler<K: Resource, F> {
    /// What is kept of an object in the cache.
    pub trim: fn(&mut K),
    /// Sees what the watch tells, before the cache has it.
    pub seen: fn(&Context, &watcher::Event<K>),
    /// What of an object has to change for it to be looked at; `None`: anything.
    pub matters: Option<fn(&K) -> Option<u64>>,
    /// What is done about an object.
    pub reconcile: fn(Arc<K>, Arc<Context>) -> F,
}

/// Reconciles until `shutdown`, and lets what runs end.
pub async fn run<K, F>(
    kind: &'static str,
    writer: Writer<K>,
    others: Vec<Triggers<K>>,
    reconciler: Reconciler<K, F>,
    context: Arc<Context>,
    shutdown: CancellationToken,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    ObjectRef<K>: Hash + Eq,
    F: Future<Output = Outcome> + Send + 'static,
{
    let store = writer.as_reader();
    let Reconciler { trim, seen, matters, reconcile } = reconciler;
    let seeing = Arc::clone(&context);
    let touched = readable(&context.revisions, (&context.scope, &context.client))
        .modify(trim)
        .inspect(move |event| {
            if let Ok(event) = event {
                seen(&seeing, event);
            }
        })
        .reflect(writer);
    let mut due = Due { matters, known: HashMap::new(), listed: Vec::new() };
    let own = touched.flat_map(move |event| stream::iter(due.after(event))).boxed();
    let queue = stream::select_all(others.into_iter().chain([own]))
        .map(|object| Ok::<_, Infallible>(ReconcileRequest::from(object)))
        .take_until(shutdown.cancelled_owned());
    let config = controller::Config::default().concurrency(CONCURRENCY);
    let fair = Fair::new(CONCURRENCY_OF_NAMESPACE);
    let step = move |object: Arc<K>, context: Arc<Context>| match fair.take(&object.namespace().unwrap_or_default()) {
        Ok(turn) => {
            let work = timed(kind, reconcile(object, context.clone()), context);
            async move {
                let outcome = work.await;
                drop(turn);
                outcome
            }
            .boxed()
        }
        Err(wait) => future::ready(Ok(Action::requeue(wait))).boxed(),
    };
    applier(step, move |object, error, _| retry(kind, &*object, error), context, store, queue, config)
        .for_each(|result| {
            // An object that went before its turn came, or a failure that `retry` has logged.
            if let Err(controller::Error::QueueError(never)) = result {
                match never {}
            }
            future::ready(())
        })
        .await;
}

/// Which objects are to be looked at, of what a watch tells.
struct Due<K: Resource> {
    /// What of an object has to change.
    matters: Option<fn(&K) -> Option<u64>>,
    /// How that was.
    known: HashMap<ObjectRef<K>, Option<u64>>,
    /// Objects of a list that is not whole yet: the cache does not have them before.
    listed: Vec<ObjectRef<K>>,
}

impl<K> Due<K>
where
    K: Resource<DynamicType = ()>,
    ObjectRef<K>: Hash + Eq,
{
    fn after(&mut self, event: watcher::Result<watcher::Event<K>>) -> Vec<ObjectRef<K>> {
        match logged(event) {
            None => Vec::new(),
            Some(watcher::Event::Init) => {
                self.listed.clear();
                self.known.clear();
                Vec::new()
            }
            Some(watcher::Event::InitApply(object)) => {
                self.has_changed(&object);
                self.listed.push(ObjectRef::from_obj(&object));
                Vec::new()
            }
            Some(watcher::Event::InitDone) => std::mem::take(&mut self.listed),
            Some(watcher::Event::Apply(object)) if self.has_changed(&object) => vec![ObjectRef::from_obj(&object)],
            Some(watcher::Event::Apply(_)) => Vec::new(),
            Some(watcher::Event::Delete(object)) => {
                let object = ObjectRef::from_obj(&object);
                self.known.remove(&object);
                vec![object]
            }
        }
    }

    fn has_changed(&mut self, object: &K) -> bool {
        let Some(matters) = self.matters else { return true };
        let now = matters(object);
        self.known.insert(ObjectRef::from_obj(object), now) != Some(now)
    }
}

fn retry<K: Resource<DynamicType = ()>>(kind: &'static str, object: &K, error: &ReconcileError) -> Action {
    let after = error.retry_after();
    tracing::warn!(kind, namespace = object.namespace(), name = object.name_any(), %error, ?after, "will be tried again");
    Action::requeue(after)
}

async fn timed<F: Future<Output = Outcome>>(kind: &'static str, reconcile: F, context: Arc<Context>) -> Outcome {
    let timer = context.metrics.reconcile_seconds.with_label_values(&[kind]).start_timer();
    let outcome = reconcile.await;
    timer.observe_duration();
    if outcome.is_err() {
        context.metrics.reconcile_errors.with_label_values(&[kind]).inc();
    }
    outcome
}

#[cfg(test)]
mod tests {
    use dormouse_crds::pool::{KernelPool, KernelPoolSpec};
    use kube::runtime::watcher::Event;

    use super::*;

    #[test]
    fn what_a_list_names_is_due_when_the_list_is_whole_and_what_changes_at_once() {
        let pool = |name: &str, generation: i64| {
            let mut pool = KernelPool::new(name, KernelPoolSpec::default());
            pool.metadata.generation = Some(generation);
            pool
        };
        let mut due = Due { matters: Some(generation::<KernelPool>), known: HashMap::new(), listed: Vec::new() };
        let mut after = |event| due.after(Ok(event)).into_iter().map(|object| object.name).collect::<Vec<_>>();
        assert!(after(Event::Init).is_empty() && after(Event::InitApply(pool("a", 1))).is_empty());
        assert!(after(Event::Init).is_empty() && after(Event::InitApply(pool("b", 1))).is_empty(), "the list begins anew");
        assert_eq!(after(Event::InitDone), ["b"]);
        assert!(after(Event::Apply(pool("b", 1))).is_empty(), "its status, which does not matter");
        assert_eq!(after(Event::Apply(pool("b", 2))), ["b"]);
        assert_eq!(after(Event::Delete(pool("b", 2))), ["b"]);
        assert_eq!(after(Event::Apply(pool("b", 2))), ["b"], "another of that name");
    }
}
