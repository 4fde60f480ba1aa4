//! How models are spoken to: one question and one answer, in the terms of each API.
//!
//! Sources: OpenAI's API reference (chat completions, responses, embeddings) and Anthropic's Messages API, version 2023-06-01.

use dormouse_crds::models::ModelApi;
use dormouse_protocol::{ApiError, ErrorCode};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Bytes of JSON for a token, about: fewer than texts have, so that a reserve is rather too large.
const BYTES_OF_A_TOKEN: u64 = 3;

const ANTHROPIC_VERSION: (HeaderName, HeaderValue) = (HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));

/// What a cell asks.
pub(super) struct Question {
    asked: Asked,
    /// Tokens of the answer at most.
    pub(super) max_tokens: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Asked {
    #[serde(rename = "model")]
    _model: Option<String>,
    /// `[{role, content}]`, content as the API has it.
    #[serde(default)]
    messages: Vec<Message>,
    /// Short for one message of the user's.
    prompt: Option<String>,
    /// What the model is told first.
    system: Option<String>,
    /// Of embeddings: a text, or several.
    input: Option<Value>,
    max_tokens: Option<u64>,
    temperature: Option<f64>,
    stop: Option<Vec<String>>,
    #[serde(default)]
    stream: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    role: String,
    content: Value,
}

/// What a model said.
pub(super) struct Answered {
    /// The text; of embeddings the vectors.
    pub(super) output: Value,
    /// Tokens of the question.
    pub(super) sent: u64,
    /// Tokens of the answer.
    pub(super) come: u64,
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::ToolArgsInvalid, message)
}

impl Question {
    /// What the arguments say.
    ///
    /// # Errors
    /// They are something else.
    pub(super) fn read(args: &Value, max_tokens: u64) -> Result<Self, ApiError> {
        let asked = Asked::deserialize(args).map_err(|error| invalid(format!("host.subLM({{model, messages, …}}): {error}")))?;
        if asked.stream {
            let message = "answers of models do not come as streams: leave `stream` out and await the whole text";
            return Err(ApiError::new(ErrorCode::NotSupported, message));
        }
        if asked.max_tokens.is_some_and(|asked| asked == 0 || asked > max_tokens) {
            return Err(invalid(format!("maxTokens is 1 to {max_tokens}, which is the model's own")));
        }
        let max_tokens = asked.max_tokens.unwrap_or(max_tokens);
        Ok(Self { asked, max_tokens })
    }

    /// The messages, without those of the system.
    fn messages(&self) -> Vec<Value> {
        let spoken = self.asked.messages.iter().filter(|it| it.role != "system");
        let messages = spoken.map(|it| json!({ "role": it.role, "content": it.content }));
        messages.chain(self.asked.prompt.iter().map(|prompt| json!({ "role": "user", "content": prompt }))).collect()
    }

    /// What the model is told first, from wherever it was written.
    fn system(&self) -> Option<String> {
        let told = self.asked.messages.iter().filter(|it| it.role == "system").filter_map(|it| it.content.as_str());
        let all: Vec<&str> = self.asked.system.as_deref().into_iter().chain(told).collect();
        (!all.is_empty()).then(|| all.join("\n\n"))
    }
}

/// The path below the service's URL.
pub(super) fn path(api: ModelApi) -> &'static str {
    match api {
        ModelApi::Openai => "/chat/completions",
        ModelApi::OpenaiResponses => "/responses",
        ModelApi::OpenaiEmbeddings => "/embeddings",
        ModelApi::Anthropic => "/messages",
    }
}

/// Headers that the API needs.
pub(super) fn headers(api: ModelApi) -> HeaderMap {
    match api {
        ModelApi::Anthropic => HeaderMap::from_iter([ANTHROPIC_VERSION]),
        ModelApi::Openai | ModelApi::OpenaiResponses | ModelApi::OpenaiEmbeddings => HeaderMap::new(),
    }
}

/// What is sent.
///
/// # Errors
/// The question is not one for this API.
pub(super) fn body(api: ModelApi, model: &str, question: &Question) -> Result<Value, ApiError> {
    let Question { asked, max_tokens } = question;
    if api == ModelApi::OpenaiEmbeddings {
        let input = asked.input.as_ref().filter(|input| is_texts(input));
        let input = input.ok_or_else(|| invalid("a model of embeddings takes {model, input}, a text or several"))?;
        return Ok(json!({ "model": model, "input": input, "encoding_format": "float" }));
    }
    let mut messages = question.messages();
    if messages.is_empty() || asked.input.is_some() {
        return Err(invalid("a model takes {model, messages: [{role, content}, …]} or {model, prompt}"));
    }
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    let system = question.system();
    let (limit, stop) = match api {
        ModelApi::OpenaiResponses => ("max_output_tokens", None),
        ModelApi::Anthropic => ("max_tokens", Some("stop_sequences")),
        ModelApi::Openai | ModelApi::OpenaiEmbeddings => ("max_completion_tokens", Some("stop")),
    };
    match (api, system) {
        (_, None) => {}
        (ModelApi::OpenaiResponses, Some(system)) => drop(body.insert("instructions".to_owned(), json!(system))),
        (ModelApi::Anthropic, Some(system)) => drop(body.insert("system".to_owned(), json!(system))),
        (_, Some(system)) => messages.insert(0, json!({ "role": "system", "content": system })),
    }
    body.insert(if api == ModelApi::OpenaiResponses { "input" } else { "messages" }.to_owned(), Value::Array(messages));
    body.insert(limit.to_owned(), json!(max_tokens));
    if let Some(temperature) = asked.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    match (stop, &asked.stop) {
        (_, None) => {}
        (Some(field), Some(stop)) => drop(body.insert(field.to_owned(), json!(stop))),
        (None, Some(_)) => return Err(invalid("OpenAI's responses know no `stop`")),
    }
    Ok(Value::Object(body))
}

fn is_texts(input: &Value) -> bool {
    match input {
        Value::String(_) => true,
        Value::Array(items) => !items.is_empty() && items.iter().all(Value::is_string),
        _ => false,
    }
}

/// About how many tokens a body has.
pub(super) fn tokens_about(body: &Value) -> u64 {
    (body.to_string().len() as u64).div_ceil(BYTES_OF_A_TOKEN)
}

/// What an answer says.
///
/// # Errors
/// `ToolResultInvalid`: it is something else.
pub(super) fn read(api: ModelApi, answer: Value) -> Result<Answered, ApiError> {
    let strange = || ApiError::new(ErrorCode::ToolResultInvalid, "the model's service answered something that is no answer of this API");
    let texts = |items: &Value, kind: &str| -> Option<String> {
        let items = items.as_array()?.iter().filter(|item| item["type"] == kind);
        Some(items.filter_map(|item| item["text"].as_str()).collect())
    };
    let output = match api {
        ModelApi::Openai => answer["choices"][0]["message"]["content"].as_str().map(|text| json!(text)),
        ModelApi::OpenaiResponses => answer["output"].as_array().map(|items| {
            let messages = items.iter().filter(|item| item["type"] == "message");
            json!(messages.filter_map(|item| texts(&item["content"], "output_text")).collect::<String>())
        }),
        ModelApi::Anthropic => texts(&answer["content"], "text").map(|text| json!(text)),
        ModelApi::OpenaiEmbeddings => vectors(&answer),
    };
    let usage = &answer["usage"];
    let tokens = |names: [&str; 2]| names.iter().find_map(|name| usage[name].as_u64()).unwrap_or(0);
    let (sent, come) = (tokens(["input_tokens", "prompt_tokens"]), tokens(["output_tokens", "completion_tokens"]));
    Ok(Answered { output: output.ok_or_else(strange)?, sent, come })
}

/// In the order of what was asked.
fn vectors(answer: &Value) -> Option<Value> {
    let mut found: Vec<(u64, &Value)> = Vec::new();
    for item in answer["data"].as_array()? {
        found.push((item["index"].as_u64()?, item.get("embedding").filter(|vector| vector.is_array())?));
    }
    found.sort_by_key(|(index, _)| *index);
    Some(found.into_iter().map(|(_, vector)| vector.clone()).collect())
}
