//! KernelPool: the pods that run a namespace's sessions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{NameRef, condition::Condition, quantity::Quantity};

/// Most pods of a pool, and of a broker.
#[cfg(feature = "kubernetes")]
pub(crate) const PODS_MAX: u64 = 1_000;

/// Where a KMS has its Transit engine when nobody says otherwise.
pub const KMS_MOUNT: &str = "transit";

/// Desired state of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(kube::CustomResource, schemars::JsonSchema))]
#[cfg_attr(
    feature = "kubernetes",
    kube(
        group = "dormouse.dev",
        version = "v1alpha1",
        kind = "KernelPool",
        plural = "kernelpools",
        shortname = "kp",
        namespaced,
        status = "KernelPoolStatus",
        derive = "PartialEq",
        validation = kube::core::Rule::new("self.metadata.name.size() <= 30 && !self.metadata.name.contains('.')")
            .message("metadata.name names the pods: write at most 30 characters of a-z, 0-9 and '-', without dots"),
        validation = kube::core::Rule::new(rules::SAME_STORE).message(rules::SAME_STORE_MESSAGE),
        printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
        printcolumn = r#"{"name":"Pods","type":"integer","jsonPath":".status.pods"}"#,
        printcolumn = r#"{"name":"Sessions","type":"integer","jsonPath":".status.sessions"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::pool())))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct KernelPoolSpec {
    /// Image of the kernel pods; the operator's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Live sessions that fit in one pod.
    pub slots_per_pod: u32,
    /// Pods that are kept even when no session is live. Of a dedicated pool: pods that wait for sessions, beside those that run one.
    pub warm_pods: u32,
    /// The most pods that run sessions. The one that reads what is stored, of a `Dedicated` pool, comes on top.
    pub max_pods: u32,
    /// The fewest pods there are, sessions or not. With `warmPods: 0`, too, a pool without sessions has none.
    pub min_pods: u32,
    /// What sessions of the pool share.
    pub isolation: Isolation,
    /// Where the pods run.
    #[cfg(feature = "kubernetes")]
    #[serde(skip_serializing_if = "Scheduling::is_default")]
    pub scheduling: Scheduling,
    /// RuntimeClass of the pods, such as gVisor or Kata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// `false`: users of the pods are other users on the node, where it has user namespaces. What the cluster does when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_users: Option<bool>,
    /// Resources of each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Where sessions sleep; the operator's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// How what sessions store is encrypted; not at all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
}

impl Default for KernelPoolSpec {
    fn default() -> Self {
        Self {
            image: None,
            slots_per_pod: 500,
            warm_pods: 1,
            max_pods: 10,
            min_pods: 0,
            isolation: Isolation::default(),
            #[cfg(feature = "kubernetes")]
            scheduling: Scheduling::default(),
            runtime_class_name: None,
            host_users: None,
            resources: None,
            storage: None,
            encryption: None,
        }
    }
}

/// What sessions of a pool share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
pub enum Isolation {
    /// Pods: many sessions run in one process, each in a WebAssembly memory of its own.
    #[default]
    Shared,
    /// Nothing: a pod runs one session in its life, with credentials that reach that session only, keeps no copy and no cache, and goes when that session
    /// sleeps. One more pod reads what is stored of those that sleep, and runs none.
    Dedicated,
}

/// Where pods run, as in a pod's spec.
#[cfg(feature = "kubernetes")]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Scheduling {
    /// Labels that a node must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pods put up with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<k8s_openapi::api::core::v1::Toleration>,
    /// How the pods are spread. One without a `labelSelector` is about the pool's own pods. Empty: over nodes and zones where that can be had.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<k8s_openapi::api::core::v1::TopologySpreadConstraint>,
    /// PriorityClass of the pods.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub priority_class_name: String,
    /// Secrets of this namespace with which the image is pulled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub image_pull_secrets: Vec<NameRef>,
}

#[cfg(feature = "kubernetes")]
impl Scheduling {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Resource requests and limits, as of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Resources {
    /// What the scheduler sets aside.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// What the pod may not exceed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
}

/// An S3-compatible bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::storage())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Storage {
    /// Bucket.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 255)))]
    pub bucket: String,
    /// URL of the service.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub endpoint: String,
    /// Region.
    #[serde(default = "default_region")]
    pub region: String,
    /// Before every key; empty, or ending in `/`.
    #[serde(default)]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 512)))]
    pub prefix: String,
    /// Secret with the keys `accessKeyId` and `secretAccessKey`, scoped to this namespace's prefix by whoever made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<NameRef>,
    /// In place of that Secret: a role that the store gives for a token of the ServiceAccount `dormouse-storage` of this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web_identity: Option<WebIdentity>,
}

/// A role at a store that trusts the cluster as an issuer of tokens (AssumeRoleWithWebIdentity).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::web_identity())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebIdentity {
    /// ARN of the role; AWS and MinIO need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub role_arn: Option<String>,
    /// Whom the token is meant for: `sts.amazonaws.com` at AWS, the client's id at MinIO.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 255)))]
    pub audience: String,
    /// URL of the STS service. Absent: at AWS the one of the region, elsewhere the object store itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub sts_endpoint: Option<String>,
}

/// Encryption at rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::encryption())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Encryption {
    /// Secret of this namespace with the keys: each 32 random bytes, raw or in base64, under its id; and `current` with the id of the key for new
    /// objects, `kms` to leave them to the KMS, or `none` to encrypt nothing new. A key must stay as long as anything is stored that it encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_secret_ref: Option<NameRef>,
    /// A KMS that encrypts the keys of objects. Without keySecretRef, it does so for every new object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kms: Option<Kms>,
}

/// A key service with the API of Vault's Transit engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::kms())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kms {
    /// Its https:// URL. The pool's pods may reach it and no more of the network than without it.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub url: String,
    /// Where the engine is mounted.
    #[serde(default = "default_mount")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 128)))]
    pub mount: String,
    /// Name of its key. Another name is another key: its versions are for rotation.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 63)))]
    pub key: String,
    /// Secret of this namespace with `token`, which may encrypt and decrypt with the key; and `ca.crt`, where the KMS's certificate is of no public
    /// authority.
    pub credentials_secret_ref: NameRef,
}

fn default_mount() -> String {
    KMS_MOUNT.to_owned()
}

fn default_region() -> String {
    "us-east-1".to_owned()
}

/// Observed state of a pool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct KernelPoolStatus {
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])))]
    pub conditions: Vec<Condition>,
    /// Ready pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<u32>,
    /// Live sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// Where sessions of the pool are stored; none before there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_in: Option<StoredIn>,
}

/// A place in an object store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct StoredIn {
    /// Bucket.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 255)))]
    pub bucket: String,
    /// Before every key.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 512)))]
    pub prefix: String,
}

/// What an API server refuses.
#[cfg(feature = "kubernetes")]
mod rules {
    use serde_json::Value;

    use super::PODS_MAX;
    use crate::rules::{between, plain_url, rule, rules};

    /// Most live sessions of one pod.
    const SLOTS_PER_POD_MAX: u64 = 100_000;
    /// Sessions of a pool are where its status says: its spec must not name another place.
    pub(super) const SAME_STORE: &str = "!has(oldSelf.status) || !has(oldSelf.status.storedIn) || (has(self.spec.storage) \
        ? self.spec.storage.bucket == oldSelf.status.storedIn.bucket && self.spec.storage.prefix == oldSelf.status.storedIn.prefix \
        : !has(oldSelf.spec.storage))";
    /// What to do instead.
    pub(super) const SAME_STORE_MESSAGE: &str = "storage: sessions of this pool are stored in the bucket and under the prefix of status.storedIn, and \
        would not be found elsewhere: leave both as they are, make another pool, or delete the pool's sessions first";

    pub(super) fn pool() -> Value {
        rules([
            between("slotsPerPod", 1, SLOTS_PER_POD_MAX, "live sessions"),
            between("maxPods", 1, PODS_MAX, "pods"),
            rule("self.minPods <= self.maxPods", "minPods is greater than maxPods: write a minPods of at most maxPods"),
            rule("self.warmPods <= self.maxPods", "warmPods is greater than maxPods: write a warmPods of at most maxPods"),
        ])
    }

    pub(super) fn storage() -> Value {
        rules([
            plain_url(
                "endpoint",
                "https?",
                "endpoint: write the URL of the object store, without user and query, such as https://s3.example",
            ),
            rule("self.bucket.size() >= 3", "bucket: write the name of a bucket, at least 3 characters"),
            rule(
                "self.prefix == '' || (self.prefix.endsWith('/') && !self.prefix.startsWith('/'))",
                "prefix: write nothing, or a prefix that ends in '/' and does not begin with it",
            ),
            rule(
                "!has(self.credentialsSecretRef) || !has(self.webIdentity)",
                "storage has two sources of credentials: write credentialsSecretRef or webIdentity, and not both",
            ),
        ])
    }

    pub(super) fn web_identity() -> Value {
        let (sts, message) = plain_url(
            "stsEndpoint",
            "https?",
            "stsEndpoint: write the URL of the STS service, without user and query, such as https://sts.example",
        );
        rules([
            (format!("!has(self.stsEndpoint) || {sts}"), message),
            rule("self.audience != ''", "audience: write whom the token is meant for, such as sts.amazonaws.com"),
            rule(
                "!has(self.roleArn) || self.roleArn.startsWith('arn:')",
                "roleArn: write the ARN of the role, such as arn:aws:iam::123456789012:role/sessions",
            ),
        ])
    }

    pub(super) fn encryption() -> Value {
        rules([rule(
            "has(self.keySecretRef) || has(self.kms)",
            "encryption needs its keys: write keySecretRef: {name: …}, kms: {…}, or both",
        )])
    }

    pub(super) fn kms() -> Value {
        rules([
            plain_url("url", "https", "url: write the https:// URL of the KMS, without user and query, such as https://vault.example:8200"),
            rule(
                "self.mount.matches('^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$')",
                "mount: write the path of the Transit engine, without '/' at its ends, such as transit",
            ),
            rule("self.key.matches('^[A-Za-z0-9_-][A-Za-z0-9._-]*$')", "key: write the name of a key: letters, digits, '-', '_' and '.'"),
        ])
    }
}
