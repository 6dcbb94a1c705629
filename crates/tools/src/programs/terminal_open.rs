//! `terminal_open`: a program on a terminal that stays.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{
    ActionType, Category, CommandForm, CommandLine, CostTier, Example, Fault, JobLimits, SafetyClass, TerminalSize,
    ToolDef,
};

use super::{
    AT_ONCE, NEEDS,
    fault::{BAD_COMMAND, NO_PROGRAM, TOO_MANY_TERMINALS, start_modes},
    job::job,
};
use crate::{Answer, Cx, Tool};

/// How long a terminal stays at most, also when somebody uses it.
const MAX_LIFE: Duration = Duration::from_secs(8 * 60 * 60);

pub(crate) fn tool() -> Tool {
    Tool::starting(
        ToolDef {
            name: "terminal_open".into(),
            summary: "Start a program on a terminal that stays, in a closed room.".into(),
            description: "Starts a program (bash, when `argv` is left out) on a terminal of its own and returns the \
                terminal's name. For what asks questions or goes on for long: a debugger, a REPL, a server. For a command \
                that ends by itself `bash` is simpler. Type with `terminal_send`, look with `terminal_read`, end it with \
                `terminal_close`. It stays until then, until its program ends, or until nobody has used it for ten minutes."
                .into(),
            category: Category::Terminal,
            action: ActionType::CodeWrite,
            safety: SafetyClass::Write,
            needs: NEEDS,
            timeout: Duration::from_secs(30),
            concurrency: AT_ONCE,
            cost: CostTier::Medium,
            examples: vec![
                Example { title: "A shell".into(), arguments: json!({}) },
                Example {
                    title: "Python, on a wide terminal".into(),
                    arguments: json!({ "argv": ["python3"], "columns": 160 }),
                },
            ],
            failures: start_modes(&[&NO_PROGRAM, &BAD_COMMAND, &TOO_MANY_TERMINALS]),
            ..ToolDef::default()
        },
        |input: &Input| CommandLine {
            form: CommandForm::Argv(input.argv.clone()),
            cwd: input.cwd.clone(),
            env: input.env.clone(),
        },
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The program, then its arguments, one string each.
    #[serde(default = "a_shell")]
    #[schemars(length(min = 1, max = 256))]
    argv: Vec<String>,
    /// The directory to start in, relative to the workspace or absolute inside it; the workspace when it is left out.
    #[serde(default)]
    cwd: Option<String>,
    /// Variables to add to its environment, which does not have those of the machine.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// How many lines the terminal has.
    #[serde(default = "default_rows")]
    #[schemars(range(min = 2, max = 200))]
    rows: u16,
    /// How many characters a line has.
    #[serde(default = "default_columns")]
    #[schemars(range(min = 20, max = 400))]
    columns: u16,
}

fn a_shell() -> Vec<String> {
    vec!["bash".to_owned()]
}

fn default_rows() -> u16 {
    24
}

fn default_columns() -> u16 {
    80
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// The terminal's name, for the other terminal tools.
    terminal: String,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let size = TerminalSize { rows: input.rows.clamp(2, 200), columns: input.columns.clamp(20, 400) };
    // What a terminal says is kept as a screen, so there is no end to what it may say.
    let limits = JobLimits { wall: MAX_LIFE, most_output: u64::MAX, ..JobLimits::default() };
    let job = job(cx, input.argv, input.cwd.as_deref(), input.env, Vec::new(), limits)?;
    let terminal = cx.programs()?.open_terminal(&job, size)?;
    let text = format!("Opened terminal {terminal}");
    Ok(Answer::with_text(Output { terminal }, text))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{
        super::stage::{Asked, Stage},
        *,
    };

    fn opened(arguments: Value) -> (Vec<String>, String, TerminalSize) {
        let stage = Stage::quiet();
        let output = stage.call(tool, arguments).unwrap();
        assert_eq!((output.structured, output.text.as_str()), (json!({ "terminal": "t1" }), "Opened terminal t1"));
        match stage.asked().as_slice() {
            [Asked::Open(job, size)] => {
                assert_eq!((job.limits.wall, job.limits.most_output), (MAX_LIFE, u64::MAX));
                (job.argv.clone(), job.cwd.clone(), *size)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_is_a_shell_unless_another_program_is_named() {
        let size = TerminalSize { rows: 24, columns: 80 };
        assert_eq!(opened(json!({})), (vec!["bash".to_owned()], String::new(), size));
        let arguments = json!({ "argv": ["python3", "-q"], "cwd": "sub", "rows": 50, "columns": 120 });
        let size = TerminalSize { rows: 50, columns: 120 };
        assert_eq!(opened(arguments), (vec!["python3".to_owned(), "-q".to_owned()], "sub".to_owned(), size));
    }

    #[test]
    fn a_size_no_screen_has_is_not_passed_on() {
        let (_, _, size) = opened(json!({ "rows": 0, "columns": 65535 }));
        assert_eq!(size, TerminalSize { rows: 2, columns: 400 });
    }

    #[test]
    fn nothing_is_opened_outside_or_without_a_program() {
        let code = |arguments| Stage::quiet().call(tool, arguments).unwrap_err().code;
        assert_eq!(code(json!({ "cwd": "/etc" })), "path_outside_workspace");
        assert_eq!(code(json!({ "argv": [] })), "bad_command");
    }
}
