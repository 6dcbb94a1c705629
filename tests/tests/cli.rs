//! The command line: what it prints where, and what its exit status says.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    fmt, fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, json};
use toolgate_tests::{Bench, Ran, TOOLS, bin, repository, skipped, target};

const COMMANDS: [&str; 23] = [
    "serve",
    "call",
    "turn",
    "tools",
    "check",
    "explain",
    "approvals",
    "effects",
    "autonomy",
    "audit",
    "trust",
    "sandbox",
    "images",
    "shell",
    "url",
    "scan",
    "flow",
    "connections",
    "mcp",
    "secrets",
    "tokens",
    "doctor",
    "completions",
];

// ---- call ----

#[test]
fn a_call_prints_its_outcome_and_nothing_else() {
    let ran = Bench::new().run(&["call", "calculator", r#"{"expression":"-(2+3)*4/8"}"#]).exits(0);
    assert_eq!(ran.stderr, "");
    let keys = [
        "call",
        "tool",
        "status",
        "is_error",
        "text",
        "structured",
        "code",
        "message",
        "remedy",
        "approval",
        "truncated",
        "labels",
        "findings",
        "enforced",
        "effects",
        "action",
        "risk",
        "replayed",
        "elapsed_ms",
    ];
    assert_eq!(keys_of(&ran.stdout), keys);

    let mut outcome = ran.json();
    let call = outcome["call"].take();
    assert!(call.as_str().is_some_and(|call| call.len() == 36), "{call}");
    assert!(outcome["elapsed_ms"].take().is_u64());
    assert!(outcome["text"].take().as_str().is_some_and(|text| text.contains("-2.5")));
    let expected = json!({
        "call": null, "tool": "calculator", "status": "done", "is_error": false, "text": null, "structured": -2.5,
        "code": null, "message": null, "remedy": null, "approval": null, "truncated": null, "labels": ["trusted", "public"],
        "findings": [], "enforced": [], "effects": [], "action": outcome["action"], "risk": "low",
        "replayed": false,
        "elapsed_ms": null,
    });
    assert_eq!(outcome, expected);
}

#[test]
fn a_refused_and_a_failed_call_have_the_same_keys() {
    let bench = Bench::new();
    let done = bench.run(&["call", "echo", r#"{"text":"x"}"#]).exits(0);
    let refused = bench.run(&["call", "read", r#"{"path":"../x"}"#]).exits(3);
    let failed = bench.run(&["call", "read", r#"{"path":"x"}"#]).exits(1);
    assert_eq!(keys_of(&refused.stdout), keys_of(&done.stdout));
    assert_eq!(keys_of(&failed.stdout), keys_of(&done.stdout));
}

#[test]
fn a_path_outside_exits_3() {
    let outcome = Bench::new().run(&["call", "read", r#"{"path":"../x"}"#]).refused("path_outside_workspace");
    for key in ["text", "message", "remedy"] {
        assert!(outcome[key].as_str().is_some_and(|text| !text.is_empty()), "{key}");
    }
    assert_eq!(outcome["structured"], Value::Null);
}

#[test]
fn an_unknown_tool_exits_3_and_suggests_names() {
    let bench = Bench::new();
    let near = bench.run(&["call", "raed", "{}"]).refused("unknown_tool");
    assert_eq!(near["remedy"], "Did you mean `read`?");
    let far = bench.run(&["call", "nosuch", "{}"]).refused("unknown_tool");
    let remedy = far["remedy"].as_str().unwrap();
    assert!(TOOLS.iter().any(|tool| remedy.contains(tool)), "{remedy}");
    // A name is whatever the model made up; it comes back bounded and without control characters.
    let wild = format!("{}\u{1b}[2J\n", "x".repeat(100_000));
    let outcome = bench.run(&["call", &wild, "{}"]).refused("unknown_tool");
    let text = outcome["text"].as_str().unwrap();
    assert!(text.len() < 2_000 && !text.contains('\u{1b}'), "{} bytes", text.len());
}

#[test]
fn an_unknown_agent_exits_3() {
    let bench = Bench::new();
    let outcome = bench.run(&["call", "echo", r#"{"text":"x"}"#, "--agent", "defualt"]).refused("unknown_agent");
    assert_eq!(outcome["remedy"], "Did you mean `default`?");
    for command in [&["tools", "--agent", "nobody"][..], &["explain", "--agent", "nobody", "echo"]] {
        let ran = bench.run(command).exits(3);
        assert!(ran.stdout.is_empty() && ran.stderr.contains("unknown_agent"), "{ran}");
    }
}

#[test]
fn arguments_that_are_not_json_exit_2_and_print_nothing() {
    let bench = Bench::new();
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let bad = [
        "{",
        "",
        "expression",
        "{'expression':'1'}",
        r#"{"expression":"1"} x"#,
        r#"{"expression":"1"}{"expression":"2"}"#,
        r#"{"expression":"1","expression":"2"}"#,
        r#"{"expression":{"a":1,"a":2}}"#,
        r#"{"expression":NaN}"#,
        r#"{"expression":9007199254740993}"#,
        r#"{"expression":1e999}"#,
        r#"{"expression":"\ud800"}"#,
        "{\"expression\":\"a\nb\"}",
        "\u{feff}{}",
        &deep,
    ];
    for arguments in bad {
        let direct = bench.run(&["call", "calculator", arguments]).exits(2);
        assert!(direct.stdout.is_empty() && direct.stderr.starts_with("error"), "{direct}");
        assert_eq!(bench.run_with(&["call", "calculator", "-"], arguments), direct, "as from standard input");
    }
    let invalid = bench.run_with(&["call", "calculator", "-"], b"{\"expression\":\"\xff\"}").exits(2);
    assert!(invalid.stdout.is_empty(), "{invalid}");
    let nothing_was_called = bench.run(&["audit", "tail", "--json"]);
    assert!(!nothing_was_called.stdout.contains("calculator"), "{nothing_was_called}");
}

#[test]
fn arguments_come_directly_from_standard_input_or_from_a_file() {
    let bench = Bench::new();
    let file = bench.put("arguments.json", r#"{"text": "from a file"}"#);
    let at = format!("@{}", file.display());
    assert_eq!(bench.run(&["call", "echo", r#"{"text": "direct"}"#]).done()["text"], "direct");
    assert_eq!(bench.run_with(&["call", "echo", "-"], "\n{\"text\": \"piped\"}\n").done()["text"], "piped");
    assert_eq!(bench.run(&["call", "echo", &at]).done()["text"], "from a file");
    assert_eq!(bench.run(&["call", "echo", "@arguments.json"]).done()["text"], "from a file");
    let missing = bench.run(&["call", "echo", "@nowhere.json"]).exits(2);
    assert!(missing.stderr.contains("nowhere.json") && missing.stdout.is_empty(), "{missing}");
    // No arguments at all are an empty object.
    bench.run(&["call", "get_time"]).done();
    bench.run(&["call", "echo"]).failed("invalid_arguments");
}

#[test]
fn wrong_arguments_exit_1_and_teach() {
    let bench = Bench::new();
    let check = |tool: &str, arguments: Value, names: &str| {
        let outcome = bench.call(tool, &arguments).failed("invalid_arguments");
        let message = outcome["message"].as_str().unwrap();
        assert!(message.contains(names), "{message}");
        assert!(outcome["remedy"].as_str().unwrap().contains("Example: {"), "{outcome}");
    };
    check("read", json!({}), "path");
    check("read", json!({ "path": 7 }), "/path");
    check("read", json!({ "path": "a", "ofset": 1 }), "ofset");
    check("read", json!({ "path": "a", "offset": true }), "/offset");
    check("read", json!({ "path": "a", "offset": -1 }), "/offset");
    check("edit", json!({ "path": "a", "edits": [{ "old": "x" }] }), "/edits/0");
    check("read", json!(["a"]), "object");
    check("read", json!(null), "object");
}

#[test]
fn more_than_a_tool_takes_exits_1() {
    let bench = Bench::new();
    let outcome = bench.call("echo", &json!({ "text": "x".repeat(2 * 1024 * 1024) })).failed("too_large");
    assert!(outcome["text"].as_str().unwrap().len() < 1_000);
    // The most any call may have is refused before a tool is looked for.
    let huge = bench.call("echo", &json!({ "text": "x".repeat(65 * 1024 * 1024) })).exits(2);
    assert!(huge.stdout.is_empty(), "{}", huge.stderr);
}

#[test]
fn a_workspace_can_be_named() {
    let bench = Bench::new();
    fs::create_dir(bench.outside().join("other")).unwrap();
    fs::write(bench.outside().join("other/a.txt"), "over there\n").unwrap();
    let other = bench.outside().join("other");
    let ran = bench.run(&["call", "read", r#"{"path":"a.txt"}"#, "--workspace", other.to_str().unwrap()]);
    assert!(ran.done()["text"].as_str().unwrap().contains("over there"));
    let ran = bench.run(&["call", "read", r#"{"path":"a.txt"}"#, "--workspace", "nowhere"]).exits(2);
    assert!(ran.stderr.contains("nowhere") && ran.stdout.is_empty(), "{ran}");
}

#[test]
fn a_reader_who_goes_away_is_no_error() {
    let bench = Bench::new();
    bench.run(&["call", "get_time"]).done();
    for args in [
        &["call", "get_time"][..],
        &["tools", "--level", "l2"],
        &["completions", "bash"],
        &["audit", "tail"],
        &["audit", "export"],
    ] {
        let mut child = bench.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{args:?}");
    }
}

// ---- turn ----

#[test]
fn a_turn_answers_every_call_in_order_and_in_stages() {
    let bench = Bench::new();
    let read = json!({ "tool": "read", "arguments": { "path": "a.txt" } });
    let write = |content: &str| json!({ "tool": "write", "arguments": { "path": "a.txt", "content": content } });
    let turn = json!([
        read, write("one\n"), read, read, { "tool": "nosuch" }, write("two\n"), read,
        { "tool": "calculator", "arguments": { "expression": "1 +" } }, { "tool": "get_time" },
    ]);
    let ran = bench.run_with(&["turn"], turn.to_string()).exits(1);
    let said: Vec<_> = ran
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|outcome| {
            let text = outcome["structured"]["text"].as_str().unwrap_or_default();
            format!("{} {} {text}", outcome["tool"], outcome["status"]).replace('"', "").trim_end().to_owned()
        })
        .collect();
    let expected = [
        "read failed",
        "write done",
        "read done one",
        "read done one",
        "nosuch refused",
        "write done",
        "read done two",
        "calculator failed",
        "get_time done",
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_turn_comes_from_a_file_and_its_exit_status_is_that_of_the_worst_call() {
    let bench = Bench::new();
    let check = |calls: Value, status: i32| {
        bench.put("turn.json", calls.to_string());
        let ran = bench.run(&["turn", "turn.json"]).exits(status);
        assert_eq!(ran.json().as_array().unwrap().len(), calls.as_array().unwrap().len());
    };
    let done = json!({ "tool": "echo", "arguments": { "text": "x" } });
    let failed = json!({ "tool": "echo", "arguments": { "txet": "x" } });
    let refused = json!({ "tool": "nosuch" });
    check(json!([]), 0);
    check(json!([done]), 0);
    check(json!([done, refused, done]), 3);
    check(json!([refused, failed, done]), 1);
}

#[test]
fn a_turn_that_is_no_array_of_calls_exits_2() {
    let bench = Bench::new();
    for bad in [
        "",
        "{}",
        "[",
        "[1]",
        "[{}]",
        r#"[{"arguments":{}}]"#,
        r#"[{"tool":"echo","args":{}}]"#,
        r#"[{"tool":"echo","tool":"read"}]"#,
        "[] []",
    ] {
        let ran = bench.run_with(&["turn"], bad).exits(2);
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{ran}");
    }
    bench.run(&["turn", "nowhere.json"]).exits(2);
}

// ---- tools ----

#[test]
fn tools_lists_a_line_per_tool_or_whole_definitions() {
    let bench = Bench::new();
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let short = bench.run(&["tools", "--json"]).exits(0).json();
    let whole = bench.run(&["tools", "--json", "--level", "l2"]).exits(0).json();
    assert_eq!(names(&short), TOOLS);
    assert_eq!(names(&whole), TOOLS);
    for (short, whole) in short.as_array().unwrap().iter().zip(whole.as_array().unwrap()) {
        assert!(short.get("input_schema").is_none() && short["summary"].is_string(), "{short}");
        assert_eq!(whole["input_schema"]["type"], "object", "{whole}");
        let has = |list: &str, key: &str| {
            whole[list].as_array().is_some_and(|all| all.iter().all(|one| one[key].is_string()))
        };
        assert!(whole["examples"].as_array().is_some_and(|examples| !examples.is_empty()), "{whole}");
        assert!(has("examples", "title") && has("failures", "code") && has("failures", "when"), "{whole}");
        // Both name the same definition, so a change of it is seen in either.
        let digest = short["definition"].as_str().unwrap();
        assert!(digest.starts_with("sha256:") && whole["definition"] == digest, "{digest}");
    }
    bench.run(&["tools", "--level", "l9"]).exits(2);
}

#[test]
fn every_example_of_every_definition_is_admitted() {
    let bench = Bench::new();
    for tool in bench.run(&["tools", "--level", "l2"]).exits(0).json().as_array().unwrap() {
        for example in tool["examples"].as_array().unwrap() {
            let ran = bench.call(tool["name"].as_str().unwrap(), &example["arguments"]);
            assert_ne!(ran.json()["code"], "invalid_arguments", "{ran}");
        }
    }
}

// ---- help, completions, version ----

#[test]
fn every_command_explains_itself_with_an_example() {
    let bench = Bench::new();
    let all = bench.run(&["--help"]).exits(0).stdout;
    for command in COMMANDS {
        assert!(all.contains(&format!("\n  {command} ")), "`{command}` is not in the help");
        let help = bench.run(&[command, "--help"]).exits(0).stdout;
        assert!(help.contains("Example") && help.contains(&format!("toolgate {command}")), "{command}:\n{help}");
    }
    assert!(all.contains("Exit status: 0 done, 1 failed, 2 usage or config, 3 refused, 4"), "{all}");
}

#[test]
fn a_wrong_command_line_exits_2() {
    let bench = Bench::new();
    for args in [&[][..], &["clal"], &["call"], &["call", "echo", "{}", "--agnet", "x"], &["completions", "csh"]] {
        let ran = bench.run(args).exits(2);
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{args:?} {ran}");
    }
    assert!(!bench.data().exists(), "a command that was not understood leaves no trace");
}

#[test]
fn completions_are_scripts() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = bench.run(&["completions", shell]).exits(0).stdout;
        for command in COMMANDS {
            assert!(script.contains(command), "{shell} knows nothing of {command}");
        }
    }
    let script = bench.run(&["completions", "bash"]).stdout;
    let parsed = Ran::fed(Command::new("bash").arg("-n"), script.as_bytes());
    assert_eq!((parsed.status, parsed.stderr.as_str()), (0, ""));
}

#[test]
fn the_version_is_told() {
    let expected = format!("toolgate {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(Bench::new().run(&["--version"]).exits(0).stdout, expected);
}

// ---- doctor ----

#[test]
fn the_doctor_tries_what_must_fail() {
    let bench = Bench::new();
    let probes = bench.outside().join("probes");
    fs::create_dir(&probes).unwrap();
    let report = Ran::of(bench.command(&["doctor", "--json"]).env("TMPDIR", &probes)).exits(0).json();
    assert_eq!(report["healthy"], true);
    let findings = report["findings"].as_array().unwrap();
    let seen = |what: &str| {
        let finding = findings.iter().find(|finding| finding["what"] == what);
        finding.unwrap_or_else(|| panic!("{what}: {report:#}"))
    };
    for (what, code) in [
        ("paths stay beneath", "path_outside_workspace"),
        ("links stay beneath", "path_outside_workspace"),
        ("git's own files", "protected_path"),
        ("unknown tools", "unknown_tool"),
        ("denied commands", "command_refused"),
    ] {
        let finding = seen(what);
        assert!(finding["ok"] == true && finding["seen"].as_str().unwrap().contains(code), "{finding}");
    }
    // Every wall and every kind of room: there, or how to get it.
    for wall in ["files", "metadata", "protected_names", "processes", "network", "ipc", "privileges", "syscalls"] {
        told(seen(&format!("wall {wall}")));
    }
    for what in ["wall memory", "wall pids", "wall cpu", "wall disk", "tier namespaces", "tier landlock"] {
        told(seen(what));
    }
    let programs = seen("programs");
    told(programs);
    if programs["ok"] == false {
        skipped(format!("the doctor's program: {}", programs["seen"]));
    } else {
        told(seen("control groups"));
        for what in ["read outside", "read the record", "write outside", "connect out", "signal others"] {
            let finding = seen(&format!("programs {what}"));
            assert_eq!((&finding["ok"], &finding["seen"]), (&json!(true), &json!("one tried, and could not")));
        }
    }
    let left = fs::read_dir(&probes).unwrap().count();
    assert_eq!(left, 0, "the doctor leaves its probes behind");
}

/// A finding is well, or says what helps.
fn told(finding: &Value) {
    let (ok, state) = (finding["ok"] == true, finding["state"].as_str().unwrap());
    assert_eq!(ok, state == "ok", "{finding}");
    assert!(ok == finding["remedy"].is_null() && !finding["seen"].as_str().unwrap().is_empty(), "{finding}");
}

/// What is merely missing is no fault; what a config asks for and cannot have is one.
#[test]
fn the_doctor_finds_what_a_config_asks_for_in_vain() {
    let bench = Bench::new();
    let report = |text: &str| {
        let file = bench.put("config.yaml", text);
        let ran = bench.run(&["doctor", "--json", "--config", file.to_str().unwrap()]);
        let report = ran.json();
        assert_eq!(ran.status, i32::from(report["healthy"] == false), "{ran}");
        report
    };
    assert_eq!(report("")["healthy"], true);
    let cluster = report("sandboxing: { overrides: { terminal: k8s } }\n");
    let finding = cluster["findings"].as_array().unwrap().iter().find(|finding| finding["what"] == "backend");
    let finding = finding.unwrap_or_else(|| panic!("{cluster:#}"));
    assert!(cluster["healthy"] == false && finding["state"] == "broken", "{finding}");
    assert!(finding["seen"].as_str().unwrap().contains("config.yaml:1"), "{finding}");
    // A room of Landlock alone cannot protect names in a workspace that is written, on any machine.
    let landlock = report("sandboxing: { subprocess: { tier: landlock } }\n");
    let programs =
        landlock["findings"].as_array().unwrap().iter().find(|finding| finding["what"] == "programs").unwrap();
    assert!(landlock["healthy"] == false && programs["state"] == "broken", "{programs}");
}

#[test]
fn the_doctor_finds_a_broken_config() {
    let bench = Bench::new();
    bench.put("toolgate.yaml", "polcy: {}\n");
    let ran = bench.run(&["doctor", "--json"]).exits(1);
    let report = ran.json();
    let config = report["findings"].as_array().unwrap().iter().find(|finding| finding["what"] == "config").unwrap();
    assert!(report["healthy"] == false && config["ok"] == false, "{ran}");
    assert!(config["seen"].as_str().unwrap().contains("toolgate.yaml:1:1"), "{config}");
}

// ---- where things are ----

#[test]
fn the_data_directory_is_the_first_one_that_is_named() {
    let bench = Bench::new();
    let xdg = bench.outside().join("xdg");
    let home = bench.home().join(".local/share/toolgate");
    let call = |change: &dyn Fn(&mut Command)| {
        let mut command = bench.command(&["call", "get_time"]);
        change(&mut command);
        Ran::of(&mut command).done();
    };
    call(&|command| {
        command.env_remove("TOOLGATE_DATA_DIR");
    });
    assert!(home.join("audit.db").is_file(), "$HOME/.local/share/toolgate");
    call(&|command| {
        command.env_remove("TOOLGATE_DATA_DIR").env("XDG_DATA_HOME", &xdg);
    });
    assert!(xdg.join("toolgate/audit.db").is_file(), "$XDG_DATA_HOME/toolgate");
    assert!(!bench.data().exists());
    call(&|command| {
        command.env("XDG_DATA_HOME", &xdg);
    });
    assert!(bench.data().join("audit.db").is_file(), "$TOOLGATE_DATA_DIR");
    // An empty variable is no place.
    fs::remove_dir_all(&home).unwrap();
    call(&|command| {
        command.env("TOOLGATE_DATA_DIR", "").env("XDG_DATA_HOME", "");
    });
    assert!(home.join("audit.db").is_file(), "empty variables are skipped");
    assert_eq!(fs::read_dir(bench.workspace()).unwrap().count(), 0, "nothing is left in the workspace");
}

#[test]
fn the_data_directory_and_its_keys_are_private() {
    let bench = Bench::new();
    bench.run(&["call", "get_time"]).done();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&bench.data()), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(bench.data()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        if !name.ends_with(".pub") {
            assert_eq!(mode(&path), expected, "{name}");
        }
        names.push(name);
    }
    assert!(names.iter().any(|name| name == "sign.key") && names.iter().any(|name| name == "audit.key"), "{names:?}");

    // A key that others can read is not used any more.
    fs::set_permissions(bench.data().join("sign.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let ran = bench.run(&["call", "get_time"]);
    assert!(ran.status != 0 && ran.stderr.contains("sign.key"), "{ran}");
}

// ---- serve on a terminal ----

#[test]
fn serve_on_a_terminal_prints_what_to_paste() {
    let bench = Bench::new();
    let Some(page) = on_a_terminal_until_ctrl_c(&bench, &["serve", "--http", "127.0.0.1:0"]) else {
        return skipped("`script` from util-linux is missing, so there is no terminal to serve on");
    };
    // The first is what to paste; what comes after it is for clients that speak HTTP.
    let mut values = serde_json::Deserializer::from_str(&page[page.find('{').unwrap()..]).into_iter::<Value>();
    let paste = values.next().unwrap().unwrap_or_else(|error| panic!("{error}:\n{page}"));
    let server = &paste["mcpServers"]["toolgate"];
    let workspace = bench.workspace().canonicalize().unwrap();
    let args = json!(["serve", "--stdio", "--workspace", workspace]);
    assert_eq!(server, &json!({ "command": bin().canonicalize().unwrap(), "args": args }));
    for tool in TOOLS {
        assert!(page.contains(tool), "{tool}");
    }
    assert!(page.contains(bench.data().to_str().unwrap()), "{page}");

    // What is pasted works: a client that starts it gets an answer.
    let args: Vec<_> = args.as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "paste", "version": "1" },
    } });
    let answer = bench.run_with(&args, format!("{hello}\n")).exits(0).json();
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!("2025-06-18")), "{answer}");
}

#[test]
fn listings_on_a_terminal_are_for_people() {
    let bench = Bench::new();
    let Some(page) = on_a_terminal(&bench, &["tools"]) else {
        return skipped("`script` from util-linux is missing, so there is no terminal to list on");
    };
    assert!(page.contains("calculator") && serde_json::from_str::<Value>(&page).is_err(), "{page}");
    let page = on_a_terminal(&bench, &["tools", "--json"]).unwrap();
    assert!(serde_json::from_str::<Value>(&page).is_ok(), "{page}");
}

// ---- examples ----

#[test]
fn the_example_of_an_own_tool_runs() {
    let example = target().join("debug/examples/own_tool");
    assert!(example.is_file(), "there is no `{}`: run cargo build --workspace --examples first", example.display());
    let bench = Bench::new();
    let mut command = Command::new(example);
    command.current_dir(bench.workspace()).env_clear().env("TMPDIR", bench.outside());
    let ran = Ran::of(&mut command).exits(0);
    assert!(ran.stdout.starts_with("HELLO\n"), "{ran}");
    assert!(ran.stdout.contains("[invalid_arguments]") && ran.stdout.contains("txet"), "{ran}");
}

#[test]
fn every_example_config_is_right() {
    let bench = Bench::new();
    let mut checked = 0;
    for entry in fs::read_dir(repository().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let ran = bench.run(&["check", "--json", path.to_str().unwrap()]).exits(0);
            assert_eq!(ran.json()["ok"], true, "{ran}");
            checked += 1;
        }
    }
    assert!(checked > 0, "there is no example config");
}

// ---- helpers ----

/// The keys of one JSON object in the order they are written.
fn keys_of(text: &str) -> Vec<String> {
    struct Keys(Vec<String>);
    impl<'de> Deserialize<'de> for Keys {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct KeysVisitor;
            impl<'de> Visitor<'de> for KeysVisitor {
                type Value = Keys;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                    let mut keys = Vec::new();
                    while let Some((key, IgnoredAny)) = map.next_entry()? {
                        keys.push(key);
                    }
                    Ok(Keys(keys))
                }
            }
            deserializer.deserialize_map(KeysVisitor)
        }
    }
    serde_json::from_str::<Keys>(text).unwrap().0
}

/// What the binary prints where standard input and output are a terminal; none where there is no `script`.
fn on_a_terminal(bench: &Bench, args: &[&str]) -> Option<String> {
    played(bench, "", args)
}

/// The same for what runs until somebody stops it.
fn on_a_terminal_until_ctrl_c(bench: &Bench, args: &[&str]) -> Option<String> {
    played(bench, "timeout --foreground --preserve-status -s INT 8 ", args)
}

fn played(bench: &Bench, before: &str, args: &[&str]) -> Option<String> {
    let line = bench.command(args);
    let quoted = [line.get_program()].into_iter().chain(line.get_args());
    let quoted: Vec<_> = quoted.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let mut script = Command::new("script");
    script
        .args(["-qec", &format!("{before}{}", quoted.join(" ")), "/dev/null"])
        .current_dir(bench.workspace())
        .env_clear();
    script.envs(line.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("SHELL", "/bin/sh");
    script.env("NO_COLOR", "1").stdin(Stdio::null());
    let output = script.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Some(String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n"))
}
