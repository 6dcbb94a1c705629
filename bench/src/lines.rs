//! What the program itself answers on labelled lines: `toolgate scan --jsonl` and `toolgate flow --jsonl`.
//!
//! These sets are judged from outside, because a row is right only if what comes out of the program is what was wanted.

use std::{
    fmt,
    io::{Read as _, Write as _},
    path::Path,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context as _, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use crate::guard::rows;

#[derive(Debug, Serialize)]
pub(crate) struct Lines {
    ansi: Exact,
    unicode: Exact,
    names: Exact,
    flow: Flow,
    flow_strict: Flow,
}

/// Rows whose answer is the wanted one.
#[derive(Debug, Clone, Copy, Serialize)]
struct Exact {
    exact: usize,
    rows: usize,
    /// Answers with a control character in them.
    leaks: usize,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Flow {
    /// Attacks that end in an effect, and those of them that a person is asked about.
    attacks: usize,
    stopped: usize,
    benign: usize,
    asked: usize,
}

impl Lines {
    pub(crate) fn measure(toolgate: &Path, dir: &Path) -> anyhow::Result<Self> {
        let traces = rows::<Value>(dir, "agentdojo_traces")?;
        Ok(Self {
            ansi: cleaned(toolgate, &rows(dir, "ansi")?)?,
            unicode: cleaned(toolgate, &rows(dir, "unicode")?)?,
            names: names(toolgate, &rows(dir, "homoglyph_pairs")?)?,
            flow: flow(toolgate, &traces, &["flow", "--jsonl"])?,
            flow_strict: flow(toolgate, &traces, &["flow", "--jsonl", "--strict"])?,
        })
    }
}

fn cleaned(toolgate: &Path, rows: &[Value]) -> anyhow::Result<Exact> {
    let texts: Vec<Value> = rows.iter().map(|row| json!({ "text": row["input"] })).collect();
    let answers = answers(toolgate, &["scan", "--kind", "result", "--jsonl"], &texts)?;
    let is_right = |row: &Value, answer: &Value| {
        let is_told = answer["findings"].as_array().is_some_and(|found| !found.is_empty());
        answer["cleaned"] == row["expected"] && (is_told || row["must_flag"] != true)
    };
    let leaks = |answer: &Value| {
        let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        answer["cleaned"].as_str().is_none_or(|text| text.contains(is_control))
    };
    Ok(Exact {
        exact: rows.iter().zip(&answers).filter(|(row, answer)| is_right(row, answer)).count(),
        rows: rows.len(),
        leaks: answers.iter().filter(|answer| leaks(answer)).count(),
    })
}

fn names(toolgate: &Path, rows: &[Value]) -> anyhow::Result<Exact> {
    let answers = answers(toolgate, &["scan", "--kind", "names", "--jsonl"], rows)?;
    let exact = rows.iter().zip(&answers).filter(|(row, answer)| answer["collide"] == row["collide"]).count();
    Ok(Exact { exact, rows: rows.len(), leaks: 0 })
}

fn flow(toolgate: &Path, traces: &[Value], arguments: &[&str]) -> anyhow::Result<Flow> {
    let mut counted = Flow::default();
    for (trace, answer) in traces.iter().zip(answers(toolgate, arguments, traces)?) {
        let decisions = answer["decisions"].as_array().context("an answer without decisions")?;
        let is_asked = decisions.iter().any(|decision| decision != "allow");
        let attack = trace["attack_calls"].as_array();
        if trace["kind"] == "benign" {
            counted.benign += 1;
            counted.asked += usize::from(is_asked);
        } else if attack.is_some_and(|calls| calls.iter().any(|call| call["cls"] == "write")) {
            counted.attacks += 1;
            counted.stopped += usize::from(is_asked);
        }
    }
    Ok(counted)
}

/// One answer for each line.
fn answers(toolgate: &Path, arguments: &[&str], lines: &[Value]) -> anyhow::Result<Vec<Value>> {
    let mut program = Command::new(toolgate).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = program.stdin.take().context("no way in")?;
    let said: String = lines.iter().map(|line| format!("{line}\n")).collect();
    // It answers while it reads.
    let writer = thread::spawn(move || stdin.write_all(said.as_bytes()));
    let mut text = String::new();
    program.stdout.take().context("no way out")?.read_to_string(&mut text)?;
    writer.join().map_err(|_| anyhow::anyhow!("the lines were not written"))??;
    let status = program.wait()?;
    ensure!(status.success(), "`toolgate {}` ended with {status}", arguments.join(" "));
    let answers: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(answers.len() == lines.len(), "{} answers to {} lines", answers.len(), lines.len());
    Ok(answers)
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28} {:>6} {:>6} {:>8}", "as wanted", "rows", "exact", "leaks")?;
        for (name, it) in [("escapes", self.ansi), ("hidden characters", self.unicode), ("names", self.names)] {
            writeln!(f, "{name:<28} {:>6} {:>6} {:>8}", it.rows, it.exact, it.leaks)?;
        }
        writeln!(f, "\n{:<28} {:>6} {:>6} {:>8}", "flow", "rows", "asked", "percent")?;
        for (mode, it) in [("", self.flow), (", strict", self.flow_strict)] {
            let mut line = |name: String, asked: usize, rows: usize| {
                let percent = 100.0 * asked as f64 / rows.max(1) as f64;
                writeln!(f, "{name:<28} {rows:>6} {asked:>6} {percent:>8.2}")
            };
            line(format!("attacks with an effect{mode}"), it.stopped, it.attacks)?;
            line(format!("benign tasks{mode}"), it.asked, it.benign)?;
        }
        Ok(())
    }
}
