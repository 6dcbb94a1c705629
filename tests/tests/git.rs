//! Git, seen from outside: a repository that tries to run something, a repository's own config that no room writes, and
//! what every git tool does in a room.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test")]

#[path = "../../crates/tools/tests/hostile/mod.rs"]
mod hostile;

use std::{fs, process::Command};

use hostile::Hostile;
use serde_json::{Value, json};
use toolgate_tests::{Bench, skipped};

/// A bench on a machine that has rooms.
fn bench() -> Option<Bench> {
    let bench = Bench::new();
    let ran = bench.call("bash", &json!({ "argv": ["git", "--version"] }));
    let outcome = ran.json();
    if outcome["code"] == "wall_missing" {
        skipped(format!("this machine has no rooms: {}", outcome["message"]));
        return None;
    }
    ran.done();
    Some(bench)
}

fn git(bench: &Bench, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(words).current_dir(bench.workspace()).env("GIT_CONFIG_GLOBAL", "/dev/null");
    // A room's files need not be its owner's.
    command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim_end().to_owned()
}

/// Every call of a day, with the code that it ends with; none where it is done.
const DAY: &[(&str, &str, Option<&str>)] = &[
    ("git_status", r#"{}"#, None),
    ("git_log", r#"{"paths": ["a.txt"]}"#, None),
    ("git_log", r#"{"ref": "--output=option"}"#, Some("bad_revision")),
    ("git_diff", r#"{}"#, None),
    ("git_diff", r#"{"from": "main", "to": "dev"}"#, None),
    ("git_diff", r#"{"paths": ["--output=option"]}"#, None),
    ("git_show", r#"{}"#, None),
    ("git_show", r#"{"ref": "dev:a.txt"}"#, None),
    ("git_blame", r#"{"path": "a.txt"}"#, None),
    ("git_branch", r#"{"action": "list"}"#, None),
    ("git_tag", r#"{"action": "list"}"#, None),
    ("git_stash", r#"{"action": "list"}"#, None),
    ("git_branch", r#"{"action": "create", "name": "work", "start_point": "dev"}"#, None),
    ("git_branch", r#"{"action": "create", "name": "--exec=x"}"#, Some("bad_name")),
    ("git_branch", r#"{"action": "delete", "name": "work"}"#, Some("approval_required")),
    ("git_tag", r#"{"action": "create", "name": "v2", "message": "two"}"#, None),
    ("git_tag", r#"{"action": "delete", "name": "v2"}"#, Some("approval_required")),
    ("git_stash", r#"{"action": "push", "untracked": true, "paths": ["note", "-rf"]}"#, None),
    ("git_stash", r#"{"action": "show"}"#, None),
    ("git_stash", r#"{"action": "pop"}"#, None),
    ("git_commit", r#"{"message": "three", "paths": ["."]}"#, None),
    ("git_commit", r#"{"message": "nothing"}"#, Some("nothing_to_commit")),
    ("git_commit", r#"{"message": "nothing", "all": true}"#, Some("nothing_to_commit")),
    ("git_commit", r#"{"message": "again", "amend": true}"#, Some("approval_required")),
    ("git_merge", r#"{"ref": "dev"}"#, None),
    ("git_branch", r#"{"action": "switch", "name": "work"}"#, None),
    ("git_branch", r#"{"action": "rename", "new_name": "works"}"#, None),
    ("git_branch", r#"{"action": "switch", "name": "main"}"#, None),
    ("git_fetch", r#"{}"#, Some("url_refused")),
    ("git_fetch", r#"{"remote": "web"}"#, Some("url_refused")),
    ("git_pull", r#"{}"#, Some("url_refused")),
    ("git_pull", r#"{"mode": "rebase"}"#, Some("approval_required")),
    ("git_push", r#"{}"#, Some("url_refused")),
    ("git_push", r#"{"force": "with_lease"}"#, Some("approval_required")),
    ("git_push", r#"{"branch": "dev", "delete": true}"#, Some("approval_required")),
    ("git_clone", r#"{"url": "ext::sh -c touch% x", "directory": "clone"}"#, Some("url_refused")),
    ("git_clone", r#"{"url": "file:///etc", "directory": "clone"}"#, Some("url_refused")),
    ("git_status", r#"{"repository": "sub"}"#, None),
    ("git_commit", r#"{"repository": "sub", "message": "x", "paths": ["."]}"#, None),
];

#[test]
fn a_hostile_repository_runs_nothing_through_any_tool() {
    let Some(bench) = bench() else { return };
    let hostile = Hostile::new(&bench.workspace(), &bench.workspace().join("traces"));
    let config = bench.text(".git/config");
    // Traces can be left from inside a room: a git that is started there by itself leaves some.
    let ran = bench.call("shell", &json!({ "script": "git -c core.bare=false --work-tree=. status" }));
    assert!(!hostile.left().is_empty(), "{ran}");
    hostile.wipe();

    for (tool, arguments, expected) in DAY {
        let ran = bench.call(tool, &serde_json::from_str(arguments).unwrap());
        let code = ran.json()["code"].as_str().map(str::to_owned);
        assert_eq!((code.as_deref(), hostile.left()), (*expected, Vec::new()), "{tool} {arguments}: {ran}");
    }
    assert_eq!(bench.text(".git/config"), config);
    let stray: Vec<_> = fs::read_dir(bench.outside()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(stray.iter().all(|name| ["workspace", "data", "home"].iter().any(|known| name == known)), "{stray:?}");
}

#[test]
fn a_repository_that_lies_elsewhere_is_refused() {
    let Some(bench) = bench() else { return };
    let outside = bench.outside().join("elsewhere");
    fs::create_dir(&outside).unwrap();
    git(&bench, &["init", "-q", outside.to_str().unwrap()]);
    bench.put("sub/.git", format!("gitdir: {}/.git\n", outside.display()));
    bench.call("git_status", &json!({ "repository": "sub" })).refused("path_outside_workspace");
    bench.call("git_status", &json!({ "repository": ".." })).refused("path_outside_workspace");
    bench.call("git_status", &json!({})).failed("not_a_repository");
}

#[test]
fn the_workspace_s_own_repository_is_worked_on_though_its_config_is_shut() {
    let Some(bench) = bench() else { return };
    git(&bench, &["init", "-q", "-b", "main"]);
    let config = bench.text(".git/config");
    let done = |tool: &str, arguments: Value| bench.call(tool, &arguments).done();
    bench.put("a.txt", "one\n");
    let outcome = done("git_commit", json!({ "message": "first", "paths": ["a.txt"] }));
    assert_eq!((&outcome["action"], &outcome["risk"]), (&json!("vcs:commit"), &json!("medium")));
    done("git_branch", json!({ "action": "create", "name": "dev" }));
    done("git_branch", json!({ "action": "switch", "name": "dev" }));
    done("edit", json!({ "path": "a.txt", "edits": [{ "old": "one", "new": "two" }] }));
    done("git_stash", json!({ "action": "push" }));
    assert_eq!(bench.text("a.txt"), "one\n");
    done("git_stash", json!({ "action": "pop" }));
    done("git_commit", json!({ "message": "second", "all": true }));
    done("git_branch", json!({ "action": "rename", "new_name": "topic" }));
    done("git_branch", json!({ "action": "switch", "name": "main" }));
    let merged = done("git_merge", json!({ "ref": "topic" }));
    assert_eq!(merged["structured"]["result"], "merged");
    done("git_tag", json!({ "action": "create", "name": "v1", "message": "one" }));
    let outcome = done("git_status", json!({}));
    assert_eq!(
        (&outcome["action"], &outcome["effects"]),
        (&json!("vcs:read"), &json!([{ "kind": "fs_read", "target": "." }]))
    );
    assert_eq!(outcome["structured"]["files"], json!([]));
    assert_eq!(git(&bench, &["log", "--format=%s %an"]), "second Toolgate agent\nfirst Toolgate agent");
    assert_eq!((bench.text(".git/config"), git(&bench, &["fsck", "--no-dangling"])), (config, String::new()));
}
