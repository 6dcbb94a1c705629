//! `echo`: gives back the text it was given.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{ActionType, Category, Example, Fault, SafetyClass, ToolDef};

use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            name: "echo".into(),
            summary: "Give back the text it was given.".into(),
            description: "Returns `text` unchanged. Useful to check that calls arrive.".into(),
            category: Category::Analytics,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            timeout: Duration::from_secs(2),
            examples: vec![Example { title: "A greeting".into(), arguments: json!({ "text": "hello" }) }],
            ..ToolDef::default()
        },
        run,
    )
    .instant()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The text to give back.
    text: String,
}

fn run(_cx: &Cx, input: Input) -> Result<Answer<String>, Fault> {
    Ok(Answer::new(input.text))
}
