//! A request to a service, as a call's arguments make it, before it gets its credential.

use base64::Engine as _;
use bytes::Bytes;
use dormouse_lifecycle::segment::sha256_hex;
use dormouse_protocol::{ApiError, ErrorCode, broker::ToolCall, reference};
use dormouse_service::{
    origin,
    wire::{Http, SendError},
};
use jsonschema::Validator;
use reqwest::{
    Method, Url,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Again, Exchange, Failure, Outbound,
    answer::{Answer, MESSAGE_BYTES_MAX, cut, lost, receive, unreachable},
};
use crate::{
    credential::{Credential, Outgoing},
    rpc::Posted,
    service::Service,
    tool::{BODY, Shape, Tool},
};

/// Names a call to the service, so that it can make two of one name once. The value is a string of RFC 8941, as
/// draft-ietf-httpapi-idempotency-key-header has it.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Hex digits of its sha256 that go out.
const IDEMPOTENCY_KEY_DIGITS: usize = 32;

/// The arguments of a tool, checked.
///
/// # Errors
/// They do not fit its schema, or are no object.
pub(crate) fn arguments(input: &Validator, args: &Value) -> Result<Map<String, Value>, ApiError> {
    let args = if args.is_null() { json!({}) } else { args.clone() };
    if let Err(error) = input.validate(&args) {
        let path = error.instance_path().to_string();
        let message = format!("the arguments do not fit the tool's input schema at `{path}`: {error}");
        return Err(invalid(&path, &cut(&message, MESSAGE_BYTES_MAX)));
    }
    match args {
        Value::Object(fields) => Ok(fields),
        _ => Err(invalid("", "a tool takes one object: callTool(name, {…})")),
    }
}

fn too_large(service: &Service) -> ApiError {
    invalid("", &format!("the request is larger than the service's requestBytesMax of {}", service.request_bytes_max))
}

pub(crate) fn invalid(path: &str, message: &str) -> ApiError {
    ApiError::new(ErrorCode::ToolArgsInvalid, message).with_details(json!({"path": path}))
}

/// The arguments of `callService`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Direct {
    #[serde(rename = "service")]
    _service: String,
    #[serde(default = "get")]
    method: String,
    path: String,
    #[serde(default)]
    query: Map<String, Value>,
    #[serde(default)]
    body: Value,
    /// What is read of the answer; JSON, or else text, when absent.
    #[serde(default)]
    response: Answered,
}

/// What `callService` reads of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answered {
    /// JSON, or else text.
    #[default]
    Json,
    /// Text.
    Text,
    /// `{$bytes, type}`.
    Bytes,
    /// As JSON; it stays outside the heap, which is the session's matter.
    Reference,
}

/// Bytes that are sent by themselves.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    #[serde(rename = "$sent")]
    bytes: u64,
    #[serde(rename = "type")]
    type_: String,
}

/// Bytes among arguments and in answers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(rename = "$bytes")]
    bytes: String,
    #[serde(rename = "type", default = "octets")]
    type_: String,
}

fn octets() -> String {
    reference::OCTETS.to_owned()
}

fn get() -> String {
    Method::GET.to_string()
}

/// A request before it gets its credential.
pub(crate) struct Request {
    method: Method,
    /// Whether making it twice does no harm.
    pub(crate) safe: bool,
    url: Url,
    headers: HeaderMap,
    /// Sendings share it.
    body: Option<Bytes>,
    /// How many bytes the body has that comes by itself, in the place of `body`.
    sent: Option<u64>,
    /// What the body is.
    content_type: HeaderValue,
    pub(crate) answered: Answered,
}

impl Request {
    /// What a tool makes of its arguments.
    ///
    /// # Errors
    /// The arguments do not fit the tool, or make a request that its service does not allow.
    pub(crate) fn of_tool(tool: &Tool, args: &Value) -> Result<Self, ApiError> {
        let mut args = arguments(&tool.input, args)?;
        let argument = |name: &str| args.get(name).and_then(scalar);
        let path = tool.path.expand(argument).map_err(|(name, error)| invalid(&format!("/{name}"), &format!("`{name}`: {error}")))?;
        for name in tool.path.arguments() {
            args.remove(name);
        }
        if let Some(shape) = &tool.shape {
            return Self::of_operation(tool, shape, &path, args);
        }
        if matches!(tool.method, Method::GET | Method::HEAD | Method::DELETE) {
            return Self::new(&tool.service, tool.method.clone(), &path, &args, None);
        }
        Self::new(&tool.service, tool.method.clone(), &path, &Map::new(), Some(&Value::Object(args)))
    }

    /// An operation of OpenAPI says where each argument goes.
    fn of_operation(tool: &Tool, shape: &Shape, path: &str, mut args: Map<String, Value>) -> Result<Self, ApiError> {
        let body = args.remove(BODY).filter(|_| shape.body);
        let mut headers = HeaderMap::new();
        for (argument, name) in &shape.headers {
            let Some(value) = args.remove(argument).filter(|value| !value.is_null()) else { continue };
            let value = scalar(&value).and_then(|text| HeaderValue::from_str(&text).ok());
            let value = value.ok_or_else(|| invalid(&format!("/{argument}"), "a header is one line of text"))?;
            headers.insert(name, value);
        }
        args.retain(|name, _| shape.query.contains(name));
        let request = Self::new(&tool.service, tool.method.clone(), path, &args, body.as_ref())?;
        Ok(Self { headers, ..request })
    }

    /// What `callService` says.
    ///
    /// # Errors
    /// The arguments are something else, or a request that the service does not allow.
    pub(crate) fn of_service(service: &Service, args: &Value) -> Result<Self, ApiError> {
        let Direct { method, path, query, body, response, .. } = Direct::deserialize(args)
            .map_err(|error| invalid("", &format!("callService(service, {{method, path, query, body, response}}): {error}")))?;
        let Some(method) = service.allowed_method(&method) else {
            let message = "the service's allowedMethods do not hold this method";
            return Err(ApiError::new(ErrorCode::ToolDenied, message));
        };
        if !path.starts_with('/') || path.contains(['?', '#']) {
            return Err(invalid("/path", "write a path that begins with '/', without query and fragment"));
        }
        let takes_none = matches!(method, Method::GET | Method::HEAD);
        if takes_none && !body.is_null() {
            return Err(invalid("/body", &format!("a request of {method} has no body")));
        }
        if body.get("$bytes").is_some() {
            let raw = Raw::deserialize(&body).map_err(|error| invalid("/body", &format!("bytes are {{$bytes, type}}: {error}")))?;
            let bytes = base64::engine::general_purpose::STANDARD.decode(raw.bytes);
            let bytes = bytes.map_err(|_| invalid("/body", "$bytes is not base64"))?;
            let content_type = HeaderValue::from_str(&raw.type_).map_err(|_| invalid("/body", "type is not a media type"))?;
            let request = Self::with_bytes(service, method, &path, &query, Some(bytes))?;
            return Ok(Self { content_type, answered: response, ..request });
        }
        if body.get(reference::SENT).is_some() {
            let sent = Sent::deserialize(&body).map_err(|error| invalid("/body", &format!("`$sent` is the broker's own word: {error}")))?;
            if sent.bytes > service.request_bytes_max as u64 {
                return Err(too_large(service));
            }
            let content_type = HeaderValue::from_str(&sent.type_).map_err(|_| invalid("/body", "type is not a media type"))?;
            let request = Self::with_bytes(service, method, &path, &query, None)?;
            return Ok(Self { content_type, sent: Some(sent.bytes), answered: response, ..request });
        }
        let body = (!body.is_null()).then_some(&body);
        Ok(Self { answered: response, ..Self::new(service, method, &path, &query, body)? })
    }

    fn new(service: &Service, method: Method, path: &str, query: &Map<String, Value>, body: Option<&Value>) -> Result<Self, ApiError> {
        let body = body.map(serde_json::to_vec).transpose().map_err(|error| invalid("", &error.to_string()))?;
        Self::with_bytes(service, method, path, query, body)
    }

    fn with_bytes(
        service: &Service,
        method: Method,
        path: &str,
        query: &Map<String, Value>,
        body: Option<Vec<u8>>,
    ) -> Result<Self, ApiError> {
        if !path.is_empty() && !service.allows_path(path) {
            return Err(ApiError::new(ErrorCode::ToolDenied, "the service's allowedPaths do not hold this path"));
        }
        let mut url = url(&service.base_url, path)?;
        append(&mut url, query);
        if body.as_ref().map_or(url.as_str().len(), Vec::len) > service.request_bytes_max {
            return Err(too_large(service));
        }
        let content_type = HeaderValue::from_static("application/json");
        let body = body.map(Bytes::from);
        Ok(Self {
            safe: method.is_safe(),
            method,
            url,
            headers: HeaderMap::new(),
            body,
            sent: None,
            content_type,
            answered: Answered::Json,
        })
    }

    /// A message to the service itself.
    ///
    /// # Errors
    /// It is too large.
    pub(crate) fn of_message(service: &Service, message: Posted, safe: bool) -> Result<Self, ApiError> {
        let request = Self::new(service, Method::POST, "", &Map::new(), Some(&message.body))?;
        Ok(Self { safe, headers: message.headers, ..request })
    }

    /// A question to a model. To ask twice does no harm but for what it costs.
    ///
    /// # Errors
    /// It is too large, or the service does not allow the path.
    pub(crate) fn of_question(service: &Service, path: &str, headers: HeaderMap, body: &Value) -> Result<Self, ApiError> {
        let request = Self::new(service, Method::POST, path, &Map::new(), Some(body))?;
        Ok(Self { safe: true, headers, ..request })
    }

    /// How many bytes its body has, if that comes by itself.
    pub(crate) fn comes_alone(&self) -> Option<u64> {
        self.sent
    }

    /// Its body, if that does not.
    pub(crate) fn whole_body(&self) -> Option<Bytes> {
        self.body.clone()
    }

    /// Its path, with the query.
    pub(crate) fn path(&self) -> String {
        self.url.query().map_or_else(|| self.url.path().to_owned(), |query| format!("{}?{query}", self.url.path()))
    }

    pub(crate) fn outgoing<'a>(&'a self, path: &'a str, body: &'a [u8]) -> Outgoing<'a> {
        Outgoing { method: self.method.as_str(), path, body }
    }

    /// Sends it once.
    ///
    /// # Errors
    /// What came of it, and whether it may be sent again.
    pub(crate) async fn attempt(
        &self,
        http: &Http,
        exchange: &Exchange<'_>,
        credential: &Credential,
        body: &Outbound,
    ) -> Result<Answer, Failure> {
        let mut request = http
            .client()
            .request(self.method.clone(), self.url.clone())
            .header(ACCEPT, "application/json, */*;q=0.5")
            .header(IDEMPOTENCY_KEY, &exchange.key);
        request = match body {
            Outbound::Whole(None) => request,
            Outbound::Whole(Some(body)) => request.header(CONTENT_TYPE, self.content_type.clone()).body(body.clone()),
            Outbound::Coming(upload, bytes) => {
                request.header(CONTENT_TYPE, self.content_type.clone()).header(CONTENT_LENGTH, *bytes).body(upload.body())
            }
        };
        let request = origin::carry(request).headers(self.headers.clone());
        let redactor = &credential.redactor;
        let signed = credential.sign(request, &format!("msg_{}", exchange.key.trim_matches('"')), body.bytes())?;
        let response = http.send(signed).await.map_err(|error| match error {
            SendError::Unreachable(cause) => Failure::of(unreachable(cause, redactor), Again::Unseen(None)),
            SendError::Lost(cause) => Failure::of(lost(self.safe, cause, redactor), Again::Harmless(None)),
        })?;
        receive(response, self, exchange, redactor).await
    }
}

/// The same for every sending of a call, from whichever process, and another for every other call. It tells nothing about the session.
pub(crate) fn idempotency_key(call: &ToolCall) -> String {
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

fn append(url: &mut Url, args: &Map<String, Value>) {
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
