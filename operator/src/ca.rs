//! The certificate authority of the processes, and the Secrets with their certificates.
//!
//! The authority lives in one Secret of the system namespace. It is created once and never written again: a new one would cut every
//! connection between processes. A leaf's Secret carries in annotations what it was made for and when it is to be made anew, so that no
//! certificate has to be parsed.

use std::{collections::BTreeMap, time::Duration};

use dormouse_control::condition::rfc3339;
use dormouse_crds::labels::{COMPONENT, MANAGED_BY, MANAGER};
use dormouse_service::{
    ca::{Ca, CertPem, LEAF_VALIDITY},
    tls::{Identity, PeerClient, Process, TlsError, TlsFiles},
};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use sha2::{Digest as _, Sha256};

use crate::{apply::apply, storage::renew_at};

/// The Secret of the authority.
pub const CA_SECRET: &str = "dormouse-ca";
/// The Secret of the gateways' certificate.
pub const GATEWAY_SECRET: &str = "dormouse-gateway-tls";
/// The Secret of the certificate that clients of the gateways see.
pub const DOOR_SECRET: &str = "dormouse-gateway-door";
/// Name of the operator and the gateways in their identities.
const OPERATOR: &str = "operator";
const GATEWAY: &str = "gateway";
/// Annotation: names that the certificate holds, and the authority that signed it.
const MADE_FOR: &str = "dormouse.dev/made-for";
/// Annotation: when to make it anew, RFC 3339.
pub const RENEW_AT: &str = "dormouse.dev/renew-at";
const CA_CRT: &str = "ca.crt";
const TLS_CRT: &str = "tls.crt";
const TLS_KEY: &str = "tls.key";

/// Why a certificate could not be made or kept.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// The API server refused or could not be reached.
    #[error("API server: {0}")]
    Kube(#[from] kube::Error),
    /// The Secret of the authority is damaged. It is never overwritten: restore it, or delete it and restart every pod.
    #[error("Secret {CA_SECRET} has no usable {0}: restore it, or delete it and restart every pod of Dormouse")]
    Damaged(&'static str),
    /// The authority could not be read, or a certificate not be made.
    #[error(transparent)]
    Certificate(#[from] dormouse_service::ca::CaError),
    /// A certificate that was just made cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The authority, as the operator has it in memory.
pub struct Authority {
    client: Client,
    ca: Ca,
    fingerprint: String,
    system_namespace: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

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
    /// The certificate of the kernel pods of a pool: good for any pod of the namespace.
    #[must_use]
    pub fn kernel(namespace: &str, pool: &str, labels: BTreeMap<String, String>, owner: Option<OwnerReference>) -> Self {
        let sans = vec![Identity::wildcard(Process::Kernel, namespace)];
        Self { namespace: namespace.to_owned(), secret: format!("dormouse-kernel-{pool}-tls"), sans, labels, owner }
    }

    /// The certificate of a broker.
    #[must_use]
    pub fn broker(namespace: &str, name: &str, labels: BTreeMap<String, String>, owner: Option<OwnerReference>) -> Self {
        let sans = vec![Identity::new(Process::Broker, namespace, name).dns_name()];
        Self { namespace: namespace.to_owned(), secret: format!("{name}-broker-tls"), sans, labels, owner }
    }

    /// The certificate that clients of the gateways see.
    fn door(namespace: &str, names: &[String]) -> Self {
        Self { secret: DOOR_SECRET.to_owned(), sans: names.to_vec(), ..Self::gateway(namespace) }
    }

    fn gateway(namespace: &str) -> Self {
        let labels = [(COMPONENT, GATEWAY), (MANAGED_BY, MANAGER)].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let sans = vec![Identity::new(Process::Gateway, namespace, GATEWAY).dns_name()];
        Self { namespace: namespace.to_owned(), secret: GATEWAY_SECRET.to_owned(), sans, labels, owner: None }
    }
}

impl Authority {
    /// Reads the authority, and makes it when there is none.
    ///
    /// # Errors
    /// The API server fails, or the Secret is there and damaged.
    pub async fn load(client: Client, system_namespace: &str) -> Result<Self, CaError> {
        let api: Api<Secret> = Api::namespaced(client.clone(), system_namespace);
        let secret = match api.get_opt(CA_SECRET).await? {
            Some(secret) => secret,
            None => match api.create(&PostParams::default(), &new_authority()?).await {
                // Another operator was faster: its authority is the one.
                Err(kube::Error::Api(status)) if status.code == 409 => api.get(CA_SECRET).await?,
                other => other?,
            },
        };
        let (cert, key) = (text(&secret, CA_CRT)?, text(&secret, "ca.key")?);
        let ca = Ca::from_pem(&cert, &key)?;
        let fingerprint = hex::encode(Sha256::digest(cert.as_bytes())).get(..16).unwrap_or_default().to_owned();
        Ok(Self { client, ca, fingerprint, system_namespace: system_namespace.to_owned() })
    }

    /// A client with the operator's identity, and when to make the next.
    ///
    /// # Errors
    /// The certificate cannot be made.
    pub fn operator_client(&self) -> Result<(PeerClient, Timestamp), CaError> {
        let identity = Identity::new(Process::Operator, &self.system_namespace, OPERATOR);
        let pem = self.ca.issue(&[identity.dns_name()], LEAF_VALIDITY)?;
        let client = PeerClient::new(TlsFiles::from_pem(&pem)?)?;
        Ok((client, renew_at(Timestamp::now(), LEAF_VALIDITY)))
    }

    /// Makes sure of the gateways' Secret, and of the one with the certificate that clients see, if it is for any `names`.
    ///
    /// # Errors
    /// See [`Self::ensure`].
    pub async fn ensure_gateway(&self, names: &[String]) -> Result<Timestamp, CaError> {
        if !names.is_empty() {
            self.ensure(&Leaf::door(&self.system_namespace, names)).await?;
        }
        self.ensure(&Leaf::gateway(&self.system_namespace)).await
    }

    /// Makes sure that the Secret of `leaf` holds a certificate for it that is not due. The answer is when it will be.
    ///
    /// # Errors
    /// The API server fails, or a name is not a DNS name.
    pub async fn ensure(&self, leaf: &Leaf) -> Result<Timestamp, CaError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &leaf.namespace);
        let now = Timestamp::now();
        let made_for = format!("{} {}", self.fingerprint, leaf.sans.join(" "));
        if let Some(due) = api.get_opt(&leaf.secret).await?.and_then(|secret| still_good(&secret, &made_for, now)) {
            return Ok(due);
        }
        let pem = self.ca.issue(&leaf.sans, LEAF_VALIDITY)?;
        let due = renew_at(now, LEAF_VALIDITY);
        apply(&self.client, &secret_of(leaf, &pem, &made_for, due)).await?;
        tracing::info!(namespace = leaf.namespace, secret = leaf.secret, "certificate issued");
        Ok(due)
    }
}

/// When the certificate in `secret` is due, if it is the right one and that is still to come.
fn still_good(secret: &Secret, made_for: &str, now: Timestamp) -> Option<Timestamp> {
    let annotations = secret.metadata.annotations.as_ref()?;
    let data = secret.data.as_ref()?;
    let due: Timestamp = annotations.get(RENEW_AT)?.parse().ok()?;
    let whole = [CA_CRT, TLS_CRT, TLS_KEY].iter().all(|key| data.get(*key).is_some_and(|value| !value.0.is_empty()));
    (whole && annotations.get(MADE_FOR)? == made_for && due > now).then_some(due)
}

fn secret_of(leaf: &Leaf, pem: &CertPem, made_for: &str, due: Timestamp) -> Secret {
    let data = [(CA_CRT, &pem.ca), (TLS_CRT, &pem.cert), (TLS_KEY, &pem.key)];
    let annotations = [(MADE_FOR, made_for.to_owned()), (RENEW_AT, rfc3339(due))];
    Secret {
        metadata: ObjectMeta {
            name: Some(leaf.secret.clone()),
            namespace: Some(leaf.namespace.clone()),
            labels: Some(leaf.labels.clone()),
            annotations: Some(annotations.map(|(k, v)| (k.to_owned(), v)).into()),
            owner_references: leaf.owner.clone().map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data.map(|(k, v)| (k.to_owned(), ByteString(v.clone().into_bytes()))).into()),
        ..Secret::default()
    }
}

fn new_authority() -> Result<Secret, CaError> {
    let ca = Ca::generate()?;
    let data = [(CA_CRT, ca.cert_pem().to_owned()), ("ca.key", ca.key_pem())];
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(CA_SECRET.to_owned()),
            labels: Some([(MANAGED_BY.to_owned(), MANAGER.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(data.map(|(k, v)| (k.to_owned(), ByteString(v.into_bytes()))).into()),
        ..Secret::default()
    })
}

fn text(secret: &Secret, key: &'static str) -> Result<String, CaError> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key)).ok_or(CaError::Damaged(key))?;
    String::from_utf8(bytes.0.clone()).map_err(|_| CaError::Damaged(key))
}

/// How long to wait until `due`, at least a second and at most `most`.
#[must_use]
pub fn wait_until(due: Timestamp, most: Duration) -> Duration {
    Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO).clamp(Duration::from_secs(1), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf() -> Leaf {
        Leaf::kernel("team", "default", BTreeMap::new(), None)
    }

    #[test]
    fn kernels_share_a_wildcard_and_brokers_have_a_name() {
        assert_eq!(leaf().sans, ["*.team.kernel.dormouse.internal"]);
        assert_eq!(leaf().secret, "dormouse-kernel-default-tls");
        let broker = Leaf::broker("team", "tools", BTreeMap::new(), None);
        assert_eq!((broker.sans[0].as_str(), broker.secret.as_str()), ("tools.team.broker.dormouse.internal", "tools-broker-tls"));
        assert_eq!(Leaf::gateway("sys").sans, ["gateway.sys.gateway.dormouse.internal"]);
    }

    #[test]
    fn a_certificate_is_kept_until_it_is_due_or_meant_for_another() {
        let ca = Ca::generate().unwrap();
        let pem = ca.issue(&leaf().sans, LEAF_VALIDITY).unwrap();
        let now = Timestamp::from_second(1_000_000).unwrap();
        let due = renew_at(now, LEAF_VALIDITY);
        let secret = secret_of(&leaf(), &pem, "f *.team", due);
        assert_eq!(still_good(&secret, "f *.team", now), Some(due));
        assert_eq!(still_good(&secret, "g *.team", now), None, "another authority");
        assert_eq!(still_good(&secret, "f *.team", due), None, "due");
        let mut damaged = secret;
        damaged.data.as_mut().unwrap().remove(TLS_KEY);
        assert_eq!(still_good(&damaged, "f *.team", now), None, "incomplete");
    }

    #[test]
    fn a_new_authority_can_be_read_back() {
        let secret = new_authority().unwrap();
        assert!(Ca::from_pem(&text(&secret, CA_CRT).unwrap(), &text(&secret, "ca.key").unwrap()).is_ok());
        assert!(matches!(text(&secret, TLS_KEY), Err(CaError::Damaged(TLS_KEY))));
    }
}
