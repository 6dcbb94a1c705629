//! `git_push`: give commits to a remote.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{
    ActionType, Category, CostTier, Effect, EffectKind, Example, Fault, Ran, SafetyClass, ToolDef,
};
use toolgate_guard::shell::ir::visible;

use super::{
    AT_ONCE, REMOTE_TIMEOUT, TALKS,
    command::{Git, head, worked},
    fault::{self, BAD_NAME, BAD_REQUEST, REJECTED, remote_modes},
    name::{BranchName, Plain, RemoteName},
    on, origin,
    remote::{Remote, Way, talks_to, through},
    repository::{Head, Repository},
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_push".into(),
            summary: "Give a branch's commits, or tags, to a remote.".into(),
            description: "Pushes one branch to the branch of the same name at a remote, and with `tags` all tags too. A push \
                that would drop commits there is rejected, unless `force` is `with_lease`: then it replaces the branch if it \
                still is what was last fetched. `delete` removes the branch at the remote. Both need a person's consent. The \
                remote is reached by the address in the repository's config, usually with a `connection`. Hooks of the \
                repository do not run. What the remote says, such as where to open a pull request, is in the answer."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsPush,
            safety: SafetyClass::Network,
            needs: TALKS,
            timeout: REMOTE_TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Medium,
            examples: vec![
                Example { title: "The current branch".into(), arguments: json!({ "connection": "forge" }) },
                Example {
                    title: "A branch and all tags".into(),
                    arguments: json!({ "branch": "main", "tags": true, "connection": "forge" }),
                },
            ],
            failures: remote_modes(&[&BAD_NAME, &BAD_REQUEST, &REJECTED]),
            ..ToolDef::default()
        },
        effects,
        run,
    )
    .through(|input: &Input| through(input.connection.as_deref(), Way::Push))
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
    /// The branch, here and there; the current one when it is left out.
    #[serde(default)]
    branch: Option<String>,
    /// Push all tags too.
    #[serde(default)]
    tags: bool,
    /// Whether commits at the remote may be dropped: `no`, or `with_lease` if they are those that were last fetched.
    #[serde(default)]
    force: Force,
    /// Remove the branch at the remote.
    #[serde(default)]
    delete: bool,
    /// The operator's connection whose credentials are used. Its host must be the remote's.
    #[serde(default)]
    connection: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Force {
    #[default]
    No,
    WithLease,
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Output {
    /// Where it went.
    url: String,
    /// The refs that were pushed.
    refs: Vec<Pushed>,
    /// What the remote said.
    remote_says: String,
}

/// What became of a ref.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Pushed {
    /// Its name at the remote.
    name: String,
    /// What became of it.
    result: Became,
    /// Git's words about it.
    summary: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Became {
    /// It went forward.
    Updated,
    /// It was replaced.
    Forced,
    /// It is new.
    Created,
    /// It is gone.
    Deleted,
    /// It was there already.
    UpToDate,
    /// It was not taken.
    Rejected,
}

fn effects(input: &Input) -> Vec<Effect> {
    let lost = |kind| Effect { kind, target: input.branch.clone() };
    let mut effects = vec![on(EffectKind::FsWrite, input.repository.as_deref()), talks_to(None)];
    if input.force == Force::WithLease {
        effects.push(lost(EffectKind::RewriteHistory));
    }
    if input.delete {
        effects.push(lost(EffectKind::DeleteBranch));
    }
    effects
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let repository = Repository::open(cx, input.repository.as_deref())?;
    let name = RemoteName::read(&input.remote)?;
    let branch = match (&input.branch, repository.head()) {
        (Some(branch), _) => BranchName::read(branch)?,
        // What is removed is named.
        (None, _) if input.delete => return Err(BAD_REQUEST.failed("`branch` is missing", "Name what to remove.")),
        (None, Head::Branch(branch)) => branch.clone(),
        (None, Head::Detached) => {
            return Err(BAD_REQUEST.failed("no branch is checked out", "Name the `branch` to push."));
        }
    };
    if input.delete && (input.tags || input.force != Force::No) {
        return Err(BAD_REQUEST.failed("`delete` takes neither `tags` nor `force`", "Leave them out."));
    }
    let remote = Remote::named(&repository, &name, Way::Push, input.connection.as_deref())?;

    let full = branch.full();
    let refspec = if input.delete { Plain::removed(&full) } else { Plain::pushed(&full) };
    let mut git = Git::new("push")
        .flags(&["--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no"])
        .flag_if(input.tags, "--tags");
    if input.force == Force::WithLease {
        git = git.option("--force-with-lease", &full);
    }
    let ran = git.names(&[&name, &refspec]).reach(cx, Some(&repository), &remote)?;
    told(&ran, &remote)
}

fn told(ran: &Ran, remote: &Remote) -> Result<Answer<Output>, Fault> {
    let refs: Vec<Pushed> = head(&ran.stdout).lines().filter_map(read).collect();
    let remote_says = says(&ran.stderr.text);
    let mut text = String::new();
    for Pushed { name, summary, .. } in &refs {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} {}", visible(name), visible(summary));
    }
    text.push_str(&remote_says);
    if refs.iter().any(|pushed| pushed.result == Became::Rejected) {
        return Err(REJECTED.failed(
            format!("the push was rejected: {}", text.trim_end()),
            "Pull first when the remote has commits you do not have; else read what it says.",
        ));
    }
    if !worked(ran) {
        return Err(fault::of_remote(ran));
    }
    Ok(Answer::with_text(Output { url: remote.url().to_string(), refs, remote_says }, text))
}

/// A line of `--porcelain`: a sign, a tab, `from:to`, a tab, words.
fn read(line: &str) -> Option<Pushed> {
    let mut fields = line.splitn(3, '\t');
    let (sign, refs, summary) = (fields.next()?, fields.next()?, fields.next()?);
    let result = match sign {
        " " => Became::Updated,
        "+" => Became::Forced,
        "*" => Became::Created,
        "-" => Became::Deleted,
        "=" => Became::UpToDate,
        "!" => Became::Rejected,
        _ => return None,
    };
    let name = refs.rsplit_once(':').map_or(refs, |(_, to)| to).to_owned();
    Some(Pushed { name, result, summary: summary.to_owned() })
}

/// What the other side said, without the mark that git puts in front of it.
fn says(stderr: &str) -> String {
    const LINES: usize = 40;
    let said = stderr.lines().filter_map(|line| line.strip_prefix("remote:"));
    let said: Vec<String> = said.map(|line| visible(line.trim())).filter(|line| !line.is_empty()).take(LINES).collect();
    said.join("\n")
}

#[cfg(test)]
mod tests {
    use toolgate_contract::{Ending, FaultKind};

    use super::*;
    use crate::programs::stage::ran;

    fn told_of(code: i32, stdout: &str, stderr: &str) -> Result<String, Fault> {
        let remote = Remote::at("https://example.org/x", None).unwrap();
        let ran = Ran { ending: Ending::Exited { code }, ..ran(0, stdout, stderr) };
        let answer = told(&ran, &remote)?;
        Ok(format!("{answer:?}"))
    }

    #[test]
    fn each_ref_is_told_and_what_the_remote_says() {
        let stdout = "To https://example.org/x\n*\trefs/heads/a:refs/heads/a\t[new branch]\nDone\n";
        let stderr = "remote: \nremote: Open a pull request:   \nremote:   https://example.org/new\u{1b}[0m\nother\n";
        let said = told_of(0, stdout, stderr).unwrap();
        assert!(said.contains(r#"name: "refs/heads/a", result: Created, summary: "[new branch]""#), "{said}");
        assert!(said.contains(r#"remote_says: "Open a pull request:\nhttps://example.org/new\\u{1b}[0m""#), "{said}");
        let signs = [" ", "+", "*", "-", "=", "!"].map(|sign| read(&format!("{sign}\ta:b\tc")).unwrap().result);
        use Became::{Created, Deleted, Forced, Rejected, UpToDate, Updated};
        assert_eq!(signs, [Updated, Forced, Created, Deleted, UpToDate, Rejected]);
        assert_eq!(read("Done"), None);
    }

    #[test]
    fn a_ref_that_was_not_taken_is_a_fault_with_the_reason() {
        let stdout = "!\trefs/heads/a:refs/heads/a\t[remote rejected] (pre-receive hook declined)\nDone\n";
        let fault = told_of(1, stdout, "remote: no tests\n").unwrap_err();
        assert_eq!((fault.kind, &*fault.code), (FaultKind::Failed, "push_rejected"));
        assert!(fault.message.contains("pre-receive hook declined") && fault.message.contains("no tests"), "{fault}");
        let fault = told_of(128, "", "fatal: Authentication failed for 'https://example.org/x'\n").unwrap_err();
        assert_eq!(fault.code, "authentication_failed");
    }
}
