//! `git_merge`: bring another branch's commits into the current one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, CostTier, EffectKind, Example, Fault, SafetyClass, ToolDef};

use super::{
    AT_ONCE, CHANGES, TIMEOUT,
    command::{Git, worked},
    fault::{
        self, BAD_REQUEST, BAD_REVISION, IN_PROGRESS, NO_COMMITS, NOT_FAST_FORWARD, UNKNOWN_REVISION, UNMERGED,
        WOULD_OVERWRITE, local_modes,
    },
    name::Revision,
    on,
    repository::{Repository, Underway},
    status::{self, short},
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_merge".into(),
            summary: "Merge a branch, tag or commit into the current branch.".into(),
            description: "Merges `ref` into the current branch: forward if that is enough, else with a merge commit; with \
                `no_ff` always with one. Conflicts are an answer, not a failure: the files have both versions between \
                marks. Edit them and commit them by `paths`, which ends the merge, or call again with `abort`, which puts \
                everything back. Merge drivers of the repository do not run."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsCommit,
            safety: SafetyClass::Write,
            needs: CHANGES,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Cheap,
            examples: vec![
                Example { title: "A branch".into(), arguments: json!({ "ref": "fix/typo" }) },
                Example { title: "Give up".into(), arguments: json!({ "abort": true }) },
            ],
            failures: local_modes(&[
                &BAD_REQUEST,
                &BAD_REVISION,
                &UNKNOWN_REVISION,
                &NO_COMMITS,
                &WOULD_OVERWRITE,
                &UNMERGED,
                &IN_PROGRESS,
                &NOT_FAST_FORWARD,
            ]),
            ..ToolDef::default()
        },
        |input: &Input| vec![on(EffectKind::FsWrite, input.repository.as_deref())],
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The directory of the repository, relative to the workspace; the workspace itself when it is left out.
    #[serde(default)]
    repository: Option<String>,
    /// What to merge: a branch, tag or commit.
    #[serde(default, rename = "ref")]
    revision: Option<String>,
    /// Make a merge commit also where going forward would be enough.
    #[serde(default)]
    no_ff: bool,
    /// Give up a merge that has conflicts.
    #[serde(default)]
    abort: bool,
}

/// How a merge went.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Merged {
    /// What came of it.
    pub(super) result: Outcome,
    /// The commit that is checked out now; null when there is none.
    commit: Option<String>,
    /// The files with conflicts.
    conflicts: Vec<String>,
}

/// What came of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// There was nothing new.
    UpToDate,
    /// The branch has the new commits.
    Merged,
    /// Some files must be settled by hand.
    Conflicts,
    /// The merge was given up.
    Aborted,
}

/// May the branch only go forward?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forward {
    IfEnough,
    Only,
    Never,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Merged>, Fault> {
    let repository = Repository::open(cx, input.repository.as_deref())?;
    match (&input.revision, input.abort) {
        (Some(revision), false) => {
            let forward = if input.no_ff { Forward::Never } else { Forward::IfEnough };
            merge(cx, &repository, &Revision::one(revision)?, forward)
        }
        (None, true) if !input.no_ff => abort(cx, &repository),
        (Some(_) | None, true) => Err(BAD_REQUEST.failed("`abort` takes nothing else", "Leave the rest out.")),
        (None, false) => Err(BAD_REQUEST.failed("`ref` is missing", "Name what to merge.")),
    }
}

/// Merges a revision into what is checked out.
pub(super) fn merge(
    cx: &Cx,
    repository: &Repository,
    revision: &Revision,
    forward: Forward,
) -> Result<Answer<Merged>, Fault> {
    // Conflicts that are there already must not be told as those of this merge.
    if let Some(underway) = repository.underway() {
        return Err(not_finished(underway));
    }
    let (before, _) = status::look(cx, repository, None, false)?;
    let forward = match forward {
        Forward::IfEnough => "--ff",
        Forward::Only => "--ff-only",
        Forward::Never => "--no-ff",
    };
    let git = Git::new("merge").flags(&[
        "--quiet",
        "--no-edit",
        "--no-stat",
        "--no-verify",
        "--no-gpg-sign",
        "--no-autostash",
        forward,
    ]);
    let ran = git.names(&[revision]).run(cx, repository)?;
    let (after, _) = status::look(cx, repository, None, false)?;
    let conflicts: Vec<String> = after.files.into_iter().filter(|file| file.conflict).map(|file| file.path).collect();
    let result = match (worked(&ran), conflicts.is_empty()) {
        (true, _) if before.commit == after.commit => Outcome::UpToDate,
        (true, _) => Outcome::Merged,
        (false, false) => Outcome::Conflicts,
        (false, true) => return Err(fault::of_git(&ran)),
    };
    Ok(told(Merged { result, commit: after.commit, conflicts }))
}

fn abort(cx: &Cx, repository: &Repository) -> Result<Answer<Merged>, Fault> {
    match repository.underway() {
        Some(Underway::Merge) | None => {}
        Some(other) => return Err(not_finished(other)),
    }
    Git::new("merge").flags(&["--abort"]).done(cx, repository)?;
    let (after, _) = status::look(cx, repository, None, false)?;
    Ok(told(Merged { result: Outcome::Aborted, commit: after.commit, conflicts: Vec::new() }))
}

pub(super) fn not_finished(underway: Underway) -> Fault {
    let remedy = match underway {
        Underway::Merge => "Commit the merge, or abort it.",
        Underway::Rebase | Underway::CherryPick | Underway::Revert => "Finish or abort it outside.",
    };
    IN_PROGRESS.failed(format!("a {} is not finished", underway.as_str().replace('_', "-")), remedy)
}

/// What came of a branch that was moved from one commit to another.
pub(super) fn moved(before: Option<String>, after: Option<String>) -> Answer<Merged> {
    let result = if before == after { Outcome::UpToDate } else { Outcome::Merged };
    told(Merged { result, commit: after, conflicts: Vec::new() })
}

fn told(merged: Merged) -> Answer<Merged> {
    let at = merged.commit.as_deref().map_or_else(String::new, |commit| format!(" at {}", short(commit)));
    let text = match merged.result {
        Outcome::UpToDate => format!("Nothing new{at}."),
        Outcome::Merged => format!("Merged{at}."),
        Outcome::Aborted => format!("The merge is given up{at}."),
        Outcome::Conflicts => {
            format!("Conflicts in `{}`. Edit them and commit them by `paths`, or abort.", merged.conflicts.join("`, `"))
        }
    };
    Answer::with_text(merged, text)
}
