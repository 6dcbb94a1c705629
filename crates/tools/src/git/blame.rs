//! `git_blame`: who last changed each line of a file.

use std::{collections::HashMap, fmt::Write as _};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{
    ActionType, Category, CostTier, EffectKind, Example, Fault, SafetyClass, ToolDef, Truncated, Unit,
};
use toolgate_guard::shell::ir::visible;

use super::{
    AT_ONCE, LOOKS, MOST, TIMEOUT,
    command::{Git, head},
    fault::{BAD_REQUEST, BAD_REVISION, NO_COMMITS, UNKNOWN_PATH, UNKNOWN_REVISION, local_modes},
    name::{RepoPath, Revision},
    on,
    repository::Repository,
    status::short,
};
use crate::{Answer, Cx, Tool};

pub(crate) fn tool() -> Tool {
    Tool::typed(
        ToolDef {
            name: "git_blame".into(),
            summary: "Show who last changed each line of a file, and in which commit.".into(),
            description: "Shows for each line of a file the commit that last changed it, its author and its day, and the \
                line itself. Lines that are not committed yet have a commit of zeros. At most 500 lines are shown at once: \
                name `start_line` and `end_line` for others."
                .into(),
            category: Category::VersionControl,
            action: ActionType::VcsRead,
            safety: SafetyClass::Read,
            needs: LOOKS,
            timeout: TIMEOUT,
            concurrency: AT_ONCE,
            cost: CostTier::Cheap,
            examples: vec![
                Example { title: "A whole file".into(), arguments: json!({ "path": "src/main.rs" }) },
                Example {
                    title: "Some lines, as of a tag".into(),
                    arguments: json!({ "path": "src/lib.rs", "start_line": 1, "end_line": 3, "ref": "v1.0" }),
                },
            ],
            failures: local_modes(&[&BAD_REQUEST, &BAD_REVISION, &UNKNOWN_REVISION, &UNKNOWN_PATH, &NO_COMMITS]),
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
    /// The file, relative to the repository.
    path: String,
    /// The first line, counting from 1.
    #[serde(default = "first")]
    #[schemars(range(min = 1))]
    start_line: u32,
    /// The last line; as many as are shown when it is left out.
    #[serde(default)]
    #[schemars(range(min = 1))]
    end_line: Option<u32>,
    /// The file as of this revision; as it is now when it is left out.
    #[serde(default, rename = "ref")]
    revision: Option<String>,
}

fn first() -> u32 {
    1
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Output {
    /// The lines.
    lines: Vec<Line>,
}

/// A line and who last changed it.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Line {
    /// Its number.
    number: u32,
    /// The commit that last changed it.
    commit: String,
    /// Who wrote that.
    author: String,
    /// When.
    date: String,
    /// The first line of that commit's message.
    subject: String,
    /// The line itself.
    text: String,
}

fn run(cx: &Cx, input: Input) -> Result<Answer<Output>, Fault> {
    let repository = Repository::open(cx, input.repository.as_deref())?;
    let path = RepoPath::read(cx, &repository, &input.path)?;
    let revision = input.revision.as_deref().map(Revision::one).transpose()?;
    let most = MOST as u32;
    let start = input.start_line.max(1);
    let end = input.end_line.unwrap_or(start.saturating_add(most - 1));
    if end < start {
        return Err(BAD_REQUEST.failed("`end_line` is before `start_line`", "Give the lines in order."));
    }
    let last = end.min(start.saturating_add(most - 1));
    let mut git = Git::new("blame").flags(&["--porcelain"]).lines(start, last);
    if let Some(revision) = &revision {
        git = git.name(revision);
    }
    let ran = git.paths(&[path]).done(cx, &repository)?;
    let lines = read(head(&ran.stdout));
    let cut = (last < end).then_some(Truncated {
        shown: lines.len() as u64,
        total: u64::from(end - start) + 1,
        unit: Unit::Lines,
    });
    let text = text(&lines);
    Ok(Answer::with_text(Output { lines }, text).truncated(cut))
}

/// What is said about a commit the first time it comes up.
#[derive(Default)]
struct Told {
    author: String,
    date: String,
    subject: String,
}

/// Reads what `--porcelain` prints: a commit's name with numbers, what is not known yet about it, the line behind a tab.
fn read(text: &str) -> Vec<Line> {
    let mut told: HashMap<&str, Told> = HashMap::new();
    let mut lines = Vec::new();
    let mut current: Option<(&str, u32)> = None;
    for line in text.split('\n') {
        let Some((commit, number)) = current else {
            let mut fields = line.split(' ');
            let number = fields.clone().nth(2).and_then(|number| number.parse().ok());
            current = fields.next().zip(number);
            continue;
        };
        let about = told.entry(commit).or_default();
        if let Some(text) = line.strip_prefix('\t') {
            let Told { author, date, subject } = about;
            let (author, date, subject) = (author.clone(), date.clone(), subject.clone());
            lines.push(Line { number, commit: commit.to_owned(), author, date, subject, text: text.to_owned() });
            current = None;
            continue;
        }
        match line.split_once(' ') {
            Some(("author", author)) => about.author = author.to_owned(),
            Some(("author-time", seconds)) => about.date = date(seconds),
            Some(("summary", subject)) => about.subject = subject.to_owned(),
            _ => {}
        }
    }
    lines
}

fn date(seconds: &str) -> String {
    let time = seconds.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map(|time| time.to_string()).unwrap_or_default()
}

fn text(lines: &[Line]) -> String {
    let mut out = String::new();
    for Line { number, commit, author, date, text, .. } in lines {
        let day = date.get(..10).unwrap_or_default();
        // Writing to a string does not fail.
        let _ = writeln!(out, "{} {day} {} {number}: {text}", short(commit), visible(author));
    }
    if out.is_empty() { "No lines.".to_owned() } else { out }
}
