//! The parts that every pod made here has: what the restricted Pod Security Standard asks for, and more.

use std::collections::BTreeMap;

use dormouse_crds::{
    labels::{COMPONENT, MANAGED_BY, MANAGER},
    pool::{Encryption, Resources},
};
use serde_json::{Value, json};

use crate::{config::NetworkArgs, storage::Target};

/// User and group of every process of ours.
pub const USER: i64 = 65_532;
/// Port of probes and metrics.
pub const ADMIN_PORT: u16 = 8080;
/// Seconds that a pod may take to commit its sessions and stop.
pub const TERMINATION_GRACE_SECONDS: i64 = 60;
/// Size of `/tmp`, the only place where a process may write.
const TMP_SIZE_LIMIT: &str = "256Mi";
/// Mode of mounted Secrets: readable by our group only.
pub const SECRET_MODE: i32 = 0o440;
/// Where storage credentials are mounted.
pub const STORAGE_DIR: &str = "/etc/dormouse/storage";
/// Where encryption keys are mounted.
pub const ENCRYPTION_DIR: &str = "/etc/dormouse/encryption";
/// Where the credentials of a KMS are mounted.
pub const KMS_DIR: &str = "/etc/dormouse/kms";
/// Where certificates are mounted.
pub const TLS_DIR: &str = "/etc/dormouse/tls";

/// Security context of a pod.
#[must_use]
pub fn pod_security() -> Value {
    json!({
        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

/// Security context of a container.
#[must_use]
pub fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true, "privileged": false,
        "capabilities": { "drop": ["ALL"] }, "seccompProfile": { "type": "RuntimeDefault" },
    })
}

/// The volume behind `/tmp`.
#[must_use]
pub fn tmp_volume() -> Value {
    json!({ "name": "tmp", "emptyDir": { "sizeLimit": TMP_SIZE_LIMIT } })
}

/// A Secret as a volume.
#[must_use]
pub fn secret_volume(name: &str, secret: &str) -> Value {
    json!({ "name": name, "secret": { "secretName": secret, "defaultMode": SECRET_MODE } })
}

/// Liveness, readiness and startup probes on the admin port.
#[must_use]
pub fn probes() -> (Value, Value, Value) {
    let get = |path: &str| json!({ "path": path, "port": "admin" });
    (
        json!({ "httpGet": get("/livez"), "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6 }),
        json!({ "httpGet": get("/readyz"), "periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 2 }),
        json!({ "httpGet": get("/livez"), "periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 120 }),
    )
}

/// An environment variable of a literal value.
#[must_use]
pub fn env(name: &str, value: impl Into<String>) -> Value {
    json!({ "name": name, "value": value.into() })
}

/// An environment variable from the pod's own fields.
#[must_use]
pub fn env_field(name: &str, path: &str) -> Value {
    json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } })
}

/// Where a process sends traces, if anywhere.
#[must_use]
pub fn traces_env(network: &NetworkArgs) -> Vec<Value> {
    if network.traces_endpoint.is_empty() {
        return Vec::new();
    }
    vec![
        env("OTEL_EXPORTER_OTLP_ENDPOINT", &network.traces_endpoint),
        env("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        env("OTEL_TRACES_SAMPLER_ARG", &network.traces_ratio),
    ]
}

/// Where a process finds its object store.
#[must_use]
pub fn store_env(target: &Target) -> [Value; 4] {
    [
        env("DORMOUSE_S3_ENDPOINT", &target.endpoint),
        env("DORMOUSE_S3_BUCKET", &target.bucket),
        env("DORMOUSE_S3_REGION", &target.region),
        env("DORMOUSE_S3_PREFIX", &target.prefix),
    ]
}

/// The same, and as whose it writes there: the credentials are in [`STORAGE_DIR`].
#[must_use]
pub fn storage_env(target: &Target) -> Vec<Value> {
    let own = [env("DORMOUSE_S3_CREDENTIALS_DIR", STORAGE_DIR), env("DORMOUSE_CLUSTER", &target.cluster)];
    store_env(target).into_iter().chain(own).collect()
}

/// Where a process finds what encrypts: keys in [`ENCRYPTION_DIR`], a KMS's credentials in [`KMS_DIR`].
#[must_use]
pub fn encryption_env(encryption: &Encryption) -> Vec<Value> {
    let keys = encryption.key_secret_ref.as_ref().map(|_| env("DORMOUSE_ENCRYPTION_KEYS_DIR", ENCRYPTION_DIR));
    let kms = encryption.kms.iter().flat_map(|kms| {
        [
            env("DORMOUSE_KMS_URL", &kms.url),
            env("DORMOUSE_KMS_MOUNT", &kms.mount),
            env("DORMOUSE_KMS_KEY", &kms.key),
            env("DORMOUSE_KMS_CREDENTIALS_DIR", KMS_DIR),
        ]
    });
    keys.into_iter().chain(kms).collect()
}

/// Their volumes, each with its mount. `optional`: the pod starts without them, too.
#[must_use]
pub fn encryption_volumes(encryption: &Encryption, optional: bool) -> Vec<(Value, Value)> {
    let keys = encryption.key_secret_ref.as_ref().map(|secret| ("encryption", &secret.name, ENCRYPTION_DIR));
    let kms = encryption.kms.as_ref().map(|kms| ("kms", &kms.credentials_secret_ref.name, KMS_DIR));
    let volume = |(name, secret, folder): (&str, &String, &str)| {
        let mut volume = secret_volume(name, secret);
        if let (true, Some(secret)) = (optional, volume.get_mut("secret").and_then(Value::as_object_mut)) {
            secret.insert("optional".to_owned(), Value::Bool(true));
        }
        (volume, json!({ "name": name, "mountPath": folder, "readOnly": true }))
    };
    keys.into_iter().chain(kms).map(volume).collect()
}

/// Labels of an object of this component, whose own label is `key: value`.
#[must_use]
pub fn labels(component: &str, key: &str, value: &str) -> BTreeMap<String, String> {
    [(COMPONENT, component), (key, value), (MANAGED_BY, MANAGER)].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
}

/// Labels that select the pods of this component.
#[must_use]
pub fn selector(component: &str, key: &str, value: &str) -> BTreeMap<String, String> {
    [(COMPONENT, component), (key, value)].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
}

/// Resources of a container.
#[must_use]
pub fn resources(resources: &Resources) -> Value {
    json!({ "requests": resources.requests, "limits": resources.limits })
}
