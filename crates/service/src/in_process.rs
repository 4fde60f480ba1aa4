//! Services of one process: what one sends to another is handed to that one's routes, without connections and certificates.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use axum::{Router, body::Body, middleware::from_fn};
use futures::{StreamExt as _, future::BoxFuture};
use reqwest::{Client, Request, Response};
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::{
    origin,
    tls::{Identity, PeerClient, PeerIdentity},
    wire::{SendError, Wire},
};

/// The services of a process, by their identities. Clones are the same.
#[derive(Clone)]
pub struct InProcess {
    shared: Arc<Shared>,
}

struct Shared {
    services: RwLock<HashMap<String, Service>>,
    unknown: Router,
}

#[derive(Clone)]
struct Service {
    routes: Router,
    under_way: TaskTracker,
}

impl InProcess {
    /// No services yet; `unknown` answers what is sent to one that is not there, and has its name in the URI.
    #[must_use]
    pub fn new(unknown: Router) -> Self {
        Self { shared: Arc::new(Shared { services: RwLock::default(), unknown }) }
    }

    /// Has `routes` answer what is sent to this identity. Every request carries the [`PeerIdentity`] of its sender as an extension.
    pub fn serve(&self, identity: &Identity, routes: Router) {
        let service = Service { routes: routes.layer(from_fn(origin::taken)), under_way: TaskTracker::new() };
        self.shared.services.write().unwrap_or_else(PoisonError::into_inner).insert(identity.dns_name(), service);
    }

    /// Takes nothing more for this identity, and waits until what is under way there has ended, for so long at most.
    pub async fn end(&self, identity: &Identity, patience: Duration) {
        let service = self.shared.services.write().unwrap_or_else(PoisonError::into_inner).remove(&identity.dns_name());
        let Some(service) = service else { return };
        service.under_way.close();
        if tokio::time::timeout(patience, service.under_way.wait()).await.is_err() {
            tracing::warn!(%identity, "requests were still running when the time to stop was over");
        }
    }

    /// Sends in the name of `sender`. `forms` only forms the requests.
    #[must_use]
    pub fn client(&self, forms: Client, sender: &Identity) -> PeerClient {
        let sender = PeerIdentity {
            process: sender.process,
            namespace: sender.namespace.clone(),
            pool: sender.pool.clone(),
            incarnation: None,
            session: None,
            name: Some(sender.name.clone()),
        };
        PeerClient::over(forms, Arc::new(Sending { within: self.clone(), sender }))
    }

    async fn hand_over(&self, sender: PeerIdentity, request: Request) -> Result<Response, SendError> {
        let name = request.url().host_str().unwrap_or_default();
        let service = self.shared.services.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let token = service.as_ref().map(|service| service.under_way.token());
        let routes = service.map_or_else(|| self.shared.unknown.clone(), |service| service.routes);
        let request: http::Request<reqwest::Body> = request.try_into()?;
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(sender);
        let answer = match routes.oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        // What is under way lasts until its answer has been read, or nobody reads it any more.
        let answer = answer.map(|body| {
            reqwest::Body::wrap_stream(body.into_data_stream().inspect(move |_| {
                let _ = &token;
            }))
        });
        Ok(answer.into())
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

/// What one service has to send with.
#[derive(Debug)]
struct Sending {
    within: InProcess,
    sender: PeerIdentity,
}

impl Wire for Sending {
    fn carry(&self, request: Request) -> BoxFuture<'static, Result<Response, SendError>> {
        let (within, sender) = (self.within.clone(), self.sender.clone());
        Box::pin(async move {
            let Some(limit) = request.timeout().copied() else { return within.hand_over(sender, request).await };
            tokio::time::timeout(limit, async {
                let answer = within.hand_over(sender, request).await?;
                let (status, headers) = (answer.status(), answer.headers().clone());
                let mut whole = http::Response::new(reqwest::Body::from(answer.bytes().await?));
                (*whole.status_mut(), *whole.headers_mut()) = (status, headers);
                Ok(whole.into())
            })
            .await
            .unwrap_or_else(|_| Err(SendError::Lost("timed out".into())))
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::{http::Uri, routing::post};
    use reqwest::Method;

    use super::*;
    use crate::tls::Process;

    fn client(within: &InProcess) -> PeerClient {
        crate::telemetry::install_tls_provider();
        within.client(Client::builder().build().unwrap(), &Identity::new(Process::Gateway, "system", "g"))
    }

    async fn text(client: &PeerClient, peer: &Identity, path: &str) -> String {
        let request = client.request(Method::POST, peer, "127.0.0.1:1", path);
        client.send(request).await.unwrap().text().await.unwrap()
    }

    #[tokio::test]
    async fn a_request_reaches_whom_it_names_and_says_who_sends_it() {
        let within = InProcess::new(Router::new().fallback(async |uri: Uri| format!("{} is not there", uri.host().unwrap_or_default())));
        let (one, other) = (Identity::new(Process::Broker, "team", "one"), Identity::new(Process::Broker, "team", "other"));
        let who = async |peer: PeerIdentity| format!("{} {}", peer.process, crate::origin::request_id().is_some());
        within.serve(&one, Router::new().route("/who", post(who)));
        let client = client(&within);
        assert_eq!(text(&client, &one, "/who").await, "gateway false");
        let origin = crate::origin::Origin::default().or_id("r-1");
        assert_eq!(origin.run(text(&client, &one, "/who")).await, "gateway true", "the request's id goes along");
        assert_eq!(text(&client, &other, "/who").await, format!("{other} is not there"));
        within.end(&one, Duration::ZERO).await;
        assert_eq!(text(&client, &one, "/who").await, format!("{one} is not there"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_lost_and_ends_with_who_asked() {
        let within = InProcess::new(Router::new());
        let slow = Identity::new(Process::Broker, "team", "slow");
        let wait = async || tokio::time::sleep(Duration::from_secs(5)).await;
        within.serve(&slow, Router::new().route("/wait", post(wait)));
        let client = client(&within);
        let ask = |seconds| {
            let (client, slow) = (client.clone(), slow.clone());
            let request = client.request(Method::POST, &slow, "127.0.0.1:1", "/wait").timeout(Duration::from_secs(seconds));
            async move { client.send(request).await }
        };
        assert!(matches!(ask(1).await, Err(SendError::Lost(_))));
        assert!(ask(10).await.unwrap().status().is_success());
        // The end waits for what is under way, and for no longer than it is told.
        let asking = tokio::spawn(ask(10));
        tokio::task::yield_now().await;
        let began = tokio::time::Instant::now();
        within.end(&slow, Duration::from_secs(30)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        assert!(asking.await.unwrap().unwrap().status().is_success());
    }
}
