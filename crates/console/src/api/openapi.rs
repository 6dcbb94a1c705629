//! The description of the API, made from the table of its routes.

use serde_json::{Map, Value, json};

use super::Route;

/// An OpenAPI 3.1 document.
pub(super) fn document(routes: &[Route]) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        methods[route.method.as_str().to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Toolgate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Calls, what was decided about them, and the people in between. Every error is an object of \
                            `code`, `message` and `remedy`.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "A token made with `toolgate tokens add`." },
            },
        },
    })
}

fn operation(route: &Route) -> Value {
    let of = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    parameters.extend(route.query.iter().map(
        |(name, about)| json!({ "name": name, "in": "query", "description": about, "schema": { "type": "string" } }),
    ));
    let content = match route.answer {
        Some(name) => json!({ "application/json": { "schema": of(name) } }),
        None if route.path == crate::fence::EVENTS => json!({ "text/event-stream": {} }),
        None => json!({ "application/octet-stream": {} }),
    };
    let problem =
        json!({ "description": "A problem.", "content": { "application/json": { "schema": of("Problem") } } });
    let mut operation = json!({
        "operationId": name(route),
        "summary": route.about,
        "parameters": parameters,
        "responses": { "200": { "description": "The answer.", "content": content }, "default": problem },
        "security": route.scope.map_or(json!([]), |_| json!([{ "token": [] }])),
    });
    if let Some(scope) = route.scope {
        operation["x-scope"] = json!(scope);
    }
    if let Some(body) = route.body {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": of(body) } } });
    }
    operation
}

fn name(route: &Route) -> String {
    let parts = route.path.trim_start_matches("/api/").replace(['{', '}', '.'], "");
    format!("{}_{}", route.method.as_str().to_ascii_lowercase(), parts.replace('/', "_"))
}

fn object(required: &[&str], properties: &Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

fn schemas() -> Value {
    let (text, number, may_be_text, may_be_number) = (
        json!({ "type": "string" }),
        json!({ "type": "integer", "minimum": 0 }),
        json!({ "type": ["string", "null"] }),
        json!({ "type": ["integer", "null"], "minimum": 0 }),
    );
    let texts = json!({ "type": "array", "items": text });
    let list = |name: &str| json!({ "type": "array", "items": { "$ref": format!("#/components/schemas/{name}") } });
    let summary = object(
        &["seq", "at_ms", "call", "agent", "tool", "status", "findings", "effects", "labels"],
        &json!({
            "seq": number, "at_ms": number, "call": text, "agent": text, "tool": text,
            "status": { "enum": ["done", "refused", "pending", "failed", "running"] },
            "code": may_be_text, "verdict": { "enum": ["allow", "ask", "deny", null] }, "action": may_be_text,
            "class": may_be_text, "risk": may_be_text, "approval": may_be_text, "elapsed_ms": may_be_number,
            "findings": texts, "effects": { "type": "array", "items": { "type": "object" } }, "labels": texts,
        }),
    );
    json!({
        "Any": true,
        "Problem": object(
            &["code", "message", "remedy"],
            &json!({ "code": text, "message": text, "remedy": text }),
        ),
        "Call": {
            "type": "object", "required": ["tool"], "additionalProperties": false,
            "properties": {
                "tool": text, "arguments": { "type": "object" },
                "key": { "type": "string", "description": "What the effect is called, so that it happens once." },
                "task": { "type": "string", "description": "What the agent is at." },
                "wait": { "type": "boolean", "description": "Wait a while where a person is asked." },
            },
        },
        "Outcome": object(
            &["call", "tool", "status", "is_error", "text", "elapsed_ms"],
            &json!({
                "call": text, "tool": text, "status": { "enum": ["done", "refused", "pending", "failed"] },
                "is_error": { "type": "boolean" }, "text": text, "structured": true, "code": may_be_text,
                "message": may_be_text, "remedy": may_be_text, "approval": may_be_text,
                "truncated": { "type": ["object", "null"] }, "labels": texts,
                "findings": { "type": "array", "items": { "type": "object" } }, "enforced": texts,
                "effects": { "type": "array", "items": { "type": "object" } }, "action": may_be_text,
                "risk": may_be_text, "elapsed_ms": number,
            }),
        ),
        "Summary": summary,
        "Calls": object(&["calls", "next"], &json!({ "calls": list("Summary"), "next": may_be_number })),
        "Whole": object(
            &["summary", "record", "outcome", "raw_bytes", "entries"],
            &json!({
                "summary": { "$ref": "#/components/schemas/Summary" }, "record": { "type": "object" },
                "outcome": { "type": ["object", "null"] }, "raw_bytes": may_be_number,
                "entries": { "type": "array", "items": object(
                    &["seq", "hash", "body"],
                    &json!({ "seq": number, "hash": text, "body": { "type": "object" } }),
                ) },
            }),
        ),
        "Reason": {
            "type": "object", "additionalProperties": false, "properties": { "reason": { "type": "string", "maxLength": 2000 } },
        },
        "Approval": object(
            &["id", "round", "question", "state", "votes", "created_ms"],
            &json!({
                "id": text, "round": number, "created_ms": number,
                "state": { "enum": ["waiting", "approved", "denied", "expired", "used"] },
                "question": object(
                    &["digest", "call", "agent", "tool", "arguments", "reasons", "people", "risk", "class", "effects"],
                    &json!({ "digest": text, "call": text, "agent": text, "tool": text, "people": number }),
                ),
                "votes": { "type": "array", "items": object(
                    &["by", "answer", "reason", "at_ms"],
                    &json!({ "by": text, "answer": { "enum": ["yes", "no"] }, "reason": text, "at_ms": number }),
                ) },
            }),
        ),
        "Approvals": object(&["approvals"], &json!({ "approvals": list("Approval") })),
        "Grants": object(&["grants"], &json!({ "grants": { "type": "array", "items": object(
            &["id", "terms", "left", "created_ms", "revoked", "stale"],
            &json!({
                "id": text, "terms": { "type": "object" }, "left": number, "created_ms": number,
                "stale": {
                    "type": "boolean",
                    "description": "It was said about another definition of the tool, and covers nothing.",
                },
            }),
        ) } })),
        "Effects": object(&["effects"], &json!({ "effects": { "type": "array", "items": object(
            &["key", "fingerprint", "call", "state", "attempt", "outcome", "resolved"],
            &json!({
                "key": object(&["agent", "tool", "key"], &json!({ "agent": text, "tool": text, "key": text })),
                "state": { "enum": ["running", "done", "failed", "unknown", "resolved"] }, "attempt": number,
            }),
        ) } })),
        "Resolve": {
            "type": "object", "required": ["agent", "tool", "key", "happened"], "additionalProperties": false,
            "properties": {
                "agent": text, "tool": text, "key": text, "happened": { "type": "boolean" },
                "said": { "type": "string", "description": "What the caller is told when it asks again." },
            },
        },
        "Agents": object(&["agents"], &json!({ "agents": { "type": "array", "items": object(
            &["name", "level", "level_description", "source", "roles", "workspace", "tools", "standing"],
            &json!({
                "name": text, "level": text, "source": text, "roles": texts, "workspace": text, "tools": number,
                "level_description": { "type": ["string", "null"], "description": "What the operator says about it." },
                "standing": {
                    "type": ["object", "null"],
                    "description": "What the agent has earned in each category; null where its level is set by hand.",
                },
            }),
        ) } })),
        "Standing": object(
            &["agent", "standing", "evidence"],
            &json!({
                "agent": text, "standing": { "type": ["object", "null"] },
                "evidence": { "type": "array", "items": object(&["at_ms", "by", "kind"], &json!({})) },
            }),
        ),
        "Promote": {
            "type": "object", "required": ["category"], "additionalProperties": false, "properties": { "category": text },
        },
        "Catalog": object(&["tools"], &json!({ "tools": { "type": "array", "items": object(
            &["name", "digest", "findings", "agents", "input_schema"],
            &json!({
                "name": text, "digest": text, "agents": texts,
                "findings": { "type": "array", "items": object(&["rule", "at", "detail"], &json!({})) },
            }),
        ) } })),
        "Rooms": object(&["rooms", "made_ahead"], &json!({
            "rooms": { "type": "array", "items": object(
                &["id", "owner", "backend", "tier", "age_ms", "pid", "spec", "state"],
                &json!({ "id": text, "age_ms": number, "state": { "enum": ["alive", "left_over"] } }),
            ) },
            // Containers: how many wait, and how many of those that were wanted had been made already.
            "made_ahead": { "anyOf": [{ "type": "null" }, object(
                &["waiting", "hits", "misses"], &json!({ "waiting": number, "hits": number, "misses": number }),
            )] },
        })),
        "Tally": object(
            &["since_ms", "until_ms", "complete", "steps", "findings", "by_code"],
            &json!({
                "since_ms": number, "until_ms": number, "complete": { "type": "boolean" },
                "steps": { "type": "array", "items": object(
                    &["done", "refused", "pending", "failed", "findings", "p50_ms", "p95_ms"], &json!({}),
                ) },
                "findings": { "type": "object", "additionalProperties": {
                    "type": "object", "additionalProperties": number,
                } },
                "by_code": { "type": "object", "additionalProperties": number },
            }),
        ),
        "Report": object(
            &["sound", "key", "records", "checkpoints", "problems", "problem_count", "open_intents"],
            &json!({ "sound": { "type": "boolean" }, "key": text, "records": number, "problem_count": number }),
        ),
    })
}
