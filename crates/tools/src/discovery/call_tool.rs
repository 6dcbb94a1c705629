//! `call_tool`: a call of another tool, for clients whose list of tools cannot grow.
//!
//! The road takes the inner call in its place before anything is looked up. This body runs only where there is none.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_contract::{Example, Fault, ToolDef};

use super::def;
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            examples: vec![Example {
                title: "A tool that is not in the list".into(),
                arguments: json!({ "name": "echo", "arguments": { "text": "hello" } }),
            }],
            ..def(
                "call_tool",
                "Call a tool that is not in your list.",
                "Calls the tool `name` with `arguments`, exactly as if it were called by itself: the same rules, the same record, \
                 the same answer. Use `load_tool` first to learn what the arguments are.",
            )
        },
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The tool.
    #[expect(dead_code, reason = "the road reads it from the arguments")]
    name: String,
    /// Its arguments.
    #[serde(default)]
    #[expect(dead_code, reason = "the road reads it from the arguments")]
    arguments: Map<String, Value>,
}

fn run(_cx: &Cx, _input: Input) -> Result<Answer<Value>, Fault> {
    Err(Fault::failed(
        "not_a_call",
        "`call_tool` calls other tools only",
        "Name another tool, or call it by its own name.",
    ))
}
