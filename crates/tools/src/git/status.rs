//! `git_status`: what differs from the last commit.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{
    ActionType, Category, CostTier, EffectKind, Example, Fault, SafetyClass, ToolDef, Truncated, Unit,
};
use toolgate_guard::shell::ir::visible;

use super::{
    AT_ONCE, LOOKS, MOST, TIMEOUT,
    changes::Kind,
    command::{Git, records},
    fault::local_modes,
    name::RepoPath,
    on,
    repository::Repository,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_status".into(),
            summary: "Show the branch, and which files differ from the last commit.".into(),
            description: "Shows the current branch, how far it is from its upstream, whether a merge or rebase waits to \
                be finished, and every file that is staged, changed, untracked or in conflict. Paths are relative to the \
                repository. Changes inside submodules are not shown."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsRead,
            safety: SafetyClass::Read,
            needs: LOOKS,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Cheap,
            examples: vec![
                Example { title: "The whole workspace".into(), arguments: json!({}) },
                Example { title: "A part of a clone".into(), arguments: json!({ "repository": "project", "path": "src" }) },
            ],
            failures: local_modes(&[]),
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
    /// Only this file, or what is in this directory, relative to the repository.
    #[serde(default)]
    path: Option<String>,
}

/// Where a repository stands.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Status {
    /// The branch; null when a commit is checked out and no branch.
    pub(super) branch: Option<String>,
    /// The last commit; null when there is none yet.
    pub(super) commit: Option<String>,
    /// The remote's branch that this one belongs to.
    upstream: Option<String>,
    /// Commits that the upstream does not have.
    ahead: Option<u64>,
    /// Commits of the upstream that are not here.
    behind: Option<u64>,
    /// What waits to be finished: `merge`, `rebase`, `cherry_pick` or `revert`.
    in_progress: Option<String>,
    /// The files that differ.
    pub(super) files: Vec<Entry>,
}

/// A file that differs.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Entry {
    /// Where it is, relative to the repository. A directory that is untracked as a whole ends with a slash.
    pub(super) path: String,
    /// Where it was, when it was renamed or copied.
    old_path: Option<String>,
    /// What is staged for the next commit.
    pub(super) staged: Option<Kind>,
    /// What is changed and not staged.
    unstaged: Option<Kind>,
    /// Git does not know it.
    untracked: bool,
    /// Both sides of a merge changed it.
    pub(super) conflict: bool,
    /// Git's two letters for it.
    #[serde(skip)]
    letters: String,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Status>, Fault> {
    let repository = Repository::open(cx, input.repository.as_deref())?;
    let path = input.path.as_deref().map(|path| RepoPath::read(cx, &repository, path)).transpose()?;
    let (status, cut) = look(cx, &repository, path, true)?;
    let text = text(&status);
    Ok(Answer::with_text(status, text).truncated(cut))
}

/// Where the repository stands, and how much of that is left out.
pub(super) fn look(
    cx: &Cx,
    repository: &Repository,
    path: Option<RepoPath>,
    untracked: bool,
) -> Result<(Status, Option<Truncated>), Fault> {
    let git = Git::new("status").flags(&[
        "--porcelain=v2",
        "-z",
        "--branch",
        "--ahead-behind",
        "--find-renames",
        "--ignore-submodules=dirty",
        if untracked { "--untracked-files=normal" } else { "--untracked-files=no" },
    ]);
    let ran = git.paths(path.as_slice()).done(cx, repository)?;
    let (records, complete) = records(&ran.stdout);
    let mut status = read(records.into_iter());
    status.in_progress = repository.underway().map(|underway| underway.as_str().to_owned());
    let total = status.files.len();
    status.files.truncate(MOST);
    let cut = (total > MOST || !complete).then_some(Truncated {
        shown: status.files.len() as u64,
        total: total as u64,
        unit: Unit::Items,
    });
    Ok((status, cut))
}

/// Reads what `--porcelain=v2 -z --branch` prints.
fn read<'a>(mut records: impl Iterator<Item = &'a str>) -> Status {
    let mut status = Status::default();
    while let Some(record) = records.next() {
        let Some((sign, rest)) = record.split_once(' ') else { continue };
        match sign {
            "#" => note(&mut status, rest),
            "1" => status.files.extend(entry(rest, 6, None)),
            "2" => status.files.extend(entry(rest, 7, records.next())),
            "u" => status.files.extend(entry(rest, 8, None).map(|entry| Entry {
                staged: None,
                unstaged: None,
                conflict: true,
                ..entry
            })),
            "?" => status.files.push(Entry {
                path: rest.to_owned(),
                old_path: None,
                staged: None,
                unstaged: None,
                untracked: true,
                conflict: false,
                letters: "??".to_owned(),
            }),
            _ => {}
        }
    }
    status
}

fn note(status: &mut Status, line: &str) {
    let Some((name, value)) = line.split_once(' ') else { return };
    match name {
        "branch.oid" if value != "(initial)" => status.commit = Some(value.to_owned()),
        "branch.head" if value != "(detached)" => status.branch = Some(value.to_owned()),
        "branch.upstream" => status.upstream = Some(value.to_owned()),
        "branch.ab" => {
            let mut counts = value.split(' ').map(|count| count.get(1..).and_then(|count| count.parse().ok()));
            (status.ahead, status.behind) = (counts.next().flatten(), counts.next().flatten());
        }
        _ => {}
    }
}

/// `XY`, so many fields that are not needed, and the path, which may have spaces in it.
fn entry(line: &str, skipped: usize, old_path: Option<&str>) -> Option<Entry> {
    let mut fields = line.splitn(skipped + 2, ' ');
    let letters = fields.next()?;
    let path = fields.nth(skipped)?.to_owned();
    let mut kinds = letters.chars().map(Kind::of);
    let (staged, unstaged) = (kinds.next()?, kinds.next()?);
    let old_path = old_path.map(str::to_owned);
    let letters = letters.replace('.', " ");
    Some(Entry { path, old_path, staged, unstaged, untracked: false, conflict: false, letters })
}

fn text(status: &Status) -> String {
    // Writing to a string does not fail, here and below.
    let mut text = match (&status.branch, &status.commit) {
        (Some(branch), Some(commit)) => format!("On branch {} at {}", visible(branch), short(commit)),
        (Some(branch), None) => format!("On branch {}, no commits yet", visible(branch)),
        (None, Some(commit)) => format!("On no branch, at {}", short(commit)),
        (None, None) => "On no branch".to_owned(),
    };
    if let Some(upstream) = &status.upstream {
        let _ = write!(text, ", upstream {}", visible(upstream));
        let _ = match (status.ahead, status.behind) {
            (Some(ahead), Some(behind)) => write!(text, " ({ahead} ahead, {behind} behind)"),
            _ => write!(text, " (not there yet)"),
        };
    }
    text.push('\n');
    if let Some(what) = &status.in_progress {
        let _ = writeln!(text, "A {} is not finished.", what.replace('_', "-"));
    }
    for Entry { path, old_path, letters, .. } in &status.files {
        let _ = match old_path {
            Some(old) => writeln!(text, "{letters} {} -> {}", visible(old), visible(path)),
            None => writeln!(text, "{letters} {}", visible(path)),
        };
    }
    if status.files.is_empty() {
        text.push_str("Nothing differs.\n");
    }
    text
}

/// The beginning of a commit's name, which is enough for people.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
