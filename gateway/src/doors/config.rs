//! What clients of other protocols say of a session that they make, as a spec.

use dormouse_crds::session::KernelSessionSpec;
use dormouse_protocol::{ApiError, ErrorCode};
use serde_json::{Map, Value, json};

use crate::directory::merge_patch;

/// A refusal of a field of `config`.
pub(super) fn invalid(path: &str, message: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, format!("config.{path}: {message}")).with_detail("path", format!("config.{path}"))
}

/// Adds what `tools` means: the name of a ToolBroker, tools that the client itself makes, or both.
pub(super) fn add_tools(spec: &mut Map<String, Value>, tools: Option<&Value>) -> Result<(), ApiError> {
    match tools {
        None | Some(Value::Null | Value::Bool(false)) => {}
        Some(Value::String(broker)) => drop(spec.insert("toolBrokerRef".to_owned(), json!({ "name": broker }))),
        Some(own @ Value::Array(_)) => drop(spec.insert("clientTools".to_owned(), own.clone())),
        Some(Value::Object(both)) if both.keys().all(|name| name == "broker" || name == "client") => {
            if let Some(broker) = both.get("broker") {
                spec.insert("toolBrokerRef".to_owned(), json!({ "name": broker }));
            }
            if let Some(own) = both.get("client") {
                spec.insert("clientTools".to_owned(), own.clone());
            }
        }
        Some(_) => {
            return Err(invalid("tools", "write the name of a ToolBroker, a list of {name, description?, input?}, or {broker, client}"));
        }
    }
    Ok(())
}

/// `spec` with these fields in place of its own. It goes through the spec's own reader, so what is refused there is refused here.
pub(super) fn with_fields(spec: &KernelSessionSpec, fields: Map<String, Value>) -> Result<KernelSessionSpec, ApiError> {
    let mut whole = serde_json::to_value(spec).map_err(|error| ApiError::new(ErrorCode::Internal, error.to_string()))?;
    merge_patch(&mut whole, &Value::Object(fields));
    serde_path_to_error::deserialize(whole).map_err(|error| invalid(&error.path().to_string(), &error.inner().to_string()))
}
