//! `git_pull`: fetch a remote's branch and bring it into the current one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, CostTier, Effect, EffectKind, Example, Fault, SafetyClass, ToolDef};

use super::{
    AT_ONCE, REMOTE_TIMEOUT, TALKS,
    command::{Git, worked},
    fault::{
        self, BAD_NAME, BAD_REQUEST, CONFLICT, IN_PROGRESS, NO_COMMITS, NOT_FAST_FORWARD, UNMERGED, WOULD_OVERWRITE,
        remote_modes,
    },
    fetch::{self, fetching},
    merge::{self, Forward, Merged},
    name::{BranchName, Named as _, RemoteName, Revision},
    origin,
    remote::{Remote, Way, through},
    repository::{Head, Repository},
    status,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_pull".into(),
            summary: "Get a remote's branch and bring its commits into the current branch.".into(),
            description: "Fetches one branch of a remote and brings it into the current branch. `ff_only` only goes forward \
                and fails where both sides have new commits; `merge` makes a merge commit then, with conflicts as an answer \
                like in `git_merge`; `rebase` puts your own commits on top again, which rewrites them and needs a person's \
                consent. A rebase with conflicts is given up and changes nothing. A private remote needs a `connection`."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsCommit,
            safety: SafetyClass::Network,
            needs: TALKS,
            timeout: REMOTE_TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Medium,
            examples: vec![
                Example { title: "Catch up".into(), arguments: json!({}) },
                Example {
                    title: "Bring the main branch into mine".into(),
                    arguments: json!({ "branch": "main", "mode": "merge" }),
                },
            ],
            failures: remote_modes(&[
                &BAD_NAME,
                &BAD_REQUEST,
                &NO_COMMITS,
                &NOT_FAST_FORWARD,
                &CONFLICT,
                &WOULD_OVERWRITE,
                &UNMERGED,
                &IN_PROGRESS,
            ]),
            ..ToolDef::default()
        },
        effects,
        run,
    )
    .through(|input: &Input| through(input.connection.as_deref(), Way::Fetch))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The directory of the repository, relative to the workspace; the workspace itself when it is left out.
    #[serde(default)]
    repository: Option<String>,
    /// The remote's name.
    #[serde(default = "origin")]
    remote: String,
    /// The remote's branch; the one the current branch belongs to when it is left out.
    #[serde(default)]
    branch: Option<String>,
    /// How it is brought in.
    #[serde(default)]
    mode: Mode,
    /// The operator's connection whose credentials are used. Its host must be the remote's.
    #[serde(default)]
    connection: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    FfOnly,
    Merge,
    Rebase,
}

fn effects(input: &Input) -> Vec<Effect> {
    let mut effects = fetch::effects(input.repository.as_deref());
    if input.mode == Mode::Rebase {
        effects.push(Effect { kind: EffectKind::RewriteHistory, target: input.branch.clone() });
    }
    effects
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Merged>, Fault> {
    let repository = Repository::open(cx, input.repository.as_deref())?;
    let name = RemoteName::read(&input.remote)?;
    let branch = match &input.branch {
        Some(branch) => BranchName::read(branch)?,
        None => theirs(&repository, &name)?,
    };
    if let Some(underway) = repository.underway() {
        return Err(merge::not_finished(underway));
    }
    let remote = Remote::named(&repository, &name, Way::Fetch, input.connection.as_deref())?;
    fetch::fetch(cx, &repository, &remote, &name, Some(&branch), fetching())?;
    let tracked = name.tracked(&branch);
    match input.mode {
        Mode::FfOnly => merge::merge(cx, &repository, &tracked, Forward::Only),
        Mode::Merge => merge::merge(cx, &repository, &tracked, Forward::IfEnough),
        Mode::Rebase => rebase(cx, &repository, &tracked, input.repository.as_deref()),
    }
}

/// The remote's branch that the current one belongs to: as the config says, else the one of the same name.
fn theirs(repository: &Repository, remote: &RemoteName) -> Result<BranchName, Fault> {
    let Head::Branch(branch) = repository.head() else {
        return Err(BAD_REQUEST.failed("no branch is checked out", "Switch to one, or name the remote's `branch`."));
    };
    Ok(match repository.upstream(branch) {
        Some((at, theirs)) if at == *remote => theirs,
        Some(_) | None => branch.clone(),
    })
}

fn rebase(cx: &Cx, repository: &Repository, onto: &Revision, directory: Option<&str>) -> Result<Answer<Merged>, Fault> {
    let (before, _) = status::look(cx, repository, None, false)?;
    let git = Git::new("rebase").flags(&["--quiet", "--no-stat", "--no-verify", "--no-gpg-sign", "--no-autostash"]);
    let ran = git.names(&[onto]).run(cx, repository)?;
    let (after, _) = status::look(cx, repository, None, false)?;
    if worked(&ran) {
        return Ok(merge::moved(before.commit, after.commit));
    }
    let conflicts: Vec<String> = after.files.into_iter().filter(|file| file.conflict).map(|file| file.path).collect();
    let begun = Repository::open(cx, directory)?;
    if begun.underway().is_none() {
        return Err(fault::of_git(&ran));
    }
    Git::new("rebase").flags(&["--abort"]).done(cx, &begun)?;
    Err(CONFLICT.failed(
        format!("rebasing onto `{}` has conflicts in `{}`", onto.as_str(), conflicts.join("`, `")),
        "Nothing was changed; pull with `merge` and settle the conflicts.",
    ))
}
