//! The API's description, generated from the handlers and the wire types.

use axum::Json;
use dormouse_protocol::ErrorBody;
use utoipa::{
    OpenApi as _,
    openapi::path::{Operation, PathItem},
};

use super::{approvals, eval, events, files, history, jobs, keys, links, runs, sessions, usage, webhooks};
use crate::{doors::streaming, problem::PROBLEM};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Dormouse", description = "Durable JavaScript/TypeScript REPLs.", version = "v1"),
    servers((url = "/", description = "The gateway that this document is of.")),
    paths(
        sessions::create,
        sessions::list,
        sessions::get,
        sessions::patch,
        sessions::delete,
        sessions::interrupt,
        sessions::hibernate,
        sessions::wake,
        eval::eval,
        events::events,
        approvals::list,
        approvals::list_all,
        approvals::decide,
        links::make,
        history::checkpoints,
        history::make_checkpoint,
        history::difference,
        history::restore,
        history::reset,
        history::fork,
        history::migrate,
        history::journal,
        files::list,
        files::read,
        files::write,
        files::remove,
        runs::list,
        runs::get,
        runs::cancel,
        jobs::claim,
        jobs::heartbeat,
        jobs::answer,
        webhooks::list,
        webhooks::redeliver,
        usage::usage,
        keys::create,
        keys::list,
        keys::revoke,
        streaming::start,
        streaming::list,
        streaming::get,
        streaming::delete,
        streaming::stream,
        streaming::cancel,
        streaming::tool_result
    ),
    components(schemas(ErrorBody)),
    tags(
        (name = "sessions", description = "Sessions and their cells."),
        (name = "runs", description = "Cells that nobody has to wait for."),
        (name = "jobs", description = "Calls that runners make."),
        (name = "webhooks", description = "Who is told of events, and how that goes."),
        (name = "usage", description = "What sessions have used."),
        (name = "keys", description = "API keys."),
        (name = "streaming", description = "The streaming protocol's own paths.")
    ),
    modifiers(&Bearer, &Problems, &Names)
)]
struct Document;

/// Bearer tokens, for every path.
struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
        document.security = Some(vec![SecurityRequirement::new("bearer", Vec::<String>::new())]);
    }
}

/// Errors come as problems (RFC 9457), and any operation may be refused or fail.
struct Problems;

impl utoipa::Modify for Problems {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};
        let problem = || Content::new(Some(Ref::from_schema_name("ErrorBody")));
        for operation in document.paths.paths.values_mut().flat_map(operations_of).map(|(_, operation)| operation) {
            let responses = &mut operation.responses.responses;
            for (status, description) in [("4XX", "refused"), ("5XX", "failed")] {
                let response = ResponseBuilder::new().description(description).content(PROBLEM, problem()).build();
                responses.insert(status.to_owned(), response.into());
            }
            for (status, response) in responses {
                let RefOr::T(response) = response else { continue };
                if status.starts_with(['4', '5'])
                    && let Some(content) = response.content.shift_remove("application/json")
                {
                    response.content.insert(PROBLEM.to_owned(), content);
                }
            }
        }
    }
}

/// The operations of a path, by their methods.
fn operations_of(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    let all = [("get", get), ("put", put), ("post", post), ("delete", delete), ("patch", patch)];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// What each operation and each answer is called: a handler's name is another's, too, and every answer has to say something.
struct Names;

impl utoipa::Modify for Names {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::{RefOr, Schema};
        let components = document.components.get_or_insert_default();
        for schema in components.schemas.values_mut() {
            let RefOr::T(Schema::Object(object)) = schema else { continue };
            for property in object.properties.values_mut() {
                let default = match property {
                    RefOr::T(Schema::Object(property)) => &mut property.default,
                    RefOr::T(Schema::OneOf(property)) => &mut property.default,
                    _ => continue,
                };
                // A field that is absent by default has no default, and one that has to be there cannot be null.
                if default.as_ref().is_some_and(serde_json::Value::is_null) {
                    *default = None;
                }
            }
        }
        for (path, item) in &mut document.paths.paths {
            for (method, operation) in operations_of(item) {
                operation.operation_id = Some(operation_id(method, path));
                for (status, response) in &mut operation.responses.responses {
                    if let RefOr::T(response) = response
                        && response.description.is_empty()
                    {
                        response.description = if status == "201" { "it is made" } else { "the answer" }.to_owned();
                    }
                }
            }
        }
    }
}

/// `get_sessions_name_files` of `GET /v1/namespaces/{namespace}/sessions/{name}/files`; those of the streaming protocol begin with its name.
fn operation_id(method: &str, path: &str) -> String {
    let (door, rest) = path.strip_prefix("/v1/namespaces/{namespace}").map_or(("streaming_", path), |rest| ("", rest));
    let words: Vec<_> = rest.split('/').filter(|word| !word.is_empty()).map(|word| word.trim_matches(['{', '}'])).collect();
    format!("{door}{method}_{}", words.join("_"))
}

/// The OpenAPI document of the HTTP API.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

pub(super) async fn serve() -> Json<utoipa::openapi::OpenApi> {
    Json(openapi())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_may_be_refused_or_fail_with_a_problem() {
        let mut document = openapi();
        let mut seen = 0;
        for (path, item) in &mut document.paths.paths {
            for (method, operation) in operations_of(item) {
                let responses = serde_json::to_value(&operation.responses).unwrap();
                for range in ["4XX", "5XX"] {
                    let schema = &responses[range]["content"][PROBLEM]["schema"]["$ref"];
                    assert_eq!(schema, "#/components/schemas/ErrorBody", "{method} {path} {range}");
                }
                let errors = responses.as_object().unwrap().iter().filter(|(status, _)| status.starts_with(['4', '5']));
                for (status, response) in errors {
                    let types: Vec<_> = response["content"].as_object().unwrap().keys().collect();
                    assert_eq!(types, [PROBLEM], "{method} {path} {status}");
                }
                seen += 1;
            }
        }
        let components = serde_json::to_value(&document.components).unwrap();
        assert!(seen > 40 && components["schemas"]["ErrorBody"].is_object(), "{seen}");
    }
}
