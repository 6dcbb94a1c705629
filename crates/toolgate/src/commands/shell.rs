//! `toolgate shell`: how a script reads, before anything runs.

use std::{
    env,
    io::{BufRead, Write, stdin, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contract::Verdict;
use toolgate_guard::{
    json,
    shell::{
        self, Place, Reading,
        ir::visible,
        policy::{self, Judgement, Rules, Spoke},
    },
};

use crate::{problem::Problem, show};

/// Say how a shell script reads: the programs it runs, its effects, its risk and the rules it hits
///
/// Nothing runs. The answer is 0 for a script that may run, 4 for one that a person would be asked about and 3 for one
/// that is refused.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate shell 'git -C app push --force && rm -rf build'
  toolgate shell --jsonl --rules rules.json < commands.jsonl

A rules file:
  {\"allow\": [\"git log\", \"ls\"], \"deny\": [\"git push\"], \"default\": \"ask\", \"write_redirect\": \"ask\", \"unparsable\": \"ask\"}")]
pub(crate) struct Shell {
    /// The script
    #[arg(required_unless_present = "jsonl", conflicts_with = "jsonl")]
    script: Option<String>,
    /// Read {"command"} per line from standard input, print one answer per line
    #[arg(long)]
    jsonl: bool,
    /// Prefixes that are allowed and denied, as JSON
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// The directory the script should stay in, and starts in
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Line {
    command: String,
}

impl Shell {
    pub(crate) fn run(self) -> Result<ExitCode, Problem> {
        let rules = self.rules.as_deref().map(read_rules).transpose()?;
        let place = place(self.workspace.as_deref())?;
        let Some(script) = &self.script else {
            return lines(&place, rules.as_ref());
        };
        let reading = shell::read(script, &place);
        let judgement = judge(&reading, rules.as_ref());
        if self.json {
            show::json(&answer(&reading, &judgement))?;
        } else {
            show::line(&page(&reading, &judgement))?;
        }
        Ok(ExitCode::from(match judgement.verdict {
            Verdict::Allow => 0,
            Verdict::Deny => 3,
            Verdict::Ask => 4,
        }))
    }
}

fn place(workspace: Option<&Path>) -> Result<Place, Problem> {
    let cwd =
        env::current_dir().map_err(|error| Problem::usage(format!("the current directory cannot be read: {error}")))?;
    let workspace = workspace.map_or_else(|| cwd.clone(), |dir| cwd.join(dir));
    let home = env::home_dir().unwrap_or_else(|| PathBuf::from("/root"));
    Ok(Place::at(&workspace.to_string_lossy(), &home.to_string_lossy()))
}

/// The file holds the rules, or the rules under `policy`.
fn read_rules(file: &Path) -> Result<Rules, Problem> {
    let wrong = |why: String| Problem::usage(format!("{}: {why}", file.display()));
    let text = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let mut value = json::read(&text, &json::Limits::default()).map_err(|fault| wrong(fault.to_string()))?;
    if let Some(inner) = value.get_mut("policy") {
        value = inner.take();
    }
    let rules: Rules = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
    rules.check().map_err(wrong)?;
    Ok(rules)
}

fn judge(reading: &Reading, rules: Option<&Rules>) -> Judgement {
    match rules {
        Some(rules) => policy::judge(reading, rules),
        None => shell::judge(reading),
    }
}

/// One answer for every line, in order: a line that cannot be read is answered, too, and never with a yes.
fn lines(place: &Place, rules: Option<&Rules>) -> Result<ExitCode, Problem> {
    let mut out = stdout().lock();
    for line in stdin().lock().split(b'\n') {
        let line = line?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = match serde_json::from_slice::<Line>(&line) {
            Ok(line) => {
                let reading = shell::read(&line.command, place);
                answer(&reading, &judge(&reading, rules))
            }
            Err(error) => json!({
                "parse": "failed", "programs": [], "effects": [], "risk": "critical", "decision": Verdict::Deny,
                "rules": [{ "rule": "bad_line", "about": error.to_string() }],
            }),
        };
        match writeln!(out, "{answer}") {
            Err(error) if show::reader_left(&error) => return Ok(ExitCode::SUCCESS),
            other => other?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(reading: &Reading, judgement: &Judgement) -> Value {
    let rules: Vec<Value> =
        judgement.spoke.iter().map(|spoke| json!({ "rule": spoke.rule, "about": shown(spoke) })).collect();
    json!({
        "parse": reading.parse, "programs": reading.programs(), "effects": reading.effects, "risk": reading.risk,
        "decision": judgement.verdict, "rules": rules,
    })
}

/// The beginning of what a rule spoke about, or of what it said about the whole. Words of a script may be long.
fn shown(spoke: &Spoke) -> String {
    let text = if spoke.about.is_empty() { &spoke.meaning } else { &spoke.about };
    visible(&text.chars().take(200).collect::<String>())
}

fn page(reading: &Reading, judgement: &Judgement) -> String {
    let word = match judgement.verdict {
        Verdict::Allow => "nothing speaks against it",
        Verdict::Ask => "a person would be asked",
        Verdict::Deny => "refused",
    };
    let mut page = format!("{word}, risk {}\n", reading.risk);
    page += &format!("\nprograms  {}\n", reading.programs().join(", "));
    for effect in &reading.effects {
        page += &format!(
            "effect    {:<18}{}\n",
            effect.kind.as_str(),
            effect.target.as_deref().map_or_else(|| "(not certain)".to_owned(), visible)
        );
    }
    for spoke in &judgement.spoke {
        page += &format!("rule      {:<18}{}\n", spoke.rule, visible(&spoke.meaning));
        if !spoke.about.is_empty() {
            page += &format!("{:28}{}\n", "", shown(spoke));
        }
    }
    page.trim_end().to_owned()
}
