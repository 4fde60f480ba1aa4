//! A ToolBroker, checked: pure.

use std::collections::{BTreeMap, BTreeSet};

use dormouse_control::reason::BrokerReason;
use dormouse_crds::{
    broker::{ToolBroker, ToolBrokerSpec},
    pool::Resources,
    service::Service,
};
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Resource as _, ResourceExt as _};

use super::journal::JournalLocation;
use crate::config::Config;

/// Why a broker cannot be built. It becomes the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The condition's reason.
    pub reason: BrokerReason,
    /// What is wrong and what to write.
    pub message: String,
}

/// Secrets of the broker's namespace by name; `None` for one that does not exist.
pub type Secrets = BTreeMap<String, Option<Secret>>;

/// A broker that can be built.
#[derive(Debug, Clone)]
pub struct ValidBroker {
    /// Name of the ToolBroker.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Image of the pods.
    pub image: String,
    /// Pull policy.
    pub image_pull_policy: String,
    /// Resources of the container.
    pub resources: Resources,
    /// What the broker is to do.
    pub spec: ToolBrokerSpec,
    /// Keys to mount, by Secret, with the Secret's version: another version is another pod.
    pub secrets: BTreeMap<String, MountedSecret>,
    /// Where the journal of calls is kept; `None` for memory.
    pub journal: Option<JournalLocation>,
    /// The ToolBroker, as owner of what is made for it.
    pub owner: Option<OwnerReference>,
}

/// What of a Secret a broker gets to see.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountedSecret {
    /// `metadata.resourceVersion`
    pub version: String,
    /// Keys.
    pub keys: BTreeSet<String>,
    /// Sessions may name it, and the broker serves the others without it.
    pub optional: bool,
}

/// What a spec refers to of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    /// Keys.
    pub keys: BTreeSet<String>,
    /// Nothing of the broker's own needs it.
    pub optional: bool,
}

impl ValidBroker {
    /// Name of everything that is made for it, but the certificate.
    #[must_use]
    pub fn workload(&self) -> String {
        format!("{}-broker", self.name)
    }

    /// Name of the Secret with the certificate.
    #[must_use]
    pub fn tls_secret(&self) -> String {
        format!("{}-broker-tls", self.name)
    }
}

/// The keys that a spec refers to, by Secret.
///
/// # Errors
/// An `auth` without its secretRef, which objects older than the CEL rule may have.
pub fn references(spec: &ToolBrokerSpec) -> Result<BTreeMap<String, Needed>, Refusal> {
    let mut needed: BTreeMap<String, Needed> = BTreeMap::new();
    let named = |service: &Service| format!("service {}", service.name);
    let services = spec.all_services().map(|service| (named(&service), service.secrets(), false));
    let of_sessions = spec.all_services().map(|service| (named(&service), service.secrets_of_sessions(), true));
    let registry = spec.modules.iter().map(|modules| ("modules".to_owned(), modules.auth.secrets(), false));
    for (owner, secrets, optional) in services.chain(registry).chain(of_sessions) {
        let refused = |missing| Refusal { reason: BrokerReason::InvalidSpec, message: format!("{owner}: {missing}: write it") };
        for (secret, key) in secrets.map_err(refused)? {
            let secret = needed.entry(secret).or_insert(Needed { keys: BTreeSet::new(), optional });
            secret.keys.insert(key);
            secret.optional &= optional;
        }
    }
    Ok(needed)
}

/// Checks a broker against the Secrets that it refers to; `journal` is what was found for it.
///
/// # Errors
/// A [`Refusal`] that says what to write.
pub fn validate(broker: &ToolBroker, secrets: &Secrets, journal: Option<JournalLocation>, config: &Config) -> Result<ValidBroker, Refusal> {
    let spec = &broker.spec;
    let invalid = |message: String| Refusal { reason: BrokerReason::InvalidSpec, message };
    for tool in spec.tools.iter().filter(|tool| tool.webhook.is_none() && tool.runner.is_none()) {
        let Some(service) = spec.services.iter().find(|service| service.name == tool.service) else {
            return Err(invalid(format!(
                "tool {}: there is no service {}: write the name of one of spec.services",
                tool.name, tool.service
            )));
        };
        if !service.allowed_methods.contains(&tool.method) {
            let message =
                format!("tool {}: service {} does not allow {}: write it into allowedMethods", tool.name, service.name, tool.method);
            return Err(invalid(message));
        }
    }
    let mut mounted = BTreeMap::new();
    for (name, Needed { keys, optional }) in references(spec)? {
        let missing = |message| Refusal { reason: BrokerReason::SecretNotFound, message };
        let secret = secrets.get(&name).and_then(Option::as_ref);
        let version = secret.and_then(|secret| secret.resource_version()).unwrap_or_default();
        if !optional {
            let Some(secret) = secret else {
                let list = keys.iter().cloned().collect::<Vec<_>>().join(", ");
                return Err(missing(format!("Secret {name} does not exist: make it, with the keys {list}")));
            };
            let has = |key: &str| secret.data.as_ref().is_some_and(|data| data.contains_key(key));
            if let Some(key) = keys.iter().find(|key| !has(key)) {
                return Err(missing(format!("Secret {name} has no key {key}: write it, or name another key in secretRef.key")));
            }
        }
        mounted.insert(name, MountedSecret { version, keys, optional });
    }
    Ok(ValidBroker {
        name: broker.name_any(),
        namespace: broker.namespace().unwrap_or_default(),
        image: config.broker_image.clone(),
        image_pull_policy: config.image_pull_policy.clone(),
        resources: config.broker_resources.0.clone(),
        spec: spec.clone(),
        secrets: mounted,
        journal,
        owner: broker.controller_owner_ref(&()),
    })
}
