//! The official conformance suite of MCP against servers of ours, and against our client. What came of it is
//! `docs/conformance/results.md`; what may fail, and why, is in lists beside it.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::{
    peers,
    suite::{Ended, cargo, root, run, target},
};

/// The revisions whose requirements are tried, one of each era.
const REVISIONS: [&str; 2] = ["2026-07-28", "2025-11-25"];

/// Something the suite is run against.
struct Subject {
    name: &'static str,
    about: &'static str,
    side: Side,
    /// A binary of this repository, and what it is told.
    command: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// It says its URL as its first line and ends with its input.
    Server,
    /// It is given the URL of a server of the suite.
    Client,
}

const SUBJECTS: &[Subject] = &[
    Subject {
        name: "fixture",
        about: "the fixture of `tests/conformance` alone: what the suite can find in the SDK and in the fixture itself",
        side: Side::Server,
        command: &["fixture", "http"],
    },
    Subject {
        name: "toolgate",
        about: "`toolgate serve --http` with its own tools",
        side: Side::Server,
        command: &["gateway", "alone"],
    },
    Subject {
        name: "bridged",
        about: "`toolgate serve --http` with the fixture behind it, in a room",
        side: Side::Server,
        command: &["gateway", "bridged"],
    },
    Subject {
        name: "client",
        about: "servers of the suite behind `toolgate serve --stdio`, all of their tools called",
        side: Side::Client,
        command: &["driver"],
    },
];

/// The scenarios for clients that hold for a gateway too; `docs/conformance/README.md` says why the others do not.
const FOR_A_GATEWAY: [&[&str]; 2] = [
    &[
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
    ],
    &["initialize", "tools_call", "sse-retry", "elicitation-sep1034-client-defaults"],
];

/// Runs the suite and holds what came of it against the lists of what may fail. A page that counts otherwise is told: how
/// many checks a scenario makes also depends on who is faster.
pub(crate) fn check() -> Ended {
    let stale = |page: String| match fs::read_to_string(results()) {
        Ok(written) if written == page => Ended::Passed,
        _ => Ended::PassedBut(vec![format!(
            "STALE      {} counts otherwise: run `cargo xtask conformance` and review the difference",
            results().display()
        )]),
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
    let suite = match peers::conformance() {
        Ok((node, script)) => Suite { node, script },
        Err(why) => return Ended::Skipped(why),
    };
    let runs = built().and_then(|()| {
        let runs = SUBJECTS.iter().flat_map(|subject| REVISIONS.map(|revision| (subject, revision)));
        runs.map(|(subject, revision)| suite.run(subject, revision)).collect::<Result<Vec<_>, _>>()
    });
    match runs {
        Ok(runs) => match runs.iter().filter(|run| !run.as_expected).map(Run::title).collect::<Vec<_>>() {
            unexpected if !unexpected.is_empty() => {
                Ended::Failed(format!("not as expected, see above: {}", unexpected.join(", ")))
            }
            _ => then(page(&runs)),
        },
        Err(why) => Ended::Failed(why),
    }
}

/// As all binaries are built for the tests, so that nothing is built again with other features.
fn built() -> Result<(), String> {
    run(&mut cargo(&["build", "--workspace", "--bins", "--examples", "--quiet"]))
}

/// The suite, and what runs it.
struct Suite {
    node: PathBuf,
    script: PathBuf,
}

/// One revision tried on one subject.
struct Run {
    subject: &'static Subject,
    revision: &'static str,
    /// How many checks passed, and how many there were, by scenario.
    scenarios: BTreeMap<String, (u32, u32)>,
    /// Scenarios it has to pass.
    required: Vec<String>,
    /// Nothing failed but what is on the list, and all of that did.
    as_expected: bool,
}

impl Run {
    fn title(&self) -> String {
        format!("{} {}", self.subject.name, self.revision)
    }

    /// Scenarios that passed whole, and all that have to.
    fn score(&self) -> (usize, usize) {
        let passed = |name: &&String| self.scenarios.get(*name).is_some_and(|(passed, all)| passed == all);
        (self.required.iter().filter(passed).count(), self.required.len())
    }
}

impl Suite {
    fn run(&self, subject: &'static Subject, revision: &'static str) -> Result<Run, String> {
        eprintln!("{} {revision}", subject.name);
        match subject.side {
            Side::Server => self.run_server(subject, revision),
            Side::Client => self.run_client(subject, revision),
        }
    }

    fn run_server(&self, subject: &'static Subject, revision: &'static str) -> Result<Run, String> {
        let server = Server::start(command(subject))?;
        let (said, as_expected) = self.say(subject, &["server", "--url", &server.url, "--requirements", revision])?;
        let scenarios = said.lines().filter_map(scenario).collect();
        Ok(Run { subject, revision, scenarios, required: self.required(revision)?, as_expected })
    }

    /// One scenario after the other: all at once they are many processes, and run out of time.
    fn run_client(&self, subject: &'static Subject, revision: &'static str) -> Result<Run, String> {
        let command = command(subject).get_program().to_string_lossy().into_owned();
        let required = REVISIONS.iter().zip(FOR_A_GATEWAY).find(|(other, _)| **other == revision);
        let required: Vec<_> =
            required.into_iter().flat_map(|(_, names)| names.iter().map(ToString::to_string)).collect();
        let (mut scenarios, mut as_expected) = (BTreeMap::new(), true);
        for name in &required {
            let words = ["client", "--command", &command, "--scenario", name, "--spec-version", revision];
            let (said, passed) = self.say(subject, &words)?;
            let counts =
                said.lines().find_map(|line| line.strip_prefix("Passed: ")?.split(',').next()?.split_once('/'));
            let number = |text: &str| text.parse().map_err(|_| format!("the suite says nothing about {name}"));
            let (right, all) = counts.unwrap_or_default();
            scenarios.insert(name.clone(), (number(right)?, number(all)?));
            as_expected &= passed;
        }
        Ok(Run { subject, revision, scenarios, required, as_expected })
    }

    /// What the suite says, and whether that was to be expected.
    fn say(&self, subject: &Subject, words: &[&str]) -> Result<(String, bool), String> {
        let mut suite = Command::new(&self.node);
        suite.arg(&self.script).args(words).arg("--expected-failures").arg(expected(subject)?);
        let ran = suite.output().map_err(|error| format!("the suite did not start: {error}"))?;
        // What it says of clients it says on the other stream.
        let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        if !ran.status.success() {
            eprintln!("{said}");
        }
        Ok((said, ran.status.success()))
    }

    /// The scenarios a server has to pass, from the list that comes with the suite.
    fn required(&self, revision: &str) -> Result<Vec<String>, String> {
        let file = format!("../@modelcontextprotocol/conformance/requirements/{revision}.yaml");
        let list = self.script.parent().unwrap_or(&self.script).join(file);
        let list = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
        let lines = list.lines().skip_while(|line| *line != "server:").skip(1);
        Ok(lines.map_while(|line| line.strip_prefix("  - ")).map(str::to_owned).collect())
    }
}

fn command(subject: &Subject) -> Command {
    let mut words = subject.command.iter();
    let mut command = Command::new(target().join("debug").join(words.next().unwrap_or(&"")));
    command.args(words);
    command
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

/// All runs as a page for people: no times, so that a change of it is a change of what passes.
fn page(runs: &[Run]) -> String {
    let mut page = String::from(
        "# Results\n\n\
         Written by `cargo xtask conformance` with the official suite, in the version `tests/peers/conformance` names. A cell \
         is how many checks of a scenario passed, of how many; in brackets where the revision does not require it. What \
         may fail, and why, is in a `yaml` beside this page.\n\n",
    );
    for subject in SUBJECTS {
        let _ = writeln!(page, "- {}: {}.", subject.name, subject.about);
    }
    for (side, title) in [(Side::Server, "Servers"), (Side::Client, "Client")] {
        let _ = writeln!(page, "\n## {title}\n");
        table(&mut page, &runs.iter().filter(|run| run.subject.side == side).collect::<Vec<_>>());
    }
    page
}

fn table(page: &mut String, runs: &[&Run]) {
    let row = |page: &mut String, first: &str, cell: &dyn Fn(&Run) -> String| {
        let _ = write!(page, "| {first} |");
        runs.iter().for_each(|run| page.push_str(&format!(" {} |", cell(run))));
        page.push('\n');
    };
    row(page, "scenario", &Run::title);
    row(page, "---", &|_| "---".to_owned());
    row(page, "**passed, of those required**", &|run| {
        let (passed, all) = run.score();
        format!("**{passed}/{all}**")
    });
    let mut names: Vec<_> = runs.iter().flat_map(|run| run.scenarios.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        row(page, name, &|run| match run.scenarios.get(name) {
            Some((passed, all)) if !run.required.contains(name) => format!("({passed}/{all})"),
            Some((passed, all)) => format!("{passed}/{all}"),
            None => String::new(),
        });
    }
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
