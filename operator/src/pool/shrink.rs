//! Which pods go when a pool gets smaller: the emptiest, as their costs tell the ReplicaSet controller before it is told to take some away.

use dormouse_control::pool::emptiest::{PodLoad, costs, told};
use dormouse_crds::labels::{MANAGER, POOL};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::validate::ValidPool;
use crate::{
    context::Context,
    error::ReconcileError,
    pods::{granted_to, is_over, is_ready, is_spent, runs_sessions},
    trim::DELETION_COST,
};

/// Costs that are written at the same time.
const WRITES_IN_FLIGHT_MAX: usize = 16;

/// Has the emptiest pods go when the pool is told to have `remaining` of them.
pub(super) async fn choose(valid: &ValidPool, remaining: u32, context: &Context) -> Result<(), ReconcileError> {
    let mine = |pod: &Pod| {
        pod.namespace().as_ref() == Some(&valid.namespace)
            && pod.labels().get(POOL) == Some(&valid.name)
            && pod.metadata.deletion_timestamp.is_none()
            && !is_over(pod)
            && !is_spent(pod)
            && runs_sessions(pod)
    };
    let pods = context.caches.pods.state();
    let loads = pods.iter().filter(|pod| mine(pod)).map(|pod| load(pod, context)).collect();
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &valid.namespace);
    let written = costs(loads, remaining).into_iter().map(|(pod, cost)| write(&api, pod, cost));
    stream::iter(written).buffer_unordered(WRITES_IN_FLIGHT_MAX).try_collect().await
}

fn load(pod: &Pod, context: &Context) -> PodLoad {
    let uid = pod.uid().unwrap_or_default();
    let (live, asleep) = context.hub.sessions_of(&uid);
    let (live, spent) = told(live, context.hub.is_complete(&uid), granted_to(pod).is_some());
    PodLoad {
        name: pod.name_any(),
        ready: is_ready(pod),
        // One that is no number counts as none, for Kubernetes too.
        cost: pod.annotations().get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or_default(),
        live,
        spent,
        asleep,
    }
}

async fn write(api: &Api<Pod>, pod: String, cost: i32) -> Result<(), ReconcileError> {
    let value = (cost != 0).then(|| cost.to_string());
    let patch = json!({ "metadata": { "annotations": { DELETION_COST: value } } });
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch_metadata(&pod, &params, &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(refused)) if refused.is_not_found() => Ok(()),
        // Another pod goes then than the emptiest, which is no reason to keep both.
        Err(kube::Error::Api(refused)) if refused.is_forbidden() => {
            tracing::warn!(
                pod,
                "a pool gets smaller by any pod: the ClusterRole of the chart lets the operator patch pods: is it up to date?"
            );
            Ok(())
        }
        other => Ok(other.map(|_| ())?),
    }
}
