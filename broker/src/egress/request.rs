//! One request and its redirects, each judged.

use base64::Engine as _;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{FETCH_BODY_BYTES_MAX, FetchRequest, RedirectMode},
};
use reqwest::{
    Method, Response, StatusCode, Url,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};

use serde_json::{Map, Value, json};

use super::rules::Judge;
use crate::net::{self, Fault, FetchClients, denied, network};

/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 16 << 10;
/// Names and values of all headers of a request, in bytes.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// Redirects that are followed: the Fetch standard's number.
const REDIRECTS_MAX: usize = 20;
/// What decodes here.
const ACCEPTED_ENCODINGS: &str = "gzip, deflate";
/// What a request says of its maker, unless it says something else.
const USER_AGENT: &str = "dormouse";

/// Headers that are the connection's and not the cell's.
const DROPPED: [&str; 11] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Headers whose kinds are the connection's, by how they begin.
const DROPPED_PREFIXES: [&str; 2] = ["proxy-", "sec-"];
/// Headers that tell about a body, dropped with it.
const OF_BODY: [HeaderName; 4] = [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE, header::CONTENT_LOCATION];
/// Headers that another origin must not see.
const OF_ORIGIN: [HeaderName; 2] = [header::AUTHORIZATION, header::COOKIE];

/// A request that can be sent.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
    redirect: RedirectMode,
}

/// An answer, and where it came from.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) response: Response,
    pub(crate) url: Url,
    pub(crate) redirected: bool,
}

/// Checks a request.
pub(crate) fn parse(request: FetchRequest) -> Result<Parsed, Fault> {
    let invalid = |message: &str| Fault::Refused(ApiError::new(ErrorCode::InvalidRequest, message));
    let too_large = |message: String| Fault::Refused(ApiError::new(ErrorCode::SizeAdmissionError, message));
    if request.url.len() > URL_BYTES_MAX {
        return Err(too_large(format!("a URL must not be longer than {URL_BYTES_MAX} bytes")));
    }
    let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| invalid("the method is none"))?;
    let mut url = Url::parse(&request.url).map_err(|_| invalid("the URL is none"))?;
    url.set_fragment(None);
    let mut headers = HeaderMap::new();
    let mut header_bytes = 0;
    for (name, value) in &request.headers {
        header_bytes += name.len() + value.len();
        if header_bytes > HEADER_BYTES_MAX || headers.len() >= MAP_ENTRIES_MAX {
            return Err(too_large(format!("the headers of a request must not be larger than {HEADER_BYTES_MAX} bytes")));
        }
        let name: HeaderName = name.parse().map_err(|_| invalid("a header's name is none"))?;
        if DROPPED.contains(&name.as_str()) || DROPPED_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix)) {
            continue;
        }
        let bytes: Option<Vec<u8>> = value.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        let value = bytes.and_then(|bytes| HeaderValue::from_bytes(&bytes).ok()).ok_or_else(|| invalid("a header's value is none"))?;
        headers.append(name, value);
    }
    for (name, otherwise) in [(header::ACCEPT, "*/*"), (header::USER_AGENT, USER_AGENT)] {
        headers.entry(name).or_insert(HeaderValue::from_static(otherwise));
    }
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED_ENCODINGS));
    let body = request.body.map(|body| base64::engine::general_purpose::STANDARD.decode(body)).transpose();
    let body = body.map_err(|_| invalid("the body is not base64"))?;
    if body.as_ref().is_some_and(|body| body.len() > FETCH_BODY_BYTES_MAX) {
        return Err(too_large(format!("the body of a request must not be larger than {FETCH_BODY_BYTES_MAX} bytes")));
    }
    Ok(Parsed { method, url, headers, body, redirect: request.redirect })
}

/// Header names of a request; far below what a header map can hold.
const MAP_ENTRIES_MAX: usize = 1_024;

impl Parsed {
    /// As rules of approvals see it: `{method, url, host, path, headers: {name: value}, body}`, with text whose bytes are characters in the headers.
    pub(crate) fn described(&self) -> Value {
        let headers: Map<String, Value> =
            self.headers.iter().map(|(name, value)| (name.as_str().to_owned(), Value::from(text(value.as_bytes())))).collect();
        let body = self.body.as_ref().map(|body| String::from_utf8_lossy(body).into_owned());
        json!({
            "method": self.method.as_str(), "url": self.url.as_str(), "host": self.url.host_str(), "path": self.url.path(), "headers": headers, "body": body,
        })
    }

    /// Where it goes.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// About what goes out.
    pub(crate) fn bytes(&self) -> u64 {
        let headers: usize = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        (self.url.as_str().len() + headers + self.body.as_ref().map_or(0, Vec::len)) as u64
    }

    /// Sends it, and what its redirects ask for, until something else is answered.
    pub(crate) async fn send(mut self, clients: &FetchClients, judge: &Judge) -> Result<Sent, Fault> {
        for redirects in 0..=REDIRECTS_MAX {
            let reach = judge.judge(&self.url, &self.method).map_err(Fault::Refused)?;
            if redirects > 0 && judge.wants_somebody(&self.url, &self.method, &self.described()) {
                let message =
                    "a redirect leads where somebody has to agree first: fetch that address itself (`redirect: \"manual\"` tells it)";
                return Err(Fault::Refused(denied(message)));
            }
            let request = clients.of(reach).request(self.method.clone(), self.url.clone()).headers(self.headers.clone());
            let request = match &self.body {
                Some(body) => request.body(body.clone()),
                // The client says nothing of a body that is not there; the standard has these two say it.
                None if matches!(self.method, Method::POST | Method::PUT) => request.header(header::CONTENT_LENGTH, 0),
                None => request,
            };
            let response = request.send().await.map_err(|error| net::of_request(&error, &self.url))?;
            let location = is_redirect(response.status()).then(|| response.headers().get(header::LOCATION)).flatten();
            let Some(location) = location.filter(|_| self.redirect != RedirectMode::Manual) else {
                return Ok(Sent { response, url: self.url, redirected: redirects > 0 });
            };
            if self.redirect == RedirectMode::Error {
                return Err(Fault::Network(network("ERR_REDIRECT", "unexpected redirect")));
            }
            let next = location.to_str().ok().and_then(|location| self.url.join(location).ok());
            let Some(next) = next.filter(|next| matches!(next.scheme(), "http" | "https")) else {
                return Err(Fault::Network(network("ERR_REDIRECT", "the redirect leads to no http or https URL")));
            };
            self.follow(next, response.status());
        }
        Err(Fault::Network(network("ERR_REDIRECT", "redirect count exceeded")))
    }

    /// HTTP-redirect fetch of the Fetch standard, from its twelfth step on.
    fn follow(&mut self, mut next: Url, status: StatusCode) {
        next.set_fragment(None);
        let to_get = match status {
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            StatusCode::SEE_OTHER => self.method != Method::GET && self.method != Method::HEAD,
            _ => false,
        };
        if to_get {
            self.method = Method::GET;
            self.body = None;
            OF_BODY.iter().for_each(|name| drop(self.headers.remove(name)));
        }
        if next.origin() != self.url.origin() {
            OF_ORIGIN.iter().for_each(|name| drop(self.headers.remove(name)));
        }
        self.url = next;
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Every character is one byte.
fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

pub(crate) fn headers_of(response: &Response) -> Vec<(String, String)> {
    response.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes()))).collect()
}

pub(crate) fn status_text(response: &Response) -> String {
    response.status().canonical_reason().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(url: &str) -> FetchRequest {
        FetchRequest { method: "POST".into(), url: url.into(), headers: Vec::new(), body: None, redirect: RedirectMode::Follow }
    }

    fn refused(request: FetchRequest) -> ErrorCode {
        match parse(request) {
            Err(Fault::Refused(error)) => error.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn limits_hold_at_their_edges() {
        let base = "http://a.example/";
        let url = |bytes: usize| request(&format!("{base}{}", "x".repeat(bytes - base.len())));
        assert!(parse(url(URL_BYTES_MAX)).is_ok());
        assert_eq!(refused(url(URL_BYTES_MAX + 1)), ErrorCode::SizeAdmissionError);
        let body = |bytes: usize| {
            let body = base64::engine::general_purpose::STANDARD.encode(vec![b'x'; bytes]);
            FetchRequest { body: Some(body), ..request(base) }
        };
        assert!(parse(body(FETCH_BODY_BYTES_MAX)).is_ok());
        assert_eq!(refused(body(FETCH_BODY_BYTES_MAX + 1)), ErrorCode::SizeAdmissionError);
        let headers = |bytes: usize| FetchRequest { headers: vec![("x".into(), "y".repeat(bytes - 1))], ..request(base) };
        assert!(parse(headers(HEADER_BYTES_MAX)).is_ok());
        assert_eq!(refused(headers(HEADER_BYTES_MAX + 1)), ErrorCode::SizeAdmissionError);
        let many = |count: usize| FetchRequest { headers: (0..count).map(|at| (format!("x{at}"), "y".into())).collect(), ..request(base) };
        assert!(parse(many(MAP_ENTRIES_MAX)).is_ok());
        assert_eq!(refused(many(MAP_ENTRIES_MAX + 1)), ErrorCode::SizeAdmissionError);
    }

    #[test]
    fn headers_of_the_connection_are_dropped_and_defaults_filled_in() {
        let mut sent: Vec<(String, String)> = DROPPED.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect();
        for name in ["Host", "Proxy-Authorization", "Sec-Fetch-Mode", "X-Own", "Accept"] {
            sent.push((name.to_owned(), "é".to_owned()));
        }
        let parsed = parse(FetchRequest { headers: sent, ..request("http://a.example/#part") }).unwrap();
        let names: Vec<&str> = parsed.headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-own", "accept", "user-agent", "accept-encoding"]);
        assert_eq!(parsed.headers["x-own"].as_bytes(), [0xe9], "a character is a byte");
        assert_eq!(parsed.headers["accept-encoding"], ACCEPTED_ENCODINGS);
        assert_eq!(parsed.url.as_str(), "http://a.example/");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let with = |name: &str, value: &str| FetchRequest { headers: vec![(name.into(), value.into())], ..request("http://a.example/") };
        for bad in [
            request("not a url"),
            FetchRequest { method: "GE T".into(), ..request("http://a.example/") },
            FetchRequest { body: Some("*".into()), ..request("http://a.example/") },
            with("x y", "z"),
            with("x", "a\r\nb: c"),
            with("x", "€"),
        ] {
            assert_eq!(refused(bad), ErrorCode::InvalidRequest);
        }
    }

    #[test]
    fn a_redirect_changes_the_method_as_the_standard_says() {
        for (status, method, expected) in [
            (301, "POST", "GET"),
            (302, "POST", "GET"),
            (301, "PUT", "PUT"),
            (303, "PUT", "GET"),
            (303, "HEAD", "HEAD"),
            (307, "POST", "POST"),
            (308, "DELETE", "DELETE"),
        ] {
            let sent = FetchRequest {
                method: method.into(),
                headers: vec![("content-type".into(), "text/plain".into()), ("authorization".into(), "x".into())],
                body: Some("eA==".into()),
                ..request("http://a.example/x")
            };
            let mut parsed = parse(sent).unwrap();
            parsed.follow(Url::parse("http://a.example/y").unwrap(), StatusCode::from_u16(status).unwrap());
            assert_eq!(parsed.method.as_str(), expected, "{status} {method}");
            assert_eq!(parsed.body.is_some(), method == expected, "{status} {method}");
            assert_eq!(parsed.headers.contains_key("content-type"), method == expected);
            assert!(parsed.headers.contains_key("authorization"), "the origin is the same");
            parsed.follow(Url::parse("http://a.example:8080/y").unwrap(), StatusCode::FOUND);
            assert!(!parsed.headers.contains_key("authorization"), "another port is another origin");
        }
    }
}
