//! What is to be reconciled, on its way between the parts of the operator.

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use kube::{Resource, runtime::reflector::ObjectRef};
use tokio::sync::mpsc;

/// Triggers that wait in a queue between the parts of the operator.
pub const TRIGGERS_MAX: usize = 1_024;

/// Objects to reconcile.
pub type Triggers<K> = BoxStream<'static, ObjectRef<K>>;

/// What comes out of a queue.
pub fn queued<K>(queue: mpsc::Receiver<ObjectRef<K>>) -> Triggers<K>
where
    K: Resource<DynamicType = ()> + 'static,
{
    stream::unfold(queue, |mut queue| async move { queue.recv().await.map(|next| (next, queue)) }).boxed()
}
