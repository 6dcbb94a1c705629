//! The official conformance suite of MCP against servers of ours. What came of it is `docs/conformance/results.md`; what may
//! fail, and why, is in a list beside it.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{
    peers,
    suite::{Ended, cargo, root, run, target},
};

/// The revisions whose requirements are tried, one of each era.
const REVISIONS: [&str; 2] = ["2026-07-28", "2025-11-25"];

/// A server the suite is run against.
struct Subject {
    name: &'static str,
    about: &'static str,
    command: fn() -> Command,
}

const SUBJECTS: &[Subject] = &[Subject {
    name: "fixture",
    about: "the fixture of `tests/conformance` alone: what the suite can find in the SDK and in the fixture itself",
    command: || {
        let mut fixture = Command::new(target().join("debug/fixture"));
        fixture.arg("http");
        fixture
    },
}];

/// Runs the suite and holds what came of it against the page.
pub(crate) fn check() -> Ended {
    let stale = |page: String| match fs::read_to_string(results()) {
        Ok(written) if written == page => Ended::Passed,
        _ => Ended::Failed(format!(
            "{} says something else: run `cargo xtask conformance` and review the difference",
            results().display()
        )),
    };
    tried(stale)
}

/// Runs the suite and writes the page.
pub(crate) fn write() -> Ended {
    tried(|page| fs::write(results(), page).map_or_else(|error| Ended::Failed(error.to_string()), |()| Ended::Passed))
}

fn results() -> PathBuf {
    root().join("docs/conformance/results.md")
}

fn tried(then: impl FnOnce(String) -> Ended) -> Ended {
    let (node, suite) = match peers::conformance() {
        Ok(found) => found,
        Err(why) => return Ended::Skipped(why),
    };
    let runs = built().and_then(|()| {
        let runs = SUBJECTS.iter().flat_map(|subject| REVISIONS.map(|revision| (subject, revision)));
        runs.map(|(subject, revision)| Run::of(&node, &suite, subject, revision)).collect::<Result<Vec<_>, _>>()
    });
    match runs {
        Ok(runs) => match runs.iter().find(|run| !run.as_expected) {
            Some(run) => Ended::Failed(format!("{} {}: not as expected, see above", run.subject, run.revision)),
            None => then(page(&runs)),
        },
        Err(why) => Ended::Failed(why),
    }
}

/// As all binaries are built for the tests, so that nothing is built again with other features.
fn built() -> Result<(), String> {
    run(&mut cargo(&["build", "--workspace", "--bins", "--examples", "--quiet"]))
}

/// One revision tried on one server.
struct Run {
    subject: &'static str,
    revision: &'static str,
    /// How many checks passed, and how many there were, by scenario.
    scenarios: BTreeMap<String, (u32, u32)>,
    /// Scenarios the revision requires.
    required: Vec<String>,
    /// Nothing failed but what is on the list, and all of that did.
    as_expected: bool,
}

impl Run {
    fn of(node: &Path, suite: &Path, subject: &Subject, revision: &'static str) -> Result<Self, String> {
        let expected = expected(subject)?;
        let server = Server::start((subject.command)())?;
        let mut run = Command::new(node);
        run.arg(suite).args(["server", "--url", &server.url, "--requirements", revision, "--expected-failures"]);
        run.arg(expected);
        let ran = run.stderr(Stdio::inherit()).output().map_err(|error| format!("the suite did not start: {error}"))?;
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        if !ran.status.success() {
            eprintln!("{said}");
        }
        Ok(Self {
            subject: subject.name,
            revision,
            scenarios: said.lines().filter_map(scenario).collect(),
            required: required(suite, revision)?,
            as_expected: ran.status.success(),
        })
    }

    /// Scenarios that passed whole, and all that the revision requires.
    fn score(&self) -> (usize, usize) {
        let passed = |name: &&String| self.scenarios.get(*name).is_some_and(|(passed, all)| passed == all);
        (self.required.iter().filter(passed).count(), self.required.len())
    }
}

/// The list of what may fail. Each line of it says why.
fn expected(subject: &Subject) -> Result<PathBuf, String> {
    let path = root().join("docs/conformance").join(subject.name).with_extension("yaml");
    let list = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    match list.lines().find(|line| line.starts_with("  - ") && !line.contains(" # ")) {
        Some(line) => Err(format!("{}: no reason is given for `{}`", path.display(), line.trim())),
        None => Ok(path),
    }
}

/// `✓ name: 2 passed, 0 failed` of the suite's summary.
fn scenario(line: &str) -> Option<(String, (u32, u32))> {
    let (name, counts) = line.strip_prefix("✓ ").or_else(|| line.strip_prefix("✗ "))?.split_once(": ")?;
    let mut numbers = counts.split_whitespace().filter_map(|word| word.parse::<u32>().ok());
    let (passed, failed) = (numbers.next()?, numbers.next()?);
    Some((name.to_owned(), (passed, passed + failed)))
}

/// The scenarios a server has to pass, from the list that comes with the suite.
fn required(suite: &Path, revision: &str) -> Result<Vec<String>, String> {
    let file = format!("../@modelcontextprotocol/conformance/requirements/{revision}.yaml");
    let list = suite.parent().unwrap_or(suite).join(file);
    let list = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let lines = list.lines().skip_while(|line| *line != "server:").skip(1);
    Ok(lines.map_while(|line| line.strip_prefix("  - ")).map(str::to_owned).collect())
}

/// All runs as a page for people: no times, so that a change of it is a change of what passes.
fn page(runs: &[Run]) -> String {
    let mut page = String::from(
        "# Conformance to MCP\n\n\
         Written by `cargo xtask conformance` with the official suite, in the version `tests/peers/conformance` names; \
         `cargo xtask test` runs it and wants the same. A cell is how many checks of a scenario passed, of how many; \
         in brackets where the revision does not require it. What may fail, and why, is in the `yaml` beside this \
         page.\n\n",
    );
    for subject in SUBJECTS {
        let _ = writeln!(page, "- {}: {}.", subject.name, subject.about);
    }
    page.push_str("\n| scenario |");
    for run in runs {
        let _ = write!(page, " {} {} |", run.subject, run.revision);
    }
    page.push_str("\n|---|");
    runs.iter().for_each(|_| page.push_str("---|"));
    page.push_str("\n| **required scenarios passed** |");
    for (passed, all) in runs.iter().map(Run::score) {
        let _ = write!(page, " **{passed}/{all}** |");
    }
    page.push('\n');
    let mut names: Vec<_> = runs.iter().flat_map(|run| run.scenarios.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let _ = write!(page, "| {name} |");
        for run in runs {
            let _ = match run.scenarios.get(name) {
                Some((passed, all)) if !run.required.contains(name) => write!(page, " ({passed}/{all}) |"),
                Some((passed, all)) => write!(page, " {passed}/{all} |"),
                None => write!(page, " |"),
            };
        }
        page.push('\n');
    }
    page
}

/// A server that says its URL as its first line and ends with its input.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(mut command: Command) -> Result<Self, String> {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.map_err(|error| format!("{command:?} did not start: {error}"))?;
        let mut url = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut url).map_err(|error| error.to_string())?;
        }
        url.truncate(url.trim_end().len());
        if url.is_empty() { Err(format!("{command:?} says no URL")) } else { Ok(Self { process, url }) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
