//! `git_commit`: write what is staged down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, CostTier, Effect, EffectKind, Example, Fault, SafetyClass, ToolDef};
use toolgate_guard::shell::ir::visible;

use super::{
    AT_ONCE, CHANGES, TIMEOUT,
    command::{Git, records},
    fault::{
        BAD_MESSAGE, BAD_NAME, BAD_REQUEST, IN_PROGRESS, NO_COMMITS, NOTHING_TO_COMMIT, UNKNOWN_PATH, UNMERGED,
        local_modes,
    },
    log::{Commit, FORMAT},
    name::{Person, Plain, RepoPath, Revision},
    on,
    repository::{Repository, Underway},
    status::{self, Status, short},
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_commit".into(),
            summary: "Commit changes, staging them first if asked to.".into(),
            description: "Stages `paths` (new, changed and deleted files; `.` for everything that is not ignored) or, with \
                `all`, every changed file git knows, and commits what is staged. Committing files that were in conflict \
                settles them and ends the merge. The author is the repository's `user.name` and `user.email`, or \
                `Toolgate agent <agent@localhost>`. Hooks do not run, nothing is signed, and filters such as LFS do not \
                apply: files are committed as they are. `amend` replaces the last commit and needs a person's consent."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsCommit,
            safety: SafetyClass::Write,
            needs: CHANGES,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Cheap,
            examples: vec![
                Example {
                    title: "Two files".into(),
                    arguments: json!({ "message": "fix: say hello", "paths": ["src/main.rs", "src/lib.rs"] }),
                },
                Example {
                    title: "Everything git knows".into(),
                    arguments: json!({ "message": "refactor: shorter names\n\nThe old ones said the type twice.", "all": true }),
                },
            ],
            failures: local_modes(&[
                &BAD_REQUEST,
                &BAD_NAME,
                &BAD_MESSAGE,
                &NOTHING_TO_COMMIT,
                &NO_COMMITS,
                &UNKNOWN_PATH,
                &UNMERGED,
                &IN_PROGRESS,
            ]),
            ..ToolDef::default()
        },
        effects,
        run,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The directory of the repository, relative to the workspace; the workspace itself when it is left out.
    #[serde(default)]
    repository: Option<String>,
    /// What changed and why: a short line, then if needed a blank line and more. Without it, `amend` keeps the old one.
    #[serde(default)]
    message: Option<String>,
    /// Files and directories to stage first, relative to the repository.
    #[serde(default)]
    #[schemars(length(max = 200))]
    paths: Vec<String>,
    /// Stage every changed or deleted file that git knows first.
    #[serde(default)]
    all: bool,
    /// Replace the last commit.
    #[serde(default)]
    amend: bool,
    /// Who wrote it, if not whoever commits. Example: `Ada Lovelace <ada@example.org>`.
    #[serde(default)]
    author: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The branch it is on; null when none is checked out.
    branch: Option<String>,
    /// The new commit.
    commit: Option<Commit>,
    /// The files it has in it.
    files: Vec<String>,
}

fn effects(input: &Input) -> Vec<Effect> {
    let mut effects = vec![on(EffectKind::FsWrite, input.repository.as_deref())];
    if input.amend {
        effects.push(Effect { kind: EffectKind::RewriteHistory, target: None });
    }
    effects
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let repository = Repository::open(cx, input.repository.as_deref())?;
    let message = input.message.as_deref().map(Plain::message).transpose()?;
    if message.is_none() && !input.amend {
        return Err(BAD_MESSAGE.failed("the message is missing", "Say in a line what changed and why."));
    }
    if input.all && !input.paths.is_empty() {
        return Err(BAD_REQUEST.failed("both `all` and `paths` are given", "Give one of them."));
    }
    let author = input.author.as_deref().map(Person::read).transpose()?;
    let paths = RepoPath::read_all(cx, &repository, &input.paths)?;
    if repository.underway() == Some(Underway::Rebase) {
        return Err(IN_PROGRESS.failed("a rebase is not finished", "Finish or abort it outside."));
    }

    if input.all {
        Git::new("add").flags(&["--update"]).done(cx, &repository)?;
    } else if !paths.is_empty() {
        Git::new("add").flags(&["--all"]).paths(&paths).done(cx, &repository)?;
    }
    let (staged, _) = status::look(cx, &repository, None, false)?;
    may_commit(&staged, &repository, input.amend)?;

    let mut git = Git::new("commit")
        .flags(&["--quiet", "--no-verify", "--no-gpg-sign", "--no-post-rewrite", "--no-status", "--allow-empty"])
        .flag_if(input.amend, "--amend");
    git = match &message {
        Some(message) => git.flags(&["--cleanup=whitespace", "--file=-"]).stdin(message),
        None => git.flags(&["--no-edit"]),
    };
    if let Some(author) = &author {
        git = git.option("--author", author);
    }
    git.done(cx, &repository)?;

    let commit = last_commit(cx, &repository)?;
    let files: Vec<String> =
        staged.files.into_iter().filter(|file| file.staged.is_some()).map(|file| file.path).collect();
    let text = match &commit {
        Some(commit) => {
            let count = if files.len() == 1 { "1 file".to_owned() } else { format!("{} files", files.len()) };
            format!("Committed {} ({count}): {}", short(&commit.id), visible(&commit.subject))
        }
        None => "Committed.".to_owned(),
    };
    Ok(Answer::with_text(Output { branch: staged.branch, commit, files }, text))
}

/// Is there something to commit, and nothing in the way?
fn may_commit(staged: &Status, repository: &Repository, amend: bool) -> Result<(), Fault> {
    let conflicts: Vec<&str> = staged.files.iter().filter(|file| file.conflict).map(|file| &*file.path).collect();
    if !conflicts.is_empty() {
        return Err(UNMERGED.failed(
            format!("there are conflicts in `{}`", conflicts.join("`, `")),
            "Edit the files and name them in `paths`; or abort the merge.",
        ));
    }
    let nothing = staged.branch.is_some() || staged.commit.is_some();
    let nothing = nothing && !staged.files.iter().any(|file| file.staged.is_some());
    if nothing && !amend && repository.underway().is_none() {
        return Err(NOTHING_TO_COMMIT.failed("nothing is staged", "Name what to commit in `paths`, or set `all`."));
    }
    Ok(())
}

/// The commit that is checked out.
pub(super) fn last_commit(cx: &Cx, repository: &Repository) -> Result<Option<Commit>, Fault> {
    let git = Git::new("log").flags(&["-z", "--no-show-signature", FORMAT, "--max-count=1"]);
    let none: &[RepoPath] = &[];
    let ran = git.names(&[&Revision::head()]).paths(none).done(cx, repository)?;
    let (records, _) = records(&ran.stdout);
    Ok(Commit::read(&mut records.into_iter()))
}
