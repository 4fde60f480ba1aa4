//! Answers of models that are read as they come.
//!
//! To a session such a question is a fetch of `model:NAME`, whose body is the question and whose answer is lines of JSON, the same for every API: `{"text"}`
//! with more of the text, and in the end `{"usage"}` or `{"error"}`. So it is read, cancelled and lost as the body of any other fetch.

use std::{io, sync::Arc, time::Duration};

use base64::Engine as _;
use bytes::Bytes;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{FETCH_BODY_BYTES_MAX, FetchOutcome, FetchRequest, FetchResponse, MODEL_SCHEME, ToolAnswer, ToolCall},
};
use prometheus::IntCounter;
use reqwest::Response;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Broker;
use crate::{
    callee::Callee,
    exchange::{self, Above, Answer, Exchange, Form},
    limits::Permit,
    models::{Model, Reserved, SUB_LM, spoken, used_by},
    net::Reader,
    sse::Events,
};

/// How long a model may say nothing within an answer.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Whether a fetch asks a model.
pub(super) fn is_question(request: &FetchRequest) -> bool {
    request.url.starts_with(MODEL_SCHEME)
}

/// An answer that is under way.
struct Speaking {
    broker: Broker,
    model: Arc<Model>,
    reader: Box<Reader>,
    events: Events,
    /// Tokens of the question and of the answer, as far as it told.
    used: (Option<u64>, Option<u64>),
    /// Taken when it is over. Of an answer that nobody reads to its end nobody knows what it used, so all of it stays counted.
    reserved: Option<Reserved>,
    _place: Permit,
}

impl Broker {
    /// Asks a model and keeps its answer open.
    pub(crate) async fn stream_model(&self, call: &ToolCall, request: &FetchRequest) -> ToolAnswer {
        let began = Instant::now();
        let question = question_in(request);
        let model = question.as_ref().ok().and_then(|args| self.catalog().model(args));
        let callee = model.clone().map(Callee::Model);
        let opened = match question {
            Ok(args) => self.open_model(model, &args, call, request).await,
            Err(error) => Err(error),
        };
        let value = opened.and_then(|response| {
            serde_json::to_value(FetchOutcome::Response(response))
                .map_err(|error| ApiError::new(ErrorCode::Internal, format!("the answer cannot be written: {error}")))
        });
        let answer = match value {
            Ok(value) => ToolAnswer::Ok { value },
            Err(error) => ToolAnswer::Err { error },
        };
        let asked = ToolCall { tool: SUB_LM.to_owned(), ..call.clone() };
        self.made(callee.as_ref(), &asked, &answer, began.elapsed());
        answer
    }

    async fn open_model(
        &self,
        model: Option<Arc<Model>>,
        args: &Value,
        call: &ToolCall,
        request: &FetchRequest,
    ) -> Result<FetchResponse, ApiError> {
        let missing = || ApiError::new(ErrorCode::ToolNotFound, "the ToolBroker has no such model: its spec.models name those there are");
        let model = model.ok_or_else(missing)?;
        let asking = model.prepare(args)?;
        let place = tokio::time::timeout(model.timeout, model.service.limits.enter(&call.session_uid)).await.map_err(|_| {
            let message = "there were more calls than the limits of the model allow: ask again later";
            ApiError::new(ErrorCode::RateLimited, message)
        })?;
        let reserve = asking.reserve;
        let reserved = self.spending().reserve(&model.name, &call.session_uid, &model.budgets, reserve).await?;
        let exchange = Exchange {
            service: &model.service,
            request: asking.request,
            timeout: model.timeout,
            output: None,
            caller: call.into(),
            key: exchange::idempotency_key(call),
            form: Form::Body,
            open: Some(Above { bytes: 0, received: self.egress().received() }),
            sent: None,
        };
        let reader = match exchange.run(self.http(), self.secrets()).await {
            Ok(Answer::Open(reader, _)) => reader,
            Ok(Answer::Value(_)) => {
                self.spending().settle(reserved, reserve).await;
                return Err(ApiError::new(ErrorCode::ToolResultInvalid, "the model's service answered no stream"));
            }
            Err(error) => {
                self.spending().settle(reserved, used_by(&error, reserve)).await;
                return Err(error);
            }
        };
        let speaking = Speaking {
            broker: self.clone(),
            model,
            reader,
            events: Events::default(),
            used: (None, None),
            reserved: Some(reserved),
            _place: place,
        };
        let lines = futures::stream::unfold(speaking, Speaking::next);
        let response = Response::from(http::Response::new(reqwest::Body::wrap_stream(lines)));
        // What came of the service was counted when it was read.
        let uncounted = IntCounter::new("lines", "lines").map_err(|error| ApiError::new(ErrorCode::Internal, error.to_string()))?;
        self.egress().open(call, Reader::new(response, uncounted))?;
        Ok(FetchResponse {
            status: 200,
            status_text: "OK".to_owned(),
            url: request.url.clone(),
            redirected: false,
            headers: vec![("content-type".to_owned(), "application/x-ndjson".to_owned())],
            body: String::new(),
            stream: Some(call.call),
        })
    }
}

/// The arguments of a question, with the model that the URL names; without one it is the only model.
fn question_in(request: &FetchRequest) -> Result<Value, ApiError> {
    let invalid = |message: &str| ApiError::new(ErrorCode::ToolArgsInvalid, message);
    let body = base64::engine::general_purpose::STANDARD.decode(request.body.as_deref().unwrap_or_default());
    let body = body.map_err(|_| invalid("the body is not base64"))?;
    if body.len() > FETCH_BODY_BYTES_MAX {
        let message = format!("a question whose answer is a stream has {FETCH_BODY_BYTES_MAX} bytes at most: ask for the whole answer");
        return Err(ApiError::new(ErrorCode::SizeAdmissionError, message));
    }
    let mut args: Value = serde_json::from_slice(&body).map_err(|_| invalid("the body of a question is JSON"))?;
    let Some(fields) = args.as_object_mut() else { return Err(invalid("the body of a question is an object")) };
    fields.insert("stream".to_owned(), json!(true));
    if let Some(name) = request.url.strip_prefix(MODEL_SCHEME).filter(|name| !name.is_empty()) {
        fields.insert("model".to_owned(), json!(name));
    }
    Ok(args)
}

impl Speaking {
    /// The lines that come next. After its end there are none.
    async fn next(mut self) -> Option<(Result<Bytes, io::Error>, Self)> {
        let mut lines = Vec::new();
        while lines.is_empty() {
            self.reserved.as_ref()?;
            let until = Instant::now() + SILENCE_MAX;
            self.reader.fill(1, until).await;
            let arrived = self.reader.take(usize::MAX);
            let silent = arrived.is_empty() && Instant::now() >= until;
            self.events.push(&arrived);
            while let Some(data) = self.events.next() {
                let said = spoken::heard(self.model.api, &data);
                self.used = (said.sent.or(self.used.0), said.come.or(self.used.1));
                if !said.text.is_empty() {
                    line(&mut lines, &json!({ "text": said.text }));
                }
                if let Some(failure) = said.failure {
                    self.end(&mut lines, Some(&failure)).await;
                } else if said.is_end {
                    self.end(&mut lines, None).await;
                }
            }
            let broken = self.reader.failure().map(|failure| failure.message);
            if let Some(why) = broken.or_else(|| silent.then(|| format!("it said nothing for {} s", SILENCE_MAX.as_secs()))) {
                self.end(&mut lines, Some(&why)).await;
            } else if self.reader.is_over() {
                self.end(&mut lines, Some("it broke off")).await;
            }
        }
        Some((Ok(lines.into()), self))
    }

    /// Ends it once, and counts what it used.
    async fn end(&mut self, lines: &mut Vec<u8>, failure: Option<&str>) {
        let Some(reserved) = self.reserved.take() else { return };
        let spending = self.broker.spending();
        if let (Some(sent), Some(come)) = self.used {
            spending.count(&self.model.name, sent, come);
            spending.settle(reserved, self.model.spent(sent, come)).await;
        }
        match failure {
            None => {
                let (sent, come) = self.used;
                line(lines, &json!({ "usage": { "inputTokens": sent, "outputTokens": come } }));
            }
            Some(why) => {
                let message = format!("the model's answer: {why}");
                line(lines, &json!({ "error": ApiError::new(ErrorCode::ToolResultInvalid, message) }));
            }
        }
    }
}

fn line(lines: &mut Vec<u8>, value: &Value) {
    lines.extend_from_slice(value.to_string().as_bytes());
    lines.push(b'\n');
}
