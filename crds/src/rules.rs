//! How CEL rules of the schemas are written: what an API server refuses, and the sentence that says what to write instead. Which rules an object has
//! is said in its own room.
//!
//! The bounds that rules count with (lengths of lists and strings) are set beside the fields, so that the API server can bound a rule's cost.

use serde_json::{Value, json};

use crate::url;

/// Rules as the value of `x-kubernetes-validations`.
pub(crate) fn rules<const N: usize>(list: [(String, String); N]) -> Value {
    Value::Array(list.into_iter().map(|(rule, message)| json!({ "rule": rule, "message": message })).collect())
}

/// One rule from literals.
pub(crate) fn rule(rule: &str, message: &str) -> (String, String) {
    (rule.to_owned(), message.to_owned())
}

/// `field` between two numbers, with the unit in the message.
pub(crate) fn between(field: &str, min: u64, max: u64, unit: &str) -> (String, String) {
    (format!("self.{field} >= {min} && self.{field} <= {max}"), format!("{field} is out of range: write {min} to {max} ({unit})"))
}

/// `field` is a URL of `scheme` that carries nothing beside its place.
pub(crate) fn plain_url(field: &str, scheme: &str, message: &str) -> (String, String) {
    (format!("self.{field}.matches(r'{}')", url::plain(scheme)), message.to_owned())
}
