//! `shell`: a script for bash.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{
    ActionType, Category, CommandForm, CommandLine, CostTier, Example, Fault, JobLimits, Ran, SafetyClass, ToolDef,
};

use super::{
    AT_ONCE, CAPS, MAX_SECONDS, NEEDS, TIMEOUT, default_seconds,
    ended::{self, Ended},
    fault::{BAD_COMMAND, NO_PROGRAM, run_modes},
    job::job,
    room_guide,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::starting(
        ToolDef {
            name: "shell".into(),
            summary: "Run a shell script, in a closed room. Prefer `bash` for one program.".into(),
            description: "Runs `script` with `bash -c` (`sh -c` where there is no bash). Riskier than `bash`, which starts \
                one program and no shell: a script can mean more than it shows, so it is read before it runs, and what is \
                not certain about it (a command from a variable, `eval`, text that does not parse) is asked about. Write \
                plain commands. It sees the workspace, the system's own programs and private `/tmp` and home directories; \
                the network only as far as the operator allows. It and everything it started is ended when the call ends. \
                A status other than 0 is an answer like any other."
                .into(),
            category: Category::Terminal,
            action: ActionType::CodeWrite,
            safety: SafetyClass::Write,
            needs: NEEDS,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            caps: CAPS,
            cost: CostTier::Medium,
            examples: vec![
                Example {
                    title: "A pipeline".into(),
                    arguments: json!({ "script": "git log --oneline | head -5" }),
                },
                Example {
                    title: "A file from a search".into(),
                    arguments: json!({ "script": "grep -rn TODO src > todo.txt; wc -l todo.txt", "cwd": "." }),
                },
            ],
            failures: run_modes(&[&NO_PROGRAM, &BAD_COMMAND]),
            guides: room_guide(),
            ..ToolDef::default()
        },
        |input: &Input| CommandLine {
            form: CommandForm::Script(input.script.clone()),
            cwd: input.cwd.clone(),
            env: input.env.clone(),
        },
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The script.
    #[schemars(length(min = 1, max = 65_536))]
    script: String,
    /// The directory to start in, relative to the workspace or absolute inside it; the workspace when it is left out.
    #[serde(default)]
    cwd: Option<String>,
    /// Seconds until it is ended.
    #[serde(default = "default_seconds")]
    #[schemars(range(min = 1, max = MAX_SECONDS))]
    timeout_seconds: u64,
    /// Text for its standard input, which is empty when this is left out.
    #[serde(default)]
    stdin: Option<String>,
    /// Variables to add to its environment, which does not have those of the machine.
    #[serde(default)]
    env: BTreeMap<String, String>,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Ended>, Fault> {
    let seconds = input.timeout_seconds.min(MAX_SECONDS);
    ended::answer(
        run_in(cx, "bash", &input, seconds).or_else(|fault| match NO_PROGRAM.is(&fault) {
            true => run_in(cx, "sh", &input, seconds),
            false => Err(fault),
        })?,
        seconds,
    )
}

fn run_in(cx: &Cx, shell: &str, input: &Input, seconds: u64) -> Result<Ran, Fault> {
    let argv = vec![shell.to_owned(), "-c".to_owned(), input.script.clone()];
    let stdin = input.stdin.clone().unwrap_or_default().into_bytes();
    let limits = JobLimits { wall: Duration::from_secs(seconds), ..JobLimits::default() };
    let job = job(cx, argv, input.cwd.as_deref(), input.env.clone(), stdin, limits)?;
    cx.programs()?.run(&job, cx.stop_flag())
}

#[cfg(test)]
mod tests {
    use super::{
        super::stage::{Asked, Stage, ran},
        *,
    };

    #[test]
    fn the_script_is_one_word_for_bash() {
        let stage = Stage::answering([Ok(ran(0, "a\n", ""))]);
        let arguments = json!({ "script": "echo \"$A\"; x 'y'", "cwd": "sub", "env": { "A": "1" }, "stdin": "in" });
        assert_eq!(stage.call(tool, arguments).unwrap().text, "a\n");
        let job = stage.job();
        assert_eq!(job.argv, ["bash", "-c", "echo \"$A\"; x 'y'"]);
        assert_eq!((job.cwd.as_str(), job.stdin.as_slice(), job.env["A"].as_str()), ("sub", b"in".as_slice(), "1"));
    }

    #[test]
    fn where_there_is_no_bash_there_is_sh() {
        let missing =
            || Err(Fault::failed("program_not_found", "there is no program `bash` in the room", "Use another."));
        let stage = Stage::answering([missing(), Ok(ran(0, "", ""))]);
        stage.call(tool, json!({ "script": "ls" })).unwrap();
        let shells: Vec<_> = stage
            .asked()
            .into_iter()
            .map(|asked| match asked {
                Asked::Run(job) => job.argv[0].clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(shells, ["bash", "sh"]);
        let stage = Stage::answering([missing(), missing()]);
        assert_eq!(stage.call(tool, json!({ "script": "ls" })).unwrap_err().code, "program_not_found");
        let lost = Err(Fault::failed("room_lost", "the room is gone", "Call again."));
        let stage = Stage::answering([lost]);
        assert_eq!(stage.call(tool, json!({ "script": "ls" })).unwrap_err().code, "room_lost");
        assert_eq!(stage.asked().len(), 1);
    }

    #[test]
    fn the_gate_reads_a_script() {
        let line = tool().reading.command(&json!({ "script": "ls | wc", "cwd": "sub" })).unwrap().unwrap();
        assert_eq!((line.form, line.cwd.as_deref()), (CommandForm::Script("ls | wc".into()), Some("sub")));
    }

    #[test]
    fn a_nul_byte_is_no_script() {
        assert_eq!(Stage::quiet().call(tool, json!({ "script": "ls\0" })).unwrap_err().code, "bad_command");
    }
}
