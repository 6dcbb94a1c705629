//! `toolgate scan`: what the guard sees in a text, a definition or a pair of names.

use std::{
    io::{BufRead, Read as _, Write, stdin, stdout},
    ops::Range,
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use toolgate_guard::{
    clean, definition,
    injection::{self, Verdict},
    names, owasp, secrets,
};

use crate::{problem::Problem, show};

/// Say what the guard sees in a text: escapes, hidden characters, orders, secrets
///
/// Nothing is changed. The answer says what is in the text and how a model would be given it. The exit status is 0 for a
/// clean text and 3 for any other.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate scan page.txt
  curl -s https://example.org/ | toolgate scan -
  toolgate scan --kind definition tool.json
  toolgate scan --kind secret --jsonl < lines.jsonl

A line in and a line out, with --jsonl:
  result, secret   {\"text\"}
  definition       the definition of a tool, or a list of them as {\"tools\"}
  names            {\"a\", \"b\"}")]
pub(crate) struct Scan {
    /// What it is
    #[arg(long, value_enum, default_value_t = Kind::Result)]
    kind: Kind,
    /// The file; standard input when it is left out or `-`
    #[arg(conflicts_with = "jsonl")]
    file: Option<PathBuf>,
    /// Read one JSON object per line from standard input, print one answer per line
    #[arg(long)]
    jsonl: bool,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// What a tool gave back
    Result,
    /// The definition of a tool, as JSON
    Definition,
    /// A text that may hold credentials
    Secret,
    /// Two names: could one be taken for the other? As {"a", "b"}
    Names,
}

impl Scan {
    pub(crate) fn run(self) -> Result<ExitCode, Problem> {
        if self.jsonl {
            return lines(self.kind);
        }
        let mut bytes = Vec::new();
        match &self.file {
            Some(file) if file.as_os_str() != "-" => {
                bytes = std::fs::read(file).map_err(|error| Problem::usage(format!("{}: {error}", file.display())))?;
            }
            Some(_) | None => _ = stdin().lock().read_to_end(&mut bytes)?,
        }
        let text = clean::escape::decode(&bytes);
        let subject = match self.kind {
            Kind::Result | Kind::Secret => json!({ "text": text }),
            Kind::Definition | Kind::Names => {
                serde_json::from_str(&text).map_err(|error| Problem::usage(format!("this is not JSON: {error}")))?
            }
        };
        let answer = answer(self.kind, &subject);
        if self.json {
            show::json(&answer)?;
        } else {
            show::line(&page(&answer))?;
        }
        let is_clean = answer["verdict"] == "clean" || answer["collide"] == false;
        Ok(ExitCode::from(if is_clean { 0 } else { 3 }))
    }
}

/// One answer for every line, in order. A line that cannot be read is answered, and never with a yes.
fn lines(kind: Kind) -> Result<ExitCode, Problem> {
    let mut out = stdout().lock();
    for line in stdin().lock().split(b'\n') {
        let line = line?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = match serde_json::from_slice::<Value>(&line) {
            Ok(subject) => answer(kind, &subject),
            Err(error) => refusal(&format!("this is not JSON: {error}")),
        };
        match writeln!(out, "{answer}") {
            Err(error) if show::reader_left(&error) => return Ok(ExitCode::SUCCESS),
            other => other?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(kind: Kind, subject: &Value) -> Value {
    let text = |key: &str| subject.get(key).and_then(Value::as_str);
    match kind {
        Kind::Result => text("text").map_or_else(|| refusal("there is no `text`"), result),
        Kind::Secret => text("text").map_or_else(|| refusal("there is no `text`"), secret),
        Kind::Definition => of_definition(subject),
        Kind::Names => match (text("a"), text("b")) {
            (Some(a), Some(b)) => {
                let why = names::collide(a, b);
                json!({ "collide": why.is_some(), "why": why.map(|why| why.as_str()) })
            }
            _ => json!({ "collide": true, "why": "there are no `a` and `b`" }),
        },
    }
}

fn refusal(why: &str) -> Value {
    json!({ "verdict": "malicious", "findings": [], "cleaned": "", "error": why })
}

fn result(text: &str) -> Value {
    let (seen, hidden) = clean::clean(text);
    let judged = injection::judge(&seen);
    let kind = |kind| match kind {
        clean::Kind::Escape => owasp::Kind::Escape,
        clean::Kind::HiddenText => owasp::Kind::HiddenText,
    };
    let mut findings: Vec<Value> =
        hidden.iter().map(|it| found(kind(it.kind), it.rule, &it.span, &redacted(&it.detail))).collect();
    findings.extend(judged.hits.iter().map(|hit| found(owasp::Kind::Injection, hit.rule, &hit.span, &hit.detail)));
    findings.extend(secrets::find(&seen).iter().map(secret_found));
    json!({ "verdict": word(judged.verdict), "findings": findings, "cleaned": redacted(&seen) })
}

fn secret(text: &str) -> Value {
    let found = secrets::find(text);
    let verdict = if found.is_empty() { "clean" } else { "suspicious" };
    let findings: Vec<Value> = found.iter().map(secret_found).collect();
    json!({ "verdict": verdict, "findings": findings, "cleaned": redacted(text) })
}

fn secret_found(secret: &secrets::Secret) -> Value {
    found(owasp::Kind::Secret, secret.rule, &secret.span, secret.kind)
}

fn found(kind: owasp::Kind, rule: &str, span: &Range<usize>, detail: &str) -> Value {
    let owasp = owasp::of(kind, rule);
    json!({ "kind": kind.as_str(), "rule": rule, "owasp": owasp, "span": [span.start, span.end], "detail": detail })
}

/// The text without its secrets. Tags tell equal from unequal within one run and mean nothing beyond it.
fn redacted(text: &str) -> String {
    let redactor = secrets::Redactor { key: key_of_this_run(), personal: false };
    redactor.redact(text).0.into_owned()
}

fn key_of_this_run() -> [u8; 32] {
    static KEY: std::sync::OnceLock<[u8; 32]> = std::sync::OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = [0; 32];
        // Without chance tags can be guessed, and so they are all the same then.
        if getrandom::fill(&mut key).is_err() {
            key = [0; 32];
        }
        key
    })
}

/// One definition, or what a server lists: `{"tools": [..]}`. A list is as bad as the worst in it, and two names in it
/// that would be taken for one another are no better.
fn of_definition(definition: &Value) -> Value {
    let list = definition.get("tools").and_then(Value::as_array);
    let tools: Vec<(String, &Value)> = match list {
        Some(tools) => tools.iter().enumerate().map(|(index, tool)| (format!("/tools/{index}"), tool)).collect(),
        None => vec![(String::new(), definition)],
    };
    let mut verdict = Verdict::Clean;
    let mut findings = Vec::new();
    let mut tell = |rule: &str, at: String, detail: &str| {
        let mut told = found(owasp::Kind::Definition, rule, &(0..0), detail);
        told["at"] = json!(at);
        findings.push(told);
    };
    for (at, tool) in &tools {
        let signs = definition::scan(tool);
        verdict = verdict.max(definition::verdict(&signs));
        signs.iter().for_each(|sign| tell(sign.rule, format!("{at}{}", sign.at), &sign.detail));
    }
    let names: Vec<&str> = tools.iter().map(|(_, tool)| tool["name"].as_str().unwrap_or_default()).collect();
    for (other, one, why) in definition::collisions(&names) {
        verdict = Verdict::Malicious;
        tell("confusable_name", format!("{}/name", tools[one].0), &format!("`{}` before it: {why}", names[other]));
    }
    json!({ "verdict": word(verdict), "findings": findings, "cleaned": definition })
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Clean => "clean",
        Verdict::Suspicious => "suspicious",
        Verdict::Malicious => "malicious",
    }
}

fn page(answer: &Value) -> String {
    if let Some(collide) = answer.get("collide") {
        let why = answer["why"].as_str().unwrap_or("nothing speaks for it");
        return format!("{}: {why}", if *collide == true { "one could be taken for the other" } else { "they differ" });
    }
    let mut page = answer["verdict"].as_str().unwrap_or_default().to_owned();
    for found in answer["findings"].as_array().into_iter().flatten() {
        let text = |key: &str| show::plain(found[key].as_str().unwrap_or_default()).into_owned();
        let at = if found["at"].is_string() { text("at") } else { found["span"].to_string() };
        page += &format!("\n  {:<12} {} {:<24} {at}  {}", text("kind"), text("owasp"), text("rule"), text("detail"));
    }
    page
}
