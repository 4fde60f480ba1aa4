//! What carries HTTP requests: the network, or what stands in its place.

use std::{error::Error, fmt::Debug, sync::Arc};

use futures::future::BoxFuture;
use reqwest::{Client, Request, RequestBuilder, Response};

/// Carries requests in the network's stead.
pub trait Wire: Debug + Send + Sync {
    /// Carries one to whoever its URL names. The request's timeout is the carrier's matter.
    fn carry(&self, request: Request) -> BoxFuture<'static, Result<Response, SendError>>;
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Nobody was there to take it: it has not been seen.
    #[error("{0}")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// It may have been seen.
    #[error("{0}")]
    Lost(#[source] Box<dyn Error + Send + Sync>),
}

impl SendError {
    /// What it is underneath.
    #[must_use]
    pub fn into_cause(self) -> Box<dyn Error + Send + Sync> {
        match self {
            Self::Unreachable(cause) | Self::Lost(cause) => cause,
        }
    }
}

impl From<reqwest::Error> for SendError {
    fn from(error: reqwest::Error) -> Self {
        if error.is_connect() { Self::Unreachable(Box::new(error)) } else { Self::Lost(Box::new(error)) }
    }
}

/// A client of HTTP services. Clones share connections.
#[derive(Debug, Clone)]
pub struct Http {
    client: Client,
    wire: Option<Arc<dyn Wire>>,
}

impl Http {
    /// Over the network.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, wire: None }
    }

    /// Over something else; `client` only forms the requests.
    #[must_use]
    pub fn over(client: Client, wire: Arc<dyn Wire>) -> Self {
        Self { client, wire: Some(wire) }
    }

    /// The same way, with requests that `client` forms and, over the network, sends.
    #[must_use]
    pub fn with_client(&self, client: Client) -> Self {
        Self { client, wire: self.wire.clone() }
    }

    /// What forms requests for [`Self::send`].
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a request.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, SendError> {
        match &self.wire {
            None => Ok(request.send().await?),
            Some(wire) => wire.carry(request.build()?).await,
        }
    }
}
