//! ToolBroker: ConfigMap, Deployment, Service, NetworkPolicy, PodDisruptionBudget and certificate of the pods that call tools.

pub mod build;
pub mod journal;
pub mod living;
pub mod validate;

use std::{sync::Arc, time::Duration};

use dormouse_control::{
    condition::{ConditionUpdate, condition, find},
    reason::BrokerReason,
};
use dormouse_crds::{
    broker::{ToolBroker, ToolBrokerStatus},
    condition::READY,
    labels::POOL,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, ResourceExt as _,
    core::PartialObjectMeta,
    runtime::{
        controller::Action,
        reflector::{ObjectRef, Store},
    },
};

use crate::{
    apply::{apply_status, latest},
    ca::wait_until,
    context::Context,
    controller::Outcome,
    error::ReconcileError,
    leaf::Leaf,
    pool,
};
use validate::{Secrets, ValidBroker, references, validate};

/// How often a broker is looked at when nothing happens.
const RESYNC: Duration = Duration::from_secs(600);
/// How often it is looked whether there is a store for its journal now.
const JOURNAL_AGAIN: Duration = Duration::from_secs(15);

/// What the `Ready` condition will say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Its status.
    pub ready: bool,
    /// Its reason.
    pub reason: BrokerReason,
    /// Its message.
    pub message: String,
}

/// Reconciles a broker.
///
/// # Errors
/// The API server failed; it will be tried again.
pub async fn reconcile(broker: Arc<ToolBroker>, context: Arc<Context>) -> Outcome {
    if broker.metadata.deletion_timestamp.is_some() {
        // Everything it has is owned by it and goes with it.
        return Ok(Action::await_change());
    }
    pool::have_held(&context, &broker.namespace().unwrap_or_default(), &broker.spec.journal.pool);
    let secrets = dereference(&broker, &context).await?;
    let found = journal::find(&context, &broker).await?;
    let valid = match validate(&broker, &secrets, found.place.clone(), &context.config) {
        Ok(valid) => valid,
        Err(refusal) => {
            let health = Health { ready: false, reason: refusal.reason, message: refusal.message };
            write_status(&broker, &context, &health, &found).await?;
            return Ok(Action::requeue(RESYNC));
        }
    };
    let due = context.ensure_certificate(&Leaf::broker(&*broker)).await?;
    let deployment = apply_all(&valid, &context).await?;
    write_status(&broker, &context, &health(&deployment), &found).await?;
    let due = found.due.map_or(due, |journal| journal.min(due));
    Ok(Action::requeue(wait_until(due, if found.place.is_some() { RESYNC } else { JOURNAL_AGAIN })))
}

/// Reads the Secrets that the spec names.
async fn dereference(broker: &ToolBroker, context: &Context) -> Result<Secrets, ReconcileError> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &broker.namespace().unwrap_or_default());
    let mut secrets = Secrets::new();
    for name in references(&broker.spec).unwrap_or_default().into_keys() {
        let secret = api.get_opt(&name).await?;
        secrets.insert(name, secret);
    }
    Ok(secrets)
}

/// Applies what the broker becomes: the policy before the pods, so that no pod is ever without it.
async fn apply_all(valid: &ValidBroker, context: &Context) -> Result<Deployment, ReconcileError> {
    let (owned, client) = (&context.caches.of_brokers, &context.client);
    let before = owned.get::<ConfigMap>(&valid.namespace, &valid.workload());
    let before = before.as_ref().and_then(|map| map.data.as_ref()?.get(living::KEY));
    let pools = living::list(&valid.namespace, &context.caches.pools.state(), before.map(String::as_str), Timestamp::now());
    let built = build::build(valid, &pools, &context.config.system_namespace, &context.config.network)?;
    owned.apply(client, built.network_policy).await?;
    owned.apply(client, built.config_map).await?;
    owned.apply(client, built.service).await?;
    owned.apply(client, built.disruption_budget).await?;
    owned.apply(client, built.deployment).await
}

/// Ready when the pods of the current generation are available, and no others are left.
#[must_use]
pub fn health(deployment: &Deployment) -> Health {
    let status = deployment.status.clone().unwrap_or_default();
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let current = status.observed_generation >= deployment.metadata.generation;
    let (updated, available) = (status.updated_replicas.unwrap_or(0), status.available_replicas.unwrap_or(0));
    if wanted == 0 {
        return Health { ready: false, reason: BrokerReason::ScaledToZero, message: "spec.replicas is 0: write at least 1.".to_owned() };
    }
    if current && updated >= wanted && available >= wanted {
        return Health { ready: true, reason: BrokerReason::Available, message: format!("{available} of {wanted} pods are available.") };
    }
    let progress = status.conditions.iter().flatten().find(|c| c.status == "False" || c.type_ == "ReplicaFailure");
    let details = progress.and_then(|c| c.message.clone()).unwrap_or_default();
    let message = format!("{} of {wanted} pods of this spec are available. {details}", updated.min(available));
    Health { ready: false, reason: BrokerReason::PodsNotReady, message: message.trim_end().to_owned() }
}

/// Writes what has changed.
async fn write_status(broker: &ToolBroker, context: &Context, health: &Health, journal: &journal::Found) -> Result<(), ReconcileError> {
    let is_new = |broker: &ToolBroker| {
        let (old, new) = (broker.status.clone().unwrap_or_default(), status(broker, health, journal));
        (old != new).then_some((old, new))
    };
    if is_new(broker).is_none() {
        return Ok(());
    }
    let Some((old, new)) = latest(&context.client, broker).await?.as_ref().and_then(is_new) else { return Ok(()) };
    apply_status(&context.client, broker, &new).await?;
    let reason = |status: &ToolBrokerStatus| find(&status.conditions, READY).map(|c| c.reason.clone());
    if reason(&old) != reason(&new) {
        let normal = health.ready || health.reason == BrokerReason::PodsNotReady;
        context.event(broker, normal, &health.reason.to_string(), &health.message).await;
    }
    Ok(())
}

/// What its status is to be.
fn status(broker: &ToolBroker, health: &Health, journal: &journal::Found) -> ToolBrokerStatus {
    let (generation, before) = (broker.metadata.generation, broker.status.as_ref().map_or(&[][..], |status| &status.conditions));
    let ready =
        ConditionUpdate { type_: READY, status: Some(health.ready), reason: health.reason.to_string(), message: health.message.clone() };
    ToolBrokerStatus {
        observed_generation: generation,
        conditions: [ready, journal.update()].map(|update| condition(update, generation, before, Timestamp::now())).into(),
        tools: u32::try_from(broker.spec.tools.len()).ok(),
    }
}

/// Brokers that refer to a Secret, or keep their journal with its credentials; and all of the namespace if it is of a pool, which may be new or gone.
#[must_use]
pub fn referring(brokers: &Store<ToolBroker>, secret: &PartialObjectMeta<Secret>) -> Vec<ObjectRef<ToolBroker>> {
    let (namespace, name) = (secret.namespace(), secret.name_any());
    let refers = |broker: &ToolBroker| {
        broker.namespace() == namespace
            && (secret.labels().contains_key(POOL) || validate::references(&broker.spec).is_ok_and(|needed| needed.contains_key(&name)))
    };
    brokers.state().iter().filter(|broker| refers(broker)).map(|broker| ObjectRef::from_obj(&**broker)).collect()
}
