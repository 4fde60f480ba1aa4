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
            forms.extend([(*value).to_owned(), standard, url_safe, path::encode(value)]);
            // As writers of JSON escape it: with slashes, all but ASCII, what HTML means something by.
            let ascii = ascii_escaped(&escaped);
            let html = escaped.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
            forms.extend([escaped.replace('/', "\\/"), ascii.replace('/', "\\/"), ascii, html, escaped]);
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

    /// Takes them out of what comes in parts: answers what of `held` is sure to have none, and leaves what may be a beginning of one.
    pub(crate) fn pass(&self, held: &mut Vec<u8>) -> Vec<u8> {
        let longest = self.forms.iter().map(String::len).max().unwrap_or(0);
        let mut redacted = self.bytes(std::mem::take(held));
        *held = redacted.split_off((redacted.len() + 1).saturating_sub(longest.max(1)));
        redacted
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

/// With everything that is not ASCII as `\\uXXXX`.
fn ascii_escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for unit in text.encode_utf16() {
        match u8::try_from(unit).ok().filter(u8::is_ascii) {
            Some(byte) => escaped.push(char::from(byte)),
            None => escaped.push_str(&format!("\\u{unit:04x}")),
        }
    }
    escaped
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
        for form in [
            "user:pa\"ss/wörd",
            "user:pa\\\"ss/wörd",
            &standard_base64("user:pa\"ss/wörd"),
            &path::encode("user:pa\"ss/wörd"),
            "user:pa\\\"ss\\/w\\u00f6rd",
        ] {
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
    fn what_comes_in_parts_is_struck_wherever_it_is_cut() {
        let redactor = Redactor::new(&["top/secret", "short"]);
        let text = b"a top/secret b short, top\\/secret and top/secre";
        let whole = redactor.bytes(text.to_vec());
        assert_eq!(String::from_utf8_lossy(&whole), "a [redacted] b [redacted], [redacted] and top/secre");
        for size in 1..text.len() {
            let (mut held, mut passed) = (Vec::new(), Vec::new());
            for part in text.chunks(size) {
                held.extend_from_slice(part);
                passed.append(&mut redactor.pass(&mut held));
            }
            passed.append(&mut held);
            assert_eq!(passed, whole, "in parts of {size}");
        }
        let (mut held, none) = (b"all".to_vec(), Redactor::default());
        assert_eq!((none.pass(&mut held), held.len()), (b"all".to_vec(), 0), "nothing is held for nothing");
    }

    #[test]
    fn a_cut_text_does_not_end_in_half_a_secret() {
        let redactor = Redactor::new(&["topsecret"]);
        assert_eq!(redactor.cut_text("a topsecret b topsec"), "a [redacted] b ");
    }
}
