//! `git_branch`: list, create, switch, rename and delete branches.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{
    ActionType, Category, CostTier, Effect, EffectKind, Example, Fault, SafetyClass, ToolDef, Truncated, Unit,
};
use toolgate_guard::shell::ir::visible;

use super::{
    AT_ONCE, CHANGES, MOST, TIMEOUT,
    command::{Git, head},
    fault::{
        ALREADY_EXISTS, BAD_NAME, BAD_REQUEST, BAD_REVISION, IN_PROGRESS, IN_USE, NO_COMMITS, NOT_MERGED,
        UNKNOWN_REVISION, UNMERGED, WOULD_OVERWRITE, local_modes,
    },
    name::{BranchName, Named as _, Revision},
    on,
    repository::{Head, Repository},
    status::short,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_branch".into(),
            summary: "List, create, switch, rename or delete branches.".into(),
            description: "`list` shows all branches, those of remotes as they were when last fetched. `create` makes one at \
                `start_point` and does not switch to it. `switch` checks one out; changed files that would be lost keep it \
                from doing so. `rename` gives `name`, or the current branch, the name `new_name`. `delete` removes one whose \
                commits are merged. Which remote branch belongs to which is not written down: a branch belongs to the one \
                of its name at `origin`. Deleting a branch, and moving one with `force`, needs a person's consent."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsBranch,
            safety: SafetyClass::Write,
            needs: CHANGES,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Cheap,
            examples: vec![
                Example { title: "All branches".into(), arguments: json!({ "action": "list" }) },
                Example {
                    title: "A new branch from a remote's".into(),
                    arguments: json!({ "action": "create", "name": "fix/typo", "start_point": "origin/main" }),
                },
                Example {
                    title: "Work on another branch".into(),
                    arguments: json!({ "action": "switch", "name": "fix/typo" }),
                },
            ],
            failures: local_modes(&[
                &BAD_REQUEST,
                &BAD_NAME,
                &BAD_REVISION,
                &UNKNOWN_REVISION,
                &NO_COMMITS,
                &ALREADY_EXISTS,
                &IN_USE,
                &NOT_MERGED,
                &WOULD_OVERWRITE,
                &UNMERGED,
                &IN_PROGRESS,
            ]),
            ..ToolDef::default()
        },
        effects,
        run,
    )
    .acting(|input: &Input| match input.action {
        Action::List => ActionType::VcsRead,
        Action::Create | Action::Switch | Action::Rename | Action::Delete => ActionType::VcsBranch,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The directory of the repository, relative to the workspace; the workspace itself when it is left out.
    #[serde(default)]
    repository: Option<String>,
    /// What to do.
    action: Action,
    /// The branch.
    #[serde(default)]
    name: Option<String>,
    /// With `rename`: the new name.
    #[serde(default)]
    new_name: Option<String>,
    /// With `create`: the commit, branch or tag to start at; `HEAD` when it is left out.
    #[serde(default)]
    start_point: Option<String>,
    /// With `create`: move a branch that exists. With `delete`: also one whose commits are not merged.
    #[serde(default)]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Create,
    Switch,
    Rename,
    Delete,
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Output {
    /// The branch that is checked out; null when none is.
    current: Option<String>,
    /// With `list` all branches, else the one that was created, switched to or renamed.
    branches: Vec<Branch>,
}

/// A branch.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Branch {
    /// Its name; one of a remote's begins with the remote's.
    name: String,
    /// It is one of a remote's.
    remote: bool,
    /// Its last commit.
    commit: String,
    /// The first line of that commit's message.
    subject: String,
    /// When that was committed.
    date: String,
    /// The remote's branch it belongs to.
    upstream: Option<String>,
    /// How far it is from that. Example: `ahead 1, behind 2`.
    track: Option<String>,
}

fn effects(input: &Input) -> Vec<Effect> {
    let repository = input.repository.as_deref();
    let lost = |kind| Effect { kind, target: input.name.clone() };
    match input.action {
        Action::List => vec![on(EffectKind::FsRead, repository)],
        Action::Create if input.force => {
            vec![on(EffectKind::FsWrite, repository), lost(EffectKind::RewriteHistory)]
        }
        Action::Create | Action::Switch | Action::Rename => vec![on(EffectKind::FsWrite, repository)],
        Action::Delete => vec![on(EffectKind::FsWrite, repository), lost(EffectKind::DeleteBranch)],
    }
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    fits(&input)?;
    let repository = Repository::open(cx, input.repository.as_deref())?;
    let name = input.name.as_deref().map(BranchName::read).transpose()?;
    match (input.action, name) {
        (Action::List, None) => list(cx, &repository),
        (Action::Create, Some(name)) => {
            let start = input.start_point.as_deref().map_or_else(|| Ok(Revision::head()), Revision::one)?;
            create(cx, &repository, &name, &start, input.force)
        }
        (Action::Switch, Some(name)) => switch(cx, &repository, &name, input.repository.as_deref()),
        (Action::Rename, name) => {
            let new = BranchName::read(input.new_name.as_deref().unwrap_or_default())?;
            rename(cx, &repository, name, &new, input.repository.as_deref())
        }
        (Action::Delete, Some(name)) => delete(cx, &repository, &name, input.force),
        (Action::List, Some(_)) => Err(BAD_REQUEST.failed("`list` takes no `name`", "Leave it out.")),
        (Action::Create | Action::Switch | Action::Delete, None) => {
            Err(BAD_REQUEST.failed("`name` is missing", "Name the branch."))
        }
    }
}

/// Something that has no meaning here was meant to have one.
fn fits(input: &Input) -> Result<(), Fault> {
    let wrong = match input.action {
        Action::Rename => (input.new_name.is_none()).then_some("`new_name` is missing"),
        _ => (input.new_name.is_some()).then_some("`new_name` is for `rename`"),
    };
    let wrong = wrong
        .or((input.start_point.is_some() && input.action != Action::Create).then_some("`start_point` is for `create`"))
        .or((input.force && !matches!(input.action, Action::Create | Action::Delete))
            .then_some("`force` is for `create` and `delete`"));
    wrong.map_or(Ok(()), |wrong| Err(BAD_REQUEST.failed(wrong, "See the description of the tool.")))
}

fn list(cx: &Cx, repository: &Repository) -> Result<Answer<Output>, Fault> {
    let (branches, cut) = look(cx, repository, &[Revision::all("refs/heads"), Revision::all("refs/remotes")])?;
    let current = current(repository);
    let text = text(&branches, current.as_deref());
    Ok(Answer::with_text(Output { current, branches }, text).truncated(cut))
}

fn create(
    cx: &Cx,
    repository: &Repository,
    name: &BranchName,
    start: &Revision,
    force: bool,
) -> Result<Answer<Output>, Fault> {
    if force && *repository.head() == Head::Branch(name.clone()) {
        return Err(in_use(name));
    }
    let git = Git::new("branch").flags(&["--no-track", "--no-recurse-submodules"]).flag_if(force, "--force");
    git.names(&[name, start]).done(cx, repository)?;
    told(cx, repository, name, "Created")
}

fn switch(
    cx: &Cx,
    repository: &Repository,
    name: &BranchName,
    directory: Option<&str>,
) -> Result<Answer<Output>, Fault> {
    let git = Git::new("switch").flags(&["--quiet", "--no-guess", "--no-recurse-submodules"]);
    git.names(&[name]).done(cx, repository)?;
    told(cx, &Repository::open(cx, directory)?, name, "Switched to")
}

fn rename(
    cx: &Cx,
    repository: &Repository,
    name: Option<BranchName>,
    new: &BranchName,
    directory: Option<&str>,
) -> Result<Answer<Output>, Fault> {
    let name = match (name, repository.head()) {
        (Some(name), _) => name,
        (None, Head::Branch(current)) => current.clone(),
        (None, Head::Detached) => {
            return Err(BAD_REQUEST.failed("no branch is checked out", "Name the branch to rename."));
        }
    };
    Git::new("branch").flags(&["--move"]).names(&[&name, new]).done(cx, repository)?;
    // Git does not take the work tree it was started in for one whose `HEAD` it has to move along.
    if *repository.head() == Head::Branch(name) {
        Git::new("symbolic-ref").names(&[&Revision::head(), &new.full()]).done(cx, repository)?;
    }
    told(cx, &Repository::open(cx, directory)?, new, "Renamed to")
}

fn delete(cx: &Cx, repository: &Repository, name: &BranchName, force: bool) -> Result<Answer<Output>, Fault> {
    if *repository.head() == Head::Branch(name.clone()) {
        return Err(in_use(name));
    }
    let git = Git::new("branch").flags(&["--delete"]).flag_if(force, "--force");
    git.names(&[name]).done(cx, repository)?;
    let output = Output { current: current(repository), branches: Vec::new() };
    Ok(Answer::with_text(output, format!("Deleted `{}`.", name.as_str())))
}

fn told(cx: &Cx, repository: &Repository, name: &BranchName, done: &str) -> Result<Answer<Output>, Fault> {
    let (branches, _) = look(cx, repository, &[name.full()])?;
    let at = branches.first().map_or_else(String::new, |branch| format!(" at {}", short(&branch.commit)));
    let text = format!("{done} `{}`{at}.", name.as_str());
    Ok(Answer::with_text(Output { current: current(repository), branches }, text))
}

fn current(repository: &Repository) -> Option<String> {
    match repository.head() {
        Head::Branch(name) => Some(name.as_str().to_owned()),
        Head::Detached => None,
    }
}

fn in_use(name: &BranchName) -> Fault {
    IN_USE.failed(format!("`{}` is checked out", name.as_str()), "Switch to another branch first.")
}

const FORMAT: &str = "--format=%(refname)%00%(objectname)%00%(upstream:short)%00%(upstream:track,nobracket)%00\
    %(committerdate:iso-strict)%00%(symref)%00%(contents:subject)";

fn look(cx: &Cx, repository: &Repository, refs: &[Revision]) -> Result<(Vec<Branch>, Option<Truncated>), Fault> {
    let ran = Git::new("for-each-ref").flags(&[FORMAT]).paths(refs).done(cx, repository)?;
    let mut branches: Vec<Branch> = head(&ran.stdout).lines().filter_map(read).collect();
    let total = branches.len();
    branches.truncate(MOST);
    let cut = (total > MOST).then_some(Truncated { shown: MOST as u64, total: total as u64, unit: Unit::Items });
    Ok((branches, cut))
}

/// A line of [`FORMAT`]. What only points to another branch, as a remote's `HEAD` does, is no branch.
fn read(line: &str) -> Option<Branch> {
    let mut fields = line.splitn(7, '\0').map(str::to_owned);
    let (full, commit) = (fields.next()?, fields.next()?);
    let (upstream, track, date) = (fields.next()?, fields.next()?, fields.next()?);
    let symref = fields.next()?;
    let subject = fields.next()?;
    let local = full.strip_prefix("refs/heads/");
    let name = local.or_else(|| full.strip_prefix("refs/remotes/"))?.to_owned();
    let some = |text: String| (!text.is_empty()).then_some(text);
    symref.is_empty().then(|| Branch {
        name,
        remote: local.is_none(),
        commit,
        subject,
        date,
        upstream: some(upstream),
        track: some(track),
    })
}

fn text(branches: &[Branch], current: Option<&str>) -> String {
    let mut text = String::new();
    for Branch { name, remote, commit, subject, upstream, track, .. } in branches {
        let mark = if !remote && current == Some(name) { '*' } else { ' ' };
        // Writing to a string does not fail, here and below.
        let _ = write!(text, "{mark} {} {} {}", visible(name), short(commit), visible(subject));
        let _ = match (upstream, track) {
            (Some(upstream), Some(track)) => write!(text, " [{}: {}]", visible(upstream), visible(track)),
            (Some(upstream), None) => write!(text, " [{}]", visible(upstream)),
            _ => Ok(()),
        };
        text.push('\n');
    }
    if text.is_empty() { "No branches.".to_owned() } else { text }
}
