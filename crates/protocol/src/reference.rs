//! What stands for a large answer of a tool, in a heap and in arguments: `{"$ref": {"id", …}}`. Its bytes are among the session's contents.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{ApiError, ErrorCode};

/// What an id begins with. It is also the content's name.
pub const PREFIX: &str = "ref_";

const KEY: &str = "$ref";

/// Stands for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// Names it in its session, and in none else. Its end tells what it is, as that of a file: `.json` or `.txt`.
    pub id: String,
    /// Bytes of the text.
    pub bytes: u64,
    /// `application/json`, or `text/plain` of an answer that is a string.
    pub mime_type: String,
    /// The first characters of the text.
    pub preview: String,
}

impl Reference {
    /// Stands for `value`, whose text is answered too. `digits` make its id unique in the session; the preview has `preview_chars` characters at most.
    #[must_use]
    pub fn of(value: Value, digits: &str, preview_chars: usize) -> (Self, String) {
        let (text, end, mime_type) = match value {
            Value::String(text) => (text, "txt", "text/plain"),
            other => (other.to_string(), "json", "application/json"),
        };
        let preview = text.chars().take(preview_chars).collect();
        let id = format!("{PREFIX}{digits}.{end}");
        (Self { id, bytes: text.len() as u64, mime_type: mime_type.to_owned(), preview }, text)
    }

    /// As the heap has it.
    #[must_use]
    pub fn token(&self) -> Value {
        json!({ KEY: self })
    }
}

/// The value that a reference stands for, from its text.
///
/// # Errors
/// The text is not what was kept.
pub fn value(id: &str, text: Vec<u8>) -> Result<Value, ApiError> {
    let corrupt =
        |why: &dyn std::fmt::Display| ApiError::new(ErrorCode::SnapshotCorrupt, format!("what {id} stands for cannot be read: {why}"));
    if id.ends_with(".txt") {
        String::from_utf8(text).map(Value::String).map_err(|error| corrupt(&error))
    } else {
        serde_json::from_slice(&text).map_err(|error| corrupt(&error))
    }
}

/// The ids of all references in `args`, at any depth.
#[must_use]
pub fn ids(args: &Value) -> BTreeSet<String> {
    fn visit(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| visit(item, found)),
            Value::Object(fields) => match id_of(value) {
                Some(id) => drop(found.insert(id.to_owned())),
                None => fields.values().for_each(|field| visit(field, found)),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = BTreeSet::new();
    visit(args, &mut found);
    found
}

/// Puts what they stand for in the place of references.
///
/// # Errors
/// `RefNotFound`: `values` lacks one.
pub fn put_in(args: &mut Value, values: &BTreeMap<String, Value>) -> Result<(), ApiError> {
    if let Some(id) = id_of(args) {
        let found = values.get(id).cloned();
        *args = found.ok_or_else(|| not_found(id))?;
        return Ok(());
    }
    match args {
        Value::Array(items) => items.iter_mut().try_for_each(|item| put_in(item, values)),
        Value::Object(fields) => fields.values_mut().try_for_each(|field| put_in(field, values)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// The error for an id that the session does not have.
#[must_use]
pub fn not_found(id: &str) -> ApiError {
    let message = format!("this session has no reference {id}: it was deleted, or is another session's. refs.list() tells which there are");
    ApiError::new(ErrorCode::RefNotFound, message)
}

/// An object with the one key `$ref`, whose value has an id. A `$ref` of JSON Schema is a string.
fn id_of(value: &Value) -> Option<&str> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    fields.get(KEY)?.get("id")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_an_answer_becomes_it_again_at_any_depth() {
        for answer in [json!([1, {"a": "ü"}]), json!("text"), json!(null), json!({"$ref": "#/defs/a"})] {
            let (reference, text) = Reference::of(answer.clone(), "0f", 10);
            assert_eq!(reference.bytes, text.len() as u64);
            let args = json!({"deep": [{"er": reference.token()}], "beside": 1});
            assert_eq!(ids(&args), BTreeSet::from([reference.id.clone()]));
            let mut whole = args.clone();
            let values = BTreeMap::from([(reference.id.clone(), value(&reference.id, text.into_bytes()).unwrap())]);
            put_in(&mut whole, &values).unwrap();
            assert_eq!(whole, json!({"deep": [{"er": answer}], "beside": 1}));
            assert_eq!(put_in(&mut args.clone(), &BTreeMap::new()).unwrap_err().code, ErrorCode::RefNotFound);
        }
    }

    #[test]
    fn what_only_looks_like_a_reference_is_left_alone() {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/defs/a"}, "b": {"$ref": {"id": "ref_1.txt"}, "more": 1}}});
        assert!(ids(&schema).is_empty());
        let mut same = schema.clone();
        put_in(&mut same, &BTreeMap::new()).unwrap();
        assert_eq!(same, schema);
    }

    #[test]
    fn a_preview_is_the_first_characters() {
        let (reference, _) = Reference::of(Value::String("ü".repeat(1000)), "0f", 10);
        assert_eq!((reference.preview, reference.mime_type.as_str()), ("ü".repeat(10), "text/plain"));
    }
}
