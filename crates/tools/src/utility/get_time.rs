//! `get_time`: what time it is.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{ActionType, Category, Example, Fault, SafetyClass, ToolDef};

use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::pure(
        ToolDef {
            name: "get_time".into(),
            summary: "Tell the current date and time in UTC.".into(),
            description: "Returns the time to the second, in UTC, as `YYYY-MM-DDTHH:MM:SSZ`.".into(),
            category: Category::Analytics,
            action: ActionType::CodeRead,
            safety: SafetyClass::Read,
            timeout: Duration::from_secs(2),
            examples: vec![Example { title: "Now".into(), arguments: json!({}) }],
            ..ToolDef::default()
        },
        run,
    )
    .instant()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {}

fn run(cx: &Cx, _input: Input) -> Result<Answer<String>, Fault> {
    Ok(Answer::new(cx.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utility::testing::outcome;

    #[test]
    fn the_clock_is_read_to_the_second() {
        assert_eq!(outcome(tool, json!({})), Ok(json!("2026-11-15T09:08:07Z")));
    }
}
