//! A certificate authority for our own processes: in the operator's Secret, or in memory for `dormouse dev`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd};

/// Validity of a new authority, unless its maker says otherwise.
pub const CA_VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// Validity of a process's certificate, unless the issuer says otherwise.
pub const LEAF_VALIDITY: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// How far certificates reach back, for clocks that are behind ours.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// The authority could not be read, or a certificate not be made.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// A PEM text is not what it should be, or a name is not a DNS name.
    #[error("certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The clock of this machine is before 1970.
    #[error("the clock is before 1970")]
    Clock,
}

/// Which end of a connection a certificate is good for (its extended key usage, RFC 5280 section 4.2.1.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum End {
    /// Either.
    #[default]
    Both,
    /// Who is asked.
    Server,
    /// Who asks.
    Client,
}

/// An authority: its certificate and its key.
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    cert_pem: String,
}

/// What a process needs to prove who it is, as PEM.
#[derive(Clone)]
pub struct CertPem {
    /// `ca.crt`
    pub ca: String,
    /// `tls.crt`
    pub cert: String,
    /// `tls.key`
    pub key: String,
    /// When the certificate ends.
    pub not_after: SystemTime,
}

impl std::fmt::Debug for Ca {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ca")
    }
}

impl std::fmt::Debug for CertPem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertPem").field("cert", &self.cert).finish_non_exhaustive()
    }
}

impl Ca {
    /// A new authority with a new key.
    ///
    /// # Errors
    /// The key or the certificate cannot be made.
    pub fn generate() -> Result<Self, CaError> {
        Self::generate_for(CA_VALIDITY)
    }

    /// The same, valid for so long.
    ///
    /// # Errors
    /// The key or the certificate cannot be made.
    pub fn generate_for(validity: Duration) -> Result<Self, CaError> {
        let key = KeyPair::generate()?;
        let mut params = params(Vec::new(), validity)?;
        params.distinguished_name.push(DnType::CommonName, "dormouse");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let cert_pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), cert_pem })
    }

    /// The authority that [`Self::cert_pem`] and [`Self::key_pem`] wrote.
    ///
    /// # Errors
    /// They are not a certificate and a key.
    pub fn from_pem(cert_pem: &str, key_pem: &str) -> Result<Self, CaError> {
        let issuer = Issuer::from_ca_cert_pem(cert_pem, KeyPair::from_pem(key_pem)?)?;
        Ok(Self { issuer, cert_pem: cert_pem.to_owned() })
    }

    /// The certificate: everybody's `ca.crt`.
    #[must_use]
    pub fn cert_pem(&self) -> &str {
        &self.cert_pem
    }

    /// The private key.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A certificate for these DNS names (see [`crate::tls::Identity::dns_name`]) that serves both ends of a connection, with a new key.
    ///
    /// # Errors
    /// A name is not a DNS name.
    pub fn issue(&self, sans: &[String], validity: Duration) -> Result<CertPem, CaError> {
        self.issue_for(End::Both, sans, validity)
    }

    /// The same for one end of a connection only, which the other end checks.
    ///
    /// # Errors
    /// A name is not a DNS name.
    pub fn issue_for(&self, end: End, sans: &[String], validity: Duration) -> Result<CertPem, CaError> {
        let key = KeyPair::generate()?;
        let mut params = params(sans.to_vec(), validity)?;
        // No subject: the SAN says it all, and a common name holds only 64 characters.
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match end {
            End::Both => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
            End::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            End::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        let cert = params.signed_by(&key, &self.issuer)?;
        let not_after = SystemTime::now() + validity;
        Ok(CertPem { ca: self.cert_pem.clone(), cert: cert.pem(), key: key.serialize_pem(), not_after })
    }
}

fn params(sans: Vec<String>, validity: Duration) -> Result<CertificateParams, CaError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| CaError::Clock)?;
    let epoch = date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::new(sans)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = epoch + now.saturating_sub(CLOCK_SKEW);
    params.not_after = epoch + (now + validity);
    Ok(params)
}
