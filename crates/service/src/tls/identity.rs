//! Names of processes, as DNS names in certificates.

use std::{fmt, str::FromStr};

use axum::{extract::FromRequestParts, http::request::Parts};
use dormouse_protocol::{ApiError, ErrorCode};
use rustls_pki_types::CertificateDer;

use crate::ApiErrorResponse;

/// What every identity ends in.
const DOMAIN: &str = "dormouse.internal";

/// A kind of process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Process {
    /// A kernel pod.
    Kernel,
    /// A broker.
    Broker,
    /// A gateway.
    Gateway,
    /// The operator.
    Operator,
}

impl Process {
    /// Its label in a DNS name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Broker => "broker",
            Self::Gateway => "gateway",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Process {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        [Self::Kernel, Self::Broker, Self::Gateway, Self::Operator]
            .into_iter()
            .find(|process| process.as_str() == text)
            .ok_or_else(|| IdentityError(text.to_owned()))
    }
}

/// A text that names no process of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not `<name>.<namespace>.<process>.dormouse.internal`")]
pub struct IdentityError(String);

/// One process: `<name>.<namespace>.<process>.dormouse.internal`, and `<pod>.<pool>.<namespace>.kernel.dormouse.internal` for a kernel pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its kind.
    pub process: Process,
    /// The Kubernetes namespace it runs in.
    pub namespace: String,
    /// The pool of a kernel pod.
    pub pool: Option<String>,
    /// The pod's name for a kernel, the ToolBroker's for a broker, its kind's for another.
    pub name: String,
}

impl Identity {
    /// The identity of a process that is no kernel pod.
    pub fn new(process: Process, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { process, namespace: namespace.into(), pool: None, name: name.into() }
    }

    /// The identity of a kernel pod.
    pub fn kernel(namespace: impl Into<String>, pool: impl Into<String>, pod: impl Into<String>) -> Self {
        Self { process: Process::Kernel, namespace: namespace.into(), pool: Some(pool.into()), name: pod.into() }
    }

    /// The identity that the gateways of an installation share.
    pub fn gateway(system_namespace: impl Into<String>) -> Self {
        Self::new(Process::Gateway, system_namespace, Process::Gateway.as_str())
    }

    /// The identity that the operators of an installation share.
    pub fn operator(system_namespace: impl Into<String>) -> Self {
        Self::new(Process::Operator, system_namespace, Process::Operator.as_str())
    }

    /// The DNS name that a certificate must hold.
    #[must_use]
    pub fn dns_name(&self) -> String {
        dns_name(&self.name, self.pool.as_deref(), &self.namespace, self.process)
    }

    /// The wildcard that the certificate of a pool's pods holds: `*.<pool>.<namespace>.kernel.dormouse.internal`.
    #[must_use]
    pub fn of_pool(namespace: &str, pool: &str) -> String {
        dns_name("*", Some(pool), namespace, Process::Kernel)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.dns_name())
    }
}

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let peer: PeerIdentity = text.parse()?;
        let name = peer.name.ok_or_else(|| IdentityError(text.to_owned()))?;
        Ok(Self { process: peer.process, namespace: peer.namespace, pool: peer.pool, name })
    }
}

/// Who the other end of a connection is, as its certificate proves. An extractor: a handler that takes it is reached by mTLS only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PeerIdentity {
    /// Its kind.
    pub process: Process,
    /// The Kubernetes namespace it runs in.
    pub namespace: String,
    /// The pool of a kernel pod.
    pub pool: Option<String>,
    /// Which object of that name the pool was, and when the certificate was made. Absent where no operator makes them.
    pub incarnation: Option<Incarnation>,
    /// The session whose pod it is, by uid: of a pod that runs one session in its life. It speaks for that session and for no other.
    pub session: Option<String>,
    /// Its name; `None` when the certificate is good for every pod of the pool.
    pub name: Option<String>,
}

/// Which pool a certificate was made for. A second name in it says so: `<seconds>.<uid>.pool.dormouse.internal`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Incarnation {
    /// Uid of the KernelPool.
    pub uid: String,
    /// When the certificate was made, in seconds since the Unix epoch.
    pub issued_seconds: u64,
}

/// What the name of an [`Incarnation`] ends in.
const INCARNATION: &str = "pool.dormouse.internal";

impl Incarnation {
    /// The name of a pool's certificates without the time: [`Self::dated`] adds it.
    #[must_use]
    pub fn undated(uid: &str) -> String {
        format!("{uid}.{INCARNATION}")
    }

    /// `name` with the time if it is such a name, else `name`.
    #[must_use]
    pub fn dated(name: &str, seconds: u64) -> String {
        let is_undated = name.strip_suffix(INCARNATION).and_then(|rest| rest.strip_suffix('.')).is_some_and(|uid| !uid.contains('.'));
        if is_undated { format!("{seconds}.{name}") } else { name.to_owned() }
    }

    fn read(name: &str) -> Option<Self> {
        let (seconds, uid) = name.strip_suffix(INCARNATION)?.strip_suffix('.')?.split_once('.')?;
        Some(Self { uid: uid.to_owned(), issued_seconds: seconds.parse().ok()? })
    }
}

/// What the name of a session ends in, in the certificate of the pod that runs it and no other.
const SESSION: &str = "session.dormouse.internal";

/// The name by which a certificate says that its process runs the session of this uid and no other: `<uid>.session.dormouse.internal`.
#[must_use]
pub fn session_name(uid: &str) -> String {
    format!("{uid}.{SESSION}")
}

fn read_session_name(name: &str) -> Option<String> {
    let uid = name.strip_suffix(SESSION)?.strip_suffix('.')?;
    (!uid.is_empty() && !uid.contains(['.', '*'])).then(|| uid.to_owned())
}

fn dns_name(name: &str, pool: Option<&str>, namespace: &str, process: Process) -> String {
    let pool = pool.map(|pool| format!("{pool}.")).unwrap_or_default();
    format!("{name}.{pool}{namespace}.{process}.{DOMAIN}")
}

impl PeerIdentity {
    /// Whether it is such a process in this namespace.
    #[must_use]
    pub fn is(&self, process: Process, namespace: &str) -> bool {
        self.process == process && self.namespace == namespace
    }

    /// The identity in an already verified certificate: its first DNS name that is one of ours.
    pub(crate) fn of_certificate(der: &CertificateDer<'_>) -> Option<Self> {
        let certificate = webpki::EndEntityCert::try_from(der).ok()?;
        let peer: Self = certificate.valid_dns_names().find_map(|name| name.parse().ok())?;
        let session = certificate.valid_dns_names().find_map(read_session_name);
        Some(Self { incarnation: certificate.valid_dns_names().find_map(Incarnation::read), session, ..peer })
    }
}

impl fmt::Display for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&dns_name(self.name.as_deref().unwrap_or("*"), self.pool.as_deref(), &self.namespace, self.process))
    }
}

impl FromStr for PeerIdentity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let refuse = || IdentityError(text.to_owned());
        let rest = text.strip_suffix(DOMAIN).and_then(|rest| rest.strip_suffix('.')).ok_or_else(refuse)?;
        let (rest, process) = rest.rsplit_once('.').ok_or_else(refuse)?;
        let (name, namespace) = rest.rsplit_once('.').ok_or_else(refuse)?;
        let process = process.parse().map_err(|_| refuse())?;
        let (name, pool) = match process {
            Process::Kernel => name.split_once('.').map(|(name, pool)| (name, Some(pool))).ok_or_else(refuse)?,
            _ => (name, None),
        };
        let wrong = |part: &str| part.is_empty() || part.contains('*');
        // A certificate that is good for many names is a pool's.
        let of_any = name == "*" && pool.is_some();
        if (wrong(name) && !of_any) || wrong(namespace) || pool.is_some_and(wrong) {
            return Err(refuse());
        }
        let name = (!of_any).then(|| name.to_owned());
        Ok(Self { process, namespace: namespace.to_owned(), pool: pool.map(str::to_owned), incarnation: None, session: None, name })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PeerIdentity {
    type Rejection = ApiErrorResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let peer = parts.extensions.get::<Self>().cloned();
        peer.ok_or_else(|| ApiError::new(ErrorCode::Unauthenticated, "this port is reached by mutual TLS only").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_identities_are_the_same_thing() {
        let identity = Identity::new(Process::Broker, "team-a", "tools.v2");
        assert_eq!(identity.dns_name(), "tools.v2.team-a.broker.dormouse.internal");
        assert_eq!(identity.dns_name().parse::<Identity>(), Ok(identity));
        assert_eq!(Identity::gateway("sys").dns_name(), "gateway.sys.gateway.dormouse.internal");
        assert_eq!(Identity::operator("sys").dns_name(), "operator.sys.operator.dormouse.internal");
        let pod = Identity::kernel("team-a", "small", "pod-1");
        assert_eq!(pod.dns_name(), "pod-1.small.team-a.kernel.dormouse.internal");
        assert_eq!(pod.dns_name().parse::<Identity>(), Ok(pod));
        let (namespace, pool) = ("team-a".to_owned(), Some("small".to_owned()));
        let wildcard: PeerIdentity = Identity::of_pool("team-a", "small").parse().unwrap();
        assert_eq!(wildcard, PeerIdentity { process: Process::Kernel, namespace, pool, incarnation: None, session: None, name: None });
    }

    #[test]
    fn a_certificate_says_whose_pod_it_is() {
        let name = session_name("0b9f-1");
        assert_eq!(name, "0b9f-1.session.dormouse.internal");
        assert_eq!(read_session_name(&name).as_deref(), Some("0b9f-1"));
        assert!(name.parse::<PeerIdentity>().is_err() && Incarnation::read(&name).is_none());
        for other in
            ["session.dormouse.internal", ".session.dormouse.internal", "*.session.dormouse.internal", "a.b.session.dormouse.internal"]
        {
            assert_eq!(read_session_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_certificate_says_which_pool_it_was_made_for_and_when() {
        let undated = Incarnation::undated("0b9f-1");
        let dated = Incarnation::dated(&undated, 1_700_000_000);
        assert_eq!(dated, "1700000000.0b9f-1.pool.dormouse.internal");
        assert_eq!(Incarnation::read(&dated), Some(Incarnation { uid: "0b9f-1".to_owned(), issued_seconds: 1_700_000_000 }));
        assert_eq!(Incarnation::read(&undated), None);
        // What is dated stays as it is, and so does another name.
        for name in [dated.as_str(), "a.b.kernel.dormouse.internal"] {
            assert_eq!(Incarnation::dated(name, 2), name);
        }
        assert!(dated.parse::<PeerIdentity>().is_err() && undated.parse::<PeerIdentity>().is_err());
    }

    #[test]
    fn other_names_are_refused() {
        for text in [
            "",
            "dormouse.internal",
            "a.b.dormouse.internal",
            "a.b.toaster.dormouse.internal",
            "a.b.kernel.example",
            "x*.p.b.kernel.dormouse.internal",
            ".p.b.kernel.dormouse.internal",
            "a.b.kernel.dormouse.internal",
            "*.b.kernel.dormouse.internal",
            "a.*.b.kernel.dormouse.internal",
            "*.b.broker.dormouse.internal",
            "a.b.kerneldormouse.internal",
        ] {
            assert!(text.parse::<PeerIdentity>().is_err(), "{text}");
        }
        assert!("*.p.a.kernel.dormouse.internal".parse::<Identity>().is_err());
    }
}
