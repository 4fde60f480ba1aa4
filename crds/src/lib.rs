//! The API objects of `dormouse.dev/v1alpha1`, which is `v1beta1` too: their specs, statuses and the closed sets of their reasons.
//!
//! With the feature `kubernetes` each spec is also a kube resource ([`KernelSession`](session::KernelSession), …) with a schema; without
//! it the same specs are plain data that `dormouse dev` reads from manifests. Nothing here talks to an API server.

pub mod approval;
pub mod broker;
pub mod condition;
pub mod egress;
pub mod knowledge;
pub mod manifest;
pub mod models;
pub mod modules;
pub mod pool;
pub mod quantity;
pub mod quota;
#[cfg(feature = "kubernetes")]
mod rules;
#[cfg(feature = "kubernetes")]
mod schema;
pub mod service;
pub mod session;
pub mod sources;
pub mod tools;
pub mod url;
pub mod webhooks;
#[cfg(feature = "kubernetes")]
mod yaml;

#[cfg(feature = "kubernetes")]
pub use yaml::yaml;

/// API group.
pub const GROUP: &str = "dormouse.dev";
/// API version.
pub const VERSION: &str = "v1alpha1";
/// The version that comes after it, served with the same schema: an object can be read and written as either.
pub const NEXT_VERSION: &str = "v1beta1";
/// `GROUP/VERSION`.
pub const API_VERSION: &str = "dormouse.dev/v1alpha1";
/// The same of [`NEXT_VERSION`].
pub const NEXT_API_VERSION: &str = "dormouse.dev/v1beta1";

/// Names that objects carry in a cluster.
pub mod labels {
    /// On pods, Deployments and Secrets that the operator makes: `kernel`, `broker`.
    pub const COMPONENT: &str = "dormouse.dev/component";
    /// On kernel pods and their Deployment: the KernelPool's name.
    pub const POOL: &str = "dormouse.dev/pool";
    /// On the pods of a dedicated pool: [`ROLE_SESSION`] or [`ROLE_READER`]. Other kernel pods do both, and have none.
    pub const ROLE: &str = "dormouse.dev/role";
    /// Value of [`ROLE`]: it runs one session in its life, and reads of no other.
    pub const ROLE_SESSION: &str = "session";
    /// Value of [`ROLE`]: it tells what is stored, and runs no session.
    pub const ROLE_READER: &str = "reader";
    /// Annotation of a pod that runs one session: the id of the container in which it does, a space, and the session's uid. The pod is that session's as
    /// long as it lives.
    pub const GRANTED: &str = "dormouse.dev/granted";
    /// On broker pods and their Deployment: the ToolBroker's name.
    pub const BROKER: &str = "dormouse.dev/broker";
    /// On what the operator makes: [`MANAGER`].
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Value of [`MANAGED_BY`].
    pub const MANAGER: &str = "dormouse-operator";
    /// Finalizer of a KernelPool: sessions are stored where it says.
    pub const SESSIONS_FINALIZER: &str = "dormouse.dev/sessions";
    /// Annotation of a KernelSession that is being deleted: `true` leaves its objects in storage where they are.
    pub const ABANDON_STORAGE: &str = "dormouse.dev/abandon-storage";
    /// Annotation of a KernelSession that comes back from the archive: the identity that it had. It counts once the operator has found it there.
    pub const ARCHIVED_AS: &str = "dormouse.dev/archived-as";
    /// Finalizer of a KernelSession: its objects in storage are still there.
    pub const STORAGE_FINALIZER: &str = "dormouse.dev/storage";
}

/// The name of an object in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NameRef {
    /// Name of the object.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 253)))]
    pub name: String,
}

/// One key of a Secret or ConfigMap in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KeyRef {
    /// Name of the object.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 253)))]
    pub name: String,
    /// Key in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 253)))]
    pub key: Option<String>,
}
