//! `load_tool_resource`: something longer about one tool.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{Example, Fault, ToolDef};

use super::def;
use crate::{Answer, Cx, Tool, ToolResource};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            examples: vec![Example {
                title: "What a search gives back".into(),
                arguments: json!({ "name": "grep", "resource": "output_schema" }),
            }],
            ..def(
                "load_tool_resource",
                "Read a guide, an example or a schema that belongs to a tool.",
                "Gives one of the resources `load_tool` lists for a tool: a guide, code, a worked example, or the schema of what \
                 it returns.",
            )
        },
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The tool.
    name: String,
    /// The resource, as `load_tool` names it.
    resource: String,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<ToolResource>, Fault> {
    let found = cx.finder()?.resource(&input.name, &input.resource)?;
    let text = found.content.clone();
    Ok(Answer::with_text(found, text))
}
