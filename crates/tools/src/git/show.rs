//! `git_show`: one commit, or a file as it was.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, CostTier, EffectKind, Example, Fault, SafetyClass, ToolDef, Truncated};
use toolgate_guard::shell::ir::visible;

use super::{
    AT_ONCE, LOOKS, TIMEOUT,
    changes::{COMPARING, Change, Changes, LISTING, patch_by},
    command::{Git, records},
    fault::{BAD_REVISION, NO_COMMITS, UNKNOWN_PATH, UNKNOWN_REVISION, local_modes},
    log::Commit,
    name::{RepoPath, Revision},
    on,
    repository::Repository,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_show".into(),
            summary: "Show one commit with its changes, or a file as it was.".into(),
            description: "Shows the message of a commit, the files it changed with their added and removed lines, and the \
                patch; of a merge what it brought to its first parent. With `revision:path` it shows that file as it was \
                then. A long patch is cut; name `paths` to see the rest."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsRead,
            safety: SafetyClass::Read,
            needs: LOOKS,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Cheap,
            examples: vec![
                Example { title: "The last commit".into(), arguments: json!({}) },
                Example {
                    title: "What a tagged commit did to a directory".into(),
                    arguments: json!({ "ref": "v1.0", "paths": ["src"] }),
                },
                Example {
                    title: "A file two commits ago".into(),
                    arguments: json!({ "ref": "HEAD~2:src/main.rs" }),
                },
            ],
            failures: local_modes(&[&BAD_REVISION, &UNKNOWN_REVISION, &UNKNOWN_PATH, &NO_COMMITS]),
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
    /// A commit, branch or tag, or `revision:path` for a file; `HEAD` when it is left out.
    #[serde(default, rename = "ref")]
    revision: Option<String>,
    /// Only what was changed in these files or directories, relative to the repository.
    #[serde(default)]
    #[schemars(length(max = 200))]
    paths: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The commit; null when a file was asked for.
    commit: Option<Commit>,
    /// The commit's message.
    message: Option<String>,
    /// The files it changed.
    files: Vec<Change>,
    /// The patch.
    patch: Option<String>,
    /// The file as it was, when one was asked for.
    content: Option<String>,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let repository = Repository::open(cx, input.repository.as_deref())?;
    let revision = input.revision.as_deref().map_or_else(|| Ok(Revision::head()), Revision::one)?;
    let paths = RepoPath::read_all(cx, &repository, &input.paths)?;
    match revision.names_a_file() {
        true => file(cx, &repository, &revision),
        false => commit(cx, &repository, &revision.commit(), &paths),
    }
}

fn file(cx: &Cx, repository: &Repository, revision: &Revision) -> Result<Answer<Output>, Fault> {
    let git = Git::new("show").flags(COMPARING).names(&[revision]);
    let (content, cut) = patch_by(cx, repository, git)?;
    let output = Output { commit: None, message: None, files: Vec::new(), patch: None, content: Some(content.clone()) };
    Ok(Answer::with_text(output, content).truncated(cut))
}

fn commit(cx: &Cx, repository: &Repository, revision: &Revision, paths: &[RepoPath]) -> Result<Answer<Output>, Fault> {
    let git = |flags: &[&'static str]| {
        Git::new("show")
            .flags(COMPARING)
            .flags(&["--no-show-signature", "--diff-merges=first-parent"])
            .flags(flags)
            .names(&[revision])
            .paths(paths)
    };
    let listing = git(&[LISTING, &[WITH_MESSAGE]].concat()).done(cx, repository)?;
    let (records, complete) = records(&listing.stdout);
    let mut records = records.into_iter();
    let commit = Commit::read(&mut records);
    let message = records.next().map(|message| message.trim_end().to_owned());
    let changes = Changes::read(records, complete);

    let (patch, cut): (String, Option<Truncated>) = match changes.files.is_empty() {
        true => (String::new(), None),
        false => patch_by(cx, repository, git(&["--format=", "--patch"]))?,
    };
    let head = commit.as_ref().map_or_else(String::new, |commit| {
        format!("commit {}\nauthor {}\ndate {}\n\n", commit.id, visible(&commit.author), commit.date)
    });
    let text = format!("{head}{}\n\n{}\n{patch}", message.as_deref().unwrap_or_default(), changes.text());
    let truncated = changes.cut.or(cut);
    let output = Output { commit, message, files: changes.files, patch: Some(patch), content: None };
    Ok(Answer::with_text(output, text).truncated(truncated))
}

/// The fields of a commit and its whole message.
const WITH_MESSAGE: &str = "--format=tformat:%H%x00%P%x00%an%x00%ae%x00%aI%x00%D%x00%s%x00%B";

#[cfg(test)]
mod tests {
    use super::{super::log::FORMAT, *};

    #[test]
    fn the_message_comes_behind_the_fields_of_a_commit() {
        assert_eq!(WITH_MESSAGE, format!("{FORMAT}%x00%B"));
    }
}
