//! `bash`: one program with its arguments.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{
    ActionType, Category, CommandForm, CommandLine, CostTier, Example, Fault, JobLimits, SafetyClass, ToolDef,
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
            name: "bash".into(),
            summary: "Run one program with its arguments, in a closed room.".into(),
            description: "Runs the program `argv[0]` with the arguments after it, exactly as they are given: there is no \
                shell, so quotes, `$`, `*`, `|` and `>` are plain text. For a pipeline use `shell`. The program sees the \
                workspace, the system's own programs and private `/tmp` and home directories; the network only as far as \
                the operator allows. It and everything it started is ended when the call ends. The answer has its output \
                and its exit status; a status other than 0 is an answer like any other."
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
                    title: "The last commits".into(),
                    arguments: json!({ "argv": ["git", "log", "--oneline", "-n", "5"] }),
                },
                Example {
                    title: "Tests of one part, with more time".into(),
                    arguments: json!({ "argv": ["cargo", "test", "-p", "gate"], "cwd": "crates", "timeout_seconds": 300 }),
                },
                Example {
                    title: "Text on standard input".into(),
                    arguments: json!({ "argv": ["sort", "-u"], "stdin": "b\na\nb\n" }),
                },
            ],
            failures: run_modes(&[&NO_PROGRAM, &BAD_COMMAND]),
            guides: room_guide(),
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
    /// The program, then its arguments, one string each. Example: `["git", "commit", "-m", "fix: a typo"]`.
    #[schemars(length(min = 1, max = 256))]
    argv: Vec<String>,
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
    let limits = JobLimits { wall: Duration::from_secs(seconds), ..JobLimits::default() };
    let stdin = input.stdin.unwrap_or_default().into_bytes();
    let job = job(cx, input.argv, input.cwd.as_deref(), input.env, stdin, limits)?;
    ended::answer(cx.programs()?.run(&job, cx.stop_flag())?, seconds)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use toolgate_contract::{Ending, Ran};

    use super::{
        super::stage::{Stage, ran},
        *,
    };

    /// The code of a call that must not reach the room.
    fn refuses(arguments: Value, code: &str) {
        let stage = Stage::quiet();
        assert_eq!(stage.call(tool, arguments.clone()).unwrap_err().code, code, "{arguments}");
        assert_eq!(stage.asked(), [], "{arguments}");
    }

    #[test]
    fn the_room_gets_the_words_as_they_are() {
        let stage = Stage::answering([Ok(ran(2, "out\n", "err\n"))]);
        let arguments = json!({
            "argv": ["printf", "$HOME; 'x' | *"], "cwd": "./a/../b//c/", "timeout_seconds": 5, "stdin": "in\0",
            "env": { "A": "1" },
        });
        let output = stage.call(tool, arguments).unwrap();
        let job = stage.job();
        assert_eq!(job.argv, ["printf", "$HOME; 'x' | *"]);
        assert_eq!((job.cwd.as_str(), job.stdin.as_slice()), ("b/c", b"in\0".as_slice()));
        assert_eq!(job.env, [("A".to_owned(), "1".to_owned())].into());
        assert_eq!(job.limits, JobLimits { wall: Duration::from_secs(5), ..JobLimits::default() });
        assert_eq!(output.text, "out\n[stderr]\nerr\n[exit status] 2");
        let expected = json!({
            "ending": "exited", "exit_code": 2, "signal": null, "stdout": "out\n", "stderr": "err\n", "stdout_bytes": 4,
            "stderr_bytes": 4, "duration_ms": 7, "refused_connections": [],
        });
        assert_eq!((output.structured, output.truncated), (expected, None));
    }

    #[test]
    fn a_crash_is_an_answer() {
        let crashed = Ran { ending: Ending::Signaled { signal: 11 }, ..ran(0, "", "") };
        let output = Stage::answering([Ok(crashed)]).call(tool, json!({ "argv": ["x"] })).unwrap();
        let expected = json!({
            "ending": "signaled", "exit_code": null, "signal": 11, "stdout": "", "stderr": "", "stdout_bytes": 0,
            "stderr_bytes": 0, "duration_ms": 7, "refused_connections": [],
        });
        assert_eq!((output.structured, output.text.as_str()), (expected, "[ended by signal] 11"));
    }

    #[test]
    fn what_is_left_out_is_the_workspace_thirty_seconds_and_nothing_else() {
        let stage = Stage::quiet();
        stage.call(tool, json!({ "argv": ["ls"] })).unwrap();
        let job = stage.job();
        assert_eq!((job.cwd.as_str(), job.stdin.len(), job.env.len()), ("", 0, 0));
        assert_eq!(job.limits.wall, Duration::from_secs(30));
    }

    #[test]
    fn no_program_gets_more_than_ten_minutes() {
        let stage = Stage::quiet();
        stage.call(tool, json!({ "argv": ["ls"], "timeout_seconds": 100_000 })).unwrap();
        assert_eq!(stage.job().limits.wall, Duration::from_secs(600));
        assert_eq!(tool().def.input_schema["properties"]["timeout_seconds"]["maximum"], 600);
        assert!(tool().def.timeout > Duration::from_secs(600));
    }

    #[test]
    fn a_directory_inside_is_taken_by_either_spelling_and_one_outside_is_not() {
        let stage = Stage::quiet();
        stage.call(tool, json!({ "argv": ["ls"], "cwd": format!("{}/sub", stage.path()) })).unwrap();
        assert_eq!(stage.job().cwd, "sub");
        for cwd in ["..", "/", "/etc", "a/../..", "//x", "C:\\x"] {
            refuses(json!({ "argv": ["ls"], "cwd": cwd }), "path_outside_workspace");
        }
        for cwd in ["", "a\0b"] {
            refuses(json!({ "argv": ["ls"], "cwd": cwd }), "bad_path");
        }
    }

    #[test]
    fn what_no_program_can_be_given_is_refused() {
        refuses(json!({ "argv": [] }), "bad_command");
        refuses(json!({ "argv": ["", "x"] }), "bad_command");
        refuses(json!({ "argv": ["ls", "a\0b"] }), "bad_command");
    }

    #[test]
    fn what_the_room_says_is_passed_on() {
        let fault = Fault::failed("program_not_found", "there is no program `x` in the room", "Use another.");
        let stage = Stage::answering([Err(fault.clone())]);
        assert_eq!(stage.call(tool, json!({ "argv": ["x"] })), Err(fault));
        let stage = Stage::quiet();
        stage.stop.cancel();
        assert_eq!(stage.call(tool, json!({ "argv": ["x"] })).unwrap_err().code, "cancelled");
    }

    #[test]
    fn the_gate_reads_all_of_it() {
        let arguments = json!({ "argv": ["git", "log"], "cwd": "sub", "env": { "A": "1" } });
        let expected = CommandLine {
            form: CommandForm::Argv(vec!["git".into(), "log".into()]),
            cwd: Some("sub".into()),
            env: [("A".to_owned(), "1".to_owned())].into(),
        };
        assert_eq!(tool().reading.command(&arguments), Ok(Some(expected)));
    }
}
