//! Which web pages may call the gateway: those of the origins that its administrator names (CORS).
//!
//! Credentials are only ever a header that a page has to set itself, so a page of another origin can send nothing with somebody's rights; it can
//! read nothing either, and connect no WebSocket, for which browsers ask nobody.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use dormouse_protocol::{ApiError, ErrorCode};

use crate::problem::Problem;

/// Seconds that a browser need not ask again.
const PREFLIGHT_SECONDS: &str = "600";
const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
const HEADERS: &str = "authorization, content-type, accept, prefer, if-match, if-none-match, if-range, range, last-event-id, x-request-id, \
    dormouse-namespace, mcp-protocol-version, mcp-method, mcp-name, mcp-session-id";
const EXPOSED: &str = "x-request-id, dormouse-woke, idempotency-key, location, etag, retry-after, preference-applied, content-range, www-authenticate, mcp-session-id";

/// Origins such as `https://app.example`. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Origins(Arc<BTreeSet<String>>);

/// Text that is no origin.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no origin: write a scheme, a host and, if need be, a port, such as https://app.example")]
pub struct NoOrigin(String);

impl Origins {
    /// These origins.
    ///
    /// # Errors
    /// One of them is none.
    pub fn new<'a>(origins: impl IntoIterator<Item = &'a str>) -> Result<Self, NoOrigin> {
        let read = |origin: &str| {
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            let fits = host.is_some_and(|host| host.parse::<axum::http::uri::Authority>().is_ok_and(|it| !it.as_str().contains('@')));
            if fits { Ok(origin.to_ascii_lowercase()) } else { Err(NoOrigin(origin.to_owned())) }
        };
        Ok(Self(Arc::new(origins.into_iter().map(read).collect::<Result<_, _>>()?)))
    }

    fn allows(&self, origin: &str) -> bool {
        self.0.contains(&origin.to_ascii_lowercase())
    }
}

/// Middleware: answers a browser's questions, and lets pages of the named origins read.
pub(crate) async fn allowed(State(origins): State<Origins>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let Some(origin) = headers.get(header::ORIGIN).cloned() else { return next.run(request).await };
    let named = origin.to_str().is_ok_and(|origin| origins.allows(origin));
    if !named && is_websocket(headers) && !is_own(headers, &origin) {
        const MESSAGE: &str = "a web page of this origin may not connect: have the gateway's administrator name it";
        return Problem(ApiError::new(ErrorCode::Forbidden, MESSAGE)).into_response();
    }
    let preflight = request.method() == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if named && preflight { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if named {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        if preflight {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(HEADERS));
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS));
        }
    }
    response
}

fn is_websocket(headers: &HeaderMap) -> bool {
    headers.get(header::UPGRADE).is_some_and(|upgrade| upgrade.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Whether the page came from this very host.
fn is_own(headers: &HeaderMap, origin: &HeaderValue) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let origin = origin.to_str().unwrap_or_default();
    let of = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    !host.is_empty() && of.is_some_and(|of| of.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        let origins = Origins::new(["https://app.example", "http://localhost:3000"]).unwrap();
        assert!(origins.allows("https://APP.example") && origins.allows("http://localhost:3000"));
        for other in ["https://app.example:8443", "http://app.example", "https://app.example.evil.example", "null", ""] {
            assert!(!origins.allows(other), "{other}");
        }
        for bad in ["*", "app.example", "https://", "https://a@b", "https://app.example/path"] {
            assert!(Origins::new([bad]).is_err(), "{bad}");
        }
    }
}
