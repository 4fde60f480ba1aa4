//! What keeps web pages out of a gateway on loopback: any page that a browser shows may send requests there, and a name that its owner points at
//! 127.0.0.1 makes them look as if they came from the same site.

use axum::{
    extract::Request,
    http::{HeaderMap, Uri, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_service::url::is_loopback_host;

use crate::problem::Problem;

/// Middleware: only requests that name a loopback host, and that no page of another origin sent.
pub(crate) async fn only(request: Request, next: Next) -> Response {
    match check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(message) => Problem(ApiError::new(ErrorCode::Forbidden, message)).into_response(),
    }
}

fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
    const HOST: &str = "this gateway answers on loopback only: send the request to http://127.0.0.1 or http://localhost, with that Host";
    const ORIGIN: &str = "a web page of another origin may not use this gateway: call it from a server or a command line";
    let text = |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or_default());
    let host = text(header::HOST).or_else(|| uri.authority().map(|authority| authority.as_str())).ok_or(HOST)?;
    if headers.get_all(header::HOST).iter().count() > 1 || !is_loopback(host) {
        return Err(HOST);
    }
    if text(header::ORIGIN).is_some_and(|origin| origin.strip_prefix("http://").is_none_or(|of| !of.eq_ignore_ascii_case(host))) {
        return Err(ORIGIN);
    }
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    if site.is_some_and(|site| !matches!(site, b"same-origin" | b"none")) {
        return Err(ORIGIN);
    }
    Ok(())
}

/// Whether a host, with or without its port, is a loopback address or `localhost`.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<axum::http::uri::Authority>() else { return false };
    !authority.as_str().contains('@') && is_loopback_host(authority.host())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(headers: &[(&'static str, &'static str)]) -> bool {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        check(&Uri::from_static("/v1"), &headers).is_ok()
    }

    #[test]
    fn only_loopback_hosts_are_answered() {
        for host in ["127.0.0.1:7777", "127.0.0.1", "localhost:7777", "LOCALHOST", "[::1]:7777", "127.1.2.3"] {
            assert!(passes(&[("host", host)]), "{host}");
        }
        for host in
            ["evil.example:7777", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.0.1", "0.0.0.0:7777", "a@localhost", ""]
        {
            assert!(!passes(&[("host", host)]), "{host}");
        }
        assert!(!passes(&[]));
        assert!(!passes(&[("host", "localhost"), ("host", "evil.example")]));
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let from = |origin| passes(&[("host", "127.0.0.1:7777"), ("origin", origin)]);
        assert!(from("http://127.0.0.1:7777"));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:3000", "https://127.0.0.1:7777", "http://localhost:7777"] {
            assert!(!from(origin), "{origin}");
        }
        assert!(passes(&[("host", "localhost"), ("sec-fetch-site", "same-origin")]));
        assert!(passes(&[("host", "localhost"), ("sec-fetch-site", "none")]));
        for site in ["cross-site", "same-site"] {
            assert!(!passes(&[("host", "localhost"), ("sec-fetch-site", site)]), "{site}");
        }
    }
}
