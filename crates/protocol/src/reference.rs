//! What stands for a large answer of a tool, in a heap and in arguments: `{"$ref": {"id", …}}`. Its bytes are among the session's contents.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{ApiError, ErrorCode};

/// What an id begins with. It is also the content's name.
pub const PREFIX: &str = "ref_";

const KEY: &str = "$ref";

/// Bytes among arguments and in answers are `{"$bytes": BASE64, "type": MEDIA_TYPE}`.
const BYTES: &str = "$bytes";

/// Bytes that are sent by themselves are `{"$sent": NUMBER_OF_BYTES, "type": MEDIA_TYPE}` to whoever checks a call.
pub const SENT: &str = "$sent";

/// What bytes are that nobody has said anything of.
pub const OCTETS: &str = "application/octet-stream";

/// How the name of a content ends that is bytes, and no JSON or text.
pub const BYTES_END: &str = ".bin";

/// Stands for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// Names it in its session, and in none else. Its end tells what it is, as that of a file: `.json`, `.txt` or `.bin`.
    pub id: String,
    /// Bytes of the content.
    pub bytes: u64,
    /// `application/json`, or `text/plain` of an answer that is a string; of bytes, what the service said.
    pub mime_type: String,
    /// The first characters of the text; of bytes nothing.
    pub preview: String,
}

impl Reference {
    /// Stands for `value`, whose content is answered too. `digits` make its id unique in the session; the preview has `preview_chars` characters at
    /// most.
    #[must_use]
    pub fn of(value: Value, digits: &str, preview_chars: usize) -> (Self, Vec<u8>) {
        if let Some((bytes, mime_type)) = bytes_of(&value) {
            return (Self::of_bytes(bytes.len() as u64, mime_type, digits), bytes);
        }
        let (text, end, mime_type) = match value {
            Value::String(text) => (text, "txt", "text/plain"),
            other => (other.to_string(), "json", "application/json"),
        };
        let preview = text.chars().take(preview_chars).collect();
        let id = format!("{PREFIX}{digits}.{end}");
        (Self { id, bytes: text.len() as u64, mime_type: mime_type.to_owned(), preview }, text.into_bytes())
    }

    /// Stands for so many bytes.
    #[must_use]
    pub fn of_bytes(bytes: u64, mime_type: String, digits: &str) -> Self {
        Self { id: format!("{PREFIX}{digits}{BYTES_END}"), bytes, mime_type, preview: String::new() }
    }

    /// Stands for an answer that is kept as it came, of which the service says that it is `mime_type`; its size and its preview are to be filled in.
    #[must_use]
    pub fn of_stream(mime_type: &str, digits: &str) -> Self {
        let essence = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let (end, mime_type) = if essence == "application/json" || essence.ends_with("+json") {
            (".json", "application/json")
        } else if essence.starts_with("text/") {
            (".txt", "text/plain")
        } else {
            (BYTES_END, mime_type)
        };
        Self { id: format!("{PREFIX}{digits}{end}"), bytes: 0, mime_type: mime_type.to_owned(), preview: String::new() }
    }

    /// Whether it stands for text.
    #[must_use]
    pub fn is_text(&self) -> bool {
        !self.id.ends_with(BYTES_END)
    }

    /// As the heap has it.
    #[must_use]
    pub fn token(&self) -> Value {
        json!({ KEY: self })
    }
}

/// Bytes as a value.
#[must_use]
pub fn of_bytes(bytes: &[u8], mime_type: &str) -> Value {
    json!({ BYTES: STANDARD.encode(bytes), "type": mime_type })
}

/// The bytes that a value is, and what they are.
fn bytes_of(value: &Value) -> Option<(Vec<u8>, String)> {
    let fields = value.as_object().filter(|fields| fields.len() == 2)?;
    let mime_type = fields.get("type")?.as_str()?;
    Some((STANDARD.decode(fields.get(BYTES)?.as_str()?).ok()?, mime_type.to_owned()))
}

/// The value that a reference stands for, from its content. What a service only says is JSON is text.
#[must_use]
pub fn value(id: &str, content: &[u8]) -> Value {
    let text = || Value::String(String::from_utf8_lossy(content).into_owned());
    if id.ends_with(BYTES_END) {
        of_bytes(content, OCTETS)
    } else if id.ends_with(".txt") {
        text()
    } else {
        serde_json::from_slice(content).unwrap_or_else(|_| text())
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

/// Puts that so many bytes are sent by themselves in the place of the reference of this id.
pub fn put_sent(place: &mut Value, id: &str, bytes: u64) {
    if id_of(place) == Some(id) {
        let mime_type = place[KEY]["mimeType"].as_str().unwrap_or(OCTETS);
        *place = json!({ SENT: bytes, "type": mime_type });
    }
}

/// The reference that `value` is: its id, if it stands for bytes.
#[must_use]
pub fn bytes_id(value: &Value) -> Option<&str> {
    id_of(value).filter(|id| id.starts_with(PREFIX) && id.ends_with(BYTES_END))
}

/// Puts what they stand for in the place of references.
///
/// # Errors
/// `RefNotFound`: `values` lacks one.
pub fn put_in(args: &mut Value, values: &BTreeMap<String, Value>) -> Result<(), ApiError> {
    if let Some(id) = id_of(args) {
        let mut found = values.get(id).cloned().ok_or_else(|| not_found(id))?;
        // What bytes are stands in the reference only.
        if let (Some(mime_type), true) = (args[KEY]["mimeType"].as_str(), found.get(BYTES).is_some()) {
            found["type"] = mime_type.into();
        }
        *args = found;
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
            let values = BTreeMap::from([(reference.id.clone(), value(&reference.id, &text))]);
            put_in(&mut whole, &values).unwrap();
            assert_eq!(whole, json!({"deep": [{"er": answer}], "beside": 1}));
            assert_eq!(put_in(&mut args.clone(), &BTreeMap::new()).unwrap_err().code, ErrorCode::RefNotFound);
        }
    }

    #[test]
    fn what_is_kept_as_it_came_is_what_its_service_says() {
        let cases = [
            ("application/json; charset=utf-8", "ref_0f.json", "application/json"),
            ("application/problem+JSON", "ref_0f.json", "application/json"),
            ("text/csv", "ref_0f.txt", "text/plain"),
            ("video/mp4", "ref_0f.bin", "video/mp4"),
            ("", "ref_0f.bin", ""),
        ];
        for (said, id, mime_type) in cases {
            let reference = Reference::of_stream(said, "0f");
            assert_eq!((reference.id.as_str(), reference.mime_type.as_str()), (id, mime_type), "{said}");
        }
        assert_eq!(value("ref_0f.json", b"[1, 2]"), json!([1, 2]));
        assert_eq!(value("ref_0f.json", b"no JSON"), json!("no JSON"));
    }

    #[test]
    fn bytes_stay_bytes_and_what_they_are() {
        let answer = of_bytes(&[0, 255, 128], "image/png");
        let (reference, content) = Reference::of(answer.clone(), "0f", 10);
        assert_eq!((reference.id.as_str(), content.as_slice(), reference.is_text()), ("ref_0f.bin", [0, 255, 128].as_slice(), false));
        let mut args = json!({ "body": reference.token() });
        let values = BTreeMap::from([(reference.id.clone(), value(&reference.id, &content))]);
        put_in(&mut args, &values).unwrap();
        assert_eq!(args, json!({ "body": answer }));
        let (text, _) = Reference::of(json!({ "$bytes": "no base64!", "type": "a/b" }), "0f", 10);
        assert!(text.is_text(), "what is no bytes is JSON");
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
