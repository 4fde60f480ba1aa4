//! Whether arguments fit the JSON Schema that a cell has registered a tool with. The schema is a tenant's and the gateway is everybody's: what is
//! checked takes no more time than the sizes of the two allow, and away from those who serve.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use dormouse_protocol::{ApiError, ErrorCode};
use jsonschema::PatternOptions;
use serde_json::{Value, json};

use super::{Failure, code, decoded};

/// A schema that has one of these is not checked here. `$schema` is what zod's have: zod itself checks, in the session, and knows defaults. With the
/// others, references and what asks its neighbours, a schema can be made to check again and again, as often as it likes.
const UNCHECKED: [&str; 6] = ["$schema", "$ref", "$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems"];
/// Bytes of the schema times bytes of the arguments.
const WORK_MAX: usize = 1 << 29;
/// Longest reason in bytes: it may quote the arguments.
const REASON_BYTES_MAX: usize = 512;

/// Checks the arguments.
///
/// # Errors
/// `ToolArgsInvalid`: they do not fit, with `details.path`; or the schema is none, or there is too much to check.
pub(super) async fn check(schema: &Value, arguments: &Value) -> Result<(), ApiError> {
    if is_unchecked(schema) {
        return Ok(());
    }
    let work = schema.to_string().len().saturating_mul(arguments.to_string().len());
    if work > WORK_MAX {
        let message = "the arguments are too large to be checked by the tool's schema: put what is large into a file of the session";
        return Err(ApiError::new(ErrorCode::ToolArgsInvalid, message));
    }
    let (schema, arguments) = (schema.clone(), arguments.clone());
    let checked = tokio::task::spawn_blocking(move || fits(&schema, &arguments)).await;
    checked.unwrap_or_else(|_| Err(ApiError::new(ErrorCode::Internal, "the arguments could not be checked")))
}

/// Before the name of an argument's header.
const PARAM: &str = "mcp-param-";
/// Where a schema says under which name an argument is repeated in a header.
const ANNOTATION: &str = "x-mcp-header";

/// The headers of a request that repeat arguments, by their names in lower case. What is no text is empty.
pub(super) fn repeated(headers: &HeaderMap) -> BTreeMap<String, String> {
    let named = |(name, value): (&HeaderName, &HeaderValue)| {
        let name = name.as_str().strip_prefix(PARAM)?;
        Some((name.to_owned(), value.to_str().unwrap_or_default().to_owned()))
    };
    headers.iter().filter_map(named).collect()
}

/// Checks that headers say what the arguments say that a schema has them repeat: something in between may have judged by them.
pub(super) fn agree(schema: &Value, arguments: &Value, repeated: &BTreeMap<String, String>) -> Result<(), Failure> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let Some(header) = property.get(ANNOTATION).and_then(Value::as_str) else { continue };
        let said = arguments
            .get(name)
            .filter(|value| !value.is_null())
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        let told = repeated.get(&header.to_ascii_lowercase());
        let same = match (&said, told) {
            (None, None) => true,
            (Some(said), Some(told)) => decoded(told).as_deref() == Some(said.as_str()),
            _ => false,
        };
        if !same {
            return Err(Failure::new(
                code::HEADER_MISMATCH,
                format!("the header Mcp-Param-{header} does not say what the argument `{name}` says"),
            ));
        }
    }
    Ok(())
}

fn is_unchecked(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.iter().any(|(name, value)| UNCHECKED.contains(&name.as_str()) || is_unchecked(value)),
        Value::Array(values) => values.iter().any(is_unchecked),
        _ => false,
    }
}

fn fits(schema: &Value, arguments: &Value) -> Result<(), ApiError> {
    let patterns = PatternOptions::regex();
    let built = jsonschema::options().offline().with_pattern_options(patterns).build(schema);
    let invalid = |path: String, message: String| {
        let end = message.floor_char_boundary(REASON_BYTES_MAX);
        ApiError::new(ErrorCode::ToolArgsInvalid, message.get(..end).unwrap_or_default()).with_details(json!({ "path": path }))
    };
    let validator = built.map_err(|error| {
        invalid(String::new(), format!("the schema that the tool was registered with is none: {error}; register it again with mcp.tool"))
    })?;
    validator.validate(arguments).map_err(|error| {
        let path = error.instance_path().to_string();
        let message = format!("the arguments do not fit the tool's input schema at `{path}`: {error}");
        invalid(path, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(schema: &Value, arguments: &Value) -> Option<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(check(schema, arguments)).err().map(|error| {
            assert_eq!(error.code, ErrorCode::ToolArgsInvalid);
            error.message
        })
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_place() {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "number" } }, "required": ["n"] });
        assert_eq!(refused(&schema, &json!({ "n": 1 })), None);
        assert!(refused(&schema, &json!({ "n": "one" })).unwrap().contains("at `/n`"));
        assert!(refused(&schema, &json!({})).unwrap().contains("\"n\" is a required property"));
        assert!(refused(&json!({ "type": "nothing" }), &json!({})).unwrap().contains("is none"));
        assert!(refused(&schema, &json!({ "n": "x".repeat(10_000) })).unwrap().len() <= REASON_BYTES_MAX);
    }

    #[test]
    fn headers_say_what_arguments_say() {
        let schema = json!({ "properties": { "region": { "type": "string", "x-mcp-header": "Region" }, "n": { "type": "integer" } } });
        let told = |value: &str| repeated(&[(HeaderName::from_static("mcp-param-region"), value.parse().unwrap())].into_iter().collect());
        let agrees = |arguments: Value, told: &BTreeMap<String, String>| agree(&schema, &arguments, told).is_ok();
        let none = BTreeMap::new();
        assert!(agrees(json!({ "n": 1 }), &none) && agrees(json!({ "region": null }), &none));
        assert!(agrees(json!({ "region": "eu" }), &told("eu")) && agrees(json!({ "region": "Hello" }), &told("=?base64?SGVsbG8=?=")));
        assert!(agrees(json!({ "region": "=?base64?eu" }), &told("=?base64?eu")), "what is not wrapped is meant as it is");
        for (arguments, told) in [
            (json!({ "region": "eu" }), none),
            (json!({}), told("eu")),
            (json!({ "region": "eu" }), told("us")),
            (json!({ "region": "Hello" }), told("=?base64?SGVs!!!bG8=?=")),
            (json!({ "region": "Hello" }), told("=?base64?SGVsbG8?=")),
        ] {
            assert!(!agrees(arguments.clone(), &told), "{arguments} {told:?}");
        }
    }

    #[test]
    fn no_schema_keeps_the_gateway() {
        let again = json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }] });
        assert_eq!(refused(&again, &json!({})), None, "left to the function");
        let named = json!({ "properties": { "$ref": {} } });
        assert_eq!(refused(&named, &json!({})), None);
        let slow = json!({ "properties": { "t": { "pattern": "^(a+)+$" } } });
        assert!(refused(&slow, &json!({ "t": "a".repeat(50_000) + "b" })).is_some(), "in linear time");
        let deep = (0..100).fold(json!({ "type": "string" }), |inner, _| json!({ "anyOf": [inner], "oneOf": [{ "not": {} }] }));
        assert!(refused(&deep, &json!({})).is_some());
        let large = "x".repeat(WORK_MAX / 10);
        assert!(refused(&json!({ "type": "object" }), &json!({ "t": large })).unwrap().contains("too large"));
    }
}
