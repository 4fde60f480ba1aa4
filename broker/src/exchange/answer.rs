//! What comes of a request to a service: read, bounded, and free of the service's credential.

use std::time::Duration;

use dormouse_protocol::{ApiError, ErrorCode, reference};
use prometheus::IntCounter;
use reqwest::{
    Response, StatusCode,
    header::{CONTENT_TYPE, LOCATION, RETRY_AFTER},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Again, Answered, Exchange, Failure, Form, Request};
use crate::{
    net::{Reader, TOO_LARGE, read_up_to},
    redact::Redactor,
    room::{self, SMALL_BYTES_MAX},
    rpc,
};

/// How much of a failed answer's body is read, in bytes.
const ERROR_BODY_READ_BYTES_MAX: usize = 64 << 10;
/// How much of a failed answer's body is passed on, in bytes.
const ERROR_BODY_BYTES_MAX: usize = 4 << 10;
/// Longest message of a schema's refusal, in bytes: it may quote the value.
pub(crate) const MESSAGE_BYTES_MAX: usize = 512;

/// An answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// All of it.
    Value(Value),
    /// A large one, to be read as it comes, and what its service says that it is.
    Open(Box<Reader>, String),
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl Answer {
    /// The value, of an exchange that leaves nothing open.
    pub(crate) fn value(self) -> Value {
        match self {
            Self::Value(value) => value,
            Self::Open(..) => Value::Null,
        }
    }
}

/// From how many bytes on an answer is left open (with 0, before anything of it is read), and what counts those that are read.
#[derive(Debug, Clone)]
pub(crate) struct Above {
    pub(crate) bytes: usize,
    pub(crate) received: IntCounter,
}

/// Reads what came of a request.
pub(crate) async fn receive(
    mut response: Response,
    request: &Request,
    exchange: &Exchange<'_>,
    redactor: &Redactor,
) -> Result<Answer, Failure> {
    let Exchange { service, form, .. } = exchange;
    let status = response.status();
    if status.is_redirection() {
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let details = json!({"status": status.as_u16(), "location": cut(&redactor.text(location), MESSAGE_BYTES_MAX)});
        let message = format!("the service answered {status}; redirects are not followed");
        return Err(ApiError::new(ErrorCode::ToolResultInvalid, message).with_details(details).into());
    }
    // What a client of JSON-RPC did wrong is said in a message.
    let is_message =
        *form == Form::Rpc && matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
    if !status.is_success() && !is_message {
        let after = retry_after(&response);
        let again = match status {
            StatusCode::UNAUTHORIZED => Again::Authenticated,
            StatusCode::TOO_MANY_REQUESTS => Again::Unseen(after),
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => Again::Harmless(after),
            _ => Again::No,
        };
        return Err(Failure { error: refusal(response, status, redactor).await, again, broken: status.is_server_error() });
    }
    let too_large = || {
        let message = format!("the service's answer is larger than its responseBytesMax of {}", service.response_bytes_max);
        ApiError::new(ErrorCode::ToolResultInvalid, message)
    };
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    if announced > service.response_bytes_max {
        return Err(too_large().into());
    }
    let broken = |error: reqwest::Error| Failure::of(lost(request.safe, error.into(), redactor), Again::Harmless(None));
    if *form == Form::Rpc {
        let session = response.headers().get(rpc::SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = rpc::answer_in(&mut response, service.response_bytes_max).await.map_err(broken)?.ok_or_else(too_large)?;
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        return Ok(json!({ "status": status.as_u16(), "session": session, "message": redactor.value(message) }).into());
    }
    let mime_type = redactor.text(&type_of(&response));
    let openable = exchange.open.as_ref().filter(|_| matches!(request.answered, Answered::Json | Answered::Reference));
    let body = if let Some(Above { bytes, received }) = openable {
        let mut reader = Reader::new(response, received.clone()).within(service.response_bytes_max);
        if *bytes == 0 {
            reader.redact(redactor.clone());
            return Ok(Answer::Open(Box::new(reader), mime_type));
        }
        let until = Instant::now() + exchange.timeout;
        reader.fill(SMALL_BYTES_MAX, until).await;
        if reader.has_more_than(SMALL_BYTES_MAX - 1) {
            room::current().wait_for(*bytes).await;
        }
        reader.fill(bytes.saturating_add(1), until).await;
        if reader.has_more_than(*bytes) {
            reader.shrink();
            reader.redact(redactor.clone());
            return Ok(Answer::Open(Box::new(reader), mime_type));
        }
        let body = reader.take(usize::MAX);
        match reader.failure() {
            Some(failure) if failure.code == TOO_LARGE => return Err(too_large().into()),
            Some(failure) => {
                return Err(Failure::of(lost(request.safe, failure.message.into(), redactor), Again::Harmless(None)));
            }
            None => body,
        }
    } else {
        let (body, whole) = read_up_to(&mut response, service.response_bytes_max).await.map_err(broken)?;
        if !whole {
            return Err(too_large().into());
        }
        body
    };
    match request.answered {
        Answered::Bytes => return Ok(reference::of_bytes(&redactor.bytes(body), &mime_type).into()),
        // What is not text would come to harm as one.
        Answered::Reference if std::str::from_utf8(&body).is_err() => {
            return Ok(reference::of_bytes(&redactor.bytes(body), &mime_type).into());
        }
        Answered::Text => return Ok(Value::String(redactor.text(&String::from_utf8_lossy(&body))).into()),
        Answered::Json | Answered::Reference => {}
    }
    if body.is_empty() {
        return Ok(Value::Null.into());
    }
    let value = serde_json::from_slice(&body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
    Ok(redactor.value(value).into())
}

/// What the service says that its answer is.
fn type_of(response: &Response) -> String {
    let said = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    said.unwrap_or(reference::OCTETS).to_owned()
}

/// What the service says of when to come back, in seconds.
fn retry_after(response: &Response) -> Option<Duration> {
    response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

async fn refusal(mut response: Response, status: StatusCode, redactor: &Redactor) -> ApiError {
    let (body, whole) = read_up_to(&mut response, ERROR_BODY_READ_BYTES_MAX).await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    // Redacted before it is cut: half a credential would not be recognised.
    let body = if whole { redactor.text(&body) } else { redactor.cut_text(&body) };
    let denied = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let code = if denied { ErrorCode::ToolDenied } else { ErrorCode::ToolResultInvalid };
    let details = json!({"status": status.as_u16(), "body": cut(&body, ERROR_BODY_BYTES_MAX)});
    ApiError::new(code, format!("the service answered {status}")).with_details(details)
}

/// The service has not seen the request.
pub(crate) fn unreachable(error: Box<dyn std::error::Error + Send + Sync>, redactor: &Redactor) -> ApiError {
    transport(ErrorCode::ToolResultInvalid, "the service cannot be reached", error, redactor)
}

/// The connection broke when the service may have seen the request: of one that changes something nobody knows whether it did.
pub(crate) fn lost(safe: bool, error: Box<dyn std::error::Error + Send + Sync>, redactor: &Redactor) -> ApiError {
    if safe {
        return transport(ErrorCode::ToolResultInvalid, "the service's answer was lost", error, redactor);
    }
    let what = "the connection broke after the request was sent; it may or may not have had its effect, and is not sent again";
    transport(ErrorCode::OutcomeUnknown, what, error, redactor)
}

fn transport(code: ErrorCode, what: &str, error: Box<dyn std::error::Error + Send + Sync>, redactor: &Redactor) -> ApiError {
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
    ApiError::new(code, cut(&redactor.text(&message), MESSAGE_BYTES_MAX))
}

/// The beginning of a text.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("{}…", text.get(..text.floor_char_boundary(max)).unwrap_or_default())
}
