//! `git_clone`: get a repository.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, CostTier, EffectKind, Example, Fault, SafetyClass, ToolDef};
use toolgate_guard::git_url::GitUrl;

use super::{
    AT_ONCE, REMOTE_TIMEOUT, TALKS,
    command::{Git, worked},
    commit::last_commit,
    fault::{self, ALREADY_EXISTS, BAD_NAME, BAD_REQUEST, NO_COMMITS, SUBMODULE, remote_modes},
    log::Commit,
    name::{BranchName, Named as _, Plain},
    on,
    remote::{Remote, Way, talks_to, through},
    repository::{Head, Repository},
    status::short,
    submodules::{self, Submodule},
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_clone".into(),
            summary: "Get a repository into a new directory of the workspace.".into(),
            description: "Clones a repository into a new directory; other git tools take that directory as `repository`. The \
                address is `https://host/path`; one of `ssh` is taken too, but there are no keys for it yet. Redirects are \
                not followed. A private repository needs a `connection`. With `depth` only the last commits come. \
                Submodules come only with `submodules`: each one's address is judged like the first, one level deep. \
                Nothing of what is cloned is run; filters such as LFS do not apply."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsRead,
            safety: SafetyClass::Network,
            needs: TALKS,
            timeout: REMOTE_TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Medium,
            examples: vec![
                Example {
                    title: "A public repository, the last commit only".into(),
                    arguments: json!({ "url": "https://example.org/team/project.git", "depth": 1 }),
                },
                Example {
                    title: "A branch of a private one".into(),
                    arguments: json!({
                        "url": "https://forge.example.org/team/project.git", "directory": "project", "branch": "dev",
                        "connection": "forge",
                    }),
                },
            ],
            failures: remote_modes(&[&BAD_NAME, &BAD_REQUEST, &ALREADY_EXISTS, &NO_COMMITS, &SUBMODULE]),
            ..ToolDef::default()
        },
        |input: &Input| {
            let directory = input.directory.clone().or_else(|| last_part(&input.url));
            vec![on(EffectKind::FsWrite, directory.as_deref()), talks_to(Some(&input.url))]
        },
        run,
    )
    .through(|input: &Input| through(input.connection.as_deref(), Way::Fetch))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Where the repository is. Example: `https://example.org/team/project.git`.
    #[schemars(length(max = 4096))]
    url: String,
    /// The new directory, relative to the workspace; the last part of the address when it is left out.
    #[serde(default)]
    directory: Option<String>,
    /// The branch or tag to check out; the remote's own choice when it is left out.
    #[serde(default)]
    branch: Option<String>,
    /// How many commits of history; all when it is left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    depth: Option<u32>,
    /// Get submodules too.
    #[serde(default)]
    submodules: bool,
    /// The operator's connection whose credentials are used. Its host must be the address's.
    #[serde(default)]
    connection: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// Where it came from.
    url: String,
    /// Where it is, relative to the workspace.
    directory: String,
    /// The branch that is checked out; null when none is.
    branch: Option<String>,
    /// The commit that is checked out; null when the repository is empty.
    commit: Option<Commit>,
    /// The submodules that came along.
    submodules: Vec<Submodule>,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let remote = Remote::at(&input.url, input.connection.as_deref())?;
    let directory = directory(cx, &input)?;
    let branch = input.branch.as_deref().map(BranchName::read).transpose()?;

    let mut git = cloning();
    if let Some(branch) = &branch {
        git = git.option("--branch", branch);
    }
    if let Some(depth) = input.depth {
        git = git.number("--depth", depth.max(1));
    }
    let names = (Plain::address(remote.url()), Plain::directory(&directory));
    let ran = git.names(&[&names.0, &names.1]).reach(cx, None, &remote)?;
    if !worked(&ran) {
        return Err(fault::of_remote(&ran));
    }

    let repository = Repository::open(cx, Some(&directory))?;
    let commit = match last_commit(cx, &repository) {
        Err(fault) if NO_COMMITS.is(&fault) => None,
        other => other?,
    };
    let submodules = match input.submodules && commit.is_some() {
        true => submodules::get(cx, &repository, &remote, input.connection.as_deref())?,
        false => Vec::new(),
    };
    let branch = match repository.head() {
        Head::Branch(branch) => Some(branch.as_str().to_owned()),
        Head::Detached => None,
    };
    let at =
        commit.as_ref().map_or_else(|| ", which is empty".to_owned(), |commit| format!(" at {}", short(&commit.id)));
    let mut text = format!("Cloned into `{directory}`{at}.");
    match submodules.len() {
        0 => {}
        1 => text.push_str(" A submodule came along."),
        count => text.push_str(&format!(" {count} submodules came along.")),
    }
    Ok(Answer::with_text(Output { url: remote.url().to_string(), directory, branch, commit, submodules }, text))
}

/// A `git clone` that does nothing but that.
pub(super) fn cloning() -> Git {
    Git::new("clone").flags(&["--quiet", "--no-local", "--no-recurse-submodules", "--origin=origin", "--template="])
}

/// The new directory, relative to the workspace.
fn directory(cx: &Cx, input: &Input) -> Result<String, Fault> {
    let named = match &input.directory {
        Some(directory) => directory.clone(),
        None => last_part(&input.url).ok_or_else(|| {
            BAD_REQUEST.failed("the address does not say what to call the directory", "Name it as `directory`.")
        })?,
    };
    let workspace = cx.workspace()?;
    let directory = workspace.spelling(&named)?;
    if directory.is_empty() {
        return Err(BAD_REQUEST.failed("the workspace itself cannot be a clone", "Name a new directory in it."));
    }
    workspace.check_writable(directory.as_bytes(), &named)?;
    Ok(directory)
}

/// What the repository is called: the last part of its address without `.git`.
fn last_part(url: &str) -> Option<String> {
    let url = GitUrl::read_also_http(url).ok()?;
    let last = url.path.trim_end_matches('/').rsplit(['/', ':']).next()?;
    let last = last.strip_suffix(".git").unwrap_or(last);
    (!matches!(last, "" | "." | "..")).then(|| last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_called_what_its_repository_is_called() {
        for (url, name) in [
            ("https://example.org/team/project.git", Some("project")),
            ("https://example.org/team/project/", Some("project")),
            ("git@example.org:project.git", Some("project")),
            ("ssh://git@example.org/~ada/x", Some("x")),
            ("https://example.org/.git", None),
            ("file:///x", None),
        ] {
            assert_eq!(last_part(url).as_deref(), name, "{url}");
        }
    }
}
