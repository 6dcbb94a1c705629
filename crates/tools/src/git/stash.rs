//! `git_stash`: put changes aside and take them back.

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
    changes::{COMPARING, Change},
    command::{Git, records, worked},
    diff::compared,
    fault::{
        self, BAD_MESSAGE, BAD_REQUEST, IN_PROGRESS, NO_COMMITS, NO_STASH, UNKNOWN_REVISION, UNMERGED, WOULD_OVERWRITE,
        local_modes,
    },
    name::{Plain, RepoPath, Revision},
    on,
    repository::Repository,
    status,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_stash".into(),
            summary: "Put changes aside, list them, and take them back.".into(),
            description: "`push` puts changed files aside and leaves them as they were committed; with `untracked` also new \
                files, with `paths` only those. `list` shows what is aside, the latest as 0. `pop` takes an entry back and \
                removes it, `apply` keeps it, `drop` removes it for good, `show` shows its changes. Conflicts while taking \
                back are an answer: the entry stays. Submodules are left alone."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsBranch,
            safety: SafetyClass::Write,
            needs: CHANGES,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Cheap,
            examples: vec![
                Example {
                    title: "Put everything aside".into(),
                    arguments: json!({ "action": "push", "message": "half of the parser", "untracked": true }),
                },
                Example { title: "What is aside".into(), arguments: json!({ "action": "list" }) },
                Example { title: "Take the latest back".into(), arguments: json!({ "action": "pop" }) },
            ],
            failures: local_modes(&[
                &BAD_REQUEST,
                &BAD_MESSAGE,
                &NO_STASH,
                &NO_COMMITS,
                &UNKNOWN_REVISION,
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
        Action::List | Action::Show => ActionType::VcsRead,
        Action::Push | Action::Pop | Action::Apply | Action::Drop => ActionType::VcsBranch,
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
    /// With `pop`, `apply`, `drop` and `show`: which entry; the latest is 0.
    #[serde(default)]
    #[schemars(range(max = 9_999))]
    index: Option<u32>,
    /// With `push`: what it is.
    #[serde(default)]
    message: Option<String>,
    /// With `push`: only these files or directories, relative to the repository.
    #[serde(default)]
    #[schemars(length(max = 200))]
    paths: Vec<String>,
    /// With `push`: also files that git does not know.
    #[serde(default)]
    untracked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Push,
    Pop,
    Apply,
    List,
    Drop,
    Show,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct Output {
    /// What is aside now, latest first.
    entries: Vec<Entry>,
    /// With `pop` and `apply`: files with conflicts. The entry is still there.
    conflicts: Vec<String>,
    /// With `show`: the files that the entry changes.
    files: Vec<Change>,
    /// With `show`: the patch.
    patch: Option<String>,
}

/// Something that was put aside.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Entry {
    /// Its number.
    index: usize,
    /// Its commit.
    commit: String,
    /// When it was put aside.
    date: String,
    /// What it is.
    message: String,
}

fn effects(input: &Input) -> Vec<Effect> {
    let kind = match input.action {
        Action::List | Action::Show => EffectKind::FsRead,
        Action::Push | Action::Pop | Action::Apply | Action::Drop => EffectKind::FsWrite,
    };
    vec![on(kind, input.repository.as_deref())]
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let pushes = input.message.is_some() || !input.paths.is_empty() || input.untracked;
    if pushes && input.action != Action::Push {
        return Err(BAD_REQUEST.failed("`message`, `paths` and `untracked` are for `push`", "Leave them out."));
    }
    if input.index.is_some() && matches!(input.action, Action::Push | Action::List) {
        return Err(BAD_REQUEST.failed("`index` is for an entry that is aside already", "Leave it out."));
    }
    let repository = Repository::open(cx, input.repository.as_deref())?;
    let entry = Revision::stash(input.index.unwrap_or(0));
    match input.action {
        Action::Push => push(cx, &repository, &input),
        Action::Pop => take_back(cx, &repository, "pop", &entry),
        Action::Apply => take_back(cx, &repository, "apply", &entry),
        Action::List => told(cx, &repository, Vec::new(), None),
        Action::Drop => {
            Git::stash("drop").flags(&["--quiet"]).name(&entry).done(cx, &repository)?;
            told(cx, &repository, Vec::new(), Some("Removed."))
        }
        Action::Show => show(cx, &repository, &entry),
    }
}

fn push(cx: &Cx, repository: &Repository, input: &Input) -> Result<Answer<Output>, Fault> {
    let message = input.message.as_deref().map(Plain::message).transpose()?;
    let paths: Vec<Plain> = RepoPath::read_all(cx, repository, &input.paths)?.iter().map(RepoPath::literal).collect();
    let mut git = Git::stash("push").flag_if(input.untracked, "--include-untracked");
    if let Some(message) = &message {
        git = git.option("--message", message);
    }
    let before = entries(cx, repository)?.0.len();
    git.paths(&paths).done(cx, repository)?;
    let after = entries(cx, repository)?.0.len();
    let said = if after > before { "The changes are aside." } else { "There was nothing to put aside." };
    told(cx, repository, Vec::new(), Some(said))
}

fn take_back(cx: &Cx, repository: &Repository, verb: &'static str, entry: &Revision) -> Result<Answer<Output>, Fault> {
    // Conflicts that are there already must not be told as those of this entry.
    let (before, _) = status::look(cx, repository, None, false)?;
    if before.files.iter().any(|file| file.conflict) {
        return Err(UNMERGED.failed("there are conflicts already", "Settle and commit them first."));
    }
    let ran = Git::stash(verb).flags(&["--quiet"]).name(entry).run(cx, repository)?;
    if worked(&ran) {
        return told(cx, repository, Vec::new(), Some("The changes are back."));
    }
    let (after, _) = status::look(cx, repository, None, false)?;
    let conflicts: Vec<String> = after.files.into_iter().filter(|file| file.conflict).map(|file| file.path).collect();
    if conflicts.is_empty() {
        return Err(fault::of_git(&ran));
    }
    let said = format!("Conflicts in `{}`. The entry is still aside.", conflicts.join("`, `"));
    told(cx, repository, conflicts, Some(&said))
}

fn show(cx: &Cx, repository: &Repository, entry: &Revision) -> Result<Answer<Output>, Fault> {
    let none: &[RepoPath] = &[];
    let (differing, text, cut) = compared(cx, repository, false, |flags| {
        Git::new("diff").flags(COMPARING).flags(flags).names(&[&entry.parent(), entry]).paths(none)
    })?;
    let output = Output { files: differing.files, patch: differing.patch, ..Output::default() };
    Ok(Answer::with_text(output, text).truncated(cut))
}

fn told(cx: &Cx, repository: &Repository, conflicts: Vec<String>, said: Option<&str>) -> Result<Answer<Output>, Fault> {
    let (entries, cut) = entries(cx, repository)?;
    let mut text = said.map_or_else(String::new, |said| format!("{said}\n"));
    for Entry { index, message, .. } in &entries {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{index}: {}", visible(message));
    }
    if entries.is_empty() && said.is_none() {
        text.push_str("Nothing is aside.");
    }
    Ok(Answer::with_text(Output { entries, conflicts, ..Output::default() }, text).truncated(cut))
}

fn entries(cx: &Cx, repository: &Repository) -> Result<(Vec<Entry>, Option<Truncated>), Fault> {
    let ran = Git::stash("list").flags(&["-z", "--format=tformat:%H%x00%cI%x00%gs"]).done(cx, repository)?;
    let (records, _) = records(&ran.stdout);
    let fields = records.chunks_exact(3).enumerate();
    let mut entries: Vec<Entry> = fields
        .map(|(index, fields)| Entry {
            index,
            commit: fields[0].to_owned(),
            date: fields[1].to_owned(),
            message: fields[2].to_owned(),
        })
        .collect();
    let total = entries.len();
    entries.truncate(MOST);
    let cut = (total > MOST).then_some(Truncated { shown: MOST as u64, total: total as u64, unit: Unit::Items });
    Ok((entries, cut))
}
