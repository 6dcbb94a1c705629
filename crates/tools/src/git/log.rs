//! `git_log`: commits, latest first.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, Category, CostTier, EffectKind, Example, Fault, SafetyClass, ToolDef};
use toolgate_guard::shell::ir::visible;

use super::{
    AT_ONCE, LOOKS, TIMEOUT,
    command::{Git, records},
    fault::{BAD_NAME, BAD_REVISION, NO_COMMITS, UNKNOWN_REVISION, local_modes},
    name::{Plain, RepoPath, Revision},
    on,
    repository::Repository,
    status::short,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_log".into(),
            summary: "List commits, latest first.".into(),
            description: "Lists commits that lead to a revision, latest first: of one branch, between two (`main..dev`), of \
                one author, in a time, or only those that touched some paths. `git_show` has the message and the changes of \
                one of them."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsRead,
            safety: SafetyClass::Read,
            needs: LOOKS,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Cheap,
            examples: vec![
                Example { title: "The last ten".into(), arguments: json!({}) },
                Example {
                    title: "What a branch adds".into(),
                    arguments: json!({ "ref": "main..dev", "max_count": 50 }),
                },
                Example {
                    title: "Who touched a file this year".into(),
                    arguments: json!({ "paths": ["src/main.rs"], "since": "2026-01-01" }),
                },
            ],
            failures: local_modes(&[&BAD_REVISION, &BAD_NAME, &UNKNOWN_REVISION, &NO_COMMITS]),
            ..ToolDef::default()
        },
        |input: &Input| vec![on(EffectKind::FsRead, input.repository.as_deref())],
        run,
    )
}

const MOST_COMMITS: u32 = 100;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The directory of the repository, relative to the workspace; the workspace itself when it is left out.
    #[serde(default)]
    repository: Option<String>,
    /// How many commits at most.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = MOST_COMMITS))]
    max_count: u32,
    /// Where to start: a branch, tag or commit, or a range such as `main..dev`; `HEAD` when it is left out.
    #[serde(default, rename = "ref")]
    revision: Option<String>,
    /// Only commits whose author's name or address has this text in it.
    #[serde(default)]
    author: Option<String>,
    /// Only commits after this date. Example: `2026-01-31` or `2 weeks ago`.
    #[serde(default)]
    since: Option<String>,
    /// Only commits before this date.
    #[serde(default)]
    until: Option<String>,
    /// Only commits that touch these files or directories, relative to the repository.
    #[serde(default)]
    #[schemars(length(max = 200))]
    paths: Vec<String>,
}

fn ten() -> u32 {
    10
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Output {
    /// The commits.
    commits: Vec<Commit>,
    /// There are more.
    more: bool,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Commit {
    /// Its name.
    pub(super) id: String,
    /// The commits it follows.
    parents: Vec<String>,
    /// Who wrote it.
    pub(super) author: String,
    /// The author's address.
    email: String,
    /// When it was written.
    pub(super) date: String,
    /// Branches and tags that are there.
    refs: Vec<String>,
    /// The first line of its message.
    pub(super) subject: String,
}

/// The fields of a commit, each with a NUL behind it.
pub(super) const FORMAT: &str = "--format=tformat:%H%x00%P%x00%an%x00%ae%x00%aI%x00%D%x00%s";

impl Commit {
    /// Reads what [`FORMAT`] prints with `-z`.
    pub(super) fn read<'a>(records: &mut impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut field = || records.next().map(str::to_owned);
        let words = |text: String, by: &str| -> Vec<String> {
            text.split(by).filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        Some(Self {
            id: field()?,
            parents: words(field()?, " "),
            author: field()?,
            email: field()?,
            date: field()?,
            refs: words(field()?, ", "),
            subject: field()?,
        })
    }
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let repository = Repository::open(cx, input.repository.as_deref())?;
    let revision = input.revision.as_deref().map_or_else(|| Ok(Revision::head()), Revision::range)?;
    let paths = RepoPath::read_all(cx, &repository, &input.paths)?;
    let count = input.max_count.clamp(1, MOST_COMMITS);

    // One more than is shown tells whether there are more.
    let mut git = Git::new("log").flags(&["-z", "--no-show-signature", FORMAT]).number("--max-count", count + 1);
    if let Some(author) = &input.author {
        git = git.flags(&["--fixed-strings", "--regexp-ignore-case"]).option("--author", &Plain::word(author)?);
    }
    if let Some(since) = &input.since {
        git = git.option("--since", &Plain::word(since)?);
    }
    if let Some(until) = &input.until {
        git = git.option("--until", &Plain::word(until)?);
    }
    let ran = git.names(&[&revision]).paths(&paths).done(cx, &repository)?;

    let (records, complete) = records(&ran.stdout);
    let mut records = records.into_iter();
    let mut commits: Vec<Commit> = std::iter::from_fn(|| Commit::read(&mut records)).collect();
    let more = !complete || commits.len() > count as usize;
    commits.truncate(count as usize);
    let text = text(&commits, more);
    Ok(Answer::with_text(Output { commits, more }, text))
}

fn text(commits: &[Commit], more: bool) -> String {
    if commits.is_empty() {
        return "No commits.".to_owned();
    }
    let mut text = String::new();
    for Commit { id, author, date, refs, subject, .. } in commits {
        let day = date.get(..10).unwrap_or(date);
        // Writing to a string does not fail, here and below.
        let _ = write!(text, "{} {day} {}: {}", short(id), visible(author), visible(subject));
        if !refs.is_empty() {
            let _ = write!(text, " ({})", visible(&refs.join(", ")));
        }
        text.push('\n');
    }
    if more {
        text.push_str("There are more.\n");
    }
    text
}
