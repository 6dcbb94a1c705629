//! Policy and config from outside: who sees what, which line decides, and what a project's file may do.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    process::Command,
};

use serde_json::{Value, json};
use toolgate_tests::{Bench, Ran};

/// Puts the user's own config in place.
fn user(bench: &Bench, text: &str) -> PathBuf {
    let path = bench.home().join(".config/toolgate/toolgate.yaml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn listed(bench: &Bench, agent: &str) -> Vec<String> {
    let list = bench.run(&["tools", "--json", "--agent", agent]).exits(0).json();
    list.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn call_as(bench: &Bench, agent: &str, tool: &str, arguments: Value) -> Ran {
    bench.run(&["call", tool, &arguments.to_string(), "--agent", agent])
}

// ---- who sees what ----

#[test]
fn a_denied_tool_is_not_listed_and_is_refused_with_the_line_that_says_so() {
    let bench = Bench::new();
    let config =
        user(&bench, "version: 1\npolicy:\n  denied:\n    tools:\n      - delete\n    actions: [code:write]\n");
    bench.put("a.txt", "stays\n");
    let seen = listed(&bench, "default");
    assert!(seen.contains(&"read".to_owned()), "{seen:?}");
    for tool in ["delete", "write", "edit"] {
        assert!(!seen.contains(&tool.to_owned()), "{tool} is listed: {seen:?}");
    }
    for (tool, arguments, line) in [
        ("delete", json!({ "path": "a.txt" }), 5),
        ("write", json!({ "path": "a.txt", "content": "x" }), 6),
        // Refused before its arguments are looked at: nothing is taught about a tool one may not use.
        ("edit", json!({ "nonsense": true }), 6),
    ] {
        let outcome = bench.call(tool, &arguments).refused("not_permitted");
        let message = outcome["message"].as_str().unwrap();
        assert!(message.contains(&format!("{}:{line}", config.display())), "{message}");
    }
    assert_eq!(bench.text("a.txt"), "stays\n");
}

#[test]
fn an_agent_at_level_custom_has_what_its_lists_name_and_nothing_else() {
    let bench = Bench::new();
    user(
        &bench,
        "version: 1\nagents:\n  nobody:\n    level: custom\n  reader:\n    level: custom\n    allowed:\n      tools: [read]\n",
    );
    assert_eq!(listed(&bench, "nobody"), Vec::<String>::new());
    assert_eq!(listed(&bench, "reader"), ["read"]);
    for (tool, arguments) in
        [("echo", json!({ "text": "x" })), ("read", json!({ "path": "a" })), ("get_time", json!({}))]
    {
        let outcome = call_as(&bench, "nobody", tool, arguments).refused("not_permitted");
        assert!(outcome["message"].as_str().unwrap().contains("toolgate.yaml:4"), "{outcome}");
    }
    bench.put("a.txt", "text\n");
    call_as(&bench, "reader", "read", json!({ "path": "a.txt" })).done();
    call_as(&bench, "reader", "ls", json!({})).refused("not_permitted");
    // Not even a suggestion gives away what there is.
    let outcome = call_as(&bench, "nobody", "raed", json!({})).refused("unknown_tool");
    assert!(!outcome["text"].as_str().unwrap().contains("`read`"), "{outcome}");
    let outcome = call_as(&bench, "reader", "wriet", json!({})).refused("unknown_tool");
    assert!(!outcome["text"].as_str().unwrap().contains("`write`"), "{outcome}");
}

#[test]
fn allowed_never_overrides_denied_or_must_ask() {
    let bench = Bench::new();
    user(
        &bench,
        "version: 1\npolicy:\n  denied: {tools: [delete]}\n  ask: {tools: [write]}\n  allowed: {tools: [delete, write]}\n",
    );
    bench.put("a.txt", "stays\n");
    bench.call("delete", &json!({ "path": "a.txt" })).refused("not_permitted");
    bench.call("write", &json!({ "path": "a.txt", "content": "x" })).exits(4);
    assert_eq!(bench.text("a.txt"), "stays\n");
}

#[test]
fn a_call_that_must_be_asked_is_pending_and_does_nothing() {
    let bench = Bench::new();
    user(&bench, "version: 1\npolicy:\n  ask:\n    actions: [code:write]\n");
    let write = |content: &str| {
        let ran = bench.call("write", &json!({ "path": "a.txt", "content": content })).exits(4);
        let outcome = ran.json();
        assert_eq!((&outcome["status"], &outcome["code"]), (&json!("pending"), &json!("approval_required")), "{ran}");
        assert!(outcome["message"].as_str().unwrap().contains("toolgate.yaml:4"), "{ran}");
        let approval = outcome["approval"].as_str().unwrap().to_owned();
        assert!(outcome["remedy"].as_str().unwrap().contains(&approval), "{ran}");
        approval
    };
    let (first, again, other) = (write("one"), write("one"), write("two"));
    assert_eq!(first, again, "the same call is the same question");
    assert_ne!(first, other, "another call is another question");
    assert!(!bench.workspace().join("a.txt").exists());
    assert!(listed(&bench, "default").contains(&"write".to_owned()), "what can be asked for is listed");

    let turn = json!([{ "tool": "get_time" }, { "tool": "write", "arguments": { "path": "a", "content": "" } }]);
    bench.run_with(&["turn"], turn.to_string()).exits(4);
}

#[test]
fn a_condition_decides_on_the_arguments_and_one_that_cannot_be_evaluated_is_a_no() {
    let bench = Bench::new();
    user(
        &bench,
        "version: 1\ntools:\n  write:\n    permission: {condition: 'starts_with(args.path, \"docs/\")'}\n  read:\n    \
         permission: {condition: 'args.limit < 10'}\n  delete:\n    permission: {roles: [janitor]}\n",
    );
    fs::create_dir(bench.workspace().join("docs")).unwrap();
    bench.call("write", &json!({ "path": "docs/a.md", "content": "x" })).done();
    let outcome = bench.call("write", &json!({ "path": "src/a.rs", "content": "x" })).refused("not_permitted");
    assert!(outcome["message"].as_str().unwrap().contains("toolgate.yaml:4"), "{outcome}");
    bench.call("read", &json!({ "path": "docs/a.md", "limit": 3 })).done();
    bench.call("read", &json!({ "path": "docs/a.md", "limit": 30 })).refused("not_permitted");
    bench.call("read", &json!({ "path": "docs/a.md" })).refused("not_permitted");
    bench.call("delete", &json!({ "path": "docs/a.md" })).refused("not_permitted");
    assert_eq!(bench.text("docs/a.md"), "x");
}

#[test]
fn a_backend_this_build_does_not_have_is_a_refusal_and_never_a_weaker_wall() {
    let bench = Bench::new();
    let config = user(&bench, "version: 1\nsandboxing:\n  overrides:\n    file_system: k8s\n");
    bench.put("a.txt", "x\n");
    let outcome = bench.call("read", &json!({ "path": "a.txt" })).refused("backend_unavailable");
    assert!(outcome["message"].as_str().unwrap().contains(&format!("{}:4", config.display())), "{outcome}");
    bench.call("echo", &json!({ "text": "needs nothing, so it needs no room" })).done();
}

#[test]
fn a_limit_of_the_config_binds_every_tool() {
    let bench = Bench::new();
    user(&bench, "version: 1\nlimits:\n  max_input_bytes: 1024\n");
    bench.call("echo", &json!({ "text": "x".repeat(900) })).done();
    bench.call("echo", &json!({ "text": "x".repeat(1_100) })).failed("too_large");
    bench.call("write", &json!({ "path": "a", "content": "x".repeat(1_100) })).failed("too_large");
    assert!(!bench.workspace().join("a").exists());
}

#[test]
fn each_agent_works_in_its_own_workspace() {
    let bench = Bench::new();
    for name in ["one", "two"] {
        fs::create_dir_all(bench.outside().join(name)).unwrap();
        fs::write(bench.outside().join(name).join("who.txt"), name).unwrap();
    }
    let root = bench.outside().display();
    user(
        &bench,
        &format!(
            "version: 1\nagents:\n  first: {{level: standard, workspace: {root}/one}}\n  second: {{level: standard, \
             workspace: {root}/two}}\n"
        ),
    );
    for (agent, text) in [("first", "one"), ("second", "two")] {
        let outcome = call_as(&bench, agent, "read", json!({ "path": "who.txt" })).done();
        assert_eq!(outcome["structured"]["text"], text);
    }
    call_as(&bench, "first", "read", json!({ "path": "../two/who.txt" })).refused("path_outside_workspace");
}

// ---- explain ----

#[test]
fn explain_names_the_rule_the_file_and_the_line_and_does_nothing() {
    let bench = Bench::new();
    let config = user(
        &bench,
        "version: 1\npolicy:\n  denied:\n    tools: [delete]\n  ask:\n    tools: [edit]\nagents:\n  boss:\n    level: elevated\n",
    );
    let check = |args: &[&str], status: i32, expected: Value| {
        let ran = bench.run(&[&["explain"][..], args].concat()).exits(status);
        let said = ran.json();
        let reason = &said["reasons"][0];
        let seen = json!([said["verdict"], reason["rule"], reason["source"]["file"], reason["source"]["line"]]);
        assert_eq!(seen, expected, "{ran}");
        assert!(reason["text"].as_str().is_some_and(|text| !text.is_empty()), "{ran}");
        said
    };
    let write = check(&["write", r#"{"path":"a","content":""}"#], 0, json!(["allow", "level", "built-in", 0]));
    assert_eq!(write["effects"], json!([{ "kind": "fs_write", "target": "a" }]));
    assert_eq!(write["place"], json!({ "runs": "here" }));
    let bash = check(&["bash", r#"{"argv":["ls"]}"#], 0, json!(["allow", "level", "built-in", 0]));
    assert_eq!((&bash["place"]["runs"], &bash["place"]["spec"]["egress"]), (&json!("room"), &json!("deny")));
    assert_eq!(
        (&write["action"], &write["class"], &write["risk"]),
        (&json!("code:write"), &json!("write"), &json!("medium"))
    );
    check(&["delete", r#"{"path":"a"}"#], 3, json!(["deny", "denied", config, 4]));
    check(&["--agent", "boss", "delete", r#"{"path":"a"}"#], 3, json!(["deny", "denied", config, 4]));
    let edit = r#"{"path":"a","edits":[{"old":"x","new":"y"}]}"#;
    check(&["edit", edit], 4, json!(["ask", "ask", config, 6]));

    assert!(!bench.workspace().join("a").exists(), "nothing runs");
    assert!(!bench.data().exists(), "nothing is recorded, and no place for records is made");

    let ran = bench.run(&["explain", "nosuch"]).exits(3);
    assert!(ran.stderr.contains("unknown_tool") && ran.stdout.is_empty(), "{ran}");
    let ran = bench.run(&["explain", "write", "{}"]).exits(1);
    assert!(ran.stderr.contains("invalid_arguments") && ran.stdout.is_empty(), "{ran}");
    bench.run(&["explain", "write", "{"]).exits(2);
}

// ---- check ----

#[test]
fn check_passes_what_is_right_and_needs_no_data_directory() {
    let bench = Bench::new();
    bench.put("good.yaml", "version: 1\npolicy:\n  denied:\n    tools: [delete]\n");
    let ran = bench.run(&["check", "good.yaml"]).exits(0);
    assert_eq!((&ran.json()["ok"], &ran.json()["errors"]), (&json!(true), &json!([])), "{ran}");
    assert!(!bench.data().exists());
    bench.put("empty.yaml", "");
    bench.run(&["check", "empty.yaml"]).exits(0);
}

#[test]
fn check_points_at_every_mistake_with_line_and_column() {
    let bench = Bench::new();
    let text = "version: 1\npolicy:\n  denied:\n    actions: [code:wirte]\n    tools: [raed]\nagents:\n  a:\n    level: standart\n";
    bench.put("bad.yaml", text);
    let ran = bench.run(&["check", "bad.yaml"]).exits(2);
    for (place, instead) in [("bad.yaml:4:15", "code:write"), ("bad.yaml:8:12", "standard")] {
        assert!(ran.stderr.contains(place), "{place} is not in:\n{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("`{instead}`")), "{instead} is not in:\n{}", ran.stderr);
    }
    let errors = ran.json()["errors"].clone();
    let places: Vec<_> =
        errors.as_array().unwrap().iter().map(|error| json!([error["line"], error["column"]])).collect();
    assert_eq!((&ran.json()["ok"], &places[..2]), (&json!(false), &[json!([4, 15]), json!([8, 12])][..]), "{ran}");

    bench.put("tool.yaml", "version: 1\npolicy:\n  denied:\n    tools: [raed]\n");
    let ran = bench.run(&["check", "tool.yaml"]).exits(2);
    assert!(ran.stderr.contains("tool.yaml:4:13") && ran.stderr.contains("`read`"), "{}", ran.stderr);
}

#[test]
fn check_refuses_what_is_no_config() {
    let bench = Bench::new();
    let check = |text: &[u8], place: &str| {
        bench.put("bad.yaml", text);
        let ran = bench.run(&["check", "bad.yaml"]).exits(2);
        assert!(ran.stderr.contains(place), "{place} is not in:\n{}", ran.stderr);
        // What is not fit to be checked is not fit to be used.
        bench.run(&["call", "get_time", "{}", "--config", "bad.yaml"]).exits(2);
    };
    check(b"version: 1\npolcy: {}\n", "bad.yaml:2:1");
    check(b"version: 2\n", "bad.yaml:1:10");
    check(b"version: 1\nversion: 1\n", "bad.yaml:2");
    check(b"version: 1\npolicy:\n  denied: [\n", "bad.yaml:");
    check(b"version: 1\n---\nversion: 1\n", "bad.yaml");
    check(b"- a\n- list\n", "bad.yaml:1");
    check(b"\xff\xfe", "bad.yaml");
    check(b"version: 1\na: &a [x]\nb: [*a, *a]\n", "bad.yaml");
    check("[".repeat(10_000).as_bytes(), "bad.yaml");
    bench.run(&["check", "nowhere.yaml"]).exits(2);
    bench.run(&["check", "."]).exits(2);
    bench.put("long.yaml", "#".repeat(2 * 1024 * 1024));
    bench.run(&["check", "long.yaml"]).exits(2);
    // A pipe nobody writes into is not waited for.
    assert!(Command::new("mkfifo").arg(bench.workspace().join("pipe.yaml")).status().unwrap().success());
    for args in [&["check", "pipe.yaml"][..], &["check", "--trust", "pipe.yaml"], &["tools", "--config", "pipe.yaml"]] {
        let line = bench.command(args);
        let mut within = Command::new("timeout");
        within.arg("20").arg(line.get_program()).args(args).current_dir(bench.workspace()).env_clear();
        within.envs(line.get_envs().filter_map(|(name, value)| Some((name, value?))));
        assert_eq!(Ran::of(&mut within).status, 2, "{args:?}");
    }
}

#[test]
fn a_config_named_by_flag_is_the_only_one() {
    let bench = Bench::new();
    user(&bench, "version: 1\npolicy:\n  denied: {tools: [echo]}\n");
    bench.put("toolgate.yaml", "version: 1\npolicy:\n  denied: {tools: [get_time]}\n");
    bench.put("mine.yaml", "version: 1\npolicy:\n  denied: {tools: [calculator]}\n");
    let denied = |flags: &[&str]| -> Vec<&str> {
        let all = ["echo", "get_time", "calculator"];
        let list = bench.run(&[&["tools"][..], flags].concat()).exits(0).stdout;
        all.into_iter().filter(|tool| !list.contains(&format!("\"name\":\"{tool}\""))).collect()
    };
    assert_eq!(denied(&[]), ["echo", "get_time"], "the user's and the project's file");
    assert_eq!(denied(&["--config", "mine.yaml"]), ["calculator"]);
    bench.run(&["tools", "--config", "nowhere.yaml"]).exits(2);
}

#[test]
fn what_an_operator_should_know_goes_to_stderr() {
    let bench = Bench::new();
    user(&bench, "version: 1\nsandboxing:\n  overrides: { web: docker }\n");
    let ran = bench.run(&["call", "get_time"]).exits(0);
    assert!(ran.stderr.contains("toolgate.yaml:3"), "{ran}");
    ran.done();
}

// ---- the project's file ----

const LOOSER: &str = "version: 1\nagents:\n  default:\n    level: elevated\n";

#[test]
fn an_untrusted_project_file_may_tighten() {
    let bench = Bench::new();
    bench.put(
        "toolgate.yaml",
        "version: 1\npolicy:\n  denied: {tools: [delete]}\n  ask: {tools: [write]}\nagents:\n  default: {level: sandboxed}\nprotected: [LICENSE]\n",
    );
    bench.put("LICENSE", "mine\n");
    bench.call("delete", &json!({ "path": "LICENSE" })).refused("not_permitted");
    bench.call("write", &json!({ "path": "a", "content": "" })).exits(4);
    let edit = json!({ "path": "LICENSE", "edits": [{ "old": "mine", "new": "yours" }] });
    bench.call("edit", &edit).refused("protected_path");
    assert_eq!(bench.text("LICENSE"), "mine\n");
}

#[test]
fn an_untrusted_project_file_that_loosens_stops_everything_and_names_the_line() {
    let bench = Bench::new();
    let check = |text: &str, line: u64| {
        let file = bench.put("toolgate.yaml", text);
        let ran = bench.run(&["call", "get_time"]).exits(2);
        assert!(ran.stdout.is_empty(), "{ran}");
        assert!(ran.stderr.contains(&format!("{}:{line}:", file.display())), "{text}\n{}", ran.stderr);
        assert!(ran.stderr.contains("toolgate check --trust"), "{}", ran.stderr);
        for command in [&["serve", "--stdio"][..], &["tools"], &["turn"], &["explain", "echo"]] {
            assert_eq!(bench.run_with(command, "[]").status, 2, "{command:?}");
        }
    };
    check(LOOSER, 4);
    check("version: 1\npolicy:\n  allowed:\n    tools: [delete]\n", 4);
    check("version: 1\npolicy:\n  allowed:\n    actions: [all]\n", 4);
    check("version: 1\nagents:\n  mole: {level: sandboxed}\n", 3);
    check("version: 1\nagents:\n  default: {roles: [admin]}\n", 3);
    check("version: 1\nagents:\n  default: {workspace: ..}\n", 3);
    check("version: 1\nagents:\n  default: {level: custom}\n", 3);
    check("version: 1\nlimits: {max_concurrency: 64}\n", 2);
    check("version: 1\nactions: {payroll:run: low}\n", 2);
    check("version: 1\ntool_access:\n  levels:\n    standard: {network: open}\n", 2);
    check("version: 1\nsandboxing: {overrides: {web: subprocess}}\n", 2);
}

#[test]
fn a_trusted_project_file_may_loosen_until_it_changes_by_one_byte() {
    let bench = Bench::new();
    let file = bench.put("toolgate.yaml", LOOSER);
    bench.run(&["call", "get_time"]).exits(2);
    let trusted = bench.run(&["check", "--trust", "toolgate.yaml"]).exits(0).json();
    assert_eq!((&trusted["ok"], &trusted["trusted"]), (&json!(true), &json!(true)));
    bench.run(&["call", "get_time"]).done();
    let said = bench.run(&["explain", "read", r#"{"path":"a"}"#]).exits(0).json();
    assert!(said["reasons"][0]["text"].as_str().unwrap().contains("elevated"), "{said}");

    fs::write(&file, format!("{LOOSER}\n")).unwrap();
    let ran = bench.run(&["call", "get_time"]).exits(2);
    assert!(ran.stderr.contains("toolgate.yaml:4:"), "{}", ran.stderr);
    fs::write(&file, LOOSER).unwrap();
    bench.run(&["call", "get_time"]).done();

    // The same text elsewhere is another file.
    let elsewhere = bench.outside().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("toolgate.yaml"), LOOSER).unwrap();
    Ran::of(bench.command(&["call", "get_time"]).current_dir(&elsewhere)).exits(2);

    let list = bench.data().join("trusted.json");
    assert_eq!(fs::metadata(list).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_wrong_or_a_link_is_not_trusted() {
    let bench = Bench::new();
    bench.put("toolgate.yaml", "version: 1\nagents:\n  default:\n    level: elevatd\n");
    bench.run(&["check", "--trust", "toolgate.yaml"]).exits(2);
    bench.put("toolgate.yaml", "version: 1\npolicy:\n  allowed: {tools: [raed]}\n");
    bench.run(&["check", "--trust", "toolgate.yaml"]).exits(2);
    fs::remove_file(bench.workspace().join("toolgate.yaml")).unwrap();
    bench.put("elsewhere.yaml", LOOSER);
    symlink("elsewhere.yaml", bench.workspace().join("toolgate.yaml")).unwrap();
    bench.run(&["check", "--trust", "toolgate.yaml"]).exits(2);
    bench.run(&["call", "get_time"]).exits(2);
    assert!(!bench.data().join("trusted.json").exists());
}

#[test]
fn a_list_of_trusted_files_that_cannot_be_read_trusts_nothing() {
    let bench = Bench::new();
    bench.put("toolgate.yaml", LOOSER);
    bench.run(&["check", "--trust", "toolgate.yaml"]).exits(0);
    fs::write(bench.data().join("trusted.json"), "{\"files\": [").unwrap();
    let ran = bench.run(&["call", "get_time"]).exits(2);
    assert!(ran.stderr.contains("trusted.json"), "{}", ran.stderr);
}

// ---- rules about calls ----

const RULES: &str = "version: 1
policy:
  rules:
    - id: no-env
      verdict: deny
      tools: [write]
      when: 'ends_with(args.path, \".env\")'
      because: it holds secrets
      instead: name the variable in README.md
      match:
        - { tool: write, arguments: { path: .env, content: x } }
      not_match:
        - { tool: write, arguments: { path: a.md, content: x } }
    - id: ask-delete
      verdict: ask
      actions: [code:delete]
      because: nobody keeps copies
      instead: move it aside
";

#[test]
fn a_rule_refuses_and_asks_with_its_reason_and_what_to_do_instead() {
    let bench = Bench::new();
    let config = user(&bench, RULES);
    bench.put("a.txt", "stays\n");
    let outcome = bench.call("write", &json!({ "path": ".env", "content": "x" })).refused("not_permitted");
    let message =
        format!("tool `write` is not permitted: rule `no-env` denies it: it holds secrets ({}:4)", config.display());
    assert_eq!((&outcome["message"], &outcome["remedy"]), (&json!(message), &json!("name the variable in README.md")));
    assert!(outcome["text"].as_str().unwrap().contains("name the variable in README.md"), "{outcome}");
    let asked = bench.call("delete", &json!({ "path": "a.txt" })).exits(4).json();
    let message = asked["message"].as_str().unwrap();
    assert!(message.contains("nobody keeps copies; instead: move it aside"), "{message}");
    bench.call("write", &json!({ "path": "a.md", "content": "x" })).done();
    assert_eq!(bench.text("a.txt"), "stays\n");
    assert!(listed(&bench, "default").contains(&"write".to_owned()), "what is refused by its arguments is listed");
}

#[test]
fn a_rule_whose_example_does_not_hold_stops_everything_at_its_line() {
    let bench = Bench::new();
    let config = user(&bench, &RULES.replace("path: a.md", "path: a.env"));
    let ran = bench.call("read", &json!({ "path": "a" })).exits(2);
    let place = format!("{}:13:11", config.display());
    assert!(ran.stderr.contains(&place) && ran.stderr.contains("is not to be meant by rule"), "{ran}");
    let ran = bench.run(&["check", config.to_str().unwrap()]).exits(2);
    assert!(ran.stderr.contains(&place), "{ran}");
}

#[test]
fn explain_says_what_would_make_a_call_pass() {
    let bench = Bench::new();
    let config =
        user(&bench, &format!("{RULES}agents:\n  low: {{ level: restricted }}\n  tame: {{ autonomy: locked }}\n"));
    let check = |agent: &str, tool: &str, arguments: Value, expected: &[&str]| {
        let ran = bench.run(&["explain", "--json", "--agent", agent, tool, &arguments.to_string()]);
        let ways: Vec<String> = serde_json::from_value(ran.json()["to_pass"].clone()).unwrap();
        for part in expected {
            assert!(ways.iter().any(|way| way.contains(part)), "{part}: {ways:#?}");
        }
        assert_eq!(expected.is_empty(), ways.is_empty(), "{ways:#?}");
    };
    let line = format!("Change the rule at {}:4", config.display());
    let env = json!({ "path": ".env", "content": "x" });
    check("default", "write", env, &["name the variable in README.md", r#"{"content":"x","path":"a.md"}"#, &line]);
    check(
        "default",
        "delete",
        json!({ "path": "a" }),
        &["One person's yes", "toolgate approvals grant --agent default"],
    );
    check("low", "shell", json!({ "script": "ls" }), &["At level `standard` it is `"]);
    check("tame", "read", json!({ "path": "a" }), &["Autonomy `supervised` does it unasked"]);
    check("default", "read", json!({ "path": "a" }), &[]);
}

#[test]
fn policy_test_tries_examples_and_files_of_tests() {
    let bench = Bench::new();
    let config = user(&bench, RULES);
    let told = bench.run(&["policy", "test", "--json"]).exits(0).json();
    assert_eq!((&told["tried"], &told["failed"]), (&json!(2), &json!(0)));
    assert_eq!((&told["trials"][0]["file"], &told["trials"][0]["line"]), (&json!(config), &json!(11)));
    bench.put(
        "tests.yaml",
        "tests:\n  - { tool: write, arguments: { path: .env, content: x }, expect: deny, rule: no-env }\n  - { tool: delete, arguments: { path: a }, expect: allow }\n",
    );
    let told = bench.run(&["policy", "test", "--json", "tests.yaml"]).exits(1).json();
    assert_eq!((&told["tried"], &told["failed"], &told["ok"]), (&json!(2), &json!(1), &json!(false)));
    assert_eq!((&told["trials"][1]["line"], &told["trials"][0]["why"]), (&json!(3), &Value::Null));
    assert!(told["trials"][1]["why"].as_str().unwrap().starts_with("ask by `ask-delete`"), "{told}");
    // A config is tried though its examples do not hold.
    bench.put("other.yaml", RULES.replace("path: a.md", "path: a.env"));
    let told = bench.run(&["policy", "test", "--json", "other.yaml"]).exits(1).json();
    assert_eq!((&told["tried"], &told["failed"]), (&json!(2), &json!(1)));
    bench.run(&["policy", "test", "none.yaml"]).exits(2);
}

#[test]
fn policy_diff_replays_recorded_calls_under_both_configs_and_runs_nothing() {
    let bench = Bench::new();
    let new = user(&bench, "version: 1\nagents: { other: {} }\n");
    bench.put("a.txt", "x\n");
    bench.call("read", &json!({ "path": "a.txt" })).done();
    for content in ["one", "AKIAQ3EGRZ7XW5LMNT2P"] {
        bench.call("write", &json!({ "path": ".env", "content": content })).done();
    }
    call_as(&bench, "other", "read", json!({ "path": "a.txt" })).done();
    bench.call("read", &json!({ "nonsense": true })).exits(1);
    fs::write(&new, RULES).unwrap();
    let old = bench.put("old.yaml", "version: 1\nagents: { other: {} }\n");
    let diff = |more: &[&str]| {
        let arguments = [&["policy", "diff", old.to_str().unwrap(), new.to_str().unwrap(), "--json"], more].concat();
        bench.run(&arguments).exits(0).json()
    };
    let told = diff(&["--since", "1d"]);
    assert_eq!((&told["replayed"], &told["changed"]), (&json!(3), &json!(2)), "{told}");
    let change = &told["changes"][0];
    let expected = json!({
        "agent": "default", "tool": "write", "old": "allow", "new": "deny", "old_by": ["level"], "new_by": ["no-env"],
        "calls": 2, "redacted": 1, "example": change["example"],
        "why": [format!("rule `no-env` denies it: it holds secrets ({}:4)", new.display())],
    });
    assert_eq!((told["changes"].as_array().unwrap().len(), change), (1, &expected), "{told}");
    let why = json!({
        "the new config has no agent `other`": 1,
        "the old config does not take it as a call of `read`: invalid_arguments": 1,
    });
    assert_eq!(told["not_replayed"], why);
    assert_eq!(diff(&[])["replayed"], told["replayed"]);
    assert_eq!(bench.text(".env"), "AKIAQ3EGRZ7XW5LMNT2P");
}
