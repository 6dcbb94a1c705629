//! `git_diff`: what differs between two states of the files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, CostTier, EffectKind, Example, Fault, SafetyClass, ToolDef, Truncated};

use super::{
    AT_ONCE, LOOKS, TIMEOUT,
    changes::{COMPARING, Change, LISTING, listed_by, patch_by},
    command::Git,
    fault::{BAD_REQUEST, BAD_REVISION, NO_COMMITS, UNKNOWN_REVISION, local_modes},
    name::{Named, RepoPath, Revision},
    on,
    repository::Repository,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_diff".into(),
            summary: "Show what differs between the files, the index and commits.".into(),
            description: "Compares the files with the index (what is changed and not staged), with `staged` the index with \
                the last commit, with `from` the files with that revision, with `from` and `to` two revisions. The answer \
                lists the files with their added and removed lines, and has the patch unless `stat` is set. A long patch \
                is cut; name `paths` to see the rest."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsRead,
            safety: SafetyClass::Read,
            needs: LOOKS,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Cheap,
            examples: vec![
                Example { title: "What is not staged yet".into(), arguments: json!({}) },
                Example { title: "What would be committed".into(), arguments: json!({ "staged": true }) },
                Example {
                    title: "Which files two branches differ in".into(),
                    arguments: json!({ "from": "main", "to": "dev", "stat": true, "paths": ["src"] }),
                },
            ],
            failures: local_modes(&[&BAD_REQUEST, &BAD_REVISION, &UNKNOWN_REVISION, &NO_COMMITS]),
            ..ToolDef::default()
        },
        |input: &Input| vec![on(EffectKind::FsRead, input.repository.as_deref())],
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The directory of the repository, relative to the workspace; the workspace itself when it is left out.
    #[serde(default)]
    repository: Option<String>,
    /// Compare the index, not the files.
    #[serde(default)]
    staged: bool,
    /// The revision to compare with.
    #[serde(default)]
    from: Option<String>,
    /// The revision that is compared with `from`; the files when it is left out.
    #[serde(default)]
    to: Option<String>,
    /// Only these files or directories, relative to the repository.
    #[serde(default)]
    #[schemars(length(max = 200))]
    paths: Vec<String>,
    /// Leave the patch out.
    #[serde(default)]
    stat: bool,
}

/// What differs.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Differing {
    /// The files.
    pub(super) files: Vec<Change>,
    /// Lines that were added, over all files.
    pub(super) insertions: u64,
    /// Lines that were removed, over all files.
    pub(super) deletions: u64,
    /// The patch; null when it was not asked for.
    pub(super) patch: Option<String>,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Differing>, Fault> {
    let repository = Repository::open(cx, input.repository.as_deref())?;
    let paths = RepoPath::read_all(cx, &repository, &input.paths)?;
    let revisions = match (&input.from, &input.to) {
        (None, Some(_)) => {
            return Err(BAD_REQUEST.failed("`to` is given without `from`", "Give both, or `from` alone."));
        }
        (Some(_), Some(_)) if input.staged => {
            return Err(
                BAD_REQUEST.failed("two revisions are compared, so nothing staged is", "Leave `staged` out, or `to`.")
            );
        }
        (from, to) => from.iter().chain(to).map(|text| Revision::one(text)).collect::<Result<Vec<_>, _>>()?,
    };
    let git = || {
        let names: Vec<&dyn Named> = revisions.iter().map(|revision| revision as &dyn Named).collect();
        move |flags: &[&'static str]| {
            Git::new("diff").flags(COMPARING).flag_if(input.staged, "--cached").flags(flags).names(&names).paths(&paths)
        }
    };
    let (differing, text, cut) = compared(cx, &repository, input.stat, git())?;
    Ok(Answer::with_text(differing, text).truncated(cut))
}

/// What the comparison that `git` makes finds, as text too, and what of it is left out. Without the patch if only the list
/// is wanted.
pub(super) fn compared(
    cx: &Cx,
    repository: &Repository,
    list_only: bool,
    git: impl Fn(&[&'static str]) -> Git,
) -> Result<(Differing, String, Option<Truncated>), Fault> {
    let changes = listed_by(cx, repository, git(LISTING))?;
    let (insertions, deletions) = changes.lines();
    let (mut text, mut truncated) = (changes.text(), changes.cut);
    let mut patch = None;
    if changes.files.is_empty() {
        text = "Nothing differs.".to_owned();
    } else if !list_only {
        let (printed, cut) = patch_by(cx, repository, git(&["--patch"]))?;
        text = format!("{text}\n{printed}");
        truncated = truncated.or(cut);
        patch = Some(printed);
    }
    Ok((Differing { files: changes.files, insertions, deletions, patch }, text, truncated))
}
