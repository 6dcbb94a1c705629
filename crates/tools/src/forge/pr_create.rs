//! `pr_create`: a new pull request.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{ActionType, Category, CostTier, Example, Fault, Idempotency, SafetyClass, ToolDef};

use super::{
    AT_ONCE, CAPS, NEEDS, TIMEOUT,
    ask::NewPull,
    asks,
    fault::{BAD_BRANCH, CONFLICT, UNSUPPORTED, forge_modes},
    place::{Head, Repository, branch},
    pull::{Filter, Pull, State},
    service::Forge,
    tells, writing,
};
use crate::{Answer, Cx, Reconciled, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "pr_create".into(),
            summary: "Open a pull request on GitHub, GitLab or Forgejo.".into(),
            description: "Opens a pull request (on GitLab: a merge request) that asks for the changes of branch `head` to \
                go into branch `base`. Both branches must be on the forge already: push `head` first. Everybody who can \
                see the repository can read the title and the body."
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
                    title: "A branch that is ready".into(),
                    arguments: json!({
                        "connection": "forge", "repository": "ada/engine", "title": "Turn faster", "head": "fix/7",
                        "base": "main", "body": "The wheel was braked twice.",
                    }),
                },
                Example {
                    title: "A draft from a fork".into(),
                    arguments: json!({
                        "connection": "forge", "repository": "ada/engine", "title": "Turn faster",
                        "head": "charles:fix/7", "base": "main", "draft": true,
                    }),
                },
            ],
            failures: forge_modes(&[&BAD_BRANCH, &CONFLICT, &UNSUPPORTED]),
            ..ToolDef::default()
        },
        |input: &Input| vec![asks(), tells(&input.repository)],
        run,
    )
    .through(|input: &Input| writing(&input.connection))
    .reconciling(look)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The name of the connection to the forge.
    #[schemars(length(min = 1, max = 128))]
    connection: String,
    /// The repository the changes are for: `owner/name`, on GitLab with all groups.
    #[schemars(length(max = 1024))]
    repository: String,
    /// One line that says what it changes.
    #[schemars(length(min = 1, max = 255))]
    title: String,
    /// What it changes and why, in Markdown.
    #[serde(default)]
    #[schemars(length(max = 65536))]
    body: String,
    /// The branch with the changes; `owner:branch` when it lies in somebody's fork (not on GitLab).
    #[schemars(length(max = 512))]
    head: String,
    /// The branch the changes are to go into.
    #[schemars(length(max = 255))]
    base: String,
    /// Say that it is not ready to be merged.
    #[serde(default)]
    draft: bool,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Pull>, Fault> {
    let (forge, repository, new) = prepare(cx, input).map_err(Fault::untouched)?;
    Ok(Answer::new(forge.create(&repository, &new)?))
}

/// What comes before anything is changed.
fn prepare(cx: &Cx, input: Input) -> Result<(Forge<'_>, Repository, NewPull), Fault> {
    let repository = Repository::parse(&input.repository)?;
    let new = NewPull {
        title: input.title,
        body: input.body,
        head: Head::parse(&input.head)?,
        base: branch(&input.base)?,
        draft: input.draft,
    };
    Ok((Forge::at(cx, &input.connection)?, repository, new))
}

/// Is there a pull request like the one that was to be opened? One that is open and has its title is it; of others
/// between the same branches nobody can say whether they are.
fn look(cx: &Cx, input: Input) -> Result<Reconciled<Answer<Pull>>, Fault> {
    const MOST: usize = 100;
    let repository = Repository::parse(&input.repository)?;
    let head = Head::parse(&input.head)?;
    let filter = Filter { state: None, base: Some(branch(&input.base)?), head: Some(head.branch.clone()) };
    let found = Forge::at(cx, &input.connection)?.list(&repository, &filter, Some(&head), MOST)?;
    let (from_fork, more) = (head.owner.is_some(), found.more);
    let mut near = found.items.into_iter().filter(|pull| pull.from_fork == from_fork);
    let is_it = |pull: &Pull| pull.state == State::Open && pull.title.ends_with(&input.title);
    Ok(match near.next() {
        None if more => Reconciled::CannotSay,
        None => Reconciled::DidNotHappen,
        Some(first) if is_it(&first) => Reconciled::Happened(Answer::new(first)),
        Some(_) => near.find(is_it).map_or(Reconciled::CannotSay, |pull| Reconciled::Happened(Answer::new(pull))),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{
        super::stage::{FORGES, changed, does, refuses, refuses_what_is_wrong_for_all, sent, stage, written},
        *,
    };
    use crate::web_stage::json_answer;

    fn arguments() -> Value {
        json!({
            "connection": "forge", "repository": "ada/engine", "title": "Turn faster", "head": "fix/7", "base": "main",
        })
    }

    #[test]
    fn the_new_one_comes_back_in_our_words() {
        for connection in FORGES {
            let stage = stage([json_answer(201, written(connection))]);
            let output = stage.call(tool, changed(arguments(), json!({ "connection": connection }))).unwrap();
            let expected = json!({
                "number": 7, "title": "Turn faster", "state": "open", "draft": false, "author": "ada", "head": "fix/7",
                "head_sha": "c0ffee", "from_fork": false, "base": "main",
                "url": "https://forge.example/ada/engine/pulls/7",
                "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-02-02T03:04:05Z",
            });
            assert_eq!(output.structured, expected, "{connection}");
            let lines: Vec<_> = sent(&stage, connection).into_iter().map(|(line, _)| line).collect();
            let expected = match connection {
                "github" => "POST /repos/ada/engine/pulls",
                "gitlab" => "POST /api/v4/projects/ada%2Fengine/merge_requests",
                _ => "POST /repos/ada/engine/pulls",
            };
            assert_eq!(lines, [expected]);
        }
    }

    #[test]
    fn what_is_wrong_is_never_sent() {
        refuses_what_is_wrong_for_all(tool, arguments());
        for fields in [json!({ "head": "--upload-pack=x" }), json!({ "base": "../main" }), json!({ "head": "a b" })] {
            refuses(tool, changed(arguments(), fields), "bad_branch");
        }
        let fork = changed(arguments(), json!({ "connection": "gitlab", "head": "eve:fix" }));
        refuses(tool, fork, "forge_unsupported");
    }

    #[test]
    fn one_that_exists_already_is_a_conflict_and_one_that_is_lost_may_be_there() {
        let code = |status, words: &str| {
            let stage = stage([json_answer(status, json!({ "message": words }))]);
            let fault = stage.call(tool, arguments()).unwrap_err();
            assert_eq!(fault.untouched, (400..500).contains(&status), "{status}");
            (fault.code.into_owned(), fault.retryable)
        };
        assert_eq!(code(409, "pull request already exists"), ("forge_conflict".into(), false));
        assert_eq!(code(401, "bad credentials"), ("forge_unauthorized".into(), false));
        assert_eq!(code(404, "no such branch"), ("forge_not_found".into(), false));
        assert_eq!(code(502, ""), ("forge_unavailable".into(), false));
        assert_eq!(code(429, ""), ("rate_limited".into(), true));
        assert_eq!(code(200, "hello"), ("forge_unreadable".into(), false));
    }

    #[test]
    fn the_key_goes_along_with_what_changes_something() {
        let stage = stage([json_answer(201, written("forge"))]);
        stage.call_as(&tool(), arguments(), Some("k-1")).unwrap();
        let [request] = <[_; 1]>::try_from(stage.sent()).unwrap();
        assert!(request.headers.contains(&("Idempotency-Key".to_owned(), "k-1".to_owned())), "{request:?}");
    }

    #[test]
    fn what_became_of_it_is_looked_up_by_its_branches() {
        let found = |pulls: Value| {
            let stage = stage([json_answer(200, pulls)]);
            let found = stage.look(tool, arguments()).unwrap();
            let lines = sent(&stage, "forge");
            assert!(lines.len() == 1 && lines[0].0.starts_with("GET /repos/ada/engine/pulls?state=all"), "{lines:?}");
            assert!(stage.sent()[0].headers.iter().all(|(name, _)| name != "Idempotency-Key"), "a look has no key");
            match found {
                Reconciled::Happened(output) => output.structured["number"].to_string(),
                Reconciled::DidNotHappen => "did not happen".to_owned(),
                Reconciled::CannotSay => "cannot say".to_owned(),
            }
        };
        let pull = |fields: Value| changed(written("forge"), fields);
        assert_eq!(found(json!([])), "did not happen");
        assert_eq!(found(json!([pull(json!({ "base": { "ref": "next" } }))])), "did not happen");
        assert_eq!(found(json!([pull(json!({}))])), "7");
        assert_eq!(found(json!([pull(json!({ "title": "WIP: Turn faster" }))])), "7");
        assert_eq!(found(json!([pull(json!({ "title": "Other" }))])), "cannot say");
        assert_eq!(found(json!([pull(json!({ "state": "closed" }))])), "cannot say");
        assert_eq!(found(json!([pull(json!({ "state": "closed", "number": 3 })), pull(json!({}))])), "7");
    }

    #[test]
    fn others_read_it() {
        does(tool, &arguments(), true, &[asks(), tells("ada/engine")]);
    }
}
