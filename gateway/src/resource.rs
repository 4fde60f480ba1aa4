//! What a client without a good token is told of where to get one: OAuth's protected-resource metadata (RFC 9728), by which clients of MCP sign in
//! without having been configured. There is such metadata where the gateway takes tokens of an OpenID Connect issuer.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use dormouse_protocol::{ApiError, ErrorCode};
use serde_json::{Value, json};

use crate::problem::Problem;

/// Where the metadata of the whole gateway is; that of a path has the path behind it.
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// The one path that is a resource of its own.
pub(crate) const MCP: &str = "/mcp";

/// The gateway as its clients' issuer knows it. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resource {
    /// Whose tokens are taken, if anybody's.
    pub(crate) issuer: Option<Arc<str>>,
    /// The gateway's URL, where its administrator says it.
    pub(crate) url: Option<Arc<str>>,
    /// Whether the gateway itself speaks TLS.
    pub(crate) is_tls: bool,
}

impl Resource {
    /// The gateway's URL without a slash at its end: what its administrator says, else what the client calls it.
    fn base(&self, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        if let Some(url) = &self.url {
            return Some(url.trim_end_matches('/').to_owned());
        }
        let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = named.or_else(|| uri.authority().map(Authority::as_str))?;
        let host = host.parse::<Authority>().ok().filter(|host| !host.as_str().contains('@'))?;
        Some(format!("{}://{host}", if self.is_tls { "https" } else { "http" }))
    }

    fn metadata(&self, base: &str, path: &str) -> Option<Value> {
        let issuer = self.issuer.as_deref()?;
        Some(json!({
            "resource": format!("{base}{path}"), "resource_name": "Dormouse", "authorization_servers": [issuer],
            "bearer_methods_supported": ["header"],
        }))
    }
}

/// `GET /.well-known/oauth-protected-resource`, and the same of [`MCP`]. Without credentials: a client reads it to get some.
pub(crate) async fn metadata(State(resource): State<Resource>, request: Request) -> Response {
    let path = if request.uri().path() == WELL_KNOWN { "" } else { MCP };
    let Some(base) = resource.base(request.uri(), request.headers()) else {
        return Problem(ApiError::new(ErrorCode::InvalidRequest, "send the gateway's name as Host")).into_response();
    };
    match resource.metadata(&base, path) {
        Some(metadata) => Json(metadata).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Middleware: whoever is refused for want of a good token is told where the metadata is.
pub(crate) async fn challenged(State(resource): State<Resource>, request: Request, next: Next) -> Response {
    if resource.issuer.is_none() {
        return next.run(request).await;
    }
    let path = if request.uri().path() == MCP { MCP } else { "" };
    let base = resource.base(request.uri(), request.headers());
    let brought = request.headers().contains_key(header::AUTHORIZATION);
    let mut response = next.run(request).await;
    if response.status() == StatusCode::UNAUTHORIZED
        && let Some(base) = base
    {
        let error = if brought { "error=\"invalid_token\", " } else { "" };
        if let Ok(challenge) = HeaderValue::from_str(&format!("Bearer {error}resource_metadata=\"{base}{WELL_KNOWN}{path}\"")) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_is_called_what_its_administrator_or_its_client_calls_it() {
        let base = |resource: &Resource, host: &str| {
            let headers = [(header::HOST, HeaderValue::from_str(host).unwrap())].into_iter().collect();
            resource.base(&Uri::from_static("/mcp"), &headers)
        };
        let unnamed = Resource { issuer: None, url: None, is_tls: true };
        assert_eq!(base(&unnamed, "dormouse.example:8443").unwrap(), "https://dormouse.example:8443");
        for bad in ["a\"b", "user@host", "", "a b", "a/b"] {
            assert_eq!(base(&unnamed, bad), None, "{bad}");
        }
        let named = Resource { url: Some("https://dormouse.example/".into()), ..unnamed };
        assert_eq!(base(&named, "evil.example").unwrap(), "https://dormouse.example");
    }
}
