//! Forges for tests: a web with a connection to each kind, and what they write.

use serde_json::{Value, json};
use toolgate_contract::{Effect, Fault, ServiceKind, WebRequest, WebResponse};

use crate::{Tool, web_stage::WebStage};

/// The connections, one for each kind of forge.
pub(super) const FORGES: [&str; 3] = ["github", "gitlab", "forge"];

/// A web that gives these answers, with a connection to each kind of forge and to something else.
pub(super) fn stage(answers: impl IntoIterator<Item = Result<WebResponse, Fault>>) -> WebStage {
    WebStage::answering(answers)
        .connected("github", "https://api.github.com", ServiceKind::Github)
        .connected("gitlab", "https://gitlab.example", ServiceKind::Gitlab)
        .connected("forge", "https://forge.example/api/v1", ServiceKind::Forgejo)
        .connected("other", "https://other.example", ServiceKind::Generic)
}

/// A pull request as the forge behind this connection writes it.
pub(super) fn written(connection: &str) -> Value {
    if connection == "gitlab" { merge_request() } else { pull_request() }
}

/// As GitHub and Forgejo write it.
pub(super) fn pull_request() -> Value {
    json!({
        "id": 900, "number": 7, "title": "Turn faster", "body": "why", "state": "open", "draft": false,
        "merged": false, "merged_at": null, "mergeable": true, "merge_commit_sha": "beef",
        "user": { "login": "ada", "id": 1 }, "labels": [],
        "head": { "ref": "fix/7", "sha": "c0ffee", "repo": { "full_name": "ada/engine" } },
        "base": { "ref": "main", "sha": "f00d", "repo": { "full_name": "Ada/Engine" } },
        "html_url": "https://forge.example/ada/engine/pulls/7",
        "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-02-02T03:04:05Z",
    })
}

/// As GitLab writes it.
pub(super) fn merge_request() -> Value {
    json!({
        "id": 900, "iid": 7, "project_id": 3, "title": "Turn faster", "description": "why", "state": "opened",
        "draft": false, "work_in_progress": false, "author": { "username": "ada", "name": "Ada" },
        "source_branch": "fix/7", "target_branch": "main", "source_project_id": 3, "target_project_id": 3,
        "sha": "c0ffee", "detailed_merge_status": "mergeable", "merge_commit_sha": null, "squash_commit_sha": null,
        "web_url": "https://forge.example/ada/engine/pulls/7",
        "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-02-02T03:04:05Z",
    })
}

/// The same with other fields.
pub(super) fn changed(mut value: Value, fields: Value) -> Value {
    for (name, field) in fields.as_object().unwrap() {
        value[name] = field.clone();
    }
    value
}

/// What was sent, each as one line and a body. Every request must go through the connection, and follow nothing.
pub(super) fn sent(stage: &WebStage, connection: &str) -> Vec<(String, Value)> {
    let line = |request: WebRequest| {
        assert_eq!((request.connection.as_deref(), request.limits.redirects), (Some(connection), 0));
        let names: Vec<_> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        let versioned = connection == "github";
        assert_eq!(names.contains(&"x-github-api-version"), versioned, "{names:?}");
        assert_eq!(names.contains(&"content-type"), !request.body.is_empty(), "{names:?}");
        let body = serde_json::from_slice(&request.body).unwrap_or_default();
        (format!("{} {}", request.method, request.url), body)
    };
    stage.sent().into_iter().map(line).collect()
}

/// The code of a call that must not send anything.
pub(super) fn refuses(tool: fn() -> Tool, arguments: Value, code: &str) {
    let stage = stage([]);
    assert_eq!(stage.call(tool, arguments.clone()).unwrap_err().code, code, "{arguments}");
    assert_eq!(stage.sent(), [], "{arguments}");
}

/// What every tool here refuses, whatever else it is given.
pub(super) fn refuses_what_is_wrong_for_all(tool: fn() -> Tool, arguments: Value) {
    let with = |fields: Value| changed(arguments.clone(), fields);
    refuses(tool, with(json!({ "connection": "nobody" })), "unknown_connection");
    refuses(tool, with(json!({ "connection": "other" })), "not_a_forge");
    refuses(tool, with(json!({ "repository": "../../admin" })), "bad_repository");
    refuses(tool, with(json!({ "repository": "a/b/c" })), "bad_repository");
}

/// Declares that a call writes or does not, and what it does.
pub(super) fn does(tool: fn() -> Tool, arguments: &Value, writes: bool, effects: &[Effect]) {
    let reading = tool().reading;
    let through = reading.connection(arguments).unwrap().unwrap();
    assert_eq!((through.connection.as_str(), through.writes), ("forge", writes));
    assert_eq!(reading.effects(arguments).unwrap(), effects);
}
