//! An OpenAPI document as tools: one for each operation. <https://spec.openapis.org/oas/v3.1.1.html>, and 3.0.
//!
//! Pure. A parameter is an argument of its name, the request's body is the argument `body`. What the document says of answers is shown and not
//! enforced: documents are less true than services.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::{
    credential::usable_name,
    path::Pattern,
    tool::{BODY, Shape},
};

/// Operations of one document.
const OPERATIONS_MAX: usize = 1_024;
/// References from one thing to the next that are followed.
const REFERENCES_MAX: usize = 16;
/// Longest description of a tool, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 4_096;
/// Longest name of a tool, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Methods of operations that can be tools.
const METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];

/// One operation.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) input: Value,
    pub(crate) output: Value,
    pub(crate) shape: Shape,
}

/// What a document cannot be used for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum DocumentError {
    /// It is something else.
    #[error("not a document of OpenAPI 3.0 or 3.1: `openapi` says `{0}`")]
    Version(String),
    /// It has no operations.
    #[error("the document has no `paths`")]
    NoPaths,
    /// It is too much.
    #[error("the document has more than {OPERATIONS_MAX} operations: name those that are wanted in `include`")]
    TooMany,
}

/// The operations of a document that `include` names, and what is left out, with the reason.
pub(crate) fn operations(document: &Value, include: &[Pattern]) -> Result<(Vec<Operation>, Vec<String>), DocumentError> {
    let version = document["openapi"].as_str().unwrap_or_default();
    if !version.starts_with("3.0") && !version.starts_with("3.1") {
        return Err(DocumentError::Version(version.chars().take(16).collect()));
    }
    let reader = Reader { document, is_3_0: version.starts_with("3.0") };
    let paths = document["paths"].as_object().ok_or(DocumentError::NoPaths)?;
    let (mut operations, mut left_out) = (Vec::new(), Vec::new());
    for (path, item) in paths {
        let item = reader.resolve(item);
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            let name = name_of(operation, method, path);
            if !include.iter().any(|pattern| pattern.names(&name)) {
                continue;
            }
            if operations.len() >= OPERATIONS_MAX {
                return Err(DocumentError::TooMany);
            }
            match reader.operation(&name, method, path, item, operation) {
                Ok(operation) => operations.push(operation),
                Err(reason) => left_out.push(format!("{name}: {reason}")),
            }
        }
    }
    Ok((operations, left_out))
}

/// The `operationId`, or method and path, as a tool's name.
fn name_of(operation: &Value, method: &str, path: &str) -> String {
    let said = operation["operationId"].as_str().map_or_else(|| format!("{method}{path}"), str::to_owned);
    let plain = said.replace(|it: char| !(it.is_ascii_alphanumeric() || "_.-".contains(it)), "_");
    let mut name = if plain.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_') { plain } else { format!("_{plain}") };
    name.truncate(NAME_BYTES_MAX);
    name
}

struct Reader<'a> {
    document: &'a Value,
    is_3_0: bool,
}

impl<'a> Reader<'a> {
    /// What a thing of the document is, behind its references.
    fn resolve(&self, thing: &'a Value) -> &'a Value {
        let mut found = thing;
        for _ in 0..REFERENCES_MAX {
            let Some(target) = found["$ref"].as_str().and_then(|reference| self.target(reference)) else { break };
            found = target;
        }
        found
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        self.document.pointer(reference.strip_prefix('#')?)
    }

    fn operation(&self, name: &str, method: &str, path: &str, item: &'a Value, operation: &'a Value) -> Result<Operation, &'static str> {
        let (mut properties, mut required) = (Map::new(), BTreeSet::new());
        let (mut shape, mut schemas) = (Shape::default(), Schemas::default());
        // Those of the operation come last: they stand for the path's of the same name.
        let of = |thing: &'a Value| thing["parameters"].as_array().into_iter().flatten().map(|parameter| self.resolve(parameter));
        for parameter in of(item).chain(of(operation)) {
            let Some(argument) = parameter["name"].as_str() else { return Err("a parameter has no name") };
            let needed = parameter["required"] == true;
            match parameter["in"].as_str() {
                Some("path") => {}
                Some("query") => drop(shape.query.insert(argument.to_owned())),
                Some("header") => match usable_name(argument).filter(|name| *name != reqwest::header::AUTHORIZATION) {
                    Some(header) => drop(shape.headers.insert(argument.to_owned(), header)),
                    // OpenAPI says that these are ignored where a parameter names them.
                    None => continue,
                },
                _ if needed => return Err("a parameter that it needs is neither in path, query nor header"),
                _ => continue,
            }
            let content = parameter["content"].as_object().and_then(|content| content.values().next());
            let schema = content.map_or(&parameter["schema"], |content| &content["schema"]);
            let mut schema = self.schema(schema, &mut schemas);
            describe(&mut schema, &parameter["description"]);
            properties.insert(argument.to_owned(), schema);
            if needed || parameter["in"] == "path" {
                required.insert(argument.to_owned());
            }
        }
        let body = self.resolve(&operation["requestBody"]);
        if let Some(content) = body["content"].as_object() {
            let json = content.iter().find(|(kind, _)| is_json(kind)).map(|(_, content)| content);
            match json {
                Some(json) => {
                    let mut schema = self.schema(&json["schema"], &mut schemas);
                    describe(&mut schema, &body["description"]);
                    properties.insert(BODY.to_owned(), schema);
                    shape.body = true;
                    if body["required"] == true {
                        required.insert(BODY.to_owned());
                    }
                }
                None if body["required"] == true => return Err("its body is not JSON"),
                None => {}
            }
        }
        let output = self.output(operation);
        let mut input = json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        schemas.join(&mut input);
        let description = ["summary", "description"].iter().filter_map(|field| operation[*field].as_str()).collect::<Vec<_>>().join("\n\n");
        let (name, path) = (name.to_owned(), path.to_owned());
        Ok(Operation { name, description: cut(&description), method: method.to_ascii_uppercase(), path, input, output, shape })
    }

    /// What the first good answer is, if it is JSON.
    fn output(&self, operation: &'a Value) -> Value {
        let responses = operation["responses"].as_object().into_iter().flatten();
        let good = responses.filter(|(status, _)| status.starts_with('2')).map(|(_, response)| self.resolve(response));
        let content = good.filter_map(|response| response["content"].as_object()).flatten().find(|(kind, _)| is_json(kind));
        let mut schemas = Schemas::default();
        let mut output = content.map_or_else(|| json!({}), |(_, content)| self.schema(&content["schema"], &mut schemas));
        schemas.join(&mut output);
        output
    }

    /// A schema by itself: what it refers to goes into `schemas`.
    fn schema(&self, schema: &Value, schemas: &mut Schemas) -> Value {
        match schema {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    return self.reference(reference, schemas);
                }
                let mut converted: Map<String, Value> =
                    fields.iter().map(|(name, value)| (name.clone(), self.part(name, value, schemas))).collect();
                if self.is_3_0 {
                    of_3_0(&mut converted);
                }
                Value::Object(converted)
            }
            Value::Bool(_) => schema.clone(),
            _ => json!({}),
        }
    }

    /// The value of a keyword. Those that hold no schemas stay as they are: an example may look like a reference.
    fn part(&self, keyword: &str, value: &Value, schemas: &mut Schemas) -> Value {
        match (keyword, value) {
            ("properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas", Value::Object(named)) => {
                named.iter().map(|(name, value)| (name.clone(), self.schema(value, schemas))).collect::<Map<_, _>>().into()
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(items)) => {
                items.iter().map(|item| self.schema(item, schemas)).collect::<Vec<_>>().into()
            }
            (
                "items"
                | "additionalProperties"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "unevaluatedProperties"
                | "unevaluatedItems",
                Value::Object(_) | Value::Bool(_),
            ) => self.schema(value, schemas),
            _ => value.clone(),
        }
    }

    fn reference(&self, reference: &str, schemas: &mut Schemas) -> Value {
        let name = match schemas.names.get(reference) {
            Some(name) => name.clone(),
            None => {
                let Some(target) = self.target(reference) else { return json!({}) };
                let name =
                    format!("{}_{}", schemas.names.len(), reference.rsplit('/').next().unwrap_or_default().replace(['~', '%', '"'], "_"));
                schemas.names.insert(reference.to_owned(), name.clone());
                let schema = self.schema(target, schemas);
                schemas.found.insert(name.clone(), schema);
                name
            }
        };
        json!({ "$ref": format!("#/$defs/{name}") })
    }
}

/// Schemas that one schema refers to, each once, whether or not they refer to themselves.
#[derive(Default)]
struct Schemas {
    names: BTreeMap<String, String>,
    found: Map<String, Value>,
}

impl Schemas {
    fn join(self, schema: &mut Value) {
        if let Some(schema) = schema.as_object_mut().filter(|_| !self.found.is_empty()) {
            schema.insert("$defs".to_owned(), Value::Object(self.found));
        }
    }
}

/// 3.0's own keywords as JSON Schema has them.
fn of_3_0(schema: &mut Map<String, Value>) {
    if schema.remove("nullable") == Some(Value::Bool(true)) {
        if let Some(Value::String(kind)) = schema.get("type") {
            schema.insert("type".to_owned(), json!([kind, "null"]));
        }
        if let Some(Value::Array(values)) = schema.get_mut("enum") {
            values.push(Value::Null);
        }
    }
    for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(Value::Bool(exclusive)) = schema.get(flag).cloned() {
            schema.remove(flag);
            if exclusive && let Some(value) = schema.remove(bound) {
                schema.insert(flag.to_owned(), value);
            }
        }
    }
}

fn describe(schema: &mut Value, description: &Value) {
    if let (Some(schema), Value::String(_)) = (schema.as_object_mut().filter(|schema| !schema.contains_key("$ref")), description) {
        schema.insert("description".to_owned(), description.clone());
    }
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json") || kind == "*/*"
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(DESCRIPTION_BYTES_MAX)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(document: &Value, include: &str) -> (Vec<Operation>, Vec<String>) {
        operations(document, &[Pattern::of_names(include)]).unwrap()
    }

    #[test]
    fn parameters_and_bodies_are_arguments() {
        let document = json!({
            "openapi": "3.1.0",
            "paths": { "/pets/{petId}": {
                "parameters": [{ "name": "petId", "in": "path", "required": true, "schema": { "type": "string" } }],
                "put": {
                    "operationId": "put pet",
                    "summary": "Writes a pet",
                    "parameters": [
                        { "$ref": "#/components/parameters/Dry" },
                        { "name": "X-Trace", "in": "header", "schema": { "type": "string" } },
                        { "name": "authorization", "in": "header", "schema": { "type": "string" } },
                        { "name": "session", "in": "cookie", "schema": { "type": "string" } },
                    ],
                    "requestBody": { "required": true, "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Pet" } } } },
                    "responses": { "200": { "description": "", "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Pet" } } } } },
                },
            } },
            "components": {
                "parameters": { "Dry": { "name": "dry", "in": "query", "description": "only looks", "schema": { "type": "boolean" } } },
                "schemas": { "Pet": { "type": "object", "properties": { "friend": { "$ref": "#/components/schemas/Pet" }, "name": { "type": "string" } }, "required": ["name"] } },
            },
        });
        let (operations, left_out) = of(&document, "*");
        assert_eq!((operations.len(), left_out.len()), (1, 0));
        let put = &operations[0];
        assert_eq!(
            (put.name.as_str(), put.method.as_str(), put.path.as_str(), put.description.as_str()),
            ("put_pet", "PUT", "/pets/{petId}", "Writes a pet")
        );
        assert_eq!(put.shape.query.iter().collect::<Vec<_>>(), ["dry"]);
        assert_eq!(put.shape.headers.keys().collect::<Vec<_>>(), ["X-Trace"], "no credentials and cookies");
        assert_eq!(put.input["properties"]["dry"], json!({ "type": "boolean", "description": "only looks" }));
        assert_eq!(put.input["required"], json!(["body", "petId"]));
        let validator = jsonschema::options().offline().build(&put.input).unwrap();
        assert!(validator.is_valid(&json!({ "petId": "1", "body": { "name": "a", "friend": { "name": "b" } } })));
        assert!(
            !validator.is_valid(&json!({ "petId": "1", "body": { "name": "a", "friend": { "name": 1 } } })),
            "schemas that refer to themselves hold"
        );
        assert!(!validator.is_valid(&json!({ "petId": "1", "body": { "name": "a" }, "session": "s" })));
        assert!(jsonschema::options().offline().build(&put.output).unwrap().is_valid(&json!({ "name": "a" })));
    }

    #[test]
    fn what_3_0_writes_otherwise_means_the_same() {
        let schema =
            json!({ "type": "integer", "nullable": true, "minimum": 1, "exclusiveMinimum": true, "example": { "$ref": "#/nowhere" } });
        let document = json!({ "openapi": "3.0.3", "paths": { "/a": { "get": { "parameters": [{ "name": "n", "in": "query", "schema": schema }] } } } });
        let (operations, _) = of(&document, "*");
        assert_eq!(operations[0].name, "get_a", "without an operationId");
        let validator = jsonschema::options().offline().build(&operations[0].input).unwrap();
        for (n, fits) in [(json!(2), true), (json!(1), false), (Value::Null, true), (json!("2"), false)] {
            assert_eq!(validator.is_valid(&json!({ "n": n })), fits, "{n}");
        }
    }

    #[test]
    fn what_cannot_be_called_is_left_out_and_named() {
        let upload = json!({ "operationId": "upload", "requestBody": { "required": true, "content": { "image/png": {} } } });
        let cookie = json!({ "operationId": "cookie", "parameters": [{ "name": "c", "in": "cookie", "required": true }] });
        let document =
            json!({ "openapi": "3.1.0", "paths": { "/a": { "post": upload, "get": cookie, "delete": { "operationId": "other" } } } });
        let (operations, left_out) = of(&document, "*o*");
        assert_eq!(operations.iter().map(|operation| operation.name.as_str()).collect::<Vec<_>>(), ["other"]);
        assert_eq!(left_out, ["cookie: a parameter that it needs is neither in path, query nor header", "upload: its body is not JSON"]);
        assert_eq!(of(&document, "oth*").0.len() + of(&document, "th").0.len(), 1, "by name");
        assert_eq!(operations_of(json!({ "swagger": "2.0" })), DocumentError::Version(String::new()));
        assert_eq!(operations_of(json!({ "openapi": "3.1.0" })), DocumentError::NoPaths);
    }

    fn operations_of(document: Value) -> DocumentError {
        operations(&document, &[Pattern::of_names("*")]).unwrap_err()
    }
}
