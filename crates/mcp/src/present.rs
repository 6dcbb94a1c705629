//! Our words in MCP's: a definition as a tool, an outcome as a result.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use toolgate_contract::{ActionType, Idempotency, Network, Outcome, SafetyClass, ToolDef};

/// Where a result carries what MCP has no field for. The prefix is the project's address, read backwards.
pub(crate) const OUTCOME: &str = "io.github.toolgate/outcome";

/// How a tool's typed output is put into `structuredContent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As it is: its schema says it is an object.
    Object,
    /// As `{"result": output}`. Revisions before 2026-07-28 take nothing but objects, and their clients refuse a whole
    /// list of tools over one schema that says otherwise.
    Wrapped,
}

impl Shape {
    pub(crate) fn of(def: &ToolDef) -> Self {
        if def.output_schema["type"] == "object" { Self::Object } else { Self::Wrapped }
    }
}

/// A definition as MCP shows it.
pub(crate) fn tool(def: &ToolDef) -> Tool {
    let description = match (&*def.summary, &*def.description) {
        (summary, "") => summary.to_owned(),
        (summary, description) => format!("{summary}\n\n{description}"),
    };
    Tool::new(def.name.clone(), description, input_schema(&def.input_schema))
        .with_title(title(&def.name))
        .with_raw_output_schema(output_schema(def))
        .with_annotations(annotations(def))
}

/// `read_file` is "Read file" to people.
fn title(name: &str) -> String {
    let words = name.replace('_', " ");
    match words.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => words,
    }
}

/// Arguments are always an object in MCP, and a schema has to say so.
fn input_schema(schema: &Value) -> Arc<JsonObject> {
    let mut schema = match schema {
        Value::Object(schema) => schema.clone(),
        Value::Bool(true) => JsonObject::new(),
        _ => JsonObject::from_iter([("not".to_owned(), json!({}))]),
    };
    schema.insert("type".to_owned(), json!("object"));
    Arc::new(schema)
}

fn output_schema(def: &ToolDef) -> Arc<JsonObject> {
    match (Shape::of(def), &def.output_schema) {
        (Shape::Object, Value::Object(schema)) => Arc::new(schema.clone()),
        (_, schema) => Arc::new(JsonObject::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), json!({ "result": moved(schema.clone()) })),
            ("required".to_owned(), json!(["result"])),
        ])),
    }
}

/// A schema that used to be the root and is now `properties.result`: what it refers to within itself has moved too.
fn moved(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| match value {
                Value::String(target) if key == "$ref" && (target == "#" || target.starts_with("#/")) => {
                    (key, json!(format!("#/properties/result{}", &target[1..])))
                }
                value => (key, moved(value)),
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(moved).collect(),
        other => other,
    }
}

/// Hints from our own classification. Where it does not say that something is harmless, the hint says that it is not.
fn annotations(def: &ToolDef) -> ToolAnnotations {
    let read_only = def.safety == SafetyClass::Read;
    ToolAnnotations::new()
        .read_only(read_only)
        .destructive(!read_only && !only_adds(&def.action))
        .idempotent(read_only || def.idempotency == Idempotency::Required)
        .open_world(def.needs.network != Network::None)
}

fn only_adds(action: &ActionType) -> bool {
    matches!(
        action,
        ActionType::CodeCreate | ActionType::VcsCommit | ActionType::VcsBranch | ActionType::KnowledgeIngest
    )
}

/// An outcome as MCP tells it.
pub(crate) fn result(outcome: Outcome, shape: Shape, mut meta: MetaObject) -> CallToolResult {
    let about = json!({
        "call": outcome.call,
        "status": outcome.status,
        "code": outcome.code,
        "message": outcome.message,
        "remedy": outcome.remedy,
        "approval": outcome.approval,
        "truncated": outcome.truncated,
    });
    meta.0.insert(OUTCOME.to_owned(), about);
    let content = vec![ContentBlock::text(outcome.text)];
    // Clients hold what an error carries against the output schema as well, so it carries nothing.
    let mut result = if outcome.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = (!outcome.is_error).then(|| match shape {
        Shape::Object => outcome.structured,
        Shape::Wrapped => Value::Object(JsonObject::from_iter([("result".to_owned(), outcome.structured)])),
    });
    result.meta = Some(meta);
    result
}

/// A place in the list of tools. Clients must not read anything into it, so it does not look as if they could.
pub(crate) fn cursor(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn read_cursor(cursor: &str) -> Option<String> {
    let digits: Vec<u8> =
        cursor.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect::<Option<_>>()?;
    let bytes = digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect();
    String::from_utf8(bytes).ok().filter(|name| self::cursor(name) == cursor)
}
