//! Whose certificates there are.

use std::collections::BTreeMap;

use dormouse_crds::labels::{BROKER, COMPONENT, MANAGED_BY, MANAGER, POOL};
use dormouse_service::tls::{Identity, Incarnation, Process};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt as _};

use crate::restricted;

/// The Secret of the gateways' certificate.
pub const GATEWAY_SECRET: &str = "dormouse-gateway-tls";
/// The Secret of the certificate that clients of the gateways see.
pub const DOOR_SECRET: &str = "dormouse-gateway-door";

/// Whose certificate, and where it is kept.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub secret: String,
    /// DNS names.
    pub sans: Vec<String>,
    /// Labels of the Secret.
    pub labels: BTreeMap<String, String>,
    /// Whose death is the Secret's.
    pub owner: Option<OwnerReference>,
}

impl Leaf {
    /// The certificate of the kernel pods of a KernelPool: good for any pod of it.
    #[must_use]
    pub fn kernel(pool: &impl Resource<DynamicType = ()>) -> Self {
        let (namespace, name, owner) = (pool.namespace().unwrap_or_default(), pool.name_any(), pool.controller_owner_ref(&()));
        let incarnation = owner.as_ref().map(|pool| Incarnation::undated(&pool.uid));
        let sans = [Identity::of_pool(&namespace, &name)].into_iter().chain(incarnation).collect();
        Self { secret: format!("dormouse-kernel-{name}-tls"), sans, labels: restricted::labels("kernel", POOL, &name), owner, namespace }
    }

    /// The certificate of a ToolBroker.
    #[must_use]
    pub fn broker(broker: &impl Resource<DynamicType = ()>) -> Self {
        let (namespace, name, owner) = (broker.namespace().unwrap_or_default(), broker.name_any(), broker.controller_owner_ref(&()));
        let sans = vec![Identity::new(Process::Broker, &namespace, &name).dns_name()];
        Self { secret: format!("{name}-broker-tls"), sans, labels: restricted::labels("broker", BROKER, &name), owner, namespace }
    }

    /// The certificate that clients of the gateways see, who are in this namespace.
    #[must_use]
    pub fn door(namespace: &str, names: &[String]) -> Self {
        Self { secret: DOOR_SECRET.to_owned(), sans: names.to_vec(), ..Self::gateway(namespace) }
    }

    /// The certificate of the gateways, who are in this namespace.
    #[must_use]
    pub fn gateway(namespace: &str) -> Self {
        let labels = [(COMPONENT, Process::Gateway.as_str()), (MANAGED_BY, MANAGER)].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let sans = vec![Identity::gateway(namespace).dns_name()];
        Self { namespace: namespace.to_owned(), secret: GATEWAY_SECRET.to_owned(), sans, labels, owner: None }
    }
}

#[cfg(test)]
mod tests {
    use dormouse_crds::{broker::ToolBroker, pool::KernelPool};
    use kube::core::{ObjectMeta, PartialObjectMeta, PartialObjectMetaExt as _};

    use super::*;

    fn named<K>(name: &str) -> PartialObjectMeta<K> {
        ObjectMeta { namespace: Some("team".to_owned()), name: Some(name.to_owned()), ..ObjectMeta::default() }.into_response_partial()
    }

    #[test]
    fn the_pods_of_a_pool_share_a_wildcard_and_brokers_have_a_name() {
        let mut pool = named::<KernelPool>("default");
        assert_eq!(Leaf::kernel(&pool).sans, ["*.default.team.kernel.dormouse.internal"]);
        assert_eq!(Leaf::kernel(&pool).secret, "dormouse-kernel-default-tls");
        pool.metadata.uid = Some("u-1".to_owned());
        assert_eq!(Leaf::kernel(&pool).sans, ["*.default.team.kernel.dormouse.internal", "u-1.pool.dormouse.internal"]);
        let broker = Leaf::broker(&named::<ToolBroker>("tools"));
        assert_eq!((broker.sans[0].as_str(), broker.secret.as_str()), ("tools.team.broker.dormouse.internal", "tools-broker-tls"));
        assert_eq!(Leaf::gateway("sys").sans, ["gateway.sys.gateway.dormouse.internal"]);
    }
}
