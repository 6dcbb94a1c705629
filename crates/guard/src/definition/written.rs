//! A definition as somebody else wrote it, and its hash.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_contract::{Digest, digest};

/// Who offers tools: the name the operator gave it, and what it really is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// The first half of its tools' names: `[a-z][a-z0-9_]*` without `__`.
    pub name: String,
    /// What answers under that name: a command line, a URL. Another one is another origin.
    pub identity: String,
}

/// What a model is shown of a tool, in the words of MCP. Whatever else its author sent is not kept and not shown.
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
}

impl Definition {
    /// It as JSON.
    pub fn to_json(&self) -> Value {
        let mut json = json!({ "name": self.name, "inputSchema": self.input_schema });
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
        digest(&json!({ "origin": origin, "definition": self.to_json() }))
    }

    /// Is it the other one but for its name?
    pub fn is_renamed(&self, other: &Self) -> bool {
        Self { name: String::new(), ..self.clone() } == Self { name: String::new(), ..other.clone() }
    }
}
