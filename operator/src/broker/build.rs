//! What a ToolBroker becomes: pure.

use std::collections::{BTreeMap, BTreeSet};

use dormouse_crds::labels::{BROKER, COMPONENT};
use dormouse_protocol::broker::BROKER_PORT;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{living, validate::ValidBroker};
use crate::{
    config::NetworkArgs,
    error::ReconcileError,
    peers::{NAMESPACE_LABEL, dns, egress_to, everywhere},
    restricted as r,
};

/// Where the spec is mounted.
const CONFIG_DIR: &str = "/etc/dormouse/config";
const CONFIG_KEY: &str = "broker.yaml";
/// Below it each Secret has a folder.
const SECRETS_DIR: &str = "/etc/dormouse/secrets";
const CONFIG_MAPS_DIR: &str = "/etc/dormouse/config-maps";
/// Annotation of the pods: what they were started with.
pub const CONFIG_HASH: &str = "dormouse.dev/config-hash";
const COMPONENT_BROKER: &str = "broker";

/// What is applied for a broker.
#[derive(Debug, Clone)]
pub struct Built {
    /// The spec, as the broker reads it.
    pub config_map: ConfigMap,
    /// The pods.
    pub deployment: Deployment,
    /// Their address.
    pub service: Service,
    /// Who may reach them.
    pub network_policy: NetworkPolicy,
    /// How many may be evicted at once.
    pub disruption_budget: PodDisruptionBudget,
}

/// Builds all of it; `pools` is what [`super::living::list`] says.
///
/// # Errors
/// Something in it is not of its kind.
pub fn build(broker: &ValidBroker, pools: &str, system_namespace: &str, network: &NetworkArgs) -> Result<Built, ReconcileError> {
    let config = yaml_serde::to_string(&broker.spec)?;
    let hash = hash(broker, &config);
    Ok(Built {
        config_map: serde_json::from_value(json!({ "metadata": metadata(broker), "data": { CONFIG_KEY: config, living::KEY: pools } }))?,
        deployment: deployment(broker, &hash, network)?,
        service: serde_json::from_value(json!({
            "metadata": metadata(broker),
            "spec": {
                "selector": selector(broker),
                // A body that a replica holds open for a session is read from that replica.
                "sessionAffinity": "ClientIP",
                "ports": [{ "name": COMPONENT_BROKER, "port": BROKER_PORT, "targetPort": BROKER_PORT, "protocol": "TCP" }],
            },
        }))?,
        network_policy: network_policy(broker, system_namespace, network)?,
        disruption_budget: serde_json::from_value(json!({
            "metadata": metadata(broker),
            "spec": { "maxUnavailable": 1, "selector": { "matchLabels": selector(broker) } },
        }))?,
    })
}

fn selector(broker: &ValidBroker) -> std::collections::BTreeMap<String, String> {
    r::selector(COMPONENT_BROKER, BROKER, &broker.name)
}

fn metadata(broker: &ValidBroker) -> Value {
    json!({
        "name": broker.workload(), "namespace": broker.namespace,
        "labels": r::labels(COMPONENT_BROKER, BROKER, &broker.name), "ownerReferences": broker.owner.iter().collect::<Vec<_>>(),
    })
}

/// Changes whenever the pods must be started anew: with the spec, and with a Secret's version.
fn hash(broker: &ValidBroker, config: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(config.as_bytes());
    for (name, secret) in &broker.secrets {
        hash.update(format!("\n{name}@{}", secret.version).as_bytes());
    }
    hex::encode(hash.finalize())
}

fn deployment(broker: &ValidBroker, hash: &str, network: &NetworkArgs) -> Result<Deployment, serde_json::Error> {
    let mut volumes = vec![
        r::tmp_volume(),
        json!({ "name": "config", "configMap": { "name": broker.workload() } }),
        r::secret_volume("tls", &broker.tls_secret()),
    ];
    let mut mounts = vec![
        json!({ "name": "tmp", "mountPath": "/tmp" }),
        json!({ "name": "config", "mountPath": CONFIG_DIR, "readOnly": true }),
        json!({ "name": "tls", "mountPath": r::TLS_DIR, "readOnly": true }),
    ];
    if let Some(place) = &broker.journal {
        // Optional: should the pool's Secret go, calls that need no journal are made all the same.
        let secret = json!({ "secretName": place.secret, "defaultMode": r::SECRET_MODE, "optional": true });
        volumes.push(json!({ "name": "storage", "secret": secret }));
        mounts.push(json!({ "name": "storage", "mountPath": r::STORAGE_DIR, "readOnly": true }));
        for (volume, mount) in place.encryption.iter().flat_map(|encryption| r::encryption_volumes(encryption, true)) {
            volumes.push(volume);
            mounts.push(mount);
        }
    }
    for (index, (name, secret)) in broker.secrets.iter().enumerate() {
        // Only the keys that are named: a Secret may hold more than the broker is to know.
        let items: Vec<Value> = secret.keys.iter().map(|key| json!({ "key": key, "path": key })).collect();
        let volume = format!("secret-{index}");
        let mut source = json!({ "secretName": name, "items": items, "defaultMode": r::SECRET_MODE });
        if secret.optional {
            source["optional"] = json!(true);
        }
        volumes.push(json!({ "name": volume, "secret": source }));
        mounts.push(json!({ "name": volume, "mountPath": format!("{SECRETS_DIR}/{name}"), "readOnly": true }));
    }
    for (index, (name, keys)) in config_maps(broker).into_iter().enumerate() {
        // Optional: without a document the broker serves its other tools, and takes the document up when it comes.
        let mut config_map = json!({ "name": name, "optional": true });
        if let Some(keys) = keys {
            config_map["items"] = keys.iter().map(|key| json!({ "key": key, "path": key })).collect();
        }
        let volume = format!("config-map-{index}");
        volumes.push(json!({ "name": volume, "configMap": config_map }));
        mounts.push(json!({ "name": volume, "mountPath": format!("{CONFIG_MAPS_DIR}/{name}"), "readOnly": true }));
    }
    serde_json::from_value(json!({
        "metadata": metadata(broker),
        "spec": {
            "replicas": broker.spec.replicas,
            "revisionHistoryLimit": 2,
            "selector": { "matchLabels": selector(broker) },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
            "template": {
                "metadata": { "labels": r::labels(COMPONENT_BROKER, BROKER, &broker.name), "annotations": { CONFIG_HASH: hash } },
                "spec": {
                    "automountServiceAccountToken": false,
                    "enableServiceLinks": false,
                    "terminationGracePeriodSeconds": r::TERMINATION_GRACE_SECONDS,
                    "securityContext": r::pod_security(),
                    "containers": [container(broker, &mounts, network)],
                    "volumes": volumes,
                },
            },
        },
    }))
}

/// The keys of ConfigMaps that the spec names, by name; `None`: all.
fn config_maps(broker: &ValidBroker) -> BTreeMap<&str, Option<BTreeSet<&str>>> {
    let mut named: BTreeMap<&str, Option<BTreeSet<&str>>> = BTreeMap::new();
    let documents = broker.spec.openapi.iter().filter_map(|source| source.document.config_map_ref.as_ref());
    let bases = broker.spec.knowledge.iter().filter_map(|base| base.config_map_ref.as_ref());
    for reference in documents.chain(bases) {
        let keys = named.entry(&reference.name).or_insert_with(|| Some(BTreeSet::new()));
        match (reference.key.as_deref(), keys.as_mut()) {
            (Some(key), Some(keys)) => drop(keys.insert(key)),
            (Some(_), None) => {}
            (None, _) => *keys = None,
        }
    }
    named
}

fn container(broker: &ValidBroker, mounts: &[Value], network: &NetworkArgs) -> Value {
    let (liveness, readiness, startup) = r::probes();
    let mut env = vec![
        r::env("DORMOUSE_CONFIG", format!("{CONFIG_DIR}/{CONFIG_KEY}")),
        r::env("DORMOUSE_POOLS_FILE", format!("{CONFIG_DIR}/{}", living::KEY)),
        r::env("DORMOUSE_SECRETS_DIR", SECRETS_DIR),
        r::env("DORMOUSE_CONFIG_MAPS_DIR", CONFIG_MAPS_DIR),
        r::env_field("DORMOUSE_NAMESPACE", "metadata.namespace"),
        r::env("DORMOUSE_NAME", &broker.name),
        r::env("DORMOUSE_LISTEN", format!("0.0.0.0:{BROKER_PORT}")),
        r::env("DORMOUSE_ADMIN_LISTEN", format!("0.0.0.0:{}", r::ADMIN_PORT)),
        r::env("DORMOUSE_TLS_DIR", r::TLS_DIR),
    ];
    env.extend(broker.journal.iter().flat_map(|place| r::storage_env(&place.target)));
    env.extend(r::traces_env(network));
    env.extend(broker.journal.iter().filter_map(|place| place.encryption.as_ref()).flat_map(r::encryption_env));
    json!({
        "name": COMPONENT_BROKER,
        "image": broker.image,
        "imagePullPolicy": broker.image_pull_policy,
        "env": env,
        "ports": [
            { "name": COMPONENT_BROKER, "containerPort": BROKER_PORT, "protocol": "TCP" },
            { "name": "admin", "containerPort": r::ADMIN_PORT, "protocol": "TCP" },
        ],
        "livenessProbe": liveness,
        "readinessProbe": readiness,
        "startupProbe": startup,
        "resources": r::resources(&broker.resources),
        "securityContext": r::container_security(),
        "volumeMounts": mounts,
    })
}

/// In: the namespace's kernel pods. Out: DNS, and what the spec names. A policy knows no host names, so a name outside the cluster opens every address but
/// those of metadata services, and the cluster's own pods, which a Service may be; on every port, because a Service's is not its pods'.
fn network_policy(broker: &ValidBroker, system_namespace: &str, network: &NetworkArgs) -> Result<NetworkPolicy, serde_json::Error> {
    let all: Vec<_> = broker.spec.all_services().collect();
    let journal = broker.journal.iter().flat_map(|place| {
        let kms = place.encryption.iter().filter_map(|encryption| encryption.kms.as_ref()).map(|kms| kms.url.as_str());
        kms.chain([place.target.endpoint.as_str()])
    });
    let services = all.iter().flat_map(|service| service.auth.urls().chain([service.base_url.as_str()]));
    let registry = broker.spec.modules.iter().flat_map(|modules| modules.auth.urls().chain([modules.registry.as_str()]));
    let fetches = broker.spec.egress.iter().flat_map(|egress| &egress.allow).map(|rule| rule.host.as_str());
    let mut peers = Vec::new();
    let documents = broker.spec.openapi.iter().filter_map(|source| source.document.url.as_deref());
    let documents = documents.chain(broker.spec.knowledge.iter().flat_map(|base| &base.urls).map(String::as_str));
    let traces = Some(network.traces_endpoint.as_str()).filter(|url| !url.is_empty());
    for (named, _) in journal.chain(services).chain(registry).chain(documents).chain(traces).chain(fetches).map(egress_to) {
        for peer in named {
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
    }
    if everywhere().iter().any(|peer| peers.contains(peer)) {
        peers.push(serde_json::from_value(json!({ "namespaceSelector": {} }))?);
    }
    let mut egress: Vec<Value> = dns(network).into_iter().collect();
    // An empty list of peers would mean everywhere.
    if !peers.is_empty() {
        egress.push(json!({ "to": peers }));
    }
    // Gateways bring people's decisions.
    let mut ingress = vec![json!({
        "from": [
            { "podSelector": { "matchLabels": { COMPONENT: "kernel" } } },
            {
                "namespaceSelector": { "matchLabels": { NAMESPACE_LABEL: system_namespace } },
                "podSelector": { "matchLabels": { COMPONENT: "gateway" } },
            },
            {
                "namespaceSelector": { "matchLabels": { NAMESPACE_LABEL: system_namespace } },
                "podSelector": { "matchLabels": { COMPONENT: "operator" } },
            },
        ],
        "ports": [{ "protocol": "TCP", "port": BROKER_PORT }],
    })];
    let scrapers = &network.metrics_ingress.0;
    if !scrapers.is_empty() {
        ingress.push(json!({ "from": scrapers, "ports": [{ "protocol": "TCP", "port": r::ADMIN_PORT }] }));
    }
    serde_json::from_value(json!({
        "metadata": metadata(broker),
        "spec": {
            "podSelector": { "matchLabels": selector(broker) },
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }))
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
