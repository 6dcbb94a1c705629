//! `list_tools`: a line for each tool the agent may use.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{Example, Fault, ToolDef};

use super::def;
use crate::{Answer, Cx, Tool, ToolLines, ToolQuery};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            examples: vec![
                Example { title: "What there is".into(), arguments: json!({}) },
                Example { title: "Something for commits".into(), arguments: json!({ "query": "git commit" }) },
                Example { title: "Tools for files".into(), arguments: json!({ "category": "file_system" }) },
            ],
            ..def(
                "list_tools",
                "List the tools there are, one line each.",
                "Lists the tools you may use: name, one line, category and cost. `query` finds by words, the best first; \
                 `category` keeps one kind. A long list comes in parts: pass `next` as `after` for the following one. \
                 `load_tool` tells how to use a tool.",
            )
        },
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Words to look for in names and descriptions.
    query: Option<String>,
    /// One kind only, for example `file_system`, `web` or `mcp`.
    category: Option<String>,
    /// Where the last part ended: its `next`.
    after: Option<String>,
}

fn run(cx: &Cx, Input { query, category, after }: Input) -> Result<Answer<ToolLines>, Fault> {
    let lines = cx.finder()?.list(&ToolQuery { query, category, after })?;
    let mut text: String = lines.tools.iter().map(|line| format!("{line}\n")).collect();
    if lines.tools.is_empty() {
        text.push_str("No tool fits.\n");
    }
    if let Some(next) = &lines.next {
        text.push_str(&format!("{} of {}; the following ones: after = {next:?}\n", lines.tools.len(), lines.total));
    }
    Ok(Answer::with_text(lines, text))
}
