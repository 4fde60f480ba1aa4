//! What a KernelPool becomes: pure.

use std::collections::BTreeMap;

use dormouse_crds::labels::{BROKER, COMPONENT, POOL, ROLE, ROLE_READER, ROLE_SESSION};
use dormouse_protocol::{broker::BROKER_PORT, kernel::KERNEL_PORT};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::TopologySpreadConstraint,
    networking::v1::{NetworkPolicy, NetworkPolicyPeer},
    policy::v1::PodDisruptionBudget,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::validate::ValidPool;
use crate::{
    config::NetworkArgs,
    peers::{NAMESPACE_LABEL, dns, egress_to},
    pods::KERNEL_CONTAINER,
    restricted as r,
};

/// Where the cache on disk is mounted.
const DISK_CACHE_DIR: &str = "/var/cache/dormouse";
/// What the volume of the cache may hold beyond the cache.
const DISK_CACHE_SLACK_BYTES: u64 = 64 << 20;
const COMPONENT_KERNEL: &str = "kernel";
/// Labels of nodes over which pods are spread.
const SPREAD_OVER: [&str; 2] = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"];

/// What is applied for a pool.
#[derive(Debug, Clone)]
pub struct Built {
    /// The pods that run sessions.
    pub deployment: Deployment,
    /// The pod that tells what they have stored, while there are any: of a dedicated pool, whose own pods may not read it. One of another pool is there no
    /// longer than it takes to see that it is not wanted any more.
    pub reader: Deployment,
    /// What they may reach and be reached by.
    pub network_policy: NetworkPolicy,
    /// How many of those that run sessions may be evicted at once.
    pub disruption_budget: PodDisruptionBudget,
}

/// What a pod does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It runs many sessions, and tells what others have stored.
    Shared,
    /// It runs one session in its life.
    Session,
    /// It tells what is stored.
    Reader,
}

impl Role {
    fn of_sessions(pool: &ValidPool) -> Self {
        if pool.is_dedicated() { Self::Session } else { Self::Shared }
    }

    fn label(self) -> Option<&'static str> {
        match self {
            Self::Shared => None,
            Self::Session => Some(ROLE_SESSION),
            Self::Reader => Some(ROLE_READER),
        }
    }

    /// What the process is told of it.
    fn isolation(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Session => "dedicated",
            Self::Reader => "reader",
        }
    }

    /// Whether it has storage credentials from its beginning.
    fn mounts_storage(self) -> bool {
        self != Self::Session
    }

    fn disk_cache_bytes(self, pool: &ValidPool) -> u64 {
        if self == Self::Reader { 0 } else { pool.disk_cache_bytes }
    }

    /// These labels, and its own.
    fn with(self, mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
        labels.extend(self.label().map(|role| (ROLE.to_owned(), role.to_owned())));
        labels
    }
}

/// Builds all of it.
///
/// # Errors
/// Something in it is not of its kind, such as resources that are no quantities.
pub fn build(pool: &ValidPool, replicas: u32, system_namespace: &str, network: &NetworkArgs) -> Result<Built, serde_json::Error> {
    Ok(Built {
        deployment: deployment(pool, Role::of_sessions(pool), replicas, network)?,
        reader: deployment(pool, Role::Reader, u32::from(pool.is_dedicated() && replicas > 0), network)?,
        network_policy: network_policy(pool, system_namespace, network)?,
        disruption_budget: disruption_budget(pool)?,
    })
}

fn metadata(pool: &ValidPool, name: &str) -> Value {
    json!({
        "name": name, "namespace": pool.namespace,
        "labels": r::labels(COMPONENT_KERNEL, POOL, &pool.name), "ownerReferences": pool.owner.iter().collect::<Vec<_>>(),
    })
}

fn deployment(pool: &ValidPool, role: Role, replicas: u32, network: &NetworkArgs) -> Result<Deployment, serde_json::Error> {
    let own = r::selector(COMPONENT_KERNEL, POOL, &pool.name);
    // What a Deployment selects cannot be changed: a pool's own may be older than the roles.
    let (name, selector) = match role {
        Role::Shared | Role::Session => (pool.workload(), own),
        Role::Reader => (pool.reader(), role.with(own)),
    };
    let mut volumes = vec![r::tmp_volume(), disk_cache_volume(role.disk_cache_bytes(pool))];
    volumes.extend(role.mounts_storage().then(|| r::secret_volume("storage", &pool.storage_secret())));
    volumes.push(r::secret_volume("tls", &pool.tls_secret()));
    volumes.extend(pool.encryption.iter().flat_map(|encryption| r::encryption_volumes(encryption, false)).map(|(volume, _)| volume));
    serde_json::from_value(json!({
        "metadata": metadata(pool, &name),
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 2,
            "selector": { "matchLabels": selector },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
            "template": {
                "metadata": { "labels": role.with(r::labels(COMPONENT_KERNEL, POOL, &pool.name)) },
                "spec": {
                    "automountServiceAccountToken": false,
                    "enableServiceLinks": false,
                    "terminationGracePeriodSeconds": r::TERMINATION_GRACE_SECONDS,
                    "runtimeClassName": pool.runtime_class,
                    "hostUsers": pool.host_users,
                    "nodeSelector": pool.scheduling.node_selector,
                    "tolerations": pool.scheduling.tolerations,
                    "topologySpreadConstraints": spread(pool),
                    "priorityClassName": Some(&pool.scheduling.priority_class_name).filter(|name| !name.is_empty()),
                    "imagePullSecrets": pool.scheduling.image_pull_secrets,
                    "securityContext": r::pod_security(),
                    "containers": [container(pool, role, network)],
                    "volumes": volumes,
                },
            },
        },
    }))
}

/// How the pods are spread: as the pool says, else over nodes and zones where that can be had.
fn spread(pool: &ValidPool) -> Vec<TopologySpreadConstraint> {
    let own = LabelSelector { match_labels: Some(r::selector(COMPONENT_KERNEL, POOL, &pool.name)), ..LabelSelector::default() };
    let preferred = |key: &str| TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        ..TopologySpreadConstraint::default()
    };
    let mut constraints = pool.scheduling.topology_spread_constraints.clone();
    if constraints.is_empty() {
        constraints = SPREAD_OVER.map(preferred).into();
    }
    for constraint in &mut constraints {
        constraint.label_selector.get_or_insert_with(|| own.clone());
    }
    constraints
}

/// The volume of the cache on disk. Its pod is evicted when it holds more than its limit, so that leaves room for what a folder itself takes.
fn disk_cache_volume(cache_bytes: u64) -> Value {
    let limit_bytes = cache_bytes.saturating_add(DISK_CACHE_SLACK_BYTES);
    json!({ "name": "disk-cache", "emptyDir": { "sizeLimit": limit_bytes.to_string() } })
}

fn container(pool: &ValidPool, role: Role, network: &NetworkArgs) -> Value {
    let (liveness, readiness, startup) = r::probes();
    let mut env = vec![
        r::env_field("DORMOUSE_POD", "metadata.name"),
        r::env_field("DORMOUSE_NAMESPACE", "metadata.namespace"),
        r::env("DORMOUSE_POOL", &pool.name),
        r::env("DORMOUSE_SLOTS", pool.slots.to_string()),
        r::env("DORMOUSE_ISOLATION", role.isolation()),
        r::env("DORMOUSE_DISK_CACHE_DIR", DISK_CACHE_DIR),
        r::env("DORMOUSE_DISK_CACHE_BYTES", role.disk_cache_bytes(pool).to_string()),
        r::env("DORMOUSE_LISTEN", format!("0.0.0.0:{KERNEL_PORT}")),
        r::env("DORMOUSE_ADMIN_LISTEN", format!("0.0.0.0:{}", r::ADMIN_PORT)),
        r::env("DORMOUSE_TLS_DIR", r::TLS_DIR),
    ];
    if !pool.engine.is_empty() {
        env.push(r::env("DORMOUSE_ENGINE", &pool.engine));
    }
    // Which cluster it is has been written there by the reader before any session runs.
    if role.mounts_storage() {
        env.extend(r::storage_env(&pool.storage));
    } else {
        env.extend(r::store_env(&pool.storage));
    }
    env.extend(r::traces_env(network));
    let mut mounts = vec![json!({ "name": "tmp", "mountPath": "/tmp" }), json!({ "name": "disk-cache", "mountPath": DISK_CACHE_DIR })];
    mounts.extend(role.mounts_storage().then(|| json!({ "name": "storage", "mountPath": r::STORAGE_DIR, "readOnly": true })));
    mounts.push(json!({ "name": "tls", "mountPath": r::TLS_DIR, "readOnly": true }));
    if let Some(encryption) = &pool.encryption {
        env.extend(r::encryption_env(encryption));
        mounts.extend(r::encryption_volumes(encryption, false).into_iter().map(|(_, mount)| mount));
    }
    json!({
        "name": KERNEL_CONTAINER,
        "image": pool.image,
        "imagePullPolicy": pool.image_pull_policy,
        "env": env,
        "ports": [
            { "name": "kernel", "containerPort": KERNEL_PORT, "protocol": "TCP" },
            { "name": "admin", "containerPort": r::ADMIN_PORT, "protocol": "TCP" },
        ],
        "livenessProbe": liveness,
        "readinessProbe": readiness,
        "startupProbe": startup,
        "resources": r::resources(&pool.resources),
        "securityContext": r::container_security(),
        "volumeMounts": mounts,
    })
}

/// Default deny; in: gateways and the operator; out: DNS, storage, the namespace's brokers, the pool's KMS.
fn network_policy(pool: &ValidPool, system_namespace: &str, network: &NetworkArgs) -> Result<NetworkPolicy, serde_json::Error> {
    let system = |components: &[&str]| {
        json!({
            "namespaceSelector": { "matchLabels": { NAMESPACE_LABEL: system_namespace } },
            "podSelector": { "matchExpressions": [{ "key": COMPONENT, "operator": "In", "values": components }] },
        })
    };
    let tcp = |port: u16| json!({ "protocol": "TCP", "port": port });
    let mut scrapers = vec![system(&["operator"])];
    for peer in &network.metrics_ingress.0 {
        scrapers.push(serde_json::to_value(peer)?);
    }
    let brokers = json!({ "podSelector": { "matchExpressions": [
        { "key": COMPONENT, "operator": "In", "values": ["broker"] }, { "key": BROKER, "operator": "Exists" },
    ] } });
    let mut egress = vec![json!({ "to": [brokers], "ports": [tcp(BROKER_PORT)] })];
    egress.extend(dns(network));
    let (peers, port) = storage_egress(&pool.storage.endpoint, pool.storage.shared, network);
    if !peers.is_empty() {
        egress.push(json!({ "to": peers, "ports": [tcp(port)] }));
    }
    if let Some(kms) = pool.encryption.as_ref().and_then(|encryption| encryption.kms.as_ref()) {
        let (peers, port) = egress_to(&kms.url);
        egress.push(json!({ "to": peers, "ports": [tcp(port)] }));
    }
    if !network.traces_endpoint.is_empty() {
        let (peers, port) = egress_to(&network.traces_endpoint);
        egress.push(json!({ "to": peers, "ports": [tcp(port)] }));
    }
    serde_json::from_value(json!({
        "metadata": metadata(pool, &pool.workload()),
        "spec": {
            "podSelector": { "matchLabels": r::selector(COMPONENT_KERNEL, POOL, &pool.name) },
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                { "from": [system(&["gateway", "operator"])], "ports": [tcp(KERNEL_PORT)] },
                { "from": scrapers, "ports": [tcp(r::ADMIN_PORT)] },
            ],
            "egress": egress,
        },
    }))
}

/// Where storage is, as a policy can say it: the operator's flag for its own store, else what the URL tells.
#[must_use]
pub fn storage_egress(endpoint: &str, shared: bool, network: &NetworkArgs) -> (Vec<NetworkPolicyPeer>, u16) {
    let (peers, url_port) = egress_to(endpoint);
    let port = network.storage_egress_port.filter(|_| shared).unwrap_or(url_port);
    let own = shared && !network.storage_egress.0.is_empty();
    (if own { network.storage_egress.0.clone() } else { peers }, port)
}

/// A reader is neither kept by it nor counted: without one for a moment, what is stored is asked for again.
fn disruption_budget(pool: &ValidPool) -> Result<PodDisruptionBudget, serde_json::Error> {
    let selector = Role::of_sessions(pool).with(r::selector(COMPONENT_KERNEL, POOL, &pool.name));
    serde_json::from_value(json!({
        "metadata": metadata(pool, &pool.workload()),
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": selector } },
    }))
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
