//! HTTP clients that reach only what they may.

use std::{sync::Arc, time::Duration};

use reqwest::Client;

use super::address::{Names, Reach, Resolver};

/// How long a service may take to accept a connection, at most; a tool's own timeout may be shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The client of all that a ToolBroker names: no redirects, no proxy, no cookies.
pub(crate) fn client(names: &Names) -> Result<Client, reqwest::Error> {
    service_client(names, |builder| builder)
}

/// The same, with what `shape` adds.
pub(crate) fn service_client(
    names: &Names,
    shape: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> Result<Client, reqwest::Error> {
    let agent = concat!("dormouse-broker/", env!("CARGO_PKG_VERSION"));
    client_with(|builder| shape(builder.user_agent(agent).dns_resolver(Arc::new(Resolver::Own(names.clone())))))
}

/// A client without redirects, proxy and cookies, and with what `shape` adds.
pub(crate) fn client_with(shape: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder) -> Result<Client, reqwest::Error> {
    dormouse_service::telemetry::install_tls_provider();
    let plain = || Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().connect_timeout(CONNECT_TIMEOUT);
    let builder = || shape(plain());
    builder().build().or_else(|error| {
        // An image without a certificate bundle: plain HTTP still works, and https fails at the handshake.
        tracing::warn!(%error, "there are no certificates of public authorities; https services cannot be verified");
        builder().tls_certs_only([]).build()
    })
}

/// What fetches and packages are got with, a client for each reach: a connection that was made for one is not used for the other. Clones are the same.
#[derive(Debug, Clone)]
pub struct FetchClients {
    public: Client,
    private: Client,
}

impl FetchClients {
    /// Clients that believe the authorities of the machine, which are read here.
    ///
    /// # Errors
    /// TLS cannot be had at all.
    pub fn new() -> Result<Self, reqwest::Error> {
        let of = |reach| client_with(move |builder| builder.dns_resolver(Arc::new(Resolver::Any(reach))));
        Ok(Self { public: of(Reach::Public)?, private: of(Reach::Private)? })
    }

    /// The one of a reach.
    pub(crate) fn of(&self, reach: Reach) -> &Client {
        match reach {
            Reach::Public => &self.public,
            Reach::Private | Reach::Named => &self.private,
        }
    }
}
