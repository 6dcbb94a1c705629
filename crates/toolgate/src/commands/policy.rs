//! `toolgate policy`: does it say what it should, and what would another one change?

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};
use toolgate_contract::{AgentName, Decided, Verdict};
use toolgate_runtime::{Runtime, Trial, config::read_tests, store::Reader};

use crate::{
    problem::Problem,
    setup::{self, Place},
    show,
};

/// Try a policy: on examples that must hold, or on the calls in the record
#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Try the examples that rules carry, and files of tests
    ///
    /// A file with `tests` is tried on the config that holds here; any other file is a config, whose rules are tried.
    /// Exit status 1 where something does not hold.
    #[command(after_help = "A file of tests:
  tests:
    - { agent: coder, tool: git_push, arguments: { force: with_lease }, expect: deny, rule: no-force-push }
    - { tool: read, arguments: { path: a.txt }, expect: allow }")]
    Test {
        /// Files of tests, or configs; the config that holds here where none is named
        files: Vec<PathBuf>,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Replay recorded calls under two configs, and show what is decided differently
    ///
    /// Nothing runs. What agents have earned, heard and spent is left out on both sides.
    #[command(after_help = "Example:
  toolgate policy diff toolgate.yaml stricter.yaml --since 7d")]
    Diff {
        /// The config as it is
        old: PathBuf,
        /// The config as it would be
        new: PathBuf,
        /// How far back, such as `36h` or `7d`; everything when it is left out
        #[arg(long, value_name = "DURATION")]
        since: Option<String>,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
}

impl Policy {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        match self.command {
            Command::Test { files, json } => test(place, &files, json),
            Command::Diff { old, new, since, json } => diff(place, &old, &new, since.as_deref(), json),
        }
    }
}

fn test(place: &Place, files: &[PathBuf], as_json: bool) -> Result<ExitCode, Problem> {
    let mut trials = Vec::new();
    let mut here = None;
    if files.is_empty() {
        trials.extend(place.try_out(None)?.try_examples());
    }
    for file in files {
        match read_tests(file)? {
            None => trials.extend(place.try_out(Some(file))?.try_examples()),
            Some(tests) => {
                let runtime: &Runtime = match &mut here {
                    Some(runtime) => runtime,
                    none => none.insert(place.try_out(None)?),
                };
                trials.extend(tests.iter().map(|test| runtime.try_test(test)));
            }
        }
    }
    let failed = trials.iter().filter(|trial| !trial.passed()).count();
    if show::wants_json(as_json) {
        show::json(&json!({ "ok": failed == 0, "tried": trials.len(), "failed": failed, "trials": trials }))?;
    } else {
        for Trial { file, line, what, why } in &trials {
            match why {
                None => show::line(&format!("pass  {file}:{line}  {what}"))?,
                Some(why) => show::line(&format!("FAIL  {file}:{line}  {what}\n      {why}"))?,
            }
        }
        show::line(&format!("{} tried, {failed} failed", trials.len()))?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Calls that are decided alike on each side, and otherwise than on the other.
#[derive(Debug, Serialize)]
struct Change {
    agent: String,
    tool: String,
    old: Verdict,
    new: Verdict,
    old_by: Vec<String>,
    new_by: Vec<String>,
    calls: u64,
    /// Of so many, credentials were taken out of the arguments before they were recorded.
    redacted: u64,
    /// One of them.
    example: String,
    /// The reasons for what would be decided about that one.
    why: Vec<String>,
}

/// What is told apart.
type Key = (String, String, Verdict, Verdict, Vec<String>, Vec<String>);

#[derive(Debug, Default)]
struct Replay {
    replayed: u64,
    changed: u64,
    not_replayed: BTreeMap<String, u64>,
    changes: BTreeMap<Key, Change>,
}

fn diff(place: &Place, old: &Path, new: &Path, since: Option<&str>, as_json: bool) -> Result<ExitCode, Problem> {
    let back = since.map(setup::span).transpose()?;
    let since =
        back.map_or(0, |back| setup::now_ms().saturating_sub(u64::try_from(back.as_millis()).unwrap_or(u64::MAX)));
    let (old, new) = (place.try_out(Some(old))?, place.try_out(Some(new))?);
    let reader = Reader::open(&place.data_dir()?)?;
    let mut replay = Replay::default();
    let mut before = u64::MAX;
    loop {
        let lines = reader.before(before, 1_000)?;
        let Some(last) = lines.last() else { break };
        before = last.seq;
        let is_old = |at: &Value| at.as_u64().is_some_and(|at| at < since);
        let recent = lines.iter().filter(|line| !is_old(&line.body["at_ms"]));
        // A call is told once: where its intent is written, else where it ends.
        let calls = recent.filter(|line| line.body["record"].is_object());
        calls.for_each(|line| replay.take(&old, &new, &line.body));
        if is_old(&last.body["at_ms"]) {
            break;
        }
    }
    replay.show(as_json)
}

impl Replay {
    fn take(&mut self, old: &Runtime, new: &Runtime, body: &Value) {
        let record = &body["record"];
        match (decided(old, record, "the old config"), decided(new, record, "the new config")) {
            (Ok(before), Ok(after)) => self.count(old, new, body, &before, &after),
            (Err(why), _) | (_, Err(why)) => *self.not_replayed.entry(why).or_default() += 1,
        }
    }

    fn count(&mut self, old: &Runtime, new: &Runtime, body: &Value, before: &Decided, after: &Decided) {
        self.replayed += 1;
        if before.verdict == after.verdict {
            return;
        }
        self.changed += 1;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let record = &body["record"];
        let (agent, tool) = (text(&record["agent"]), text(&record["tool"]));
        let (old_by, new_by) = (old.deciders(before), new.deciders(after));
        let key = (agent.clone(), tool.clone(), before.verdict, after.verdict, old_by.clone(), new_by.clone());
        let reason = |reason: &toolgate_contract::Reason| format!("{} ({})", reason.text, reason.source);
        let change = self.changes.entry(key).or_insert_with(|| Change {
            agent,
            tool,
            old: before.verdict,
            new: after.verdict,
            old_by,
            new_by,
            calls: 0,
            redacted: 0,
            example: text(&body["call"]),
            why: after.reasons.iter().map(reason).collect(),
        });
        change.calls += 1;
        change.redacted += u64::from(is_redacted(&record["arguments"]));
    }

    fn show(self, as_json: bool) -> Result<ExitCode, Problem> {
        let Self { replayed, changed, not_replayed, changes } = self;
        let changes: Vec<Change> = changes.into_values().collect();
        if show::wants_json(as_json) {
            show::json(&json!({
                "replayed": replayed, "changed": changed, "not_replayed": not_replayed, "changes": changes,
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        for change in &changes {
            let Change { agent, tool, calls, redacted, example, .. } = change;
            let (old, new) = (word(change.old), word(change.new));
            show::line(&format!("{old} -> {new}  {tool} of {agent}: {calls} calls, such as {example}"))?;
            show::line(&format!(
                "  was decided by {}, would be by {}",
                change.old_by.join(", "),
                change.new_by.join(", ")
            ))?;
            for why in &change.why {
                show::line(&format!("  {why}"))?;
            }
            if *redacted > 0 {
                show::line(&format!("  {redacted} of them without the credentials that were in their arguments"))?;
            }
        }
        show::line(&format!("{replayed} calls replayed, {changed} decided differently"))?;
        for (why, calls) in &not_replayed {
            show::line(&format!("{calls} not replayed: {why}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Deny => "deny",
        Verdict::Ask => "ask",
        Verdict::Allow => "allow",
    }
}

/// What a recorded call would come to, or why that cannot be said.
fn decided(runtime: &Runtime, record: &Value, side: &str) -> Result<Decided, String> {
    let (Some(agent), Some(tool)) = (record["agent"].as_str(), record["tool"].as_str()) else {
        return Err("the record names no agent and no tool".to_owned());
    };
    let arguments = &record["arguments"];
    if arguments.get("not_admitted").is_some() {
        return Err("its arguments were too large to be recorded".to_owned());
    }
    let call = runtime.call(&AgentName::from(agent), tool, arguments.clone());
    runtime.preview(&call).map_err(|fault| match fault.code.as_ref() {
        "unknown_agent" => format!("{side} has no agent `{agent}`"),
        "unknown_tool" => format!("there is no tool `{tool}`"),
        code => format!("{side} does not take it as a call of `{tool}`: {code}"),
    })
}

/// Were credentials taken out of it?
fn is_redacted(arguments: &Value) -> bool {
    match arguments {
        Value::String(text) => text.contains("[redacted:"),
        Value::Array(items) => items.iter().any(is_redacted),
        Value::Object(members) => members.values().any(is_redacted),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
