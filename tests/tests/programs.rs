//! Programs, seen from outside: what runs in a room comes back as an answer, and how it was ended as a fault.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use serde_json::{Value, json};
use toolgate_tests::{Bench, Ran, skipped};

/// A bench on a machine that has rooms.
fn bench() -> Option<Bench> {
    let bench = Bench::new();
    let ran = bench.call("bash", &json!({ "argv": ["true"] }));
    let outcome = ran.json();
    if outcome["code"] == "wall_missing" {
        skipped(format!("this machine has no rooms: {}", outcome["message"]));
        return None;
    }
    ran.done();
    Some(bench)
}

/// What a call says that must be done.
fn says(bench: &Bench, tool: &str, arguments: &Value) -> (String, Value) {
    let outcome = bench.call(tool, arguments).done();
    (outcome["text"].as_str().unwrap().to_owned(), outcome["structured"].clone())
}

#[test]
fn a_program_gets_its_words_as_they_are() {
    let Some(bench) = bench() else { return };
    let arguments = json!({ "argv": ["printf", "%s|", "a b", "$HOME; ls *", "'\"\\", ""], "env": { "A": "1" } });
    assert_eq!(says(&bench, "bash", &arguments).0, "a b|$HOME; ls *|'\"\\||");
    let (text, _) = says(&bench, "bash", &json!({ "argv": ["sort", "-u"], "stdin": "b\na\nb\n" }));
    assert_eq!(text, "a\nb\n");
}

#[test]
fn a_status_other_than_0_is_an_answer() {
    let Some(bench) = bench() else { return };
    let (text, structured) = says(&bench, "shell", &json!({ "script": "echo out; echo err >&2; exit 3" }));
    assert_eq!(text, "out\n[stderr]\nerr\n[exit status] 3");
    let expected = json!({
        "ending": "exited", "exit_code": 3, "signal": null, "stdout": "out\n", "stderr": "err\n", "stdout_bytes": 4,
        "stderr_bytes": 4, "duration_ms": structured["duration_ms"], "refused_connections": [],
    });
    assert_eq!(structured, expected);
    let (text, structured) = says(&bench, "shell", &json!({ "script": "kill -SEGV $$" }));
    assert_eq!((text.as_str(), &structured["signal"]), ("[ended by signal] 11", &json!(11)));
}

#[test]
fn a_program_works_in_the_workspace_and_where_it_is_told_to() {
    let Some(bench) = bench() else { return };
    bench.put("sub/a", "hello\n");
    let (text, _) = says(&bench, "shell", &json!({ "script": "cat a; echo new > b; pwd", "cwd": "sub" }));
    assert_eq!(text, format!("hello\n{}\n", bench.workspace().join("sub").canonicalize().unwrap().display()));
    assert_eq!(bench.text("sub/b"), "new\n");
    bench.call("bash", &json!({ "argv": ["ls"], "cwd": ".." })).refused("path_outside_workspace");
    bench.call("bash", &json!({ "argv": ["ls"], "cwd": "/etc" })).refused("path_outside_workspace");
}

#[test]
fn a_program_whose_time_is_up_is_ended_and_its_last_lines_are_told() {
    let Some(bench) = bench() else { return };
    let arguments = json!({ "script": "echo started; echo oh >&2; sleep 60; echo never", "timeout_seconds": 1 });
    let outcome = bench.call("shell", &arguments).failed("timed_out");
    let message = outcome["message"].as_str().unwrap();
    assert!(message.contains("after 1 s") && message.contains("started") && message.contains("oh"), "{outcome}");
    assert!(!message.contains("never"), "{outcome}");
    assert!(outcome["remedy"].as_str().unwrap().contains("timeout_seconds"), "{outcome}");
    assert!(!outcome["enforced"].as_array().unwrap().is_empty(), "{outcome}");
}

#[test]
fn of_very_much_output_the_head_and_the_tail_come_back_and_the_rest_is_counted() {
    let Some(bench) = bench() else { return };
    let outcome = bench.call("bash", &json!({ "argv": ["seq", "1", "100000"] })).done();
    let text = outcome["text"].as_str().unwrap();
    assert!(text.starts_with("1\n2\n") && text.ends_with("\n100000\n") && text.len() < 60_000, "{}", text.len());
    let (shown, total) = (outcome["truncated"]["shown"].as_u64().unwrap(), outcome["truncated"]["total"].as_u64());
    assert_eq!((total, &outcome["truncated"]["unit"]), (Some(588_895), &json!("bytes")));
    assert!(shown > 5_000 && shown < 52_000, "{shown}");
    assert_eq!(outcome["structured"]["stdout_bytes"], 588_895);
}

#[test]
fn code_runs_in_each_language_with_arguments_and_input() {
    let Some(bench) = bench() else { return };
    bench.put("helper.py", "def greet(name): return f'hello {name}'\n");
    for (language, code, expected) in [
        (
            "python",
            "import sys, helper; print(helper.greet(sys.argv[1]), sys.argv[2:], sys.stdin.read())",
            "hello -a ['b c'] in\n",
        ),
        (
            "javascript",
            "console.log(process.argv.slice(1), require('fs').readFileSync(0, 'utf8'))",
            "[ '-a', 'b c' ] in\n",
        ),
        ("bash", "echo \"$1\" \"$2\" \"$#\"; cat", "-a b c 2\nin"),
    ] {
        let arguments = json!({ "language": language, "code": code, "args": ["-a", "b c"], "stdin": "in" });
        let ran = bench.call("run_code", &arguments);
        if ran.json()["code"] == "interpreter_not_found" {
            skipped(format!("{language}: {}", ran.json()["message"]));
            continue;
        }
        assert_eq!(ran.done()["text"], expected, "{language}");
    }
    let long = format!("# {}\nprint('end')", "x".repeat(200_000));
    let ran = bench.call("run_code", &json!({ "language": "python", "code": long }));
    if ran.json()["code"] != "interpreter_not_found" {
        assert_eq!(ran.done()["text"], "end\n");
    }
}

#[test]
fn a_program_sees_no_variable_of_whoever_started_toolgate() {
    let Some(bench) = bench() else { return };
    let mut command = bench.command(&["call", "bash", r#"{"argv": ["env"], "env": {"GIVEN": "yes"}}"#]);
    let outcome = Ran::of(command.env("SECRET_OF_THE_OPERATOR", "hunter2")).done();
    let text = outcome["text"].as_str().unwrap();
    assert!(text.contains("GIVEN=yes\n") && !text.contains("hunter2") && !text.contains("TOOLGATE"), "{text}");
    let injected = json!({ "argv": ["ls"], "env": { "LD_PRELOAD": "./x.so" } });
    bench.call("bash", &injected).refused("environment_refused");
}

#[test]
fn what_stood_around_a_program_is_in_its_answer() {
    let Some(bench) = bench() else { return };
    let outcome = bench.call("bash", &json!({ "argv": ["ls"] })).done();
    let walls = outcome["enforced"].to_string();
    for wall in ["files", "processes", "network", "privileges", "syscalls"] {
        assert!(walls.contains(wall), "{wall}: {outcome}");
    }
    assert_eq!((&outcome["risk"], &outcome["action"]), (&json!("low"), &json!("code:write")));
}
