//! Models that cells may ask: where one is, how it is spoken to, and what may be spent on it.

use serde::{Deserialize, Serialize};

use crate::service::{Auth, Limits, Service};

/// Time that an answer may take if nothing else is said, in milliseconds.
pub const MODEL_TIMEOUT_MS_DEFAULT: u64 = 2 * 60 * 1_000;
/// Tokens of an answer at most if nothing else is said.
pub const MODEL_TOKENS_DEFAULT: u64 = 4_096;
/// Tokens of an answer that may be written at most.
pub const MODEL_TOKENS_MAX: u64 = 1_000_000;
/// Largest question, in bytes.
pub const MODEL_BYTES_MAX: u64 = 8 << 20;
/// Digits behind the point of an [`Amount`].
const FRACTION_DIGITS: usize = 6;

/// A model: `host.subLM({model: "NAME", …})`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::model())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Model {
    /// Name that cells use.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 63)))]
    pub name: String,
    /// How it is spoken to.
    pub api: ModelApi,
    /// `http` or `https` URL that the API's paths are appended to.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 2048)))]
    pub base_url: String,
    /// Credentials that the broker adds.
    #[serde(default)]
    pub auth: Auth,
    /// Its name there.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 256)))]
    pub model: String,
    /// Tokens of an answer at most. A question may ask for fewer.
    #[serde(default = "default_max_tokens")]
    pub max_tokens: u64,
    /// Milliseconds that an answer may take.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// How many questions there may be.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// What a million tokens cost. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// What may be spent on it. Absent: any amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<ModelBudget>,
}

/// How a model is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ModelApi {
    /// `POST /chat/completions`, as OpenAI and those compatible with it have it.
    Openai,
    /// `POST /responses`.
    OpenaiResponses,
    /// `POST /embeddings`: texts become vectors.
    OpenaiEmbeddings,
    /// `POST /messages`, as Anthropic has it.
    Anthropic,
}

/// What a million tokens cost, in whatever money the budgets are in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Price {
    /// Tokens that are sent, as in `"0.15"`.
    pub input: Amount,
    /// Tokens that come.
    #[serde(default)]
    pub output: Amount,
}

/// What may be spent on a model: by each session as long as it lives, and by all sessions of the namespace, those that are gone included. Tokens are
/// those that are sent and those that come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ModelBudget {
    /// Tokens of each session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_session: Option<u64>,
    /// Money of each session, as prices have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_per_session: Option<Amount>,
    /// Tokens of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_namespace: Option<u64>,
    /// Money of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_per_namespace: Option<Amount>,
}

impl Model {
    /// The service that it is.
    #[must_use]
    pub fn service(&self) -> Service {
        Service {
            auth: self.auth.clone(),
            limits: self.limits,
            allowed_methods: vec!["POST".to_owned()],
            request_bytes_max: MODEL_BYTES_MAX,
            ..Service::at(&format!("model:{}", self.name), &self.base_url)
        }
    }
}

/// An amount of money: digits, and up to six behind a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Amount(#[cfg_attr(feature = "kubernetes", schemars(regex(pattern = r"^[0-9]{1,9}(\.[0-9]{1,6})?$")))] pub String);

impl Default for Amount {
    fn default() -> Self {
        Self("0".to_owned())
    }
}

impl Amount {
    /// In millionths. `None`: it is no amount.
    #[must_use]
    pub fn millionths(&self) -> Option<u64> {
        let (whole, fraction) = self.0.split_once('.').unwrap_or((&self.0, "0"));
        let digits = |text: &str, max| (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole, 9) || !digits(fraction, FRACTION_DIGITS) {
            return None;
        }
        let fraction: u64 = format!("{fraction:0<FRACTION_DIGITS$}").parse().ok()?;
        Some(whole.parse::<u64>().ok()? * 1_000_000 + fraction)
    }
}

fn default_max_tokens() -> u64 {
    MODEL_TOKENS_DEFAULT
}

fn default_timeout_ms() -> u64 {
    MODEL_TIMEOUT_MS_DEFAULT
}

/// What an API server refuses.
#[cfg(feature = "kubernetes")]
mod rules {
    use serde_json::Value;

    use super::MODEL_TOKENS_MAX;
    use crate::{
        rules::{between, rules},
        tools::TOOL_TIMEOUT_MS_MAX,
    };

    pub(super) fn model() -> Value {
        rules([
            between("maxTokens", 1, MODEL_TOKENS_MAX, "tokens of an answer"),
            between("timeoutMs", 1, TOOL_TIMEOUT_MS_MAX, "milliseconds; up to 10 minutes"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_to_the_millionth() {
        let read = |text: &str| Amount(text.to_owned()).millionths();
        assert_eq!(
            [read("0.15"), read("3"), read("0.000001"), read("999999999.5")],
            [Some(150_000), Some(3_000_000), Some(1), Some(999_999_999_500_000)]
        );
        for wrong in ["", ".", "1.", ".5", "-1", "1e3", "0.0000001", "1,5", "9999999999"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
