//! `run_code`: code in Python, JavaScript or bash.

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
    fault::{BAD_COMMAND, CODE_TOO_LONG, NO_INTERPRETER, NO_PROGRAM, run_modes},
    job::job,
    room_guide,
};
use crate::{Answer, Cx, Tool};

/// The longest code that is passed as an argument. The kernel takes 128 KiB for one.
const MAX_ARGUMENT: usize = 100_000;

/// Runs what stands on standard input where `node -e` runs its argument.
const READ_AND_RUN: &str = "require('vm').runInThisContext(require('fs').readFileSync(0, 'utf8'), 'code.js')";

pub(crate) fn tool() -> Tool {
    Tool::starting(
        ToolDef {
            name: "run_code".into(),
            summary: "Run a piece of Python, JavaScript or bash, in a closed room.".into(),
            description:
                "Runs `code` with `python3`, `node` or `bash`, started in the workspace, so that its modules and \
                files are found. Print what you want to know: only output comes back. The code sees the workspace, the \
                system's own programs and private `/tmp` and home directories; the network only as far as the operator \
                allows. Nothing is kept between calls but files. An uncaught error is an answer with a status other \
                than 0."
                    .into(),
            category: Category::CodeExecution,
            action: ActionType::CodeWrite,
            safety: SafetyClass::Write,
            needs: NEEDS,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            caps: CAPS,
            cost: CostTier::Medium,
            examples: vec![
                Example {
                    title: "A sum".into(),
                    arguments: json!({ "language": "python", "code": "print(sum(range(10)))" }),
                },
                Example {
                    title: "With arguments and input".into(),
                    arguments: json!({
                        "language": "javascript",
                        "code": "const text = require('fs').readFileSync(0, 'utf8'); console.log(process.argv[1], text.length)",
                        "args": ["characters:"],
                        "stdin": "hello",
                    }),
                },
            ],
            failures: run_modes(&[&NO_INTERPRETER, &CODE_TOO_LONG, &BAD_COMMAND]),
            guides: room_guide(),
            ..ToolDef::default()
        },
        // The gate reads shell. What other languages would do is not read at all: that they run is what it judges.
        |input: &Input| {
            CommandLine::new(match input.language {
                Language::Bash => CommandForm::Script(input.code.clone()),
                Language::Python | Language::Javascript => {
                    CommandForm::Argv(vec![input.language.interpreter().to_owned(), "-".to_owned()])
                }
            })
        },
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// What the code is written in.
    language: Language,
    /// The code.
    #[schemars(length(min = 1, max = 500_000))]
    code: String,
    /// Arguments the code finds in `sys.argv[1:]`, `process.argv` after the first or `$@`.
    #[serde(default)]
    #[schemars(length(max = 250))]
    args: Vec<String>,
    /// Text for its standard input, which is empty when this is left out.
    #[serde(default)]
    stdin: Option<String>,
    /// Seconds until it is ended.
    #[serde(default = "default_seconds")]
    #[schemars(range(min = 1, max = MAX_SECONDS))]
    timeout_seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Language {
    /// Python 3.
    Python,
    /// JavaScript for Node.js.
    Javascript,
    /// A script for bash.
    Bash,
}

impl Language {
    fn interpreter(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::Javascript => "node",
            Self::Bash => "bash",
        }
    }

    /// The interpreter's words for code that is given in its arguments.
    fn with_code(self, code: String) -> Vec<String> {
        match self {
            Self::Python => vec!["-c".into(), code],
            Self::Javascript => vec!["-e".into(), code, "--".into()],
            // The word after the script is its name, `$0`.
            Self::Bash => vec!["-c".into(), code, "bash".into()],
        }
    }

    /// The interpreter's words for code that it reads from standard input.
    fn reading_code(self) -> Vec<String> {
        match self {
            Self::Python => vec!["-".into()],
            // `node -` would put a word of its own before the arguments.
            Self::Javascript => vec!["-e".into(), READ_AND_RUN.into(), "--".into()],
            Self::Bash => vec!["-s".into(), "--".into()],
        }
    }
}

/// Code goes into an argument, so that standard input is free. Only what is too long for that goes the other way.
fn run(cx: &Cx, input: Input) -> Result<Answer<Ended>, Fault> {
    let seconds = input.timeout_seconds.min(MAX_SECONDS);
    let language = input.language;
    let (words, stdin) = match (input.code.len() <= MAX_ARGUMENT, input.stdin) {
        (true, stdin) => (language.with_code(input.code), stdin.unwrap_or_default()),
        (false, None) => (language.reading_code(), input.code),
        (false, Some(_)) => {
            return Err(CODE_TOO_LONG.failed(
                format!("the code has {} bytes, and with `stdin` {MAX_ARGUMENT} is the most", input.code.len()),
                "Write the code to a file and run that with `bash`.",
            ));
        }
    };
    let argv = [language.interpreter().to_owned()].into_iter().chain(words).chain(input.args).collect();
    let limits = JobLimits { wall: Duration::from_secs(seconds), ..JobLimits::default() };
    let job = job(cx, argv, None, BTreeMap::new(), stdin.into_bytes(), limits)?;
    let ran = cx.programs()?.run(&job, cx.stop_flag()).map_err(|fault| no_interpreter(fault, language))?;
    ended::answer(ran, seconds)
}

fn no_interpreter(fault: Fault, language: Language) -> Fault {
    if !NO_PROGRAM.is(&fault) {
        return fault;
    }
    NO_INTERPRETER.failed(
        format!("the room has no `{}`", language.interpreter()),
        "Use another language, or ask the operator to install it.",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{
        super::stage::{Stage, ran},
        *,
    };

    /// The words and the input the room gets.
    fn check(arguments: Value, argv: &[&str], stdin: &str) {
        let stage = Stage::quiet();
        stage.call(tool, arguments).unwrap();
        let job = stage.job();
        let words: Vec<&str> = job.argv.iter().map(String::as_str).collect();
        assert_eq!((words.as_slice(), job.stdin.as_slice()), (argv, stdin.as_bytes()));
        assert_eq!((job.cwd.as_str(), job.env.len()), ("", 0));
    }

    #[test]
    fn code_is_one_argument_and_input_is_free() {
        check(json!({ "language": "python", "code": "print('$x')" }), &["python3", "-c", "print('$x')"], "");
        check(
            json!({ "language": "python", "code": "1", "args": ["-c", "a b"], "stdin": "in" }),
            &["python3", "-c", "1", "-c", "a b"],
            "in",
        );
        check(
            json!({ "language": "javascript", "code": "1", "args": ["-e"], "stdin": "in" }),
            &["node", "-e", "1", "--", "-e"],
            "in",
        );
        check(json!({ "language": "bash", "code": "ls", "args": ["a"] }), &["bash", "-c", "ls", "bash", "a"], "");
    }

    #[test]
    fn code_that_is_too_long_for_an_argument_is_read_from_input() {
        let code = "#".repeat(MAX_ARGUMENT + 1);
        let arguments = |language: &str| json!({ "language": language, "code": code, "args": ["-a"] });
        check(arguments("python"), &["python3", "-", "-a"], &code);
        check(arguments("javascript"), &["node", "-e", READ_AND_RUN, "--", "-a"], &code);
        check(arguments("bash"), &["bash", "-s", "--", "-a"], &code);
        let both = json!({ "language": "python", "code": code, "stdin": "" });
        assert_eq!(Stage::quiet().call(tool, both).unwrap_err().code, "code_too_long");
    }

    #[test]
    fn an_interpreter_that_is_not_there_is_named() {
        let missing = Fault::failed("program_not_found", "there is no program `node` in the room", "Use another.");
        let stage = Stage::answering([Err(missing)]);
        let fault = stage.call(tool, json!({ "language": "javascript", "code": "1" })).unwrap_err();
        assert_eq!((fault.code.as_ref(), fault.message.as_str()), ("interpreter_not_found", "the room has no `node`"));
        let lost = Fault::failed("room_lost", "the room is gone", "Call again.");
        let stage = Stage::answering([Err(lost.clone())]);
        assert_eq!(stage.call(tool, json!({ "language": "bash", "code": "1" })), Err(lost));
    }

    #[test]
    fn an_error_in_the_code_is_an_answer() {
        let stage = Stage::answering([Ok(ran(1, "", "NameError: x\n"))]);
        let output = stage.call(tool, json!({ "language": "python", "code": "x" })).unwrap();
        assert_eq!(output.text, "[stderr]\nNameError: x\n[exit status] 1");
        assert_eq!(output.structured["exit_code"], 1);
    }

    #[test]
    fn the_gate_reads_shell_and_is_told_of_other_languages() {
        let form = |arguments: Value| tool().reading.command(&arguments).unwrap().unwrap().form;
        let bash = form(json!({ "language": "bash", "code": "ls | wc" }));
        assert_eq!(bash, CommandForm::Script("ls | wc".into()));
        let python = form(json!({ "language": "python", "code": "print(1)", "args": ["x"] }));
        assert_eq!(python, CommandForm::Argv(vec!["python3".into(), "-".into()]));
    }

    #[test]
    fn another_language_is_not_taken() {
        let call = Stage::quiet().call(tool, json!({ "language": "perl", "code": "1" }));
        assert_eq!(call.unwrap_err().code, "invalid_arguments");
    }
}
