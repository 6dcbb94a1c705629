//! Pull requests and other people's APIs, seen from outside: a forge behind a connection, asked through the binary.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate_tests::{Bench, Ran, forge::ForgeServer};

const TOKEN: &str = "t0ken-5f0c1a9d7be2-of-a-test";

/// A forge with a repository, and a connection to it.
struct Lab {
    forge: ForgeServer,
    bench: Bench,
}

impl Lab {
    /// With these further words about the connection.
    fn new(words: &str) -> Self {
        let lab = Self { forge: ForgeServer::start(TempDir::new().unwrap(), TOKEN), bench: Bench::new() };
        lab.forge.add_repository("ada/engine");
        let (port, ca) = (lab.forge.port(), lab.forge.ca_pem_path());
        let config = format!(
            "version: 1\nagents: {{ default: {{ level: elevated }} }}\n\
             egress: {{ hostname_allowlist: ['127.0.0.1:{port}'], ca_file: '{}' }}\n\
             connections:\n  \
             forge: {{ base_url: '{}', kind: forgejo, auth: {{ bearer: 'env:FORGE_TOKEN' }}{words} }}\n",
            ca.display(),
            lab.forge.url(),
        );
        fs::write(lab.config(), config).unwrap();
        lab
    }

    fn config(&self) -> String {
        self.bench.outside().join("toolgate.yaml").to_str().unwrap().to_owned()
    }

    fn call(&self, tool: &str, arguments: &Value) -> Ran {
        self.call_with(TOKEN, tool, arguments)
    }

    fn call_with(&self, token: &str, tool: &str, arguments: &Value) -> Ran {
        let mut command = self.bench.command(&["call", tool, "-", "--config", &self.config()]);
        let ran = Ran::fed(command.env("FORGE_TOKEN", token), arguments.to_string().as_bytes());
        assert!(!ran.to_string().contains(TOKEN), "the token is told: {ran}");
        ran
    }

    /// A branch with one more commit, made on the forge itself.
    fn branch(&self, name: &str) -> String {
        let git = |args: &[&str]| self.forge.git("ada/engine", args);
        let commit = git(&["commit-tree", "main^{tree}", "-p", "main", "-m", "work"]);
        git(&["update-ref", &format!("refs/heads/{name}"), &commit]);
        commit
    }
}

fn on(number: u64) -> Value {
    json!({ "connection": "forge", "repository": "ada/engine", "number": number })
}

#[test]
fn a_pull_request_is_opened_talked_about_and_merged() {
    let lab = Lab::new(", writes: allow");
    let tip = lab.branch("fix/7");
    let new = json!({
        "connection": "forge", "repository": "ada/engine", "title": "Turn faster", "head": "fix/7", "base": "main",
    });
    let opened = lab.call("pr_create", &new).done();
    assert_eq!((&opened["structured"]["number"], &opened["structured"]["head_sha"]), (&json!(1), &json!(tip)));
    assert_eq!(
        (&opened["action"], &opened["labels"]),
        (&json!("vcs:push"), &json!(["connection:forge", "untrusted", "private"]))
    );
    lab.call("pr_create", &new).failed("forge_conflict");

    let mut words = on(1);
    words["body"] = json!("Tested.");
    lab.call("pr_comment", &words).done();
    let mut all = on(1);
    all["include"] = json!(["comments", "files"]);
    let view = lab.call("pr_view", &all).done();
    assert_eq!(view["structured"]["comments"][0]["body"], "Tested.");

    let mut merge = on(1);
    merge["expected_head"] = json!("0".repeat(40));
    lab.call("pr_merge", &merge).failed("forge_conflict");
    merge["expected_head"] = json!(tip);
    let merged = lab.call("pr_merge", &merge).done();
    let main = lab.forge.git("ada/engine", &["rev-parse", "main"]);
    assert_eq!(merged["structured"]["merge_commit"], json!(main));
    let list = json!({ "connection": "forge", "repository": "ada/engine", "state": "merged" });
    let listed = lab.call("pr_list", &list).done();
    assert_eq!(
        (&listed["structured"]["pulls"][0]["number"], &listed["structured"]["more"]),
        (&json!(1), &json!(false))
    );
}

#[test]
fn what_would_be_changed_is_asked_about_or_refused_before_anybody_is_reached() {
    let mut words = on(1);
    words["body"] = json!("Tested.");
    let post = json!({ "connection": "forge", "method": "POST", "path": "/api/v1/user", "json": {} });
    for (terms, status) in [(", writes: ask", 4), (", writes: deny", 3), (", sensitive: true, writes: allow", 4)] {
        let lab = Lab::new(terms);
        lab.call("pr_comment", &words).exits(status);
        lab.call("external_data", &post).exits(status);
        assert_eq!(lab.forge.requests(), Vec::<String>::new(), "{terms}");
    }
}

#[test]
fn a_person_is_asked_before_a_branch_goes() {
    let lab = Lab::new(", writes: allow");
    let mut merge = on(1);
    merge["delete_branch"] = json!(true);
    let ran = lab.call("pr_merge", &merge).exits(4);
    assert!(ran.json()["approval"].is_string(), "{ran}");
    assert_eq!(lab.forge.requests(), Vec::<String>::new());
}

#[test]
fn an_api_is_asked_by_path_and_by_url_and_nobody_else_is() {
    let lab = Lab::new("");
    let url = format!("{}/api/v1/user", lab.forge.url());
    for wanted in [json!({ "path": "/api/v1/user" }), json!({ "url": url })] {
        let mut arguments = wanted;
        arguments["connection"] = json!("forge");
        let answered = lab.call("external_data", &arguments).done();
        assert_eq!(
            (&answered["structured"]["status"], &answered["structured"]["json"]["login"]),
            (&json!(200), &json!("ada"))
        );
    }
    assert_eq!(lab.forge.requests(), ["GET /api/v1/user 200", "GET /api/v1/user 200"]);
    let port = lab.forge.port();
    for other in [
        format!("http://127.0.0.1:{port}/api/v1/user"),
        format!("https://localhost:{port}/api/v1/user"),
        "https://127.0.0.1/api/v1/user".to_owned(),
        "https://example.com/".to_owned(),
    ] {
        lab.call("external_data", &json!({ "connection": "forge", "url": other })).refused("connection_mismatch");
    }
    let climbing = json!({ "connection": "forge", "path": "/api/v1/%2e%2e/admin" });
    lab.call("external_data", &climbing).refused("path_traversal");
    let carrying = json!({ "connection": "forge", "path": "/", "headers": { "Authorization": "Bearer x" } });
    lab.call("external_data", &carrying).refused("credentials_in_arguments");
    assert_eq!(lab.forge.requests().len(), 2);
}

#[test]
fn a_token_that_is_not_taken_is_told() {
    let lab = Lab::new("");
    lab.call_with("another-token-altogether", "pr_view", &on(1)).refused("forge_unauthorized");
    let arguments = json!({ "connection": "forge", "path": "/api/v1/user" });
    let answered = lab.call_with("another-token-altogether", "external_data", &arguments).done();
    assert_eq!(answered["structured"]["status"], 401);
    lab.call("pr_view", &on(1)).failed("forge_not_found");
}
