//! Clients of services whose TLS has certificates of its own, on either side.

use std::sync::{Mutex, PoisonError};

use dormouse_crds::service::{CA_KEY, ServiceTls, TLS_KEYS};
use dormouse_service::wire::Http;
use reqwest::{Certificate, Identity};
use sha2::{Digest as _, Sha256};

use crate::{
    Problem, ProblemKind, SecretError, Secrets,
    net::{self, Names},
};

/// Makes the client of one service, and makes it anew when its certificates have changed.
#[derive(Debug)]
pub(crate) struct TlsClient {
    /// Name of a Secret with [`TLS_KEYS`].
    client: Option<String>,
    /// A Secret and its key.
    ca: Option<(String, String)>,
    /// Of its ToolBroker.
    names: Names,
    made: Mutex<Option<([u8; 32], Http)>>,
}

impl TlsClient {
    /// The checked form of a spec, or what is wrong at `path`.
    pub(crate) fn check(spec: &ServiceTls, path: &str, from: (&Secrets, &Names), problems: &mut Vec<Problem>) -> Option<Self> {
        let (secrets, names) = from;
        let ca = spec.ca_secret_ref.as_ref().map(|ca| (ca.name.clone(), ca.key.clone().unwrap_or_else(|| CA_KEY.to_owned())));
        let client = spec.client_secret_ref.as_ref().map(|client| client.name.clone());
        let checked = Self { client, ca, names: names.clone(), made: Mutex::default() };
        let made = checked.http(secrets);
        if let Err(error) = &made {
            problems.push(Problem { path: path.to_owned(), kind: ProblemKind::Certificates(error.to_string()) });
        }
        made.is_ok().then_some(checked)
    }

    /// The client with the certificates as they are now.
    ///
    /// # Errors
    /// They cannot be read, or are none.
    pub(crate) fn http(&self, secrets: &Secrets) -> Result<Http, SecretError> {
        let [certificates, key] = TLS_KEYS;
        let identity = match &self.client {
            // The client takes both as one text.
            Some(name) => Some([secrets.bytes(name, certificates)?, b"\n".to_vec(), secrets.bytes(name, key)?].concat()),
            None => None,
        };
        let authorities = self.ca.as_ref().map(|(name, key)| secrets.bytes(name, key)).transpose()?;
        let mut digest = Sha256::new();
        for part in [&identity, &authorities].into_iter().flatten() {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        let digest: [u8; 32] = digest.finalize().into();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, http)) = made.as_ref().filter(|(of, _)| *of == digest) {
            return Ok(http.clone());
        }
        let unusable = |name: &str, key: &str| SecretError::NoCertificates { secret: name.to_owned(), key: key.to_owned() };
        let of_client = || unusable(self.client.as_deref().unwrap_or_default(), key);
        let of_ca = || self.ca.as_ref().map_or_else(of_client, |(name, key)| unusable(name, key));
        let identity = identity.map(|pem| Identity::from_pem(&pem)).transpose().map_err(|_| of_client())?;
        let roots = authorities.map(|pem| Certificate::from_pem_bundle(&pem)).transpose().map_err(|_| of_ca())?;
        if roots.as_ref().is_some_and(Vec::is_empty) {
            return Err(of_ca());
        }
        let client = net::service_client(&self.names, |builder| {
            let builder = roots.iter().fold(builder, |builder, roots| builder.tls_certs_only(roots.clone()));
            identity.iter().fold(builder, |builder, identity| builder.identity(identity.clone()))
        });
        let http = Http::new(client.map_err(|_| of_client())?);
        *made = Some((digest, http.clone()));
        Ok(http)
    }
}
