//! JSON Schema 2020-12 for what goes in and what comes out.
//!
//! The one place that names the validator. It resolves no remote references (the crate is built without that
//! feature) and matches patterns with the linear engine, so a schema from elsewhere can neither fetch nor hang.

use std::fmt;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};
use toolgate_contract::{Fault, ToolDef};

/// A compiled schema.
pub struct Schema {
    validator: Validator,
}

impl Schema {
    /// Compiles a schema, or says why it is none.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex())
            .should_validate_formats(true)
            .build(schema)
            .map(|validator| Self { validator })
            .map_err(|error| error.to_string())
    }

    /// The arguments with defaults filled in, or a fault that teaches: which field, what is expected, an example.
    pub fn admit_input(&self, def: &ToolDef, arguments: &Value) -> Result<Value, Fault> {
        let mut input = arguments.clone();
        fill_defaults(&def.input_schema, &mut input);
        let problems = self.problems(&input);
        if problems.is_empty() {
            return Ok(input);
        }
        let remedy = match def.examples.first() {
            Some(example) => format!("Example: {}", example.arguments),
            None => format!("Expected: {}", def.input_schema),
        };
        Err(Fault::failed("invalid_arguments", problems.join("; "), remedy))
    }

    /// The output, or a fault: a tool that does not keep its word is not passed on.
    pub(crate) fn admit_output(&self, output: &Value) -> Result<(), Fault> {
        let problems = self.problems(output);
        if problems.is_empty() {
            return Ok(());
        }
        Err(Fault::failed(
            "invalid_output",
            format!("the tool's output does not fit its schema: {}", problems.join("; ")),
            "Report this as a bug in the tool.",
        ))
    }

    /// At most five problems, each with the place it was found.
    fn problems(&self, value: &Value) -> Vec<String> {
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        self.validator
            .iter_errors(value)
            .take(5)
            .map(|error| {
                let place = error.instance_path().to_string();
                let place = if place.is_empty() { "arguments".to_owned() } else { format!("`{place}`") };
                format!("{place}: {}", shorten(&error.to_string()))
            })
            .collect()
    }
}

/// What was filled into a form, with defaults for what was left out, or why it does not fit.
pub fn admit_form(schema: &Value, content: &Value) -> Result<Value, String> {
    let form = Schema::compile(schema)?;
    let mut filled = content.clone();
    fill_defaults(schema, &mut filled);
    let problems = form.problems(&filled);
    if problems.is_empty() { Ok(filled) } else { Err(problems.join("; ")) }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

/// A validator quotes the value it did not like, and that value may be a megabyte.
fn shorten(message: &str) -> String {
    const MOST: usize = 300;
    if message.chars().count() <= MOST {
        return message.to_owned();
    }
    let head: String = message.chars().take(MOST / 2).collect();
    let tail: String = message.chars().rev().take(MOST / 2).collect::<Vec<_>>().into_iter().rev().collect();
    format!("{head} ... {tail}")
}

/// Fills in `default`s of missing properties, at every depth the arguments have.
fn fill_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let empty = Map::new();
            let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
            for (name, property) in properties {
                if let Some(field) = fields.get_mut(name) {
                    fill_defaults(property, field);
                } else if let Some(default) = property.get("default").filter(|default| !default.is_null()) {
                    fields.insert(name.clone(), default.clone());
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| fill_defaults(schema, item));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: Value, arguments: Value, expected: Result<Value, &str>) {
        let def = ToolDef { input_schema: schema.clone(), ..ToolDef::default() };
        let admitted = Schema::compile(&schema).unwrap().admit_input(&def, &arguments).map_err(|f| f.message);
        assert_eq!(admitted, expected.map_err(str::to_owned));
    }

    #[test]
    fn defaults_are_filled_in_at_every_depth() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": { "default": 1 },
                "list": { "type": "array", "items": { "properties": { "b": { "default": false } } } },
                "none": { "default": null }
            }
        });
        check(
            schema,
            json!({ "list": [{}, { "b": true }] }),
            Ok(json!({ "a": 1, "list": [{ "b": false }, { "b": true }] })),
        );
    }

    #[test]
    fn faults_name_the_field() {
        let schema = json!({
            "type": "object",
            "properties": { "n": { "type": "integer", "maximum": 3 } },
            "required": ["n"],
            "additionalProperties": false
        });
        check(schema.clone(), json!({}), Err("arguments: \"n\" is a required property"));
        check(schema.clone(), json!({ "n": true }), Err("`/n`: true is not of type \"integer\""));
        check(schema, json!({ "n": 9 }), Err("`/n`: 9 is greater than the maximum of 3"));
    }

    #[test]
    fn the_whole_2020_12_vocabulary_is_there() {
        let schema = json!({
            "type": "object",
            "properties": { "tags": { "prefixItems": [{ "type": "string" }], "items": false } },
            "dependentRequired": { "tags": ["name"] },
            "unevaluatedProperties": false,
            "anyOf": [{ "properties": { "name": { "type": "string" } } }]
        });
        check(schema.clone(), json!({ "tags": ["a"], "name": "x" }), Ok(json!({ "tags": ["a"], "name": "x" })));
        for bad in [json!({ "tags": ["a"] }), json!({ "tags": ["a", "b"], "name": "x" }), json!({ "other": 1 })] {
            let def = ToolDef { input_schema: schema.clone(), ..ToolDef::default() };
            assert!(Schema::compile(&schema).unwrap().admit_input(&def, &bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_remote_or_file_reference_is_refused_when_the_tool_is_registered() {
        for target in ["http://127.0.0.1:9/x.json", "https://example.com/x.json", "file:///etc/hostname"] {
            assert!(Schema::compile(&json!({ "$ref": target })).is_err(), "{target}");
        }
    }

    #[test]
    fn a_pattern_that_would_backtrack_forever_is_linear_or_refused() {
        let schema = json!({ "properties": { "s": { "pattern": "^(a+)+$" } } });
        let text = format!("{}!", "a".repeat(50_000));
        let def = ToolDef { input_schema: schema.clone(), ..ToolDef::default() };
        assert!(Schema::compile(&schema).unwrap().admit_input(&def, &json!({ "s": text })).is_err());
        assert!(Schema::compile(&json!({ "pattern": "(?=a)b" })).is_err());
    }
}
