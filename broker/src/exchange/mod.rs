//! One HTTP request to a service, and what came of it.

mod answer;
mod request;

use std::time::Duration;

use bytes::Bytes;
use dormouse_protocol::{ApiError, ErrorCode, broker::ToolCall};
use dormouse_service::wire::Http;
use jsonschema::Validator;
use serde_json::json;
use tokio::time::Instant;

pub(crate) use self::{
    answer::{Above, Answer},
    request::{Answered, Request, arguments, idempotency_key},
};
use self::{
    answer::{MESSAGE_BYTES_MAX, cut},
    request::invalid,
};
use crate::{
    Secrets,
    credential::{Caller, CredentialError},
    service::Service,
    uploads::{COVERED_BYTES_MAX, Upload, Uploads},
};

/// One call as a request to a service: all but the credential.
pub(crate) struct Exchange<'a> {
    pub(crate) service: &'a Service,
    pub(crate) request: Request,
    pub(crate) timeout: Duration,
    /// What the answer must fit.
    pub(crate) output: Option<&'a Validator>,
    /// Whose call it is.
    pub(crate) caller: Caller<'a>,
    /// What names the call to the service.
    pub(crate) key: String,
    /// What is read of the answer.
    pub(crate) form: Form,
    /// Which answers are left open.
    pub(crate) open: Option<Above>,
    /// Where a body comes from that is sent by itself.
    pub(crate) sent: Option<(&'a Uploads, &'a ToolCall)>,
}

/// What is read of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The body of a good one.
    Body,
    /// A JSON-RPC message of any, as `{status, session, message}`.
    Rpc,
}

/// How a failed attempt may be followed by another.
pub(crate) enum Again {
    /// Not at all.
    No,
    /// With another credential.
    Authenticated,
    /// Nobody has done anything: it was not seen, or refused for now. After that time, if the service said one.
    Unseen(Option<Duration>),
    /// It may have been done: only where that does no harm.
    Harmless(Option<Duration>),
}

/// A failed attempt.
pub(crate) struct Failure {
    pub(crate) error: ApiError,
    pub(crate) again: Again,
    /// Whether it says that the service is not well.
    pub(crate) broken: bool,
}

impl Failure {
    pub(crate) fn of(error: ApiError, again: Again) -> Self {
        Self { error, again, broken: true }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self { error, again: Again::No, broken: false }
    }
}

impl Exchange<'_> {
    /// Makes the call. The result and every failure are free of the service's credential.
    ///
    /// # Errors
    /// Whatever the service makes of it, and that it is left in peace.
    pub(crate) async fn run(&self, http: &Http, secrets: &Secrets) -> Result<Answer, ApiError> {
        let deadline = Instant::now() + self.timeout;
        let answer = tokio::time::timeout_at(deadline, self.attempts(http, secrets, deadline)).await.unwrap_or_else(|_| {
            self.service.breaker.failed();
            let message = format!("the service did not answer within {} ms", self.timeout.as_millis());
            Err(ApiError::new(ErrorCode::TimeoutError, message))
        })?;
        if let (Some(output), Answer::Value(value)) = (self.output, &answer)
            && let Err(error) = output.validate(value)
        {
            let path = error.instance_path().to_string();
            let message = format!("the service's answer does not fit the tool's output schema at `{path}`: {error}");
            return Err(ApiError::new(ErrorCode::ToolResultInvalid, cut(&message, MESSAGE_BYTES_MAX)).with_details(json!({"path": path})));
        }
        Ok(answer)
    }

    async fn attempts(&self, http: &Http, secrets: &Secrets, deadline: Instant) -> Result<Answer, ApiError> {
        let Self { service, request, .. } = self;
        let path = request.path();
        let body = self.body().await?;
        let caller = &Caller { request: Some(request.outgoing(&path, body.bytes())), ..self.caller };
        let unusable = |error: CredentialError| {
            tracing::error!(service = service.name, %error, "credential");
            ApiError::new(ErrorCode::ToolDenied, format!("the credential of the service cannot be had: {error}"))
        };
        let own = service.http(http, secrets).map_err(|error| unusable(error.into()))?;
        let mut credential = service.authentication.credential(http, secrets, *caller).await.map_err(unusable)?;
        let (mut renewed, mut waits) = (false, service.waits());
        let harmless = request.safe || service.honours_idempotency_key;
        loop {
            service.breaker.admit()?;
            let attempt = request.attempt(&own, self, &credential, &body).await;
            match &attempt {
                Err(failure) if failure.broken => service.breaker.failed(),
                _ => service.breaker.answered(),
            }
            let Err(Failure { error, again, .. }) = attempt else { return attempt.map_err(|failure| failure.error) };
            // What has begun to leave cannot be sent again.
            if let Outbound::Coming(upload, _) = &body
                && upload.has_begun()
            {
                return Err(error);
            }
            let after = match again {
                Again::Authenticated if !renewed => {
                    renewed = true;
                    match service.authentication.renewed(http, secrets, *caller, &credential).await.map_err(unusable)? {
                        Some(other) => credential = other,
                        None => return Err(error),
                    }
                    continue;
                }
                Again::Unseen(after) => after,
                Again::Harmless(after) if harmless => after,
                Again::No | Again::Authenticated | Again::Harmless(_) => return Err(error),
            };
            let Some(wait) = waits.next().map(|wait| wait.max(after.unwrap_or_default())) else { return Err(error) };
            // What cannot be waited for is told now.
            if Instant::now() + wait >= deadline {
                return Err(error);
            }
            tokio::time::sleep(wait).await;
        }
    }
}

impl Exchange<'_> {
    /// The body that goes out. One that comes by itself is asked for now; what a credential covers is held whole.
    async fn body(&self) -> Result<Outbound, ApiError> {
        let Some(bytes) = self.request.comes_alone() else { return Ok(Outbound::Whole(self.request.whole_body())) };
        let covered = self.service.authentication.covers_bodies();
        if covered && bytes > COVERED_BYTES_MAX {
            let message =
                format!("the service's credential covers the body, which may have {COVERED_BYTES_MAX} bytes then: send it in parts");
            return Err(invalid("/body", &message));
        }
        let (uploads, call) = self.sent.ok_or_else(|| invalid("/body", "a body that is sent by itself is a file's"))?;
        if call.body.is_none() {
            return Err(invalid("/body", "`$sent` stands for nothing that was sent"));
        }
        let upload = uploads.take(call).await?;
        if covered { Ok(Outbound::Whole(Some(upload.whole().await?))) } else { Ok(Outbound::Coming(upload, bytes)) }
    }
}

/// A body on its way out.
pub(crate) enum Outbound {
    Whole(Option<Bytes>),
    /// So many bytes, as they come.
    Coming(Upload, u64),
}

impl Outbound {
    /// Those that a credential may cover.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(body) => body.as_deref().unwrap_or_default(),
            Self::Coming(..) => &[],
        }
    }
}
