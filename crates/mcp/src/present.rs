//! Our words in MCP's: a definition as a tool, an outcome as a result.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, InputRequiredResult, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};
use toolgate_contract::{ActionType, Finding, Idempotency, Network, Outcome, SafetyClass, ToolDef};
use toolgate_guard::{clean, definition::Found};
use toolgate_runtime::{Listed, definitions::Definition};

use crate::relay;

/// Where a result carries what MCP has no field for. The prefix is the project's address, read backwards.
pub(crate) const OUTCOME: &str = "io.github.toolgate/outcome";

/// How a tool's typed output is put into `structuredContent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As it is: its schema says it is an object.
    Object,
    /// It is the whole result of another server's tool, and leaves as it is (`relay.rs`).
    Relayed,
    /// As `{"result": output}`. Revisions before 2026-07-28 take nothing but objects, and their clients refuse a whole
    /// list of tools over one schema that says otherwise.
    Wrapped,
}

impl Shape {
    pub(crate) fn of(listed: &Listed) -> Self {
        if listed.relayed { Self::Relayed } else { Self::of_own(&listed.def) }
    }

    fn of_own(def: &ToolDef) -> Self {
        if def.output_schema["type"] == "object" { Self::Object } else { Self::Wrapped }
    }
}

/// A tool as MCP shows it.
pub(crate) fn tool(listed: &Listed) -> Tool {
    let tool = match &listed.written {
        Some(written) => theirs(listed, written),
        None => own(&listed.def),
    };
    match Shape::of(listed) {
        Shape::Object | Shape::Wrapped => tool.with_raw_output_schema(output_schema(&listed.def)),
        // Its results are not ours to wrap; a schema that not all clients take is left out.
        Shape::Relayed => match &listed.def.output_schema {
            Value::Object(schema) if schema.get("type") == Some(&json!("object")) => {
                tool.with_raw_output_schema(Arc::new(schema.clone()))
            }
            _ => tool,
        },
    }
}

/// A tool of another server: in its own words, under our name for it and with our hints. Icons are left out, because whoever
/// shows one takes it from where that server says.
fn theirs(listed: &Listed, written: &Definition) -> Tool {
    let Definition { title, description, more, .. } = written;
    let is_clean = |key: &str| {
        let at = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        let is_below =
            |found: &Found| found.at.strip_prefix(&at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        !listed.findings.iter().any(is_below)
    };
    let more = more.iter().filter(|(key, _)| *key != "icons" && is_clean(key));
    let mut tool = Tool::new(listed.def.name.clone(), "", input_schema(&listed.def.input_schema));
    tool.title = title.as_deref().map(|title| clean::clean(title).0.into_owned());
    tool.description = description.clone().map(Into::into);
    tool.meta = relay::packed_fields(more.map(|(key, value)| (key.clone(), value.clone())).collect());
    tool.with_annotations(annotations(&listed.def))
}

fn own(def: &ToolDef) -> Tool {
    let description = match (&*def.summary, &*def.description) {
        (summary, "") => summary.to_owned(),
        (summary, description) => format!("{summary}\n\n{description}"),
    };
    Tool::new(def.name.clone(), description, input_schema(&def.input_schema))
        .with_title(title(&def.name))
        .with_annotations(annotations(def))
}

/// Are arguments of this tool also sent as headers, so that those on the way need not read the body?
pub(crate) fn is_mirrored(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("x-mcp-header") || fields.values().any(is_mirrored),
        Value::Array(items) => items.iter().any(is_mirrored),
        _ => false,
    }
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
    match (Shape::of_own(def), &def.output_schema) {
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

/// Findings that are told with a result.
const MOST_FINDINGS: usize = 16;

/// What MCP has no field for. Of findings, not what was hidden or where: those are words of whoever hid them.
pub(crate) fn about(outcome: &Outcome) -> Value {
    let found = |it: &Finding| json!({ "kind": it.kind, "rule": it.rule, "owasp": it.owasp, "span": it.span });
    let findings: Vec<Value> = outcome.findings.iter().take(MOST_FINDINGS).map(found).collect();
    json!({
        "call": outcome.call,
        "status": outcome.status,
        "code": outcome.code,
        "message": outcome.message,
        "remedy": outcome.remedy,
        "approval": outcome.approval,
        "truncated": outcome.truncated,
        "labels": outcome.labels,
        "findings": findings,
    })
}

/// An outcome as MCP tells it.
pub(crate) fn result(outcome: Outcome, shape: Shape, mut meta: MetaObject) -> CallToolResult {
    meta.0.insert(OUTCOME.to_owned(), about(&outcome));
    // Whatever stopped the call before the other server answered has no result of it.
    if shape == Shape::Relayed && outcome.structured.is_object() {
        return relay::packed(outcome.structured, outcome.is_error, meta);
    }
    let content = vec![ContentBlock::text(outcome.text)];
    // Clients hold what an error carries against the output schema as well, so it carries nothing.
    let mut result = if outcome.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = (!outcome.is_error).then(|| match shape {
        Shape::Object | Shape::Relayed => outcome.structured,
        Shape::Wrapped => Value::Object(JsonObject::from_iter([("result".to_owned(), outcome.structured)])),
    });
    result.meta = Some(meta);
    result
}

/// Questions as the answer to a call, in the revision in which the call then comes again.
pub(crate) fn asks(requests: Map<String, Value>, state: String, meta: MetaObject) -> InputRequiredResult {
    relay::packed_questions(requests, state, meta)
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use toolgate_contract::{CallId, Needs, Status, Truncated, Unit};

    fn def(input_schema: Value, output_schema: Value) -> ToolDef {
        ToolDef {
            name: "count_lines".into(),
            summary: "Count lines.".into(),
            description: "Counts them.".into(),
            input_schema,
            output_schema,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            ..ToolDef::default()
        }
    }

    fn listed(def: ToolDef) -> Listed {
        Listed { digest: def.digest().unwrap(), def, findings: Vec::new(), relayed: false, written: None }
    }

    #[test]
    fn a_schema_of_another_server_is_shown_as_it_is_or_not_at_all() {
        let object = json!({ "type": "object", "required": ["a"], "x-vendor": 1 });
        for (schema, expected) in
            [(object.clone(), object), (json!(true), json!(null)), (json!({ "type": "string" }), json!(null))]
        {
            let shown = tool(&Listed { relayed: true, ..listed(def(json!(true), schema)) });
            assert_eq!(serde_json::to_value(shown).unwrap()["outputSchema"], expected);
        }
    }

    #[track_caller]
    fn check_schemas(input: Value, output: Value, expected: Value) {
        let shown = serde_json::to_value(tool(&listed(def(input, output)))).unwrap();
        assert_eq!(json!([shown["inputSchema"], shown["outputSchema"]]), expected);
    }

    #[test]
    fn a_definition_is_shown_whole() {
        let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
        let shown = serde_json::to_value(tool(&listed(def(schema.clone(), schema.clone())))).unwrap();
        let expected = json!({
            "name": "count_lines", "title": "Count lines", "description": "Count lines.\n\nCounts them.",
            "inputSchema": schema, "outputSchema": schema,
            "annotations": {
                "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
            },
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn schemas_are_objects_whatever_they_were() {
        let object = json!({ "type": "object" });
        let wrapped =
            |result: Value| json!({ "type": "object", "properties": { "result": result }, "required": ["result"] });
        check_schemas(json!(true), object.clone(), json!([{ "type": "object" }, object]));
        check_schemas(json!(false), json!(true), json!([{ "type": "object", "not": {} }, wrapped(json!(true))]));
        check_schemas(
            json!({ "required": ["a"] }),
            json!({ "type": "string" }),
            json!([{ "type": "object", "required": ["a"] }, wrapped(json!({ "type": "string" }))]),
        );
        check_schemas(
            object.clone(),
            json!({ "type": ["object", "null"] }),
            json!([object, wrapped(json!({ "type": ["object", "null"] }))]),
        );
    }

    #[test]
    fn references_within_a_wrapped_schema_still_lead_where_they_led() {
        let tree = json!({
            "type": "array",
            "items": { "anyOf": [{ "$ref": "#" }, { "$ref": "#/$defs/leaf" }, { "$ref": "#named" }] },
            "$defs": { "leaf": { "$anchor": "named", "type": "integer" } },
        });
        let moved = json!({
            "type": "array",
            "items": { "anyOf": [
                { "$ref": "#/properties/result" },
                { "$ref": "#/properties/result/$defs/leaf" },
                { "$ref": "#named" },
            ] },
            "$defs": { "leaf": { "$anchor": "named", "type": "integer" } },
        });
        let object = json!({ "type": "object" });
        check_schemas(
            object.clone(),
            tree,
            json!([object, { "type": "object", "properties": { "result": moved }, "required": ["result"] }]),
        );
    }

    /// Read-only, destructive, idempotent, open world.
    #[track_caller]
    fn check_hints(def: ToolDef, expected: [bool; 4]) {
        let hints = annotations(&def);
        let hints = [hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint];
        assert_eq!(hints, expected.map(Some));
    }

    #[test]
    fn hints_follow_our_own_classification() {
        let with =
            |safety, action, needs, idempotency| ToolDef { safety, action, needs, idempotency, ..ToolDef::default() };
        let online = Needs { network: Network::Fenced, ..Needs::NOTHING };
        use {ActionType as A, Idempotency as I, SafetyClass as S};
        check_hints(with(S::Read, A::CodeRead, Needs::READ_FILES, I::None), [true, false, true, false]);
        check_hints(with(S::Write, A::CodeWrite, Needs::WRITE_FILES, I::None), [false, true, false, false]);
        check_hints(with(S::Write, A::CodeDelete, Needs::WRITE_FILES, I::None), [false, true, false, false]);
        check_hints(with(S::Write, A::CodeCreate, Needs::WRITE_FILES, I::None), [false, false, false, false]);
        check_hints(with(S::Network, A::ExternalDataRequest, online, I::Required), [false, true, true, true]);
        check_hints(ToolDef::default(), [false, true, false, false]);
    }

    pub(crate) fn outcome() -> Outcome {
        Outcome {
            call: CallId("c1".into()),
            tool: "count_lines".into(),
            status: Status::Done,
            is_error: false,
            text: "three".into(),
            structured: json!(3),
            code: None,
            message: None,
            remedy: None,
            approval: None,
            truncated: None,
            labels: Vec::new(),
            findings: Vec::new(),
            enforced: Vec::new(),
            effects: Vec::new(),
            action: None,
            risk: None,
            asked: Vec::new(),
            replayed: false,
            elapsed_ms: 1,
        }
    }

    #[test]
    fn a_done_call_has_text_and_typed_output() {
        let truncated = Some(Truncated { shown: 3, total: 9, unit: Unit::Lines });
        let shown = result(Outcome { truncated, ..outcome() }, Shape::Wrapped, MetaObject::new());
        let expected = json!({
            "resultType": "complete",
            "content": [{ "type": "text", "text": "three" }],
            "structuredContent": { "result": 3 },
            "isError": false,
            "_meta": { "io.github.toolgate/outcome": {
                "call": "c1", "status": "done", "code": null, "message": null, "remedy": null, "approval": null,
                "truncated": { "shown": 3, "total": 9, "unit": "lines" }, "labels": [], "findings": [],
            } },
        });
        assert_eq!(serde_json::to_value(shown).unwrap(), expected);
        let shown =
            result(Outcome { structured: json!({ "lines": 3 }), ..outcome() }, Shape::Object, MetaObject::new());
        assert_eq!(shown.structured_content, Some(json!({ "lines": 3 })));
    }

    #[test]
    fn anything_else_is_an_error_without_typed_output() {
        for (status, name) in [(Status::Refused, "refused"), (Status::Failed, "failed"), (Status::Pending, "pending")] {
            let outcome = Outcome {
                status,
                is_error: true,
                text: "[no] because".into(),
                code: Some("no".into()),
                message: Some("because".into()),
                remedy: Some("Ask.".into()),
                approval: Some("apr_1".into()),
                ..outcome()
            };
            let expected = json!({
                "resultType": "complete",
                "content": [{ "type": "text", "text": "[no] because" }],
                "isError": true,
                "_meta": { "io.github.toolgate/outcome": {
                    "call": "c1", "status": name, "code": "no", "message": "because", "remedy": "Ask.",
                    "approval": "apr_1", "truncated": null, "labels": [], "findings": [],
                } },
            });
            assert_eq!(serde_json::to_value(result(outcome, Shape::Object, MetaObject::new())).unwrap(), expected);
        }
    }

    #[test]
    fn a_cursor_is_one_we_gave_out() {
        assert_eq!(read_cursor(&cursor("count_lines")).as_deref(), Some("count_lines"));
        for bad in ["6", "6g", "6A", "+6", "ff", "count_lines", "6 1"] {
            assert_eq!(read_cursor(bad), None, "{bad}");
        }
    }
}
