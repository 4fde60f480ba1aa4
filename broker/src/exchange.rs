//! One HTTP request to a service, and what came of it.

use std::time::Duration;

use dormouse_lifecycle::segment::sha256_hex;
use dormouse_protocol::{ApiError, ErrorCode, broker::ToolCall};
use dormouse_service::wire::{Http, SendError};
use reqwest::{
    Client, Method, Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, LOCATION},
};
use serde_json::{Map, Value, json};

use crate::{
    Secrets,
    catalog::{Service, Tool},
    credential::{Credential, Striker},
    egress::{Reach, Resolver},
};

/// How much of a failed answer's body is read, in bytes.
const ERROR_BODY_READ_BYTES_MAX: usize = 64 << 10;
/// How much of a failed answer's body is passed on, in bytes.
const ERROR_BODY_BYTES_MAX: usize = 4 << 10;
/// Longest message of a schema's refusal, in bytes: it may quote the value.
const MESSAGE_BYTES_MAX: usize = 512;
/// How long a service may take to accept a connection, at most; a tool's own timeout may be shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Names a call to the service, so that it can make two of one name once. The value is a string of RFC 8941, as
/// draft-ietf-httpapi-idempotency-key-header has it.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Hex digits of its sha256 that go out.
const IDEMPOTENCY_KEY_DIGITS: usize = 32;

/// The client of all services: no redirects, no proxy, no cookies.
pub(crate) fn client() -> Result<Client, reqwest::Error> {
    let agent = concat!("dormouse-broker/", env!("CARGO_PKG_VERSION"));
    client_with(|builder| builder.user_agent(agent).dns_resolver(Resolver::new(Reach::Service)))
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

/// Calls the tool. The result and every failure are free of the service's credential.
pub(crate) async fn run(http: &Http, secrets: &Secrets, tool: &Tool, call: &ToolCall) -> Result<Value, ApiError> {
    let args = arguments(tool, &call.args)?;
    let request = Request::build(tool, args)?;
    let credential = tool.service.scheme.read(secrets).map_err(|error| {
        tracing::error!(service = tool.service.name, %error, "credential");
        ApiError::new(ErrorCode::ToolDenied, format!("the credential of the service cannot be read: {error}"))
    })?;
    let striker = credential.striker.clone();
    let attempt = async || {
        let response = request.send(http, tool, call, &credential).await.map_err(|error| match error {
            SendError::Unreachable(cause) => unreachable(cause, &striker),
            SendError::Lost(cause) => lost(tool, cause, &striker),
        })?;
        receive(response, tool, &striker).await
    };
    let exchange = async {
        match attempt().await {
            // The service makes two requests of one key once.
            Err(error) if error.code == ErrorCode::OutcomeUnknown && tool.service.honours_idempotency_key => attempt().await,
            outcome => outcome,
        }
    };
    let value = tokio::time::timeout(tool.timeout, exchange).await.map_err(|_| {
        let message = format!("the service did not answer within {} ms", tool.timeout.as_millis());
        ApiError::new(ErrorCode::TimeoutError, message)
    })??;
    if let Err(error) = tool.output.validate(&value) {
        let path = error.instance_path().to_string();
        let message = format!("the service's answer does not fit the tool's output schema at `{path}`: {error}");
        return Err(ApiError::new(ErrorCode::ToolResultInvalid, cut(&message, MESSAGE_BYTES_MAX)).with_details(json!({"path": path})));
    }
    Ok(value)
}

fn arguments(tool: &Tool, args: &Value) -> Result<Map<String, Value>, ApiError> {
    let args = if args.is_null() { json!({}) } else { args.clone() };
    if let Err(error) = tool.input.validate(&args) {
        let path = error.instance_path().to_string();
        let message = format!("the arguments do not fit the tool's input schema at `{path}`: {error}");
        return Err(invalid(&path, &cut(&message, MESSAGE_BYTES_MAX)));
    }
    match args {
        Value::Object(fields) => Ok(fields),
        _ => Err(invalid("", "a tool takes one object: callTool(name, {…})")),
    }
}

fn invalid(path: &str, message: &str) -> ApiError {
    ApiError::new(ErrorCode::ToolArgsInvalid, message).with_details(json!({"path": path}))
}

/// A request before it gets its credential.
struct Request {
    url: Url,
    body: Option<Vec<u8>>,
}

impl Request {
    fn build(tool: &Tool, mut args: Map<String, Value>) -> Result<Self, ApiError> {
        let argument = |name: &str| args.get(name).and_then(scalar);
        let path = tool.path.expand(argument).map_err(|(name, error)| invalid(&format!("/{name}"), &format!("`{name}`: {error}")))?;
        for name in tool.path.arguments() {
            args.remove(name);
        }
        if !tool.service.allows_path(&path) {
            return Err(ApiError::new(ErrorCode::ToolDenied, "the service's allowedPaths do not hold this path"));
        }
        let mut url = url(&tool.service.base_url, &path)?;
        let too_large = || {
            let message = format!("the request is larger than the service's requestBytesMax of {}", tool.service.request_bytes_max);
            invalid("", &message)
        };
        if matches!(tool.method, Method::GET | Method::HEAD | Method::DELETE) {
            query(&mut url, &args);
            let within = url.as_str().len() <= tool.service.request_bytes_max;
            return if within { Ok(Self { url, body: None }) } else { Err(too_large()) };
        }
        let body = serde_json::to_vec(&args).map_err(|error| invalid("", &error.to_string()))?;
        if body.len() > tool.service.request_bytes_max {
            return Err(too_large());
        }
        Ok(Self { url, body: Some(body) })
    }

    async fn send(&self, http: &Http, tool: &Tool, call: &ToolCall, credential: &Credential) -> Result<Response, SendError> {
        let key = idempotency_key(call);
        let mut request = http
            .client()
            .request(tool.method.clone(), self.url.clone())
            .header(ACCEPT, "application/json, */*;q=0.5")
            .header(IDEMPOTENCY_KEY, key);
        if let Some(body) = &self.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        if let Some((name, value)) = &credential.header {
            request = request.header(name, value);
        }
        http.send(request).await
    }
}

/// The same for every sending of a call, from whichever process, and another for every other call. It tells nothing about the session.
fn idempotency_key(call: &ToolCall) -> String {
    let mut key = sha256_hex(format!("{}/{}/{}", call.namespace, call.session_uid, call.call).as_bytes());
    key.truncate(IDEMPOTENCY_KEY_DIGITS);
    format!("\"{key}\"")
}

/// `base` and `path` as a URL. The parser must leave the path as it was checked: whatever it would tidy up is refused.
fn url(base: &str, path: &str) -> Result<Url, ApiError> {
    let denied = || ApiError::new(ErrorCode::ToolDenied, "the tool's path does not stay as it is in a URL");
    let base = Url::parse(base).map_err(|_| denied())?;
    let expected = format!("{}{path}", base.path().trim_end_matches('/'));
    let mut url = base;
    url.set_path(&expected);
    if url.path() == expected { Ok(url) } else { Err(denied()) }
}

fn query(url: &mut Url, args: &Map<String, Value>) {
    if args.is_empty() {
        return;
    }
    let mut pairs = url.query_pairs_mut();
    for (name, value) in args {
        match value {
            Value::Null => {}
            Value::Array(items) => {
                for item in items {
                    pairs.append_pair(name, &text(item));
                }
            }
            other => {
                pairs.append_pair(name, &text(other));
            }
        }
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

fn text(value: &Value) -> String {
    scalar(value).unwrap_or_else(|| value.to_string())
}

async fn receive(mut response: Response, tool: &Tool, striker: &Striker) -> Result<Value, ApiError> {
    let service: &Service = &tool.service;
    let status = response.status();
    if status.is_redirection() {
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let details = json!({"status": status.as_u16(), "location": cut(&striker.text(location), MESSAGE_BYTES_MAX)});
        let message = format!("the service answered {status}; redirects are not followed");
        return Err(ApiError::new(ErrorCode::ToolResultInvalid, message).with_details(details));
    }
    if !status.is_success() {
        return Err(refusal(response, status, striker).await);
    }
    let too_large = || {
        let message = format!("the service's answer is larger than its responseBytesMax of {}", service.response_bytes_max);
        ApiError::new(ErrorCode::ToolResultInvalid, message)
    };
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    if announced > service.response_bytes_max {
        return Err(too_large());
    }
    let (body, whole) = read(&mut response, service.response_bytes_max).await.map_err(|error| lost(tool, error.into(), striker))?;
    if !whole {
        return Err(too_large());
    }
    if body.is_empty() {
        return Ok(Value::Null);
    }
    let value = serde_json::from_slice(&body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
    Ok(striker.value(value))
}

/// The body up to `max` bytes, and whether that was all.
async fn read(response: &mut Response, max: usize) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = max - body.len();
        if let Some(fits) = chunk.get(..room).filter(|_| chunk.len() > room) {
            body.extend_from_slice(fits);
            return Ok((body, false));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((body, true))
}

async fn refusal(mut response: Response, status: StatusCode, striker: &Striker) -> ApiError {
    let (body, whole) = read(&mut response, ERROR_BODY_READ_BYTES_MAX).await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    // Struck before it is cut: half a credential would not be recognised.
    let body = if whole { striker.text(&body) } else { striker.cut_text(&body) };
    let denied = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let code = if denied { ErrorCode::ToolDenied } else { ErrorCode::ToolResultInvalid };
    let details = json!({"status": status.as_u16(), "body": cut(&body, ERROR_BODY_BYTES_MAX)});
    ApiError::new(code, format!("the service answered {status}")).with_details(details)
}

/// The service has not seen the request.
fn unreachable(error: Box<dyn std::error::Error + Send + Sync>, striker: &Striker) -> ApiError {
    transport(ErrorCode::ToolResultInvalid, "the service cannot be reached", error, striker)
}

/// The connection broke when the service may have seen the request: of one that changes something nobody knows whether it did.
fn lost(tool: &Tool, error: Box<dyn std::error::Error + Send + Sync>, striker: &Striker) -> ApiError {
    if tool.method.is_safe() {
        return transport(ErrorCode::ToolResultInvalid, "the service's answer was lost", error, striker);
    }
    let what = "the connection broke after the request was sent; it may or may not have had its effect, and is not sent again";
    transport(ErrorCode::OutcomeUnknown, what, error, striker)
}

fn transport(code: ErrorCode, what: &str, error: Box<dyn std::error::Error + Send + Sync>, striker: &Striker) -> ApiError {
    // The URL holds arguments, and what the error knows besides is in its sources.
    let error = match error.downcast::<reqwest::Error>() {
        Ok(error) => Box::new(error.without_url()),
        Err(other) => other,
    };
    let mut message = format!("{what}: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        message.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    ApiError::new(code, cut(&striker.text(&message), MESSAGE_BYTES_MAX))
}

fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}
