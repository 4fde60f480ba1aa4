//! JSON Schemas of arguments and answers.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::ProblemKind;

/// Compiles a schema that refers to nothing outside itself, with patterns that match in linear time: what they match is a tenant's.
pub(crate) fn compile(schema: Option<&Value>) -> Result<Validator, ProblemKind> {
    let schema = schema.unwrap_or(&Value::Bool(true));
    jsonschema::options()
        .offline()
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| ProblemKind::Schema(error.to_string()))
}
