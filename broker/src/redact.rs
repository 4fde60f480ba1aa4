//! Credentials do not come back: they are taken out of whatever a service answers.

use base64::Engine as _;
use serde_json::Value;

use crate::path;

/// What stands where a credential was.
pub(crate) const REDACTED: &str = "[redacted]";

/// Takes credential values, in the forms in which services echo them, out of texts and JSON.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    /// Longest first, so that no part of one is left over by a shorter one.
    forms: Vec<String>,
}

impl Redactor {
    pub(crate) fn new(values: &[&str]) -> Self {
        let mut forms: Vec<String> = Vec::new();
        for value in values.iter().filter(|value| !value.is_empty()) {
            let escaped = Value::from(*value).to_string();
            let escaped = escaped.trim_matches('"').to_owned();
            let url_safe = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value);
            let standard = standard_base64(value).trim_end_matches('=').to_owned();
            forms.extend([(*value).to_owned(), standard, url_safe, path::encode(value), escaped]);
        }
        forms.retain(|form| !form.is_empty());
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Self { forms }
    }

    /// The text without them.
    pub(crate) fn text(&self, text: &str) -> String {
        self.forms.iter().fold(text.to_owned(), |text, form| if text.contains(form) { text.replace(form, REDACTED) } else { text })
    }

    /// Bytes without them.
    pub(crate) fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.forms.iter().fold(bytes, |bytes, form| {
            let (mut kept, mut rest) = (Vec::new(), bytes.as_slice());
            while let Some(at) = rest.windows(form.len()).position(|window| window == form.as_bytes()) {
                let (before, after) = rest.split_at(at);
                kept.extend_from_slice(before);
                kept.extend_from_slice(REDACTED.as_bytes());
                rest = after.get(form.len()..).unwrap_or_default();
            }
            if kept.is_empty() {
                return bytes;
            }
            kept.extend_from_slice(rest);
            kept
        })
    }

    /// The beginning of a text that was cut off somewhere, without them and without a beginning of one at its end.
    pub(crate) fn cut_text(&self, text: &str) -> String {
        let mut redacted = self.text(text);
        for form in &self.forms {
            let ends = |length: &usize| form.get(..*length).is_some_and(|start| redacted.ends_with(start));
            if let Some(length) = (1..form.len()).rev().find(ends) {
                redacted.truncate(redacted.len() - length);
            }
        }
        redacted
    }

    /// The value without them, in keys, texts and numbers. The depth is what the JSON parser allows.
    pub(crate) fn value(&self, value: Value) -> Value {
        if self.forms.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Number(number) => {
                let text = number.to_string();
                if self.forms.iter().any(|form| text.contains(form)) { Value::from(REDACTED) } else { Value::Number(number) }
            }
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields.into_iter().map(|(key, item)| (self.text(&key), self.value(item))).collect(),
            Value::Null | Value::Bool(_) => value,
        }
    }
}

fn standard_base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_is_struck() {
        let redactor = Redactor::new(&["user:pa\"ss/wörd"]);
        for form in ["user:pa\"ss/wörd", "user:pa\\\"ss/wörd", &standard_base64("user:pa\"ss/wörd"), &path::encode("user:pa\"ss/wörd")]
        {
            assert_eq!(redactor.text(&format!("<{form}>")).trim_matches(['<', '>', '=']), REDACTED, "{form}");
        }
    }

    #[test]
    fn json_is_struck_everywhere() {
        let redactor = Redactor::new(&["123456"]);
        let redacted = redactor.value(json!({"a123456": ["x123456y", 123456, 1.5, null, {"b": "123456"}]}));
        assert_eq!(redacted, json!({"a[redacted]": ["x[redacted]y", REDACTED, 1.5, null, {"b": REDACTED}]}));
    }

    #[test]
    fn a_cut_text_does_not_end_in_half_a_secret() {
        let redactor = Redactor::new(&["topsecret"]);
        assert_eq!(redactor.cut_text("a topsecret b topsec"), "a [redacted] b ");
    }
}
