//! The tools of a broker as TypeScript declares them: what a person's editor and a model read of them. Pure.
//!
//! Schemas come from tenants and from servers elsewhere: what they say ends up in names that are quoted and in comments that it cannot end.

use std::cell::Cell;

use dormouse_protocol::broker::ToolDescription;
use serde_json::{Map, Value};

/// Levels of a schema that are written out, references among them; below there is `unknown`.
const DEPTH_MAX: usize = 12;
/// Schemas that are written out of one tool's, as references repeat them.
const SCHEMAS_MAX: usize = 2_000;
/// Bytes of one type; a larger one is `unknown`.
const TYPE_BYTES_MAX: usize = 16 << 10;
/// Bytes of all of it; of further tools it says only that they are there.
const BYTES_MAX: usize = 512 << 10;
/// Bytes of a comment.
const COMMENT_BYTES_MAX: usize = 1 << 10;

const HEAD: &str = "\
interface CallOptions { /** true: the answer stays outside the heap; false: it comes into it */ reference?: boolean }
interface ToolDescription { name: string; description: string; input: unknown; output: unknown; approval?: boolean }
";

/// Declarations of `tools` and `callTool`.
pub(crate) fn of(tools: &[ToolDescription]) -> String {
    let (mut members, mut overloads, mut left) = (String::new(), String::new(), 0);
    for tool in tools {
        let (args, answer) = (input(&tool.input), bounded(&tool.output));
        let name = quoted(&tool.name);
        let member = format!("{}  {name}({args}, options?: CallOptions): Promise<{answer}>;\n", comment(&tool.description));
        if members.len() + overloads.len() + member.len() > BYTES_MAX {
            left += 1;
            continue;
        }
        members.push_str(&member);
        // As a type a name is quoted, whatever it is.
        let name = escaped(&Value::from(tool.name.as_str()));
        overloads.push_str(&format!("declare function callTool(name: {name}, {args}, options?: CallOptions): Promise<{answer}>;\n"));
    }
    if left > 0 {
        members.push_str(&format!(
            "  // {left} more: tools.list() has them\n  [name: string]: (args?: any, options?: CallOptions) => Promise<any>;\n"
        ));
    }
    format!(
        "{HEAD}declare const tools: {{\n{members}  list(): Promise<ToolDescription[]>;\n  declarations(): Promise<string>;\n}};\n{overloads}\
         declare function callTool(name: string, args?: unknown, options?: CallOptions): Promise<unknown>;\n"
    )
}

/// The parameter that takes a tool's arguments. One that may be left out is optional.
fn input(schema: &Value) -> String {
    let required = schema.get("required").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
    let text = match bounded(schema) {
        // A tool takes an object, whatever its schema leaves open.
        any if any == "unknown" => "Record<string, unknown>".to_owned(),
        other => other,
    };
    format!("args{}: {text}", if required { "" } else { "?" })
}

fn bounded(schema: &Value) -> String {
    let text = type_of(schema, &Document { root: schema, left: Cell::new(SCHEMAS_MAX) }, DEPTH_MAX);
    if text.len() <= TYPE_BYTES_MAX { text } else { "unknown".to_owned() }
}

/// What references are in, and how many more schemas are written out.
struct Document<'a> {
    root: &'a Value,
    left: Cell<usize>,
}

/// The type that a schema of a document describes.
fn type_of(schema: &Value, document: &Document<'_>, depth: usize) -> String {
    let unknown = || "unknown".to_owned();
    let Some(left) = document.left.get().checked_sub(1) else { return unknown() };
    document.left.set(left);
    let fields = match schema {
        Value::Bool(false) => return "never".to_owned(),
        Value::Object(fields) if depth > 0 => fields,
        _ => return unknown(),
    };
    let below = |schema: &Value| type_of(schema, document, depth - 1);
    if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
        // Only within the document.
        return target.strip_prefix('#').and_then(|pointer| document.root.pointer(pointer)).map_or_else(unknown, below);
    }
    if let Some(constant) = fields.get("const") {
        return literal(constant);
    }
    if let Some(values) = fields.get("enum").and_then(Value::as_array) {
        return joined(values.iter().map(literal), " | ", "never");
    }
    for (key, with) in [("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")] {
        if let Some(parts) = fields.get(key).and_then(Value::as_array) {
            let parts = parts.iter().map(|part| format!("({})", below(part)));
            // What stands beside them holds, too.
            let own = fields.get("properties").is_some().then(|| object(fields, &below));
            let parts = joined(parts, with, "unknown");
            return own.map_or(parts.clone(), |own| format!("{own} & ({parts})"));
        }
    }
    let named = |name: &str| match name {
        "string" => "string".to_owned(),
        "number" | "integer" => "number".to_owned(),
        "boolean" => "boolean".to_owned(),
        "null" => "null".to_owned(),
        "array" => array(fields, &below),
        "object" => object(fields, &below),
        _ => unknown(),
    };
    let text = match fields.get("type") {
        Some(Value::String(name)) => named(name),
        Some(Value::Array(names)) => joined(names.iter().filter_map(Value::as_str).map(named), " | ", "unknown"),
        _ if fields.contains_key("properties") => object(fields, &below),
        _ if fields.contains_key("items") => array(fields, &below),
        _ => return unknown(),
    };
    // OpenAPI 3.0.
    if fields.get("nullable") == Some(&Value::Bool(true)) { format!("{text} | null") } else { text }
}

fn array(fields: &Map<String, Value>, below: &impl Fn(&Value) -> String) -> String {
    if let Some(items) = fields.get("prefixItems").and_then(Value::as_array) {
        let rest = fields.get("items").filter(|rest| **rest != Value::Bool(false)).map(|rest| format!("...Array<{}>", below(rest)));
        return format!("[{}]", joined(items.iter().map(below).chain(rest), ", ", ""));
    }
    format!("Array<{}>", fields.get("items").map_or_else(|| "unknown".to_owned(), below))
}

fn object(fields: &Map<String, Value>, below: &impl Fn(&Value) -> String) -> String {
    let required: Vec<&str> = fields.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = fields.get("properties").and_then(Value::as_object);
    let mut members: Vec<String> = properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| {
            let optional = if required.contains(&name.as_str()) { "" } else { "?" };
            format!("{}{optional}: {}", quoted(name), below(schema))
        })
        .collect();
    match fields.get("additionalProperties") {
        // With properties beside them an index of another type would contradict those.
        Some(schema @ Value::Object(_)) if members.is_empty() => return format!("Record<string, {}>", below(schema)),
        Some(Value::Bool(false)) => {}
        _ if members.is_empty() => return "Record<string, unknown>".to_owned(),
        Some(Value::Object(_) | Value::Bool(true)) => members.push("[name: string]: unknown".to_owned()),
        _ => {}
    }
    if members.is_empty() { "Record<string, never>".to_owned() } else { format!("{{ {} }}", members.join("; ")) }
}

fn joined(parts: impl Iterator<Item = String>, with: &str, none: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    for part in parts {
        if !kept.contains(&part) {
            kept.push(part);
        }
    }
    if kept.is_empty() { none.to_owned() } else { kept.join(with) }
}

fn literal(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => "unknown".to_owned(),
        scalar => escaped(scalar),
    }
}

/// A name as TypeScript takes it: bare where that is an identifier.
fn quoted(name: &str) -> String {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || "_$".contains(first));
    let bare = begins && name.chars().all(|it| it.is_ascii_alphanumeric() || "_$".contains(it));
    if bare { name.to_owned() } else { escaped(&Value::from(name)) }
}

/// JSON, in which nothing ends a line of a script.
fn escaped(value: &Value) -> String {
    value.to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// What a tool does, as a comment that its text does not end.
fn comment(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace("*/", "*\\/");
    let end = text.floor_char_boundary(COMMENT_BYTES_MAX);
    let cut = if end < text.len() { "…" } else { "" };
    match text.get(..end) {
        Some(text) if !text.is_empty() => format!("  /** {text}{cut} */\n"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(schema: Value) -> String {
        bounded(&schema)
    }

    fn tool(name: &str, description: &str, input: Value) -> ToolDescription {
        ToolDescription { name: name.to_owned(), description: description.to_owned(), input, output: Value::Bool(true), approval: false }
    }

    #[test]
    fn schemas_are_types() {
        let cases = [
            (json!(true), "unknown"),
            (json!(false), "never"),
            (json!({"type": "integer"}), "number"),
            (json!({"type": ["string", "null"]}), "string | null"),
            (json!({"type": "string", "nullable": true}), "string | null"),
            (json!({"enum": ["a", 1, null, "a"]}), "\"a\" | 1 | null"),
            (json!({"const": "x"}), "\"x\""),
            (json!({"type": "array", "items": {"type": "boolean"}}), "Array<boolean>"),
            (json!({"prefixItems": [{"type": "string"}], "type": "array", "items": {"type": "number"}}), "[string, ...Array<number>]"),
            (json!({"type": "object"}), "Record<string, unknown>"),
            (json!({"type": "object", "additionalProperties": {"type": "number"}}), "Record<string, number>"),
            (json!({"type": "object", "additionalProperties": false}), "Record<string, never>"),
            (json!({"anyOf": [{"type": "string"}, {"type": "number"}]}), "(string) | (number)"),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}), "string"),
            (json!({"$ref": "https://elsewhere.example/a"}), "unknown"),
        ];
        for (schema, expected) in cases {
            assert_eq!(text(schema.clone()), expected, "{schema}");
        }
        let object = json!({"type": "object", "properties": {"a": {"type": "string"}, "b-c": {}}, "required": ["a"]});
        assert_eq!(text(object), "{ a: string; \"b-c\"?: unknown }");
    }

    #[test]
    fn what_does_not_end_or_is_too_large_is_unknown() {
        let endless = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}});
        assert!(text(endless).contains("unknown"));
        let wide = (0..4_000).map(|at| (format!("property_{at}"), json!({"type": "string"}))).collect::<Map<_, _>>();
        assert_eq!(text(json!({"type": "object", "properties": wide})), "unknown");
        let again = json!({"$ref": "#/$defs/a"});
        let hundredfold = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "prefixItems": vec![again; 100]}}});
        assert!(text(hundredfold).len() <= TYPE_BYTES_MAX);
    }

    #[test]
    fn nothing_leaves_its_comment_or_its_quotes() {
        let hostile = tool("a\"b", "ends */ here\n// and goes on", json!({"type": "object", "properties": {"\"}; evil(": {}}}));
        let said = of(&[
            hostile,
            tool("pay", "Pays", json!({"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]})),
        ]);
        assert!(said.contains("/** ends *\\/ here // and goes on */"), "{said}");
        assert!(said.contains(r#""a\"b"(args?: { "\"}; evil("?: unknown }, options?: CallOptions): Promise<unknown>;"#), "{said}");
        assert!(said.contains("pay(args: { amount: number }, options?: CallOptions): Promise<unknown>;"), "{said}");
        assert!(said.contains(r#"declare function callTool(name: "pay", args: { amount: number }, "#), "{said}");
    }

    #[test]
    fn there_is_a_bound_on_all_of_it() {
        let properties = (0..600).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect::<Map<_, _>>();
        let tools: Vec<_> = (0..200).map(|at| tool(&format!("t{at}"), "", json!({"type": "object", "properties": properties}))).collect();
        let said = of(&tools);
        assert!(said.len() < 2 * BYTES_MAX && said.contains("more: tools.list() has them"));
    }
}
