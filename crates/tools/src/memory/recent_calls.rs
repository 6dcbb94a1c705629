//! `recent_calls`: what the agent itself has called.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{ActionType, Category, Example, FailureMode, Fault, Needs, SafetyClass, ToolDef};

use crate::{Answer, Cx, InFull, PastCall, PastCalls, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "recent_calls".into(),
            summary: "List the calls you made, or show one in full.".into(),
            description:
                "Lists your last calls, the newest first: time, id, tool, how it ended, effects, labels, findings. \
                          With `call`, shows that one with its arguments and its answer."
                    .into(),
            category: Category::Memory,
            action: ActionType::MemoryRead,
            safety: SafetyClass::Read,
            needs: Needs { record: true, ..Needs::NOTHING },
            timeout: Duration::from_secs(10),
            // Where others are busy a look reads far back, so there are not many at once.
            concurrency: 2,
            examples: vec![
                Example { title: "The last ones".into(), arguments: json!({ "count": 5 }) },
                Example {
                    title: "One in full".into(),
                    arguments: json!({ "call": "019a8c1e-7b1f-7d2e-9c3a-5f6e7d8c9b0a" }),
                },
            ],
            failures: vec![
                FailureMode {
                    code: "not_found".into(),
                    when: "You made no such call, or too long ago. List the calls to see their ids.".into(),
                },
                FailureMode {
                    code: "no_record".into(),
                    when: "Nothing is kept here that could be looked into. Do without it.".into(),
                },
            ],
            ..ToolDef::default()
        },
        |_: &Input| Vec::new(),
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// How many.
    #[serde(default = "usual")]
    #[schemars(range(min = 1, max = 100))]
    count: usize,
    /// The id of one call.
    #[schemars(length(max = 64))]
    call: Option<String>,
}

fn usual() -> usize {
    20
}

fn run(cx: &Cx, Input { count, call }: Input) -> Result<Answer<PastCalls>, Fault> {
    let own = cx.own_calls()?;
    let found = match call {
        Some(call) => own.one(&call, cx.caps().output_bytes)?,
        None => own.recent(count)?,
    };
    let mut text: String = found.calls.iter().map(told).collect();
    if found.calls.is_empty() {
        text.push_str("No call of yours was found.\n");
    }
    Ok(Answer::with_text(found, text))
}

/// A call in a line, and what was asked and answered below it.
fn told(call: &PastCall) -> String {
    let PastCall { at, call: id, tool, status, code, elapsed_ms, approval, effects, labels, findings, in_full } = call;
    let mut line = format!("{at} {id} {tool}: {status}");
    let mut add = |part: String| {
        line.push_str(", ");
        line.push_str(&part);
    };
    code.iter().for_each(|code| add(code.clone()));
    elapsed_ms.iter().for_each(|ms| add(format!("{ms} ms")));
    approval.iter().for_each(|approval| add(format!("approval {approval}")));
    let effects: Vec<String> = effects.iter().map(ToString::to_string).collect();
    for (what, words) in [("effects", &effects), ("labels", labels), ("found", findings)] {
        if !words.is_empty() {
            add(format!("{what}: {}", words.join("; ")));
        }
    }
    line.push('\n');
    if let Some(InFull { arguments, text, .. }) = in_full {
        line.push_str(&format!("Arguments: {arguments}\nAnswer:\n{text}\n"));
    }
    line
}
