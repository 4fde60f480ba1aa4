//! On behalf of which client's request something is done: its id, and its trace, from the gateway through pod and broker to the far side.
//!
//! Each process takes both from a request's headers, has them at hand while it works for it, and sends them along with the requests that it makes.

use std::{future::Future, sync::Arc};

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName},
    middleware::Next,
    response::Response,
};
use reqwest::RequestBuilder;
use tracing::{Instrument as _, Span};

use crate::traces;

/// The header that carries a request's id, both ways.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id that is taken, in bytes.
pub const REQUEST_ID_BYTES_MAX: usize = 128;

tokio::task_local! {
    static ID: Arc<str>;
}

/// The id of the request that is being worked for.
#[must_use]
pub fn request_id() -> Option<Arc<str>> {
    ID.try_with(Arc::clone).ok()
}

/// The id that a request's headers bring, if it is one: visible ASCII without spaces, at most [`REQUEST_ID_BYTES_MAX`] bytes.
#[must_use]
pub fn id_in(headers: &HeaderMap) -> Option<Arc<str>> {
    headers.get(REQUEST_ID)?.to_str().ok().and_then(id_of)
}

/// The same of a text.
#[must_use]
pub fn id_of(text: &str) -> Option<Arc<str>> {
    let fits = !text.is_empty() && text.len() <= REQUEST_ID_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| text.into())
}

/// Whose request it is. What it begins in another task, it hands this to.
#[derive(Debug, Clone)]
pub struct Origin {
    id: Option<Arc<str>>,
    span: Span,
}

impl Default for Origin {
    /// Nobody's.
    fn default() -> Self {
        Self { id: None, span: Span::none() }
    }
}

impl Origin {
    /// The request of this id, with this span of its own.
    #[must_use]
    pub fn new(id: Option<Arc<str>>, span: Span) -> Self {
        Self { id, span }
    }

    /// The one that is being worked for.
    #[must_use]
    pub fn current() -> Self {
        Self { id: request_id(), span: Span::current() }
    }

    /// The same under this id, unless it has one.
    #[must_use]
    pub fn or_id(self, id: &str) -> Self {
        Self { id: self.id.or_else(|| id_of(id)), ..self }
    }

    /// Its id, if it has one.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Does `work` on its behalf.
    pub async fn run<W: Future>(self, work: W) -> W::Output {
        let work = work.instrument(self.span);
        match self.id {
            Some(id) => ID.scope(id, work).await,
            None => work.await,
        }
    }

    /// A step of what is done for it, for its trace; nothing where there is none.
    #[must_use]
    pub fn step(&self, name: &'static str) -> Span {
        if !traces::are_on() || self.span.is_none() {
            return Span::none();
        }
        tracing::info_span!(parent: &self.span, "step", otel.name = name, otel.kind = "client")
    }
}

/// Middleware of a server behind mutual TLS: works for the request that the peer works for.
pub async fn taken(request: Request, next: Next) -> Response {
    let id = id_in(request.headers());
    let path = request.uri().path();
    let name = traces::are_on().then_some(path);
    let span = tracing::info_span!("serve", otel.name = name, otel.kind = name.map(|_| "server"), path, request_id = id.as_deref());
    traces::follow(&span, request.headers());
    Origin::new(id, span).run(next.run(request)).await
}

/// The request, with the id and the trace of what it is made for.
pub fn carry(mut request: RequestBuilder) -> RequestBuilder {
    if let Some(id) = request_id() {
        request = request.header(REQUEST_ID, &*id);
    }
    if traces::are_on() { request.headers(traces::headers()) } else { request }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_and_visible() {
        for good in ["a", "0190-ab", &"x".repeat(REQUEST_ID_BYTES_MAX)] {
            assert!(id_of(good).is_some(), "{good}");
        }
        for bad in ["", "a b", "a\n", "é", &"x".repeat(REQUEST_ID_BYTES_MAX + 1)] {
            assert!(id_of(bad).is_none(), "{bad}");
        }
    }

    #[tokio::test]
    async fn what_is_handed_to_another_task_is_done_for_the_same_request() {
        assert_eq!(request_id(), None);
        let origin = Origin::default().or_id("r-1").or_id("r-2");
        let other = origin.run(async { Origin::current() }).await;
        let found = tokio::spawn(other.run(async { request_id() })).await.unwrap();
        assert_eq!(found.as_deref(), Some("r-1"));
        crate::telemetry::install_tls_provider();
        let client = reqwest::Client::builder().timeout(std::time::Duration::from_secs(1)).build().unwrap();
        let request = Origin::default().or_id("r-3").run(async { carry(client.get("http://127.0.0.1/")).build().unwrap() }).await;
        assert_eq!(request.headers()[REQUEST_ID], "r-3");
    }
}
