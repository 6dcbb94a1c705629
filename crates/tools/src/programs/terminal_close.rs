//! `terminal_close`: ends a terminal.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, Ending, Example, Fault, SafetyClass, ToolDef};

use super::{AT_ONCE, NEEDS, fault::terminal_modes};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "terminal_close".into(),
            summary: "End a terminal and everything that runs on it.".into(),
            description:
                "Ends the terminal's program and whatever it started, and says how the program ended. Close what \
                you no longer need: terminals that are left open are ended when nobody has used them for ten minutes."
                    .into(),
            category: Category::Terminal,
            action: ActionType::CodeWrite,
            safety: SafetyClass::Write,
            needs: NEEDS,
            timeout: Duration::from_secs(30),
            concurrency: AT_ONCE,
            examples: vec![Example { title: "One".into(), arguments: json!({ "terminal": "t1" }) }],
            failures: terminal_modes(&[]),
            ..ToolDef::default()
        },
        |_: &Input| Vec::new(),
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The terminal's name.
    terminal: String,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// How the program ended: `exited`, `signaled`, or the word for what ended it.
    ending: String,
    /// Its exit status, if it had ended by itself.
    exit_code: Option<i32>,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let ran = cx.programs()?.close_terminal(&input.terminal)?;
    let exit_code = match ran.ending {
        Ending::Exited { code } => Some(code),
        Ending::Signaled { .. }
        | Ending::TimedOut
        | Ending::CpuLimit
        | Ending::OomKilled
        | Ending::PidsExhausted
        | Ending::DiskLimit
        | Ending::OutputLimit
        | Ending::Cancelled
        | Ending::RoomLost => None,
    };
    let text = match exit_code {
        Some(code) => format!("Closed; the program had exited with status {code}"),
        None => format!("Closed; the program was ended ({})", ran.ending.as_str()),
    };
    Ok(Answer::with_text(Output { ending: ran.ending.as_str().to_owned(), exit_code }, text))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use toolgate_contract::Ran;

    use super::{
        super::stage::{Asked, Stage, ran},
        *,
    };

    fn check(ending: Ending, structured: Value, text: &str) {
        let stage = Stage::answering([Ok(Ran { ending, ..ran(0, "", "") })]);
        let output = stage.call(tool, json!({ "terminal": "t1" })).unwrap();
        assert_eq!((output.structured, output.text.as_str()), (structured, text));
        assert_eq!(stage.asked(), [Asked::Close("t1".into())]);
    }

    #[test]
    fn it_says_how_the_program_ended() {
        let exited = json!({ "ending": "exited", "exit_code": 3 });
        check(Ending::Exited { code: 3 }, exited, "Closed; the program had exited with status 3");
        let ended = json!({ "ending": "cancelled", "exit_code": null });
        check(Ending::Cancelled, ended, "Closed; the program was ended (cancelled)");
        let killed = json!({ "ending": "signaled", "exit_code": null });
        check(Ending::Signaled { signal: 9 }, killed, "Closed; the program was ended (signaled)");
    }

    #[test]
    fn a_terminal_that_is_not_there_is_told_by_the_room() {
        let fault = Fault::failed("unknown_terminal", "there is no terminal `t9`", "Open one.");
        let stage = Stage::answering([Err(fault.clone())]);
        assert_eq!(stage.call(tool, json!({ "terminal": "t9" })), Err(fault));
    }
}
