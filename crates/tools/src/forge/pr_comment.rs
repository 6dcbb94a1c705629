//! `pr_comment`: something said about a pull request.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{ActionType, Category, CostTier, Example, Fault, Idempotency, SafetyClass, ToolDef};

use super::{
    AT_ONCE, CAPS, NEEDS, TIMEOUT, asks, fault::forge_modes, place::Repository, pull::Comment, service::Forge, tells,
    writing,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "pr_comment".into(),
            summary: "Write a comment on a pull request on GitHub, GitLab or Forgejo.".into(),
            description:
                "Writes a comment on a pull request (on GitLab: a merge request), in the name the connection has \
                on the forge. Everybody who can see the repository can read it, and those who follow it are told."
                    .into(),
            category: Category::VersionControl,
            action: ActionType::CommsExternal,
            safety: SafetyClass::Network,
            needs: NEEDS,
            idempotency: Idempotency::Optional,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            caps: CAPS,
            cost: CostTier::Medium,
            examples: vec![Example {
                title: "An answer".into(),
                arguments: json!({
                    "connection": "forge", "repository": "ada/engine", "number": 7, "body": "Tested, it turns.",
                }),
            }],
            failures: forge_modes(&[]),
            ..ToolDef::default()
        },
        |input: &Input| vec![asks(), tells(format!("{}#{}", input.repository, input.number))],
        run,
    )
    .through(|input: &Input| writing(&input.connection))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The name of the connection to the forge.
    #[schemars(length(min = 1, max = 128))]
    connection: String,
    /// The repository: `owner/name`, on GitLab with all groups.
    #[schemars(length(max = 1024))]
    repository: String,
    /// The number of the pull request.
    #[schemars(range(min = 1))]
    number: u64,
    /// What to say, in Markdown.
    #[schemars(length(min = 1, max = 65536))]
    body: String,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Comment>, Fault> {
    let repository = Repository::parse(&input.repository).map_err(Fault::untouched)?;
    let forge = Forge::at(cx, &input.connection).map_err(Fault::untouched)?;
    Ok(Answer::new(forge.comment(&repository, input.number, &input.body)?))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{
        super::stage::{FORGES, changed, does, refuses_what_is_wrong_for_all, sent, stage},
        *,
    };
    use crate::web_stage::json_answer;

    fn arguments() -> Value {
        json!({ "connection": "forge", "repository": "ada/engine", "number": 7, "body": "It \"turns\"." })
    }

    #[test]
    fn it_is_said_on_every_forge() {
        for connection in FORGES {
            let written = json!({
                "id": 5, "user": { "login": "me" }, "author": { "username": "me" }, "body": "It \"turns\".",
                "created_at": "2026-01-02T03:04:05Z",
            });
            let stage = stage([json_answer(201, written)]);
            let output = stage.call(tool, changed(arguments(), json!({ "connection": connection }))).unwrap();
            let expected = json!({
                "id": 5, "author": "me", "body": "It \"turns\".", "created_at": "2026-01-02T03:04:05Z", "url": null,
            });
            assert_eq!(output.structured, expected, "{connection}");
            let line = match connection {
                "gitlab" => "POST /api/v4/projects/ada%2Fengine/merge_requests/7/notes",
                _ => "POST /repos/ada/engine/issues/7/comments",
            };
            assert_eq!(sent(&stage, connection), [(line.to_owned(), json!({ "body": "It \"turns\"." }))]);
        }
    }

    #[test]
    fn one_that_may_have_been_said_is_not_said_again() {
        let fault = stage([json_answer(500, json!({}))]).call(tool, arguments()).unwrap_err();
        assert_eq!((fault.code.as_ref(), fault.retryable), ("forge_unavailable", false));
    }

    #[test]
    fn what_is_wrong_is_never_sent() {
        refuses_what_is_wrong_for_all(tool, arguments());
    }

    #[test]
    fn others_read_it() {
        does(tool, &arguments(), true, &[asks(), tells("ada/engine#7")]);
    }
}
