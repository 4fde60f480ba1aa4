//! Whose certificates there are.

use std::collections::BTreeMap;

use dormouse_crds::{
    labels::{BROKER, COMPONENT, MANAGED_BY, MANAGER, POOL},
    pool::Isolation,
};
use dormouse_service::{
    ca::End,
    tls::{Identity, Incarnation, Process, session_name},
};
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
    /// Which end of a connection it is good for.
    pub end: End,
    /// Labels of the Secret.
    pub labels: BTreeMap<String, String>,
    /// Whose death is the Secret's.
    pub owner: Option<OwnerReference>,
}

/// Name of the Secret with the certificate of a pool's pods. What dedicated ones have before they are given more has a name of its own: pods of before a
/// change of isolation keep theirs until they are replaced.
#[must_use]
pub fn kernel_secret(pool: &str, isolation: Isolation) -> String {
    match isolation {
        Isolation::Shared => format!("dormouse-kernel-{pool}-tls"),
        Isolation::Dedicated => format!("dormouse-vacant-{pool}-tls"),
    }
}

/// The names in the client certificate of the pod that runs the session of this uid and no other.
#[must_use]
pub fn names_of_session(pool: &impl Resource<DynamicType = ()>, pod: &str, uid: &str) -> Vec<String> {
    let identity = Identity::kernel(pool.namespace().unwrap_or_default(), pool.name_any(), pod).dns_name();
    let incarnation = pool.meta().uid.as_deref().map(Incarnation::undated);
    [identity].into_iter().chain(incarnation).chain([session_name(uid)]).collect()
}

impl Leaf {
    /// The certificate of the kernel pods of a KernelPool: good for any pod of it. With that of dedicated ones nobody can ask anybody anything.
    #[must_use]
    pub fn kernel(pool: &impl Resource<DynamicType = ()>, isolation: Isolation) -> Self {
        let (namespace, name, owner) = (pool.namespace().unwrap_or_default(), pool.name_any(), pool.controller_owner_ref(&()));
        let incarnation = owner.as_ref().map(|pool| Incarnation::undated(&pool.uid));
        let sans = [Identity::of_pool(&namespace, &name)].into_iter().chain(incarnation).collect();
        let end = match isolation {
            Isolation::Shared => End::Both,
            Isolation::Dedicated => End::Server,
        };
        let labels = restricted::labels("kernel", POOL, &name);
        Self { secret: kernel_secret(&name, isolation), sans, end, labels, owner, namespace }
    }

    /// The certificate of a ToolBroker.
    #[must_use]
    pub fn broker(broker: &impl Resource<DynamicType = ()>) -> Self {
        let (namespace, name, owner) = (broker.namespace().unwrap_or_default(), broker.name_any(), broker.controller_owner_ref(&()));
        let sans = vec![Identity::new(Process::Broker, &namespace, &name).dns_name()];
        let labels = restricted::labels("broker", BROKER, &name);
        Self { secret: format!("{name}-broker-tls"), sans, end: End::Both, labels, owner, namespace }
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
        Self { namespace: namespace.to_owned(), secret: GATEWAY_SECRET.to_owned(), sans, end: End::Both, labels, owner: None }
    }

    /// What a certificate is made for under the authority with this fingerprint. One that is for anything else is made anew.
    #[must_use]
    pub fn made_for(&self, fingerprint: &str) -> String {
        let names = self.sans.join(" ");
        match self.end {
            // As it was written before there were others.
            End::Both => format!("{fingerprint} {names}"),
            End::Server => format!("{fingerprint} server {names}"),
            End::Client => format!("{fingerprint} client {names}"),
        }
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
        let shared = |pool: &PartialObjectMeta<KernelPool>| Leaf::kernel(pool, Isolation::Shared);
        assert_eq!(shared(&pool).sans, ["*.default.team.kernel.dormouse.internal"]);
        assert_eq!(shared(&pool).secret, "dormouse-kernel-default-tls");
        pool.metadata.uid = Some("u-1".to_owned());
        assert_eq!(shared(&pool).sans, ["*.default.team.kernel.dormouse.internal", "u-1.pool.dormouse.internal"]);
        let broker = Leaf::broker(&named::<ToolBroker>("tools"));
        assert_eq!((broker.sans[0].as_str(), broker.secret.as_str()), ("tools.team.broker.dormouse.internal", "tools-broker-tls"));
        assert_eq!(Leaf::gateway("sys").sans, ["gateway.sys.gateway.dormouse.internal"]);
    }

    #[test]
    fn what_a_dedicated_pod_begins_with_is_good_for_answers_only_and_a_certificate_says_for_which_end_it_was_made() {
        let mut pool = named::<KernelPool>("strict");
        pool.metadata.uid = Some("u-1".to_owned());
        let (shared, vacant) = (Leaf::kernel(&pool, Isolation::Shared), Leaf::kernel(&pool, Isolation::Dedicated));
        assert_eq!((vacant.secret.as_str(), vacant.end, &vacant.sans), ("dormouse-vacant-strict-tls", End::Server, &shared.sans));
        let names = shared.sans.join(" ");
        assert_eq!(shared.made_for("f"), format!("f {names}"), "an upgrade makes none anew");
        assert_eq!(vacant.made_for("f"), format!("f server {names}"));
    }

    #[test]
    fn a_client_certificate_names_the_pod_its_pool_and_the_session() {
        let mut pool = named::<KernelPool>("strict");
        pool.metadata.uid = Some("u-1".to_owned());
        let names = ["p-1.strict.team.kernel.dormouse.internal", "u-1.pool.dormouse.internal", "s-1.session.dormouse.internal"];
        assert_eq!(names_of_session(&pool, "p-1", "s-1"), names);
    }
}
