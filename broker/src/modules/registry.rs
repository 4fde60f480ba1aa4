//! Requests to a registry. Credentials go to its own origin only; another host that it names for a tarball is reached at public addresses only.

use std::time::Duration;

use dormouse_crds::{modules::Registry as RegistrySpec, service::Auth};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::wire::Http;
use reqwest::{
    Method, Response, StatusCode, Url,
    header::{ACCEPT, LOCATION},
};

use super::packument::Packument;
use crate::{
    Problem, ProblemKind, Secrets,
    credential::{Authentication, Caller, Credential},
    net::{FetchClients, Reach, literal},
};

/// Bytes of a package's metadata.
const PACKUMENT_BYTES_MAX: usize = 32 << 20;
/// Bytes of a tarball, packed.
const TARBALL_BYTES_MAX: usize = 32 << 20;
/// How long one request may take, redirects included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Redirects that are followed.
const REDIRECTS_MAX: usize = 5;
/// The short form of a package's metadata.
const ABBREVIATED: &str = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8";

/// A registry as a spec names it, checked.
#[derive(Debug)]
pub(crate) struct Source {
    base: Url,
    authentication: Authentication,
}

impl Source {
    /// Checks a spec; what is wrong with it goes to `problems`.
    pub(crate) fn compile(spec: &RegistrySpec, secrets: &Secrets, problems: &mut Vec<Problem>) -> Option<Self> {
        let RegistrySpec { registry, auth } = spec;
        let auth: &Auth = auth;
        let authentication = Authentication::check("modules", auth, &[], "modules", secrets, problems);
        let base = dormouse_service::url::plain(registry);
        if base.is_none() {
            problems.push(Problem { path: "modules.registry".to_owned(), kind: ProblemKind::BaseUrl });
        }
        Some(Self { base: base?, authentication: authentication? })
    }
}

/// A registry to ask.
pub(super) struct Registry<'a> {
    clients: &'a FetchClients,
    base: &'a Url,
    credential: Credential,
}

impl<'a> Registry<'a> {
    pub(super) async fn new(
        clients: &'a FetchClients,
        source: &'a Source,
        secrets: &Secrets,
        caller: Caller<'_>,
    ) -> Result<Self, ApiError> {
        let http = Http::new(clients.of(Reach::Private).clone());
        let credential = source.authentication.credential(&http, secrets, caller).await.map_err(|error| {
            tracing::error!(%error, "credential of the registry");
            unavailable(format!("the credential of the registry cannot be had: {error}"))
        })?;
        Ok(Self { clients, base: &source.base, credential })
    }

    /// What the registry says of a package.
    pub(super) async fn packument(&self, name: &str) -> Result<Packument, ApiError> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            // A scoped name is one segment: its slash is escaped.
            Ok(mut segments) => drop(segments.pop_if_empty().push(name)),
            Err(()) => return Err(unavailable("the registry's URL has no path")),
        }
        let what = format!("package {name}");
        let bytes = self.get(url, &what, PACKUMENT_BYTES_MAX).await?;
        serde_json::from_slice(&bytes).map_err(|error| unavailable(format!("what the registry says of {what} cannot be read: {error}")))
    }

    /// A tarball.
    pub(super) async fn tarball(&self, id: &str, url: &str) -> Result<Vec<u8>, ApiError> {
        let url = Url::parse(url).map_err(|_| unavailable(format!("the registry names no URL for {id}")))?;
        self.get(url, &format!("the tarball of {id}"), TARBALL_BYTES_MAX).await
    }

    async fn get(&self, url: Url, what: &str, bytes_max: usize) -> Result<Vec<u8>, ApiError> {
        let exchange = async {
            let response = self.send(url, what).await?;
            read(response, what, bytes_max).await
        };
        let late = |_| unavailable(format!("the registry did not send {what} within {} s", REQUEST_TIMEOUT.as_secs()));
        tokio::time::timeout(REQUEST_TIMEOUT, exchange).await.map_err(late)?
    }

    async fn send(&self, mut url: Url, what: &str) -> Result<Response, ApiError> {
        for _ in 0..=REDIRECTS_MAX {
            let own = url.origin() == self.base.origin();
            let reach = if own { Reach::Private } else { Reach::Public };
            let refused = || unavailable(format!("{what} is at an address that is not the registry's and not public"));
            if !matches!(url.scheme(), "http" | "https") || url.host_str().and_then(literal).is_some_and(|address| !reach.holds(address)) {
                return Err(refused());
            }
            let mut request = self.clients.of(reach).request(Method::GET, url.clone()).header(ACCEPT, ABBREVIATED);
            if own {
                request = self.credential.apply(request);
            }
            // Its sources name the address, and perhaps more than a cell should know.
            let response = request.send().await.map_err(|error| {
                tracing::warn!(what, %error, "the registry");
                unavailable(format!("the registry cannot be reached for {what}"))
            })?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).filter(|_| status.is_redirection());
            match location.and_then(|location| url.join(location.to_str().ok()?).ok()) {
                Some(next) => url = next,
                None if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) => {
                    return Err(ApiError::new(ErrorCode::ModuleNotFound, format!("the registry has no {what}")));
                }
                None => return Err(unavailable(format!("the registry answered {status} for {what}"))),
            }
        }
        Err(unavailable(format!("the registry redirects too often for {what}")))
    }
}

async fn read(mut response: Response, what: &str, bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    let cut = |_| unavailable(format!("the registry broke off while it sent {what}"));
    while let Some(chunk) = response.chunk().await.map_err(cut)? {
        if bytes.len() + chunk.len() > bytes_max {
            let message = format!("{what} is larger than {bytes_max} bytes");
            return Err(ApiError::new(ErrorCode::SizeAdmissionError, message));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

pub(super) fn unavailable(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::ModuleUnavailable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_may_be_so_large_and_no_larger() {
        let body = |bytes: usize| Response::from(http::Response::new(vec![b'x'; bytes]));
        assert_eq!(read(body(10), "it", 10).await.unwrap().len(), 10);
        assert_eq!(read(body(11), "it", 10).await.unwrap_err().code, ErrorCode::SizeAdmissionError);
    }
}
