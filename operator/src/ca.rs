//! The certificate authority of the processes, and the Secrets with their certificates.
//!
//! The authority lives in one Secret of the system namespace. It is followed by another in steps (`rotation`), of which each is one write of that Secret:
//! what it holds says which step it is at. A leaf's Secret carries in annotations what it was made for and when it is to be made anew, so that no certificate
//! has to be parsed.

use std::{
    sync::{PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use dormouse_control::{condition::rfc3339, rotation::Stage};
use dormouse_crds::labels::{MANAGED_BY, MANAGER};
use dormouse_service::{
    ca::{Ca, CertPem, End},
    tls::{Identity, Incarnation, TlsError, TlsFiles},
};
use dormouse_watch::WatchScope;
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    apply::apply,
    config::CertificateArgs,
    issued::{MADE_FOR, RENEW_AT, good_until, renew_at},
    leaf::Leaf,
    leaves,
};

/// The Secret of the authority.
pub const CA_SECRET: &str = "dormouse-ca";
/// Annotation of the authority's Secret: whoever writes it, with any value, wants another authority.
pub const ROTATE: &str = "dormouse.dev/rotate";
const CA_CRT: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
/// The authority that is announced, and the one that signed before: which of them is there is the stage.
const NEXT_CRT: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
const PREVIOUS_CRT: &str = "previous.crt";
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
    system_namespace: String,
    /// Where there may be certificates.
    scope: WatchScope,
    lives: CertificateArgs,
    trust: RwLock<Trust>,
}

/// What the Secret of the authority says.
struct Trust {
    /// Who signs.
    ca: Ca,
    /// The certificates that everybody is to trust, as PEM.
    bundle: String,
    /// Of the bundle.
    fingerprint: String,
    stage: Stage,
    /// Whether another authority is due.
    is_due: bool,
    resource_version: Option<String>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

/// A certificate that is there.
#[derive(Debug, Clone, Copy)]
pub struct Ensured {
    /// When it is to be made anew.
    pub due: Timestamp,
    /// Whether it was made just now.
    pub made: bool,
}

impl Authority {
    /// Reads the authority, and makes it when there is none.
    ///
    /// # Errors
    /// The API server fails, or the Secret is there and damaged.
    pub async fn load(client: Client, system_namespace: &str, scope: WatchScope, lives: CertificateArgs) -> Result<Self, CaError> {
        let api: Api<Secret> = Api::namespaced(client.clone(), system_namespace);
        let secret = match api.get_opt(CA_SECRET).await? {
            Some(secret) => secret,
            None => match api.create(&PostParams::default(), &new_authority(lives)?).await {
                // Another operator was faster: its authority is the one.
                Err(kube::Error::Api(status)) if status.code == 409 => api.get(CA_SECRET).await?,
                other => other?,
            },
        };
        let trust = RwLock::new(trust(&secret, lives, Timestamp::now())?);
        Ok(Self { client, system_namespace: system_namespace.to_owned(), scope, lives, trust })
    }

    fn read(&self) -> RwLockReadGuard<'_, Trust> {
        self.trust.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names what everybody is to trust.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.read().fingerprint.clone()
    }

    /// Where it stands, and whether another one is due.
    #[must_use]
    pub fn stage(&self) -> (Stage, bool) {
        let trust = self.read();
        (trust.stage, trust.is_due)
    }

    /// Reads the Secret again: somebody may have asked for another authority.
    ///
    /// # Errors
    /// The API server fails, or the Secret is gone or damaged.
    pub async fn refresh(&self) -> Result<(), CaError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.system_namespace);
        self.take(&api.get(CA_SECRET).await?)
    }

    fn take(&self, secret: &Secret) -> Result<(), CaError> {
        let new = trust(secret, self.lives, Timestamp::now())?;
        *self.trust.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Makes the next authority and has it trusted.
    ///
    /// # Errors
    /// The API server fails, or somebody else has written the Secret.
    pub async fn announce(&self) -> Result<(), CaError> {
        let next = Ca::generate_for(self.lives.authority())?;
        let data = json!({ NEXT_CRT: encoded(next.cert_pem()), NEXT_KEY: encoded(&next.key_pem()) });
        self.write(json!({ ROTATE: null }), data).await
    }

    /// Lets the next authority sign.
    ///
    /// # Errors
    /// The API server fails, somebody else has written the Secret, or it holds no next authority.
    pub async fn switch(&self) -> Result<(), CaError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.system_namespace);
        let secret = api.get(CA_SECRET).await?;
        self.take(&secret)?;
        let (cert, key) = (text(&secret, NEXT_CRT)?, text(&secret, NEXT_KEY)?);
        let data = json!({
            PREVIOUS_CRT: encoded(&text(&secret, CA_CRT)?), CA_CRT: encoded(&cert), CA_KEY: encoded(&key), NEXT_CRT: null, NEXT_KEY: null,
        });
        self.write(json!({ RENEW_AT: rfc3339(renew_at(Timestamp::now(), self.lives.authority())) }), data).await
    }

    /// Has the old authority trusted no more.
    ///
    /// # Errors
    /// The API server fails, or somebody else has written the Secret.
    pub async fn finish(&self) -> Result<(), CaError> {
        self.write(json!({}), json!({ PREVIOUS_CRT: null })).await
    }

    async fn write(&self, annotations: Value, data: Value) -> Result<(), CaError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.system_namespace);
        let version = self.read().resource_version.clone();
        let patch = json!({ "metadata": { "resourceVersion": version, "annotations": annotations }, "data": data });
        let secret = api.patch(CA_SECRET, &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.take(&secret)
    }

    /// Whose certificates there are.
    ///
    /// # Errors
    /// The API server fails.
    pub async fn leaves(&self, door_names: &[String]) -> Result<Vec<Leaf>, CaError> {
        let mut leaves = vec![Leaf::gateway(&self.system_namespace)];
        leaves.extend((!door_names.is_empty()).then(|| Leaf::door(&self.system_namespace, door_names)));
        leaves.extend(leaves::of_tenants(&self.client, &self.scope).await?);
        Ok(leaves)
    }

    /// A client certificate with these names, and when to make the next.
    ///
    /// # Errors
    /// A name is not a DNS name.
    pub fn issue_client(&self, names: &[String]) -> Result<(CertPem, Timestamp), CaError> {
        Ok((self.issue(End::Client, names)?, renew_at(Timestamp::now(), self.lives.certificate())))
    }

    /// A client with the operator's identity, and when to make the next.
    ///
    /// # Errors
    /// The certificate cannot be made.
    pub fn operator_tls(&self) -> Result<(TlsFiles, Timestamp), CaError> {
        let identity = Identity::operator(&self.system_namespace);
        let pem = self.issue(End::Both, &[identity.dns_name()])?;
        Ok((TlsFiles::from_pem(&pem)?, renew_at(Timestamp::now(), self.lives.certificate())))
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
        self.ensured(leaf).await.map(|ensured| ensured.due)
    }

    /// The same, and whether it had to be made.
    ///
    /// # Errors
    /// See [`Self::ensure`].
    pub async fn ensured(&self, leaf: &Leaf) -> Result<Ensured, CaError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &leaf.namespace);
        let now = Timestamp::now();
        let made_for = leaf.made_for(&self.fingerprint());
        if let Some(due) = api.get_opt(&leaf.secret).await?.and_then(|secret| still_good(&secret, &made_for, now)) {
            return Ok(Ensured { due, made: false });
        }
        let pem = self.issue(leaf.end, &leaf.sans)?;
        let due = renew_at(now, self.lives.certificate());
        apply(&self.client, &secret_of(leaf, &pem, &made_for, due)).await?;
        tracing::info!(namespace = leaf.namespace, secret = leaf.secret, "certificate issued");
        Ok(Ensured { due, made: true })
    }

    fn issue(&self, end: End, sans: &[String]) -> Result<CertPem, CaError> {
        let (trust, now) = (self.read(), u64::try_from(Timestamp::now().as_second()).unwrap_or(0));
        let sans: Vec<String> = sans.iter().map(|name| Incarnation::dated(name, now)).collect();
        Ok(CertPem { ca: trust.bundle.clone(), ..trust.ca.issue_for(end, &sans, self.lives.certificate())? })
    }
}

/// What the Secret of the authority says at `now`.
fn trust(secret: &Secret, lives: CertificateArgs, now: Timestamp) -> Result<Trust, CaError> {
    let (cert, key) = (text(secret, CA_CRT)?, text(secret, CA_KEY)?);
    let holds = |key| secret.data.as_ref().is_some_and(|data| data.contains_key(key));
    let (stage, other) = match (holds(NEXT_CRT), holds(PREVIOUS_CRT)) {
        (true, _) => (Stage::Announced, text(secret, NEXT_CRT)?),
        (false, true) => (Stage::Switched, text(secret, PREVIOUS_CRT)?),
        (false, false) => (Stage::Settled, String::new()),
    };
    let annotations = secret.metadata.annotations.as_ref();
    let annotation = |name: &str| annotations.and_then(|annotations| annotations.get(name));
    let made_at = secret.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    // One of before there was this annotation is due as if it had it.
    let due = annotation(RENEW_AT).and_then(|due| due.parse().ok()).unwrap_or_else(|| renew_at(made_at, lives.authority()));
    let bundle = format!("{cert}{other}");
    Ok(Trust {
        fingerprint: hex::encode(Sha256::digest(bundle.as_bytes())).get(..16).unwrap_or_default().to_owned(),
        ca: Ca::from_pem(&cert, &key)?,
        bundle,
        stage,
        is_due: due <= now || annotation(ROTATE).is_some(),
        resource_version: secret.metadata.resource_version.clone(),
    })
}

/// As a Secret's data are written in JSON.
fn encoded(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

/// When the certificate in `secret` is due, if it is the right one and that is still to come.
fn still_good(secret: &Secret, made_for: &str, now: Timestamp) -> Option<Timestamp> {
    let data = secret.data.as_ref()?;
    let whole = [CA_CRT, TLS_CRT, TLS_KEY].iter().all(|key| data.get(*key).is_some_and(|value| !value.0.is_empty()));
    good_until(secret, made_for, now).filter(|_| whole)
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

fn new_authority(lives: CertificateArgs) -> Result<Secret, CaError> {
    let ca = Ca::generate_for(lives.authority())?;
    let data = [(CA_CRT, ca.cert_pem().to_owned()), (CA_KEY, ca.key_pem())];
    let due = rfc3339(renew_at(Timestamp::now(), lives.authority()));
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(CA_SECRET.to_owned()),
            labels: Some([(MANAGED_BY.to_owned(), MANAGER.to_owned())].into()),
            annotations: Some([(RENEW_AT.to_owned(), due)].into()),
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

/// How long to wait until `due`: at least a second, and at most `most`, which may be less.
#[must_use]
pub fn wait_until(due: Timestamp, most: Duration) -> Duration {
    Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO).max(Duration::from_secs(1)).min(most)
}

#[cfg(test)]
#[path = "ca_tests.rs"]
mod tests;
