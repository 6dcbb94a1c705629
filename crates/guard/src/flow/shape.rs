//! What a schema says about one argument: can it carry somebody's text at all?

use serde_json::Value;

/// How many references are followed from one place.
const MOST_STEPS: usize = 16;

/// A place in the schema of a tool's arguments; unknown where the schema says nothing, and then anything may be there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    root: Option<&'a Value>,
    here: Option<&'a Value>,
}

impl<'a> Shape<'a> {
    pub(super) fn of(schema: Option<&'a Value>) -> Self {
        Self { root: schema, here: schema }
    }

    /// The place of this field.
    pub(super) fn field(self, key: &str) -> Self {
        let here = self.resolved();
        let named = here.and_then(|here| here.get("properties")?.get(key));
        Self { here: named.or_else(|| here?.get("additionalProperties")), ..self }
    }

    /// The place of an element of a list.
    pub(super) fn element(self) -> Self {
        Self { here: self.resolved().and_then(|here| here.get("items")), ..self }
    }

    /// Is this what the schema fills in where nothing is said?
    pub(super) fn is_default(self, value: &Value) -> bool {
        let given = self.here.and_then(|here| here.get("default"));
        given.or_else(|| self.resolved()?.get("default")) == Some(value)
    }

    /// Is everything that fits here a number, a truth or one of a few words the tool itself has written?
    pub(super) fn carries_no_text(self) -> bool {
        self.resolved().is_some_and(|here| self.is_typed(here, MOST_STEPS))
    }

    fn is_typed(self, here: &Value, steps: usize) -> bool {
        let Some(here) = self.follow(here, steps) else { return false };
        if here.get("enum").is_some() || here.get("const").is_some() {
            return true;
        }
        let plain = |name: &Value| matches!(name.as_str(), Some("number" | "integer" | "boolean" | "null"));
        match here.get("type") {
            Some(Value::Array(names)) => return !names.is_empty() && names.iter().all(plain),
            Some(name) => return plain(name),
            None => {}
        }
        ["anyOf", "oneOf"].iter().any(|key| {
            let ways = here.get(key).and_then(Value::as_array);
            ways.is_some_and(|ways| {
                !ways.is_empty() && steps > 0 && ways.iter().all(|way| self.is_typed(way, steps - 1))
            })
        })
    }

    fn resolved(self) -> Option<&'a Value> {
        self.follow(self.here?, MOST_STEPS)
    }

    /// Where references of the schema to itself lead. An optional field is what it is when it is there.
    fn follow(self, mut here: &'a Value, steps: usize) -> Option<&'a Value>
    where
        Self: 'a,
    {
        for _ in 0..=steps {
            let Some(to) = here.get("$ref") else { return Some(here) };
            here = self.root?.pointer(to.as_str()?.strip_prefix('#')?)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, expected: bool) {
        let whole = json!({ "properties": { "a": schema }, "$defs": { "Verb": { "enum": ["GET", "PUT"] }, "Loop": { "$ref": "#/$defs/Loop" } } });
        assert_eq!(Shape::of(Some(&whole)).field("a").carries_no_text(), expected, "{schema}");
    }

    #[test]
    fn numbers_truths_and_words_of_the_tool_itself_carry_no_text() {
        check(json!({ "type": "integer" }), true);
        check(json!({ "type": ["number", "null"] }), true);
        check(json!({ "type": "boolean" }), true);
        check(json!({ "enum": ["a", "b"] }), true);
        check(json!({ "const": "a" }), true);
        check(json!({ "$ref": "#/$defs/Verb" }), true);
        check(json!({ "anyOf": [{ "$ref": "#/$defs/Verb" }, { "type": "null" }] }), true);
    }

    #[test]
    fn whatever_may_be_text_is_text() {
        check(json!({ "type": "string" }), false);
        check(json!({ "type": ["integer", "string"] }), false);
        check(json!({ "anyOf": [{ "type": "integer" }, { "type": "string" }] }), false);
        check(json!({ "anyOf": [] }), false);
        check(json!({ "type": [] }), false);
        check(json!({}), false);
        check(json!(true), false);
        check(json!({ "$ref": "#/$defs/Loop" }), false);
        check(json!({ "$ref": "https://elsewhere.example/#/x" }), false);
        assert!(!Shape::of(None).field("a").carries_no_text());
    }
}
