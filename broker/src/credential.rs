//! A service's credential: where it comes from, how it goes out, and how it is struck from what comes back.

use base64::Engine as _;
use dormouse_crds::broker::{Auth, AuthType};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::Value;

use crate::{Problem, ProblemKind, SecretError, Secrets, path};

/// What stands where a credential was.
pub(crate) const STRUCK: &str = "[redacted]";
/// A shorter user name is not struck: it is no secret, and answers would be shredded by it.
const USER_BYTES_MIN: usize = 4;
/// Headers that carry the request itself and cannot carry a credential.
const RESERVED_HEADERS: [&str; 9] =
    ["host", "content-length", "content-type", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"];

/// How a service is authenticated to, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scheme {
    None,
    Bearer { secret: String, key: String },
    Header { name: HeaderName, secret: String, key: String },
    Basic { secret: String },
}

/// A credential, ready to be sent. It has no `Debug`.
pub(crate) struct Credential {
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
    pub(crate) striker: Striker,
}

impl Scheme {
    /// The checked form of `auth`, or what is wrong below `path`.
    pub(crate) fn check(auth: &Auth, path: &str, secrets: &Secrets, problems: &mut Vec<Problem>) -> Option<Self> {
        let mut problem = |field: &str, kind| problems.push(Problem { path: format!("{path}.{field}"), kind });
        let scheme = match auth.type_ {
            AuthType::None => return Some(Self::None),
            AuthType::Bearer => "bearer",
            AuthType::Header => "header",
            AuthType::Basic => "basic",
        };
        let Some(reference) = &auth.secret_ref else {
            problem("secretRef", ProblemKind::AuthFieldMissing(scheme));
            return None;
        };
        let secret = reference.name.clone();
        if auth.type_ != AuthType::Basic && reference.key.is_none() {
            problem("secretRef.key", ProblemKind::AuthFieldMissing(scheme));
            return None;
        }
        let key = reference.key.clone().unwrap_or_default();
        let scheme = match auth.type_ {
            AuthType::None => Self::None,
            AuthType::Bearer => Self::Bearer { secret, key },
            AuthType::Basic => Self::Basic { secret },
            AuthType::Header => {
                let Some(name) = &auth.header_name else {
                    problem("headerName", ProblemKind::AuthFieldMissing(scheme));
                    return None;
                };
                let parsed = name.parse::<HeaderName>().ok().filter(|name| !RESERVED_HEADERS.contains(&name.as_str()));
                let Some(name) = parsed else {
                    problem("headerName", ProblemKind::Header(name.clone()));
                    return None;
                };
                Self::Header { name, secret, key }
            }
        };
        if let Err(error) = scheme.read(secrets) {
            problem("secretRef", ProblemKind::Secret(error));
        }
        Some(scheme)
    }

    /// The credential as it is now.
    pub(crate) fn read(&self, secrets: &Secrets) -> Result<Credential, SecretError> {
        let (name, value, striker, secret, key) = match self {
            Self::None => return Ok(Credential { header: None, striker: Striker::default() }),
            Self::Bearer { secret, key } => {
                let token = secrets.read(secret, key)?;
                (AUTHORIZATION, format!("Bearer {token}"), Striker::new(&[&token]), secret, key.as_str())
            }
            Self::Header { name, secret, key } => {
                let value = secrets.read(secret, key)?;
                let striker = Striker::new(&[&value]);
                (name.clone(), value, striker, secret, key.as_str())
            }
            Self::Basic { secret } => {
                let (user, password) = (secrets.read(secret, "user")?, secrets.read(secret, "password")?);
                let pair = format!("{user}:{password}");
                let user = if user.len() < USER_BYTES_MIN { "" } else { &user };
                let striker = Striker::new(&[&pair, &password, user]);
                (AUTHORIZATION, format!("Basic {}", base64(&pair)), striker, secret, "password")
            }
        };
        let refused = |_| SecretError::NotAHeaderValue { secret: secret.clone(), key: key.to_owned() };
        let mut value = HeaderValue::from_str(&value).map_err(refused)?;
        value.set_sensitive(true);
        Ok(Credential { header: Some((name, value)), striker })
    }
}

fn base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Strikes credential values, in the forms in which services echo them, from texts and JSON.
#[derive(Clone, Default)]
pub(crate) struct Striker {
    /// Longest first, so that no part of one is left over by a shorter one.
    forms: Vec<String>,
}

impl Striker {
    fn new(values: &[&str]) -> Self {
        let mut forms: Vec<String> = Vec::new();
        for value in values.iter().filter(|value| !value.is_empty()) {
            let escaped = Value::from(*value).to_string();
            let escaped = escaped.trim_matches('"').to_owned();
            let url_safe = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value);
            let standard = base64(value).trim_end_matches('=').to_owned();
            forms.extend([(*value).to_owned(), standard, url_safe, path::encode(value), escaped]);
        }
        forms.retain(|form| !form.is_empty());
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Self { forms }
    }

    /// The text without them.
    pub(crate) fn text(&self, text: &str) -> String {
        self.forms.iter().fold(text.to_owned(), |text, form| if text.contains(form) { text.replace(form, STRUCK) } else { text })
    }

    /// The beginning of a text that was cut off somewhere, without them and without a beginning of one at its end.
    pub(crate) fn cut_text(&self, text: &str) -> String {
        let mut struck = self.text(text);
        for form in &self.forms {
            let ends = |length: &usize| form.get(..*length).is_some_and(|start| struck.ends_with(start));
            if let Some(length) = (1..form.len()).rev().find(ends) {
                struck.truncate(struck.len() - length);
            }
        }
        struck
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
                if self.forms.iter().any(|form| text.contains(form)) { Value::from(STRUCK) } else { Value::Number(number) }
            }
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields.into_iter().map(|(key, item)| (self.text(&key), self.value(item))).collect(),
            Value::Null | Value::Bool(_) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_is_struck() {
        let striker = Striker::new(&["user:pa\"ss/wörd"]);
        for form in ["user:pa\"ss/wörd", "user:pa\\\"ss/wörd", &base64("user:pa\"ss/wörd"), &path::encode("user:pa\"ss/wörd")] {
            assert_eq!(striker.text(&format!("<{form}>")).trim_matches(['<', '>', '=']), STRUCK, "{form}");
        }
    }

    #[test]
    fn json_is_struck_everywhere() {
        let striker = Striker::new(&["123456"]);
        let struck = striker.value(json!({"a123456": ["x123456y", 123456, 1.5, null, {"b": "123456"}]}));
        assert_eq!(struck, json!({"a[redacted]": ["x[redacted]y", STRUCK, 1.5, null, {"b": STRUCK}]}));
    }

    #[test]
    fn a_cut_text_does_not_end_in_half_a_secret() {
        let striker = Striker::new(&["topsecret"]);
        assert_eq!(striker.cut_text("a topsecret b topsec"), "a [redacted] b ");
    }

    #[test]
    fn a_short_user_name_does_not_shred_answers() {
        let values = [("user", "a"), ("password", "hunter22")].map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
        let secrets = Secrets::memory([("s".to_owned(), values.into_iter().collect())].into_iter().collect());
        let credential = Scheme::Basic { secret: "s".to_owned() }.read(&secrets).unwrap();
        assert_eq!(credential.striker.text("a banana hunter22 a:hunter22"), "a banana [redacted] [redacted]");
    }
}
