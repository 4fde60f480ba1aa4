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

/// One process: `<name>.<namespace>.<process>.dormouse.internal`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its kind.
    pub process: Process,
    /// The Kubernetes namespace it runs in.
    pub namespace: String,
    /// The pod's name for a kernel, the ToolBroker's for a broker.
    pub name: String,
}

impl Identity {
    /// The identity of these parts.
    pub fn new(process: Process, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { process, namespace: namespace.into(), name: name.into() }
    }

    /// The DNS name that a certificate must hold.
    #[must_use]
    pub fn dns_name(&self) -> String {
        format!("{}.{}.{}.{DOMAIN}", self.name, self.namespace, self.process)
    }

    /// The wildcard that the certificate of a namespace's processes holds: `*.<namespace>.<process>.dormouse.internal`.
    #[must_use]
    pub fn wildcard(process: Process, namespace: &str) -> String {
        format!("*.{namespace}.{process}.{DOMAIN}")
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
        Ok(Self { process: peer.process, namespace: peer.namespace, name })
    }
}

/// Who the other end of a connection is, as its certificate proves. An extractor: a handler that takes it is reached by mTLS only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PeerIdentity {
    /// Its kind.
    pub process: Process,
    /// The Kubernetes namespace it runs in.
    pub namespace: String,
    /// Its name; `None` when the certificate is good for every name in the namespace.
    pub name: Option<String>,
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
        certificate.valid_dns_names().find_map(|name| name.parse().ok())
    }
}

impl fmt::Display for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{DOMAIN}", self.name.as_deref().unwrap_or("*"), self.namespace, self.process)
    }
}

impl FromStr for PeerIdentity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let refuse = || IdentityError(text.to_owned());
        let rest = text.strip_suffix(DOMAIN).and_then(|rest| rest.strip_suffix('.')).ok_or_else(refuse)?;
        let (rest, process) = rest.rsplit_once('.').ok_or_else(refuse)?;
        let (name, namespace) = rest.rsplit_once('.').ok_or_else(refuse)?;
        if name.is_empty() || namespace.is_empty() || namespace.contains('*') || (name != "*" && name.contains('*')) {
            return Err(refuse());
        }
        let process = process.parse().map_err(|_| refuse())?;
        Ok(Self { process, namespace: namespace.to_owned(), name: (name != "*").then(|| name.to_owned()) })
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
        let wildcard: PeerIdentity = Identity::wildcard(Process::Kernel, "team-a").parse().unwrap();
        assert_eq!(wildcard, PeerIdentity { process: Process::Kernel, namespace: "team-a".to_owned(), name: None });
    }

    #[test]
    fn other_names_are_refused() {
        for text in [
            "",
            "dormouse.internal",
            "a.b.dormouse.internal",
            "a.b.toaster.dormouse.internal",
            "a.b.kernel.example",
            "x*.b.kernel.dormouse.internal",
            ".b.kernel.dormouse.internal",
            "a.b.kerneldormouse.internal",
        ] {
            assert!(text.parse::<PeerIdentity>().is_err(), "{text}");
        }
        assert!("*.a.kernel.dormouse.internal".parse::<Identity>().is_err());
    }
}
