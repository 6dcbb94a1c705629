//! `load_tool`: all about one tool.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{Example, FailureMode, Fault, ToolDef};

use super::def;
use crate::{Answer, Cx, LoadedTool, Tool};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            examples: vec![Example { title: "How to search files".into(), arguments: json!({ "name": "grep" }) }],
            failures: vec![FailureMode {
                code: "too_much_loaded".into(),
                when: "What is loaded already leaves no room: call the tool without loading it.".into(),
            }],
            ..def(
                "load_tool",
                "Read how one tool is used.",
                "Gives the whole description of a tool, the schema of its arguments, examples, and how it fails; then call it \
                 by its name, or with `call_tool` if your client does not list it. What was loaded and not used for long may be \
                 put away; load it again when you need it.",
            )
        },
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The tool, as `list_tools` names it.
    name: String,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<LoadedTool>, Fault> {
    cx.finder()?.load(&input.name).map(Answer::new)
}
