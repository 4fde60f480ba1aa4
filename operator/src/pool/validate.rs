//! A KernelPool, checked: pure.

use dormouse_control::reason::PoolReason;
use dormouse_crds::pool::{Encryption, Isolation, KernelPool, Resources, Scheduling};
use dormouse_kms::KeyLocation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt as _};

use crate::{
    config::Config,
    credentials::pool_secret,
    leaf::kernel_secret,
    refusal::Refusal,
    storage::{self, Target, misplaced},
};

/// A pool that can be built.
#[derive(Debug, Clone)]
pub struct ValidPool {
    /// Name of the KernelPool.
    pub name: String,
    /// Its namespace, which is the tenant.
    pub namespace: String,
    /// Image of the pods.
    pub image: String,
    /// Pull policy.
    pub image_pull_policy: String,
    /// Digest of the engine that new sessions get; empty: the newest of the image.
    pub engine: String,
    /// Bytes of each pod's cache on disk; 0: none.
    pub disk_cache_bytes: u64,
    /// What its sessions share.
    pub isolation: Isolation,
    /// Live sessions per pod.
    pub slots: u32,
    /// Pods that are always there.
    pub warm: u32,
    /// Pods beyond those that its sessions need.
    pub spare: u32,
    /// Most pods that run sessions.
    pub max: u32,
    /// RuntimeClass.
    pub runtime_class: Option<String>,
    /// Whether the pods' users are the node's.
    pub host_users: Option<bool>,
    /// Where the pods run.
    pub scheduling: Scheduling,
    /// Resources of the container.
    pub resources: Resources,
    /// Where its sessions sleep.
    pub storage: Target,
    /// Where its keys are, if its sessions are encrypted.
    pub encryption: Option<Encryption>,
    /// The KernelPool, as owner of what is made for it.
    pub owner: Option<OwnerReference>,
}

impl ValidPool {
    /// Name of the Deployment, the NetworkPolicy and the PodDisruptionBudget.
    #[must_use]
    pub fn workload(&self) -> String {
        format!("dormouse-kernel-{}", self.name)
    }

    /// Name of the Deployment of a dedicated pool's reader.
    #[must_use]
    pub fn reader(&self) -> String {
        format!("dormouse-reader-{}", self.name)
    }

    /// Whether each pod runs one session in its life.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.isolation == Isolation::Dedicated
    }

    /// Name of the Secret with the storage credentials, which pods that run one session do not mount.
    #[must_use]
    pub fn storage_secret(&self) -> String {
        pool_secret(&self.name, self.isolation)
    }

    /// Name of the Secret with the certificate.
    #[must_use]
    pub fn tls_secret(&self) -> String {
        kernel_secret(&self.name, self.isolation)
    }
}

/// Checks a pool. What CEL refuses is checked again where it would do harm: an object may be older than the rule.
///
/// # Errors
/// A [`Refusal`] that says what to write.
pub fn validate(pool: &KernelPool, config: &Config) -> Result<ValidPool, Refusal> {
    let spec = &pool.spec;
    let invalid = |message: &str| Refusal { reason: PoolReason::InvalidSpec, message: message.to_owned() };
    if spec.slots_per_pod == 0 || spec.max_pods == 0 {
        return Err(invalid("slotsPerPod and maxPods are numbers from 1"));
    }
    if spec.min_pods > spec.max_pods {
        return Err(invalid("minPods is greater than maxPods: write a minPods of at most maxPods"));
    }
    if spec.warm_pods > spec.max_pods {
        return Err(invalid("warmPods is greater than maxPods: write a warmPods of at most maxPods"));
    }
    if let Some(kms) = spec.encryption.as_ref().and_then(|encryption| encryption.kms.as_ref()) {
        KeyLocation::new(&kms.url, &kms.mount, &kms.key).map_err(|error| invalid(&format!("encryption.kms: {error}")))?;
    }
    let dedicated = spec.isolation == Isolation::Dedicated;
    let storage = storage::target(spec.storage.as_ref(), &config.storage)?;
    if let Some(message) = misplaced(pool, &storage.place()) {
        return Err(invalid(&message));
    }
    Ok(ValidPool {
        name: pool.name_any(),
        namespace: pool.namespace().unwrap_or_default(),
        image: spec.image.clone().unwrap_or_else(|| config.kernel_image.clone()),
        image_pull_policy: config.image_pull_policy.clone(),
        engine: config.kernel_engine.clone(),
        disk_cache_bytes: if dedicated { 0 } else { config.kernel_disk_cache_bytes },
        isolation: spec.isolation,
        slots: if dedicated { 1 } else { spec.slots_per_pod },
        warm: spec.warm_pods.max(spec.min_pods),
        spare: if dedicated { spec.warm_pods } else { 0 },
        max: spec.max_pods,
        runtime_class: spec.runtime_class_name.clone(),
        host_users: spec.host_users,
        scheduling: spec.scheduling.clone(),
        resources: spec.resources.clone().unwrap_or_else(|| config.kernel_resources.0.clone()),
        storage,
        encryption: spec.encryption.clone(),
        owner: pool.controller_owner_ref(&()),
    })
}
