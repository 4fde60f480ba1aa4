//! Prompts and resources that cells have registered, by `mcp.prompt` and `mcp.resource`. They are listed as they are stored; to get one is to run a
//! cell that calls its function.

use dormouse_protocol::{
    ApiError, ErrorCode,
    kernel::{McpCatalog, McpPrompt, McpResource},
};
use serde_json::{Map, Value, json};

use super::{
    Failure,
    cells::{Outcome, serving},
    code, of_api, registered,
};
use crate::{directory::Key, doors::desk::Desk};

/// The prompts of a session.
pub(super) fn prompts(catalog: McpCatalog) -> Value {
    let shown = |(name, prompt): (String, McpPrompt)| {
        let mut shown = serde_json::to_value(prompt).unwrap_or_default();
        shown["name"] = json!(name);
        shown
    };
    json!({ "prompts": catalog.prompts.into_iter().map(shown).collect::<Vec<_>>() })
}

/// Its resources, or the templates of them.
pub(super) fn resources(catalog: &McpCatalog, templates: bool) -> Vec<Value> {
    let shown = |(uri, resource): (&String, &McpResource)| {
        let mut shown = serde_json::to_value(resource).unwrap_or_default();
        shown[if templates { "uriTemplate" } else { "uri" }] = json!(uri);
        if let Some(shown) = shown.as_object_mut() {
            shown.remove("template");
        }
        shown
    };
    catalog.resources.iter().filter(|(_, resource)| resource.template == templates).map(shown).collect()
}

/// Whether reading this URI has to ask the session.
pub(super) fn may_have(catalog: &McpCatalog, uri: &str) -> bool {
    catalog.resources.contains_key(uri) || catalog.resources.values().any(|resource| resource.template)
}

/// The prompt that a request names, and its arguments, which are all there.
pub(super) fn prompt<'a>(catalog: &McpCatalog, params: &'a Value) -> Result<(&'a str, Value), Failure> {
    let invalid = |message: String| Failure::new(code::INVALID_PARAMS, message);
    let name = params.get("name").and_then(Value::as_str).ok_or_else(|| invalid("name: say which prompt".to_owned()))?;
    let known = catalog.prompts.get(name).ok_or_else(|| invalid(format!("there is no prompt `{name}`: list the prompts")))?;
    let given = match params.get("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(given)) => given.clone(),
        Some(_) => return Err(invalid("arguments: write an object".to_owned())),
    };
    match known.arguments.iter().find(|argument| argument.required && !given.contains_key(&argument.name)) {
        Some(missing) => Err(invalid(format!("arguments: `{}` is missing", missing.name))),
        None => Ok((name, Value::Object(given))),
    }
}

/// What getting a prompt or reading a resource comes to. `list` is what its result has.
pub(super) fn result(outcome: Outcome, list: &str, stateless: bool) -> Result<Value, Failure> {
    match outcome {
        Outcome::End(mut value, _) if value.get(list).is_some_and(Value::is_array) => {
            if list == "messages" && !value["messages"].as_array().is_some_and(|all| all.iter().all(is_message)) {
                return Err(Failure::new(
                    code::INTERNAL,
                    "the prompt's function returns what is no content: text, image, audio or resource",
                ));
            }
            if let Some(value) = value.as_object_mut() {
                value.retain(|_, field| !field.is_null());
            }
            Ok(value)
        }
        Outcome::End(..) => Err(Failure::new(code::INTERNAL, format!("the function returns no {list}"))),
        Outcome::Failed(cell) => {
            let error = cell.error.as_ref().map(|error| (error.name.as_str(), error.message.as_str()));
            let (name, message) = error.unwrap_or(("Error", "the cell has failed"));
            let code = if name == "FileNotFound" { code::RESOURCE_NOT_FOUND } else { code::INTERNAL };
            Err(Failure::new(code, format!("{name}: {message}")))
        }
        Outcome::Asks(asks) | Outcome::Task(asks) => Ok(asks),
        Outcome::Missing { capabilities, message } if stateless => Err(registered::missing(capabilities, message)),
        Outcome::Missing { message, .. } => Err(Failure::new(code::INVALID_REQUEST, message)),
        Outcome::Refused(message) => Err(Failure::new(code::INVALID_PARAMS, message)),
    }
}

fn is_message(message: &Value) -> bool {
    matches!(message.get("role").and_then(Value::as_str), Some("user" | "assistant"))
        && message.get("content").is_some_and(registered::is_block)
}

/// `completion/complete`: asks the session, if what is to be completed is registered.
pub(super) async fn complete(desk: &Desk, key: &Key, catalog: &McpCatalog, params: &Value) -> Result<Value, Failure> {
    let invalid = |message: &str| Failure::new(code::INVALID_PARAMS, message);
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let of = params.get("ref").ok_or_else(|| invalid("ref: say of what"))?;
    let known = match text(of, "type").as_str() {
        "ref/prompt" => catalog.prompts.contains_key(&text(of, "name")),
        "ref/resource" => catalog.resources.contains_key(&text(of, "uri")),
        _ => return Err(invalid("ref.type: write ref/prompt or ref/resource")),
    };
    if !known {
        return Err(invalid("ref: nothing of this name is registered"));
    }
    let argument = params.get("argument").filter(|argument| argument.get("name").is_some_and(Value::is_string));
    let argument = argument.ok_or_else(|| invalid("argument: write its name and value"))?;
    let request = json!({ "complete": { "ref": of, "argument": argument, "context": params.get("context") } });
    let done = desk.eval(key, serving(&request, None)).await;
    let done = done.map_err(|error| of_api(&error))?;
    match (done.value, done.error) {
        (Some(completion), None) => Ok(json!({ "completion": completion })),
        (_, error) => {
            let message =
                error.map_or_else(|| "the completion is no list".to_owned(), |error| format!("{}: {}", error.name, error.message));
            Err(of_api(&ApiError::new(ErrorCode::UncaughtException, message)))
        }
    }
}

#[cfg(test)]
mod tests {
    use dormouse_protocol::kernel::McpArgument;

    use super::*;

    #[test]
    fn a_prompt_has_all_that_it_requires() {
        let argument = |name: &str, required| McpArgument { name: name.to_owned(), required, ..McpArgument::default() };
        let prompt_of = McpPrompt { arguments: vec![argument("a", true), argument("b", false)], ..McpPrompt::default() };
        let catalog = McpCatalog { prompts: [("p".to_owned(), prompt_of)].into_iter().collect(), ..McpCatalog::default() };
        assert_eq!(prompt(&catalog, &json!({ "name": "p", "arguments": { "a": "1" } })).unwrap(), ("p", json!({ "a": "1" })));
        for wrong in [json!({}), json!({ "name": "q" }), json!({ "name": "p" }), json!({ "name": "p", "arguments": [] })] {
            assert_eq!(prompt(&catalog, &wrong).unwrap_err().code, code::INVALID_PARAMS, "{wrong}");
        }
    }

    #[test]
    fn resources_and_templates_are_listed_apart() {
        let of = |template| McpResource { name: "n".to_owned(), template, ..McpResource::default() };
        let resources_of = [("a://b".to_owned(), of(false)), ("a://{b}".to_owned(), of(true))].into_iter().collect();
        let catalog = McpCatalog { resources: resources_of, ..McpCatalog::default() };
        assert_eq!(resources(&catalog, false), [json!({ "uri": "a://b", "name": "n" })]);
        assert_eq!(resources(&catalog, true), [json!({ "uriTemplate": "a://{b}", "name": "n" })]);
        assert!(may_have(&catalog, "x://y") && !may_have(&McpCatalog::default(), "x://y"));
    }
}
