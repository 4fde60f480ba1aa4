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
    /// Whether the answer is read as it comes.
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
        if asked.max_tokens.is_some_and(|asked| asked == 0 || asked > max_tokens) {
            return Err(invalid(format!("maxTokens is 1 to {max_tokens}, which is the model's own")));
        }
        let max_tokens = asked.max_tokens.unwrap_or(max_tokens);
        Ok(Self { asked, max_tokens })
    }

    /// Whether its answer is read as it comes.
    pub(super) fn streams(&self) -> bool {
        self.asked.stream
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
        if asked.stream {
            return Err(invalid("vectors do not come as a stream: leave `stream` out"));
        }
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
    if asked.stream {
        body.insert("stream".to_owned(), json!(true));
        if api == ModelApi::Openai {
            // Else it does not say what was used.
            body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
        }
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

/// What an event of a stream says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Said {
    /// More of the text.
    pub(crate) text: String,
    /// Tokens of the question, and of the answer so far, where it tells.
    pub(crate) sent: Option<u64>,
    pub(crate) come: Option<u64>,
    /// Whether nothing more comes.
    pub(crate) is_end: bool,
    /// Why nothing more comes.
    pub(crate) failure: Option<String>,
}

/// Reads an event of a stream, in the terms of each API. What says nothing of this is passed over.
pub(crate) fn heard(api: ModelApi, data: &[u8]) -> Said {
    let event: Value = serde_json::from_slice(data).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut said = Said { failure: event["error"]["message"].as_str().map(str::to_owned), ..Said::default() };
    let usage = match api {
        ModelApi::Openai | ModelApi::OpenaiEmbeddings => {
            said.text = text(&event["choices"][0]["delta"]["content"]);
            said.is_end = data == b"[DONE]";
            &event["usage"]
        }
        ModelApi::OpenaiResponses => {
            match event["type"].as_str().unwrap_or_default() {
                "response.output_text.delta" => said.text = text(&event["delta"]),
                "response.completed" | "response.incomplete" => said.is_end = true,
                "response.failed" => said.failure = Some(text(&event["response"]["error"]["message"])),
                "error" => said.failure = Some(text(&event["message"])),
                _ => {}
            }
            &event["response"]["usage"]
        }
        ModelApi::Anthropic => {
            match event["type"].as_str().unwrap_or_default() {
                "content_block_delta" => said.text = text(&event["delta"]["text"]),
                "message_stop" => said.is_end = true,
                _ => {}
            }
            if event["type"] == "message_start" { &event["message"]["usage"] } else { &event["usage"] }
        }
    };
    let tokens = |names: [&str; 2]| names.iter().find_map(|name| usage[name].as_u64());
    (said.sent, said.come) = (tokens(["input_tokens", "prompt_tokens"]), tokens(["output_tokens", "completion_tokens"]));
    said
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_apis_stream_tells_text_usage_and_its_end() {
        let heard = |api, events: &[&str]| events.iter().map(|data| heard(api, data.as_bytes())).collect::<Vec<_>>();
        let text = |text: &str| Said { text: text.to_owned(), ..Said::default() };
        let end = Said { is_end: true, ..Said::default() };
        let chat = [
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}],"usage":null}"#,
            r#"{"choices":[{"delta":{"content":"he"}}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#,
            "[DONE]",
        ];
        let used = Said { sent: Some(3), come: Some(4), ..Said::default() };
        assert_eq!(heard(ModelApi::Openai, &chat), [text(""), text("he"), Said { ..used }, Said { is_end: true, ..Said::default() }]);
        let responses = [
            r#"{"type":"response.created","response":{"usage":null}}"#,
            r#"{"type":"response.output_text.delta","delta":"he"}"#,
            r#"{"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":4}}}"#,
        ];
        let last = Said { sent: Some(3), come: Some(4), is_end: true, ..Said::default() };
        assert_eq!(heard(ModelApi::OpenaiResponses, &responses), [text(""), text("he"), last]);
        let messages = [
            r#"{"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}"#,
            r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"he"}}"#,
            r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":4}}"#,
            r#"{"type":"message_stop"}"#,
        ];
        let [begin, rest] = [(Some(3), Some(1)), (None, Some(4))].map(|(sent, come)| Said { sent, come, ..Said::default() });
        assert_eq!(heard(ModelApi::Anthropic, &messages), [begin, text("he"), rest, end]);
        let failed = heard(ModelApi::Anthropic, &[r#"{"type":"error","error":{"type":"overloaded_error","message":"later"}}"#]);
        assert_eq!(failed[0].failure.as_deref(), Some("later"));
    }
}
