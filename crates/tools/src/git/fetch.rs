//! `git_fetch`: get what a remote has.

use std::{collections::BTreeMap, fmt::Write as _};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{
    ActionType, Category, CostTier, Effect, EffectKind, Example, Fault, SafetyClass, ToolDef, Truncated, Unit,
};
use toolgate_guard::shell::ir::visible;

use super::{
    AT_ONCE, MOST, REMOTE_TIMEOUT, TALKS,
    command::{Git, head, worked},
    fault::{self, BAD_NAME, remote_modes},
    name::{BranchName, Named, Plain, RemoteName, Revision},
    on, origin,
    remote::{Remote, Way, talks_to, through},
    repository::Repository,
    status::short,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_fetch".into(),
            summary: "Get new commits, branches and tags of a remote.".into(),
            description: "Gets what a remote of the repository has and is not here, and moves the remote's branches (such as \
                `origin/main`) to where they are there. No branch of your own and no file changes; merge or pull for that. \
                The remote is reached by the address in the repository's config: `https`, or `ssh`, for which there are no \
                keys yet. A private one needs a `connection`. Submodules are not fetched."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsRead,
            safety: SafetyClass::Network,
            needs: TALKS,
            timeout: REMOTE_TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Medium,
            examples: vec![
                Example { title: "Everything new".into(), arguments: json!({}) },
                Example {
                    title: "One branch of a private repository".into(),
                    arguments: json!({ "branch": "main", "connection": "forge" }),
                },
                Example { title: "Forget branches that are gone".into(), arguments: json!({ "prune": true }) },
            ],
            failures: remote_modes(&[&BAD_NAME]),
            ..ToolDef::default()
        },
        |input: &Input| effects(input.repository.as_deref()),
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
    /// Only this branch of the remote.
    #[serde(default)]
    branch: Option<String>,
    /// Forget branches of the remote that are gone there.
    #[serde(default)]
    prune: bool,
    /// Get all tags, not only those of the commits that are fetched.
    #[serde(default)]
    tags: bool,
    /// The operator's connection whose credentials are used. Its host must be the remote's.
    #[serde(default)]
    connection: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// Where it came from.
    url: String,
    /// What is new, moved or gone.
    updates: Vec<Update>,
}

/// A branch of the remote, or a tag, that is another now.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Update {
    /// Its name, such as `origin/main` or `v1.0`.
    name: String,
    /// What it was before; null when it is new.
    old: Option<String>,
    /// What it is now; null when it is gone.
    new: Option<String>,
}

/// What every call does that fetches.
pub(super) fn effects(repository: Option<&str>) -> Vec<Effect> {
    vec![on(EffectKind::FsWrite, repository), talks_to(None)]
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let repository = Repository::open(cx, input.repository.as_deref())?;
    let name = RemoteName::read(&input.remote)?;
    let branch = input.branch.as_deref().map(BranchName::read).transpose()?;
    let remote = Remote::named(&repository, &name, Way::Fetch, input.connection.as_deref())?;
    let git = fetching().flag_if(input.prune, "--prune").flag_if(input.tags, "--tags");
    let updates = fetch(cx, &repository, &remote, &name, branch.as_ref(), git)?;

    let total = updates.len();
    let (text, url) = (text(&updates), remote.url().to_string());
    let updates: Vec<Update> = updates.into_iter().take(MOST).collect();
    let cut = (total > MOST).then_some(Truncated { shown: MOST as u64, total: total as u64, unit: Unit::Items });
    Ok(Answer::with_text(Output { url, updates }, text).truncated(cut))
}

/// A `git fetch` that does nothing but that.
pub(super) fn fetching() -> Git {
    Git::new("fetch").flags(&[
        "--quiet",
        "--no-recurse-submodules",
        "--no-auto-maintenance",
        "--no-write-fetch-head",
        "--no-update-head-ok",
    ])
}

/// Fetches one branch or all, and says what is another now.
pub(super) fn fetch(
    cx: &Cx,
    repository: &Repository,
    remote: &Remote,
    name: &RemoteName,
    branch: Option<&BranchName>,
    git: Git,
) -> Result<Vec<Update>, Fault> {
    let before = refs(cx, repository, name)?;
    let refspec = branch.map(|branch| Plain::fetched(name, branch));
    let names: Vec<&dyn Named> = std::iter::once(name as &dyn Named).chain(refspec.iter().map(|it| it as _)).collect();
    let ran = git.names(&names).reach(cx, Some(repository), remote)?;
    if !worked(&ran) {
        return Err(fault::of_remote(&ran));
    }
    Ok(differing(&before, &refs(cx, repository, name)?))
}

/// The branches of a remote and all tags, with what they are.
fn refs(cx: &Cx, repository: &Repository, name: &RemoteName) -> Result<BTreeMap<String, String>, Fault> {
    let git = Git::new("for-each-ref").flags(&["--format=%(refname)%00%(objectname)%00%(symref)"]);
    let ran = git.paths(&[name.branches(), Revision::all("refs/tags")]).done(cx, repository)?;
    let read = |line: &str| {
        let (name, rest) = line.split_once('\0')?;
        // What only points to another branch, as a remote's `HEAD` does, moves with that.
        let id = rest.strip_suffix('\0')?;
        let name = name.strip_prefix("refs/remotes/").or_else(|| name.strip_prefix("refs/tags/"))?;
        Some((name.to_owned(), id.to_owned()))
    };
    Ok(head(&ran.stdout).lines().filter_map(read).collect())
}

fn differing(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<Update> {
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let mut updates: Vec<Update> = names
        .map(|name| Update { name: name.clone(), old: before.get(name).cloned(), new: after.get(name).cloned() })
        .filter(|update| update.old != update.new)
        .collect();
    updates.sort_by(|a, b| a.name.cmp(&b.name));
    updates
}

pub(super) fn text(updates: &[Update]) -> String {
    const LINES: usize = 100;
    if updates.is_empty() {
        return "Nothing new.".to_owned();
    }
    let mut text = String::new();
    for Update { name, old, new } in updates.iter().take(LINES) {
        let name = visible(name);
        // Writing to a string does not fail, here and below.
        let _ = match (old, new) {
            (Some(old), Some(new)) => writeln!(text, "{name} {} -> {}", short(old), short(new)),
            (None, Some(new)) => writeln!(text, "{name} new at {}", short(new)),
            (_, None) => writeln!(text, "{name} gone"),
        };
    }
    if updates.len() > LINES {
        let _ = writeln!(text, "and {} more", updates.len() - LINES);
    }
    text
}
