//! `pr_merge`: the changes of a pull request go into its base branch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{
    ActionType, Category, CostTier, Effect, EffectKind, Example, Fault, Idempotency, SafetyClass, ToolDef,
};

use super::{
    AT_ONCE, CAPS, NEEDS, TIMEOUT, asks,
    fault::{BAD_COMMIT, CONFLICT, UNSUPPORTED, forge_modes},
    place::{Repository, branch, commit},
    pull::{MergeMethod, Pull, State},
    service::Forge,
    tells, writing,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "pr_merge".into(),
            summary: "Merge a pull request on GitHub, GitLab or Forgejo.".into(),
            description:
                "Merges a pull request (on GitLab: a merge request) into its base branch. Give the `head_sha` you \
                looked at as `expected_head`: if somebody pushed since, nothing is merged. `delete_branch` removes the \
                merged branch afterwards, which a person must approve; a branch in a fork is never removed."
                    .into(),
            category: Category::VersionControl,
            action: ActionType::VcsPush,
            safety: SafetyClass::Network,
            needs: NEEDS,
            idempotency: Idempotency::Optional,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            caps: CAPS,
            cost: CostTier::Medium,
            examples: vec![
                Example {
                    title: "What was looked at, as one commit".into(),
                    arguments: json!({
                        "connection": "forge", "repository": "ada/engine", "number": 7, "method": "squash",
                        "expected_head": "1b9f4a3c5d7e9f1b3d5f7a9c1e3b5d7f9a1c3e5b",
                    }),
                },
                Example {
                    title: "And the branch goes".into(),
                    arguments: json!({
                        "connection": "forge", "repository": "ada/engine", "number": 7, "delete_branch": true,
                    }),
                },
            ],
            failures: forge_modes(&[&BAD_COMMIT, &CONFLICT, &UNSUPPORTED]),
            ..ToolDef::default()
        },
        effects,
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
    /// How the changes get in; GitLab does not know `rebase` here.
    #[serde(default)]
    method: MergeMethod,
    /// The commit its branch must be at, in full; nothing is merged when it is at another.
    #[serde(default)]
    #[schemars(length(min = 40, max = 64))]
    expected_head: Option<String>,
    /// Remove the branch once it is merged.
    #[serde(default)]
    delete_branch: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Done {
    /// The number of the pull request, which is merged now.
    number: u64,
    /// The branch the changes are in now.
    base: String,
    /// The commit that was merged, where the forge tells.
    head_sha: Option<String>,
    /// The commit that merging made, where the forge tells.
    merge_commit: Option<String>,
    /// The merged branch was removed.
    branch_deleted: bool,
    /// Why the branch is still there, though it was to be removed.
    branch_kept_because: Option<String>,
}

fn effects(input: &Input) -> Vec<Effect> {
    let what = format!("{}#{}", input.repository, input.number);
    let removes = input.delete_branch.then(|| Effect::on(EffectKind::DeleteBranch, &what));
    [asks(), tells(&what)].into_iter().chain(removes).collect()
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Done>, Fault> {
    let (forge, repository, pull) = prepare(cx, &input).map_err(Fault::untouched)?;
    // The forge compares the commit once more, in the same step in which it merges.
    let head_sha = input.expected_head.as_deref().map(commit).transpose()?.or_else(|| pull.head_sha.clone());
    let merge_commit = forge.merge(&repository, input.number, input.method, head_sha.as_deref())?;
    // It is merged; what goes wrong from here on must not be told as if it were not.
    let merge_commit =
        merge_commit.or_else(|| forge.view(&repository, input.number).ok().and_then(|whole| whole.merge_commit));
    // The name comes from the forge, and becomes a part of a path.
    let delete = || forge.delete_branch(&repository, &branch(&pull.head)?);
    let deleted = input.delete_branch.then(delete);
    Ok(Answer::new(Done {
        number: input.number,
        base: pull.base,
        head_sha,
        merge_commit,
        branch_deleted: matches!(deleted, Some(Ok(()))),
        branch_kept_because: deleted.and_then(Result::err).map(|fault| fault.message),
    }))
}

/// What comes before anything is changed.
fn prepare<'a>(cx: &'a Cx, input: &Input) -> Result<(Forge<'a>, Repository, Pull), Fault> {
    let repository = Repository::parse(&input.repository)?;
    let expected = input.expected_head.as_deref().map(commit).transpose()?;
    let forge = Forge::at(cx, &input.connection)?;
    let pull = forge.view(&repository, input.number)?.pull;
    check(&pull, expected.as_deref(), input.delete_branch)?;
    Ok((forge, repository, pull))
}

/// Is it what the caller looked at, and can it be merged at all?
fn check(pull: &Pull, expected: Option<&str>, delete_branch: bool) -> Result<(), Fault> {
    let number = pull.number;
    let conflict = |message: String| Err(CONFLICT.failed(message, "Look at it with `pr_view`, then decide again."));
    match pull.state {
        State::Open => {}
        State::Closed => return conflict(format!("pull request {number} is closed")),
        State::Merged => return conflict(format!("pull request {number} is merged already")),
    }
    if let (Some(expected), Some(found)) = (expected, &pull.head_sha)
        && !found.eq_ignore_ascii_case(expected)
    {
        return conflict(format!("the branch of pull request {number} is at another commit than `{expected}`"));
    }
    if delete_branch && pull.from_fork {
        return Err(UNSUPPORTED.failed(
            format!("the branch of pull request {number} lies in a fork or is gone"),
            "Leave `delete_branch` out.",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{
        super::stage::{FORGES, changed, does, refuses, refuses_what_is_wrong_for_all, sent, stage, written},
        *,
    };
    use crate::web_stage::{answer, json_answer};

    const HEAD: &str = "c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff";

    fn arguments() -> Value {
        json!({ "connection": "forge", "repository": "ada/engine", "number": 7, "expected_head": HEAD })
    }

    /// The pull request at `HEAD`, as the forge behind this connection writes it.
    fn at_head(connection: &str) -> Value {
        let mut pull = written(connection);
        match connection {
            "gitlab" => pull["sha"] = HEAD.into(),
            _ => pull["head"]["sha"] = HEAD.into(),
        }
        pull
    }

    fn merged(connection: &str) -> Value {
        let fields = match connection {
            "github" => json!({ "merged": true, "sha": "beef" }),
            "gitlab" => json!({ "state": "merged", "merge_commit_sha": "beef" }),
            _ => json!({ "state": "closed", "merged": true, "merge_commit_sha": "beef" }),
        };
        changed(at_head(connection), fields)
    }

    #[test]
    fn the_commit_that_was_looked_at_is_merged() {
        for connection in FORGES {
            let answers = match connection {
                "forge" => {
                    vec![json_answer(200, at_head("forge")), answer(200, &[], ""), json_answer(200, merged("forge"))]
                }
                other => vec![json_answer(200, at_head(other)), json_answer(200, merged(other))],
            };
            let stage = stage(answers);
            let wanted = json!({ "connection": connection, "method": "squash" });
            let output = stage.call(tool, changed(arguments(), wanted)).unwrap();
            let expected = json!({
                "number": 7, "base": "main", "head_sha": HEAD, "merge_commit": "beef", "branch_deleted": false,
                "branch_kept_because": null,
            });
            assert_eq!(output.structured, expected, "{connection}");
            let merge = match connection {
                "github" => ("PUT /repos/ada/engine/pulls/7/merge", json!({ "merge_method": "squash", "sha": HEAD })),
                "gitlab" => (
                    "PUT /api/v4/projects/ada%2Fengine/merge_requests/7/merge",
                    json!({ "squash": true, "should_remove_source_branch": false, "sha": HEAD }),
                ),
                _ => (
                    "POST /repos/ada/engine/pulls/7/merge",
                    json!({ "Do": "squash", "delete_branch_after_merge": false, "head_commit_id": HEAD }),
                ),
            };
            assert_eq!(sent(&stage, connection)[1], (merge.0.to_owned(), merge.1));
        }
    }

    #[test]
    fn without_a_word_about_it_the_commit_it_is_at_now_is_merged() {
        let stage = stage([json_answer(200, at_head("github")), json_answer(200, merged("github"))]);
        let wanted = json!({ "connection": "github", "expected_head": null });
        stage.call(tool, changed(arguments(), wanted)).unwrap();
        assert_eq!(sent(&stage, "github")[1].1, json!({ "merge_method": "merge", "sha": HEAD }));
    }

    #[test]
    fn a_head_that_moved_is_not_merged() {
        for connection in FORGES {
            let stage = stage([json_answer(200, written(connection))]);
            let fault = stage.call(tool, changed(arguments(), json!({ "connection": connection }))).unwrap_err();
            assert_eq!((fault.code.as_ref(), stage.sent().len()), ("forge_conflict", 1), "{connection}");
        }
        // It moves between the two questions.
        let stage = stage([json_answer(200, at_head("forge")), json_answer(409, json!({ "message": "out of date" }))]);
        assert_eq!(stage.call(tool, arguments()).unwrap_err().code, "forge_conflict");
    }

    #[test]
    fn what_is_closed_or_merged_is_not_merged() {
        for fields in [json!({ "state": "closed" }), json!({ "state": "closed", "merged": true })] {
            let stage = stage([json_answer(200, changed(at_head("forge"), fields))]);
            assert_eq!(stage.call(tool, arguments()).unwrap_err().code, "forge_conflict");
            assert_eq!(stage.sent().len(), 1);
        }
    }

    #[test]
    fn a_forge_that_does_not_merge_is_not_believed_to() {
        let refused = json!({ "merged": false, "message": "no" });
        let stage = stage([json_answer(200, at_head("github")), json_answer(200, refused)]);
        let fault = stage.call(tool, changed(arguments(), json!({ "connection": "github" }))).unwrap_err();
        assert_eq!(fault.code, "forge_conflict");
    }

    #[test]
    fn the_branch_goes_when_asked_and_what_keeps_it_is_told() {
        let delete = |status| {
            let stage = stage([
                json_answer(200, at_head("github")),
                json_answer(200, merged("github")),
                json_answer(status, json!({ "message": "protected" })),
            ]);
            let wanted = json!({ "connection": "github", "delete_branch": true });
            let output = stage.call(tool, changed(arguments(), wanted)).unwrap();
            assert_eq!(sent(&stage, "github")[2].0, "DELETE /repos/ada/engine/git/refs/heads/fix/7");
            (output.structured["branch_deleted"].clone(), output.structured["branch_kept_because"].clone())
        };
        assert_eq!(delete(204), (json!(true), Value::Null));
        let because = "the forge answers 422, and says `protected`";
        assert_eq!(delete(422), (json!(false), json!(because)));
    }

    #[test]
    fn the_branch_of_a_fork_is_nobody_s_to_remove() {
        let fork = json!({ "head": { "ref": "main", "sha": HEAD, "repo": { "full_name": "eve/engine" } } });
        let stage = stage([json_answer(200, changed(written("forge"), fork))]);
        let fault = stage.call(tool, changed(arguments(), json!({ "delete_branch": true }))).unwrap_err();
        assert_eq!((fault.code.as_ref(), stage.sent().len()), ("forge_unsupported", 1));
    }

    /// A forge that names a branch of its own choosing must not choose the path of the next request.
    #[test]
    fn the_name_of_a_branch_stays_in_its_place() {
        let odd = json!({ "head": { "ref": "../../x?y#z", "sha": HEAD, "repo": { "full_name": "ada/engine" } } });
        let stage = stage([
            json_answer(200, changed(written("forge"), odd)),
            answer(200, &[], ""),
            json_answer(200, merged("forge")),
        ]);
        let output = stage.call(tool, changed(arguments(), json!({ "delete_branch": true }))).unwrap();
        assert_eq!(output.structured["branch_deleted"], false);
        assert!(sent(&stage, "forge").iter().all(|(line, _)| !line.starts_with("DELETE")));
    }

    #[test]
    fn what_is_wrong_is_never_sent() {
        refuses_what_is_wrong_for_all(tool, arguments());
        refuses(tool, changed(arguments(), json!({ "expected_head": "HEAD" })), "bad_commit");
        refuses(tool, changed(arguments(), json!({ "method": "octopus" })), "invalid_arguments");
    }

    #[test]
    fn gitlab_does_not_rebase_here() {
        let stage = stage([json_answer(200, at_head("gitlab"))]);
        let wanted = json!({ "connection": "gitlab", "method": "rebase" });
        assert_eq!(stage.call(tool, changed(arguments(), wanted)).unwrap_err().code, "forge_unsupported");
    }

    #[test]
    fn removing_a_branch_is_an_effect_of_its_own() {
        let told = tells("ada/engine#7");
        does(tool, &arguments(), true, &[asks(), told.clone()]);
        let removes = Effect::on(EffectKind::DeleteBranch, "ada/engine#7");
        does(tool, &changed(arguments(), json!({ "delete_branch": true })), true, &[asks(), told, removes]);
    }
}
