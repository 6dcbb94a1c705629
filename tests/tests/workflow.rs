//! A day's work as a new user would do it: a secret, a connection, a clone over https, a branch, an edit, a commit, a push
//! and a pull request, all through `toolgate call`.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_tests::{Bench, forge::ForgeServer};

const TOKEN: &str = "fjo-3b8e51c2a9d04f67";

struct Desk {
    bench: Bench,
    forge: ForgeServer,
}

impl Desk {
    /// A forge, a user's config that knows it, and the token in the vault.
    fn new() -> Self {
        let forge = ForgeServer::start(TempDir::new().unwrap(), TOKEN);
        forge.add_repository("ada/engine");
        let bench = Bench::new();
        let config = bench.home().join(".config/toolgate/toolgate.yaml");
        fs::create_dir_all(config.parent().unwrap()).unwrap();
        let egress =
            json!({ "hostname_allowlist": [format!("127.0.0.1:{}", forge.port())], "ca_file": forge.ca_pem_path() });
        fs::write(config, format!("egress: {egress}\n")).unwrap();
        let kept = bench.run_with(&["secrets", "set", "forge-token"], TOKEN);
        assert_eq!(kept.status, 0, "{kept:?}");
        let added = bench.run(&[
            "connections",
            "add",
            "forge",
            "--base-url",
            &forge.api_url(),
            "--kind",
            "forgejo",
            "--bearer",
            "vault:forge-token",
            "--writes",
            "allow",
        ]);
        assert_eq!(added.status, 0, "{added:?}");
        Self { bench, forge }
    }

    /// A call that is to work, and its typed output.
    fn done(&self, tool: &str, arguments: Value) -> Value {
        let ran = self.bench.call(tool, &arguments);
        assert_eq!(ran.status, 0, "{tool} {arguments}: {} {}", ran.stdout, ran.stderr);
        let outcome: Value = serde_json::from_str(&ran.stdout).unwrap();
        outcome["structured"].clone()
    }

    /// The code of a call that is not to work.
    fn code(&self, tool: &str, arguments: Value) -> String {
        let ran = self.bench.call(tool, &arguments);
        assert_ne!(ran.status, 0, "{tool} {arguments}: {}", ran.stdout);
        let outcome: Value = serde_json::from_str(&ran.stdout).unwrap();
        outcome["code"].as_str().unwrap().to_owned()
    }

    fn clone_url(&self) -> String {
        format!("{}/ada/engine.git", self.forge.url())
    }
}

/// Every file below a directory in which one of these texts is.
fn files_with(dir: &Path, texts: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                left.push(entry.path());
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).unwrap();
                let holds = |text: &&str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
                found.extend(texts.iter().find(|text| holds(text)).map(|_| entry.path().display().to_string()));
            }
        }
    }
    found
}

#[test]
fn a_whole_day_from_clone_to_merged_pull_request() {
    let desk = Desk::new();
    let cloned = desk.done("git_clone", json!({ "url": desk.clone_url(), "connection": "forge" }));
    assert_eq!((&cloned["directory"], &cloned["branch"]), (&json!("engine"), &json!("main")));

    desk.done("git_branch", json!({ "repository": "engine", "action": "create", "name": "feature/steam" }));
    desk.done("git_branch", json!({ "repository": "engine", "action": "switch", "name": "feature/steam" }));
    desk.done("write", json!({ "path": "engine/steam.txt", "content": "pressure\n" }));
    let status = desk.done("git_status", json!({ "repository": "engine" }));
    assert!(status.to_string().contains("steam.txt"), "{status}");
    let committed =
        desk.done("git_commit", json!({ "repository": "engine", "message": "Add steam", "paths": ["steam.txt"] }));
    desk.done("git_push", json!({ "repository": "engine", "branch": "feature/steam", "connection": "forge" }));
    let pushed = desk.forge.git("ada/engine", &["log", "-1", "--format=%s %an", "feature/steam"]);
    assert!(pushed.starts_with("Add steam "), "{pushed} {committed}");

    let opened = desk.done(
        "pr_create",
        json!({ "connection": "forge", "repository": "ada/engine", "title": "Steam", "head": "feature/steam", "base": "main", "body": "More of it." }),
    );
    let number = opened["number"].as_u64().unwrap();
    let listed = desk.done("pr_list", json!({ "connection": "forge", "repository": "ada/engine" }));
    assert!(listed.to_string().contains("Steam"), "{listed}");
    desk.done(
        "pr_comment",
        json!({ "connection": "forge", "repository": "ada/engine", "number": number, "body": "Ready." }),
    );
    desk.done("pr_merge", json!({ "connection": "forge", "repository": "ada/engine", "number": number }));
    assert_eq!(desk.forge.git("ada/engine", &["show", "main:steam.txt"]).trim_end(), "pressure");

    desk.done("git_branch", json!({ "repository": "engine", "action": "switch", "name": "main" }));
    desk.done("git_pull", json!({ "repository": "engine", "connection": "forge" }));
    assert_eq!(desk.bench.text("engine/steam.txt"), "pressure\n");

    // The token went to the forge and is nowhere else: not in the clone, not in the record, not in any outcome.
    assert_eq!(files_with(desk.bench.outside(), &[TOKEN, "eC1hY2Nlc3MtdG9rZW46"]), Vec::<String>::new());
}

#[test]
fn without_its_connection_nothing_is_cloned_and_a_token_is_not_sent_elsewhere() {
    let desk = Desk::new();
    assert_eq!(desk.code("git_clone", json!({ "url": desk.clone_url() })), "authentication_failed");
    let other = ForgeServer::start(TempDir::new().unwrap(), "another");
    let url = format!("{}/ada/engine.git", other.url());
    let code = desk.code("git_clone", json!({ "url": url, "connection": "forge" }));
    assert!(["address_refused", "connection_mismatch"].contains(&code.as_str()), "{code}");
    assert_eq!(other.requests(), Vec::<String>::new());
}

#[test]
fn what_rewrites_history_or_removes_a_branch_waits_for_a_person() {
    let desk = Desk::new();
    desk.done("git_clone", json!({ "url": desk.clone_url(), "connection": "forge" }));
    let before = desk.forge.requests().len();
    for (tool, arguments) in [
        ("git_push", json!({ "repository": "engine", "force": "with_lease", "connection": "forge" })),
        ("git_push", json!({ "repository": "engine", "branch": "main", "delete": true, "connection": "forge" })),
        ("git_branch", json!({ "repository": "engine", "action": "delete", "name": "main" })),
        ("git_commit", json!({ "repository": "engine", "message": "again", "amend": true })),
        ("git_tag", json!({ "repository": "engine", "action": "delete", "name": "v1" })),
    ] {
        let ran = desk.bench.call(tool, &arguments);
        assert_eq!(ran.status, 4, "{tool} {arguments}: {}", ran.stdout);
    }
    assert_eq!(desk.forge.requests().len(), before);
}
