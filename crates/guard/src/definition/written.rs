//! A definition as somebody else wrote it, and its hash.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_contract::{Digest, digest};

use super::under;
use crate::json::is_exact;

/// Who offers tools: the name the operator gave it, and what it really is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// The first half of its tools' names: `[a-z][a-z0-9_]*` without `__`.
    pub name: String,
    /// What answers under that name: a command line, a URL. Another one is another origin.
    pub identity: String,
}

/// A tool in the words of MCP, with everything its author wrote: what nobody is shown today is still a part of what a person
/// agreed to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// As its author spells it.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the model reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the typed output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What the author claims about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    /// Whatever else there is, such as `icons`, `_meta` and fields that only some know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The fields of a definition that have a place of their own.
const FIELDS: [&str; 6] = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];

impl Definition {
    /// A definition as it was written, if it has the parts of one: a name, and texts where texts belong. A schema that is none
    /// is kept as it is, and found to be none by whoever takes the definition in.
    pub fn read(written: &Value) -> Option<Self> {
        let text = |key: &str| match &written[key] {
            Value::Null => Some(None),
            Value::String(text) => Some(Some(text.clone())),
            _ => None,
        };
        let value = |key: &str| written.get(key).filter(|value| !value.is_null()).cloned();
        let more = written.as_object()?.iter().filter(|(key, _)| !FIELDS.contains(&key.as_str()));
        Some(Self {
            name: written["name"].as_str().filter(|name| !name.is_empty())?.to_owned(),
            title: text("title")?,
            description: text("description")?,
            input_schema: written["inputSchema"].clone(),
            output_schema: value("outputSchema"),
            annotations: value("annotations"),
            more: more.map(|(key, value)| (key.clone(), value.clone())).collect(),
        })
    }

    /// It as JSON.
    pub fn to_json(&self) -> Value {
        let mut json = Value::Object(self.more.clone());
        (json["name"], json["inputSchema"]) = (json!(self.name), self.input_schema.clone());
        let optional = [
            ("title", self.title.as_ref().map(|text| json!(text))),
            ("description", self.description.as_ref().map(|text| json!(text))),
            ("outputSchema", self.output_schema.clone()),
            ("annotations", self.annotations.clone()),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                json[key] = value;
            }
        }
        json
    }

    /// The hash of all of it and of who says so. Change any word, and it is another tool.
    pub fn digest(&self, origin: &Origin) -> Result<Digest, serde_json::Error> {
        let definition = self.to_json();
        let mut large = BTreeMap::new();
        large_integers(&definition, "", &mut large);
        let mut whole = json!({ "origin": origin, "definition": definition });
        if !large.is_empty() {
            whole["large_integers"] = json!(large);
        }
        digest(&whole)
    }

    /// Is it the other one but for its name?
    pub fn is_renamed(&self, other: &Self) -> bool {
        Self { name: String::new(), ..self.clone() } == Self { name: String::new(), ..other.clone() }
    }
}

/// Integers that the spelling that is hashed would round, to the last digit, by where they stand. Most definitions have none.
fn large_integers(value: &Value, at: &str, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Number(number) if !is_exact(number) => drop(found.insert(at.to_owned(), number.to_string())),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| large_integers(item, &under(at, &index.to_string()), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| large_integers(field, &under(at, name), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_integer_is_part_of_the_hash_to_the_last_digit() {
        let origin = Origin { name: "far".into(), identity: "x".into() };
        let hash = |schema: Value| {
            let definition = json!({ "name": "add", "inputSchema": schema });
            serde_json::from_value::<Definition>(definition).unwrap().digest(&origin).unwrap()
        };
        let hashes = [
            hash(json!({ "maximum": i64::MAX })),
            hash(json!({ "maximum": i64::MAX - 1 })),
            hash(json!({ "maximum": 9_223_372_036_854_775_807_f64 })),
            hash(json!({ "minimum": i64::MAX })),
        ];
        let different: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(different.len(), hashes.len());
        // One that has none has the hash it always had.
        let plain = json!({ "name": "add", "inputSchema": { "maximum": 7 } });
        let always = digest(&json!({ "origin": origin, "definition": plain })).unwrap();
        assert_eq!(hash(json!({ "maximum": 7 })), always);
    }
}
