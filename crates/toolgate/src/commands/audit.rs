//! `toolgate audit`: the record.

use std::{
    io::{BufWriter, IsTerminal, Write, stderr, stdout},
    path::Path,
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolgate_contract::CallId;
use toolgate_runtime::store::{Line, Reader, Report, verify};

use crate::{commands::findings::Findings, problem::Problem, setup::Place, show};

/// Look into the record of calls, prove it, copy it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate audit tail 50
  toolgate audit verify
  toolgate audit findings --since 7d
  toolgate audit export > record.jsonl")]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The last records
    Tail {
        /// How many
        #[arg(default_value_t = 20, value_name = "N")]
        count: u32,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// Everything recorded about one call, or about one approval, grant, effect or agent
    Show {
        /// The call's id, as its outcome names it, or that of what people decided about
        call: String,
        /// Decrypt the result as it was before it was cut, and print that
        #[arg(long)]
        raw: bool,
    },
    /// Read every byte of the record and say what was changed, dropped, added or cut
    ///
    /// Exits 0 if nothing was. Calls that were begun and never ended are listed: nobody knows how far they got.
    Verify {
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    Findings(Findings),
    /// Copy the record as JSON lines: the SHA-256 of each line is what the next one names as `prev`
    Export {
        /// Start at this record
        #[arg(long, default_value_t = 1, value_name = "SEQ")]
        from: u64,
    },
}

impl Audit {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        let dir = place.data_dir()?;
        match self.command {
            Command::Tail { count, json } => tail(&dir, count, json),
            Command::Show { call, raw } => about(&dir, &CallId(call), raw),
            Command::Verify { json } => prove(&dir, json),
            Command::Findings(findings) => findings.run(&dir),
            Command::Export { from } => export(&dir, from),
        }
    }
}

fn tail(dir: &Path, count: u32, json: bool) -> Result<ExitCode, Problem> {
    let lines = Reader::open(dir)?.tail(count)?;
    if show::wants_json(json) {
        show::json(&lines)?;
    } else {
        let heads = ["SEQ", "WHEN", "WHAT", "AGENT", "TOOL", "ENDED", "CALL"];
        show::table(heads, lines.iter().map(row))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One record as a row for people.
fn row(line: &Line) -> [String; 7] {
    let body = &line.body;
    // A name may be as long as a message; the page stays readable.
    let text = |value: &Value| value.as_str().unwrap_or_default().chars().take(40).collect::<String>();
    let note = &body["note"];
    if !note.is_null() {
        let by = ["person", "agent"].map(|kind| text(&note["by"][kind])).concat();
        let at = body["at_ms"].as_i64().map(when).unwrap_or_default();
        let none = String::new;
        return [line.seq.to_string(), at, text(&note["kind"]), by, none(), none(), text(&note["subject"])];
    }
    let ended = match (text(&body["outcome"]["status"]), text(&body["outcome"]["code"])) {
        (status, code) if code.is_empty() => status,
        (status, code) => format!("{status}: {code}"),
    };
    [
        line.seq.to_string(),
        body["at_ms"].as_i64().map(when).unwrap_or_default(),
        text(&body["kind"]),
        text(&body["record"]["agent"]),
        Some(text(&body["record"]["tool"]))
            .filter(|tool| !tool.is_empty())
            .unwrap_or_else(|| text(&body["outcome"]["tool"])),
        ended,
        text(&body["call"]),
    ]
}

fn when(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).map_or_else(|_| at_ms.to_string(), |at| at.strftime("%F %T").to_string())
}

fn about(dir: &Path, call: &CallId, raw: bool) -> Result<ExitCode, Problem> {
    let reader = Reader::open(dir)?;
    let lines = reader.show(call)?;
    if lines.is_empty() {
        return Err(Problem::usage(format!("nothing is recorded about `{}`", call.0.escape_debug())));
    }
    if !raw {
        show::json(&lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    if stdout().is_terminal() {
        return Err(Problem::usage(
            "a raw result may hold anything, also what steers a terminal: send it to a file or a pipe",
        ));
    }
    for line in &lines {
        if let Some(raw) = reader.raw(line)? {
            stdout().write_all(&raw)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    Err(Problem::usage("the result was not cut: the record shows all of it (leave out --raw)"))
}

fn prove(dir: &Path, json: bool) -> Result<ExitCode, Problem> {
    let watched = stderr().is_terminal();
    let report = verify(dir, &mut |done, total| {
        if watched {
            anstream::eprint!("\r{done} of {total} records");
        }
    })?;
    if watched {
        anstream::eprint!("\r\x1b[K");
    }
    if show::wants_json(json) {
        let mut page = json!(report);
        page["sound"] = json!(report.is_sound());
        show::json(&page)?;
    } else {
        show::line(&verdict(&report))?;
    }
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The report as a page for people.
fn verdict(report: &Report) -> String {
    let mut page = String::new();
    for problem in &report.problems {
        let record = problem.seq.map(|seq| format!("record {seq}: ")).unwrap_or_default();
        let call = problem.call.as_ref().map(|call| format!(" (call {})", call.escape_debug())).unwrap_or_default();
        page += &format!("{record}{}{call}\n", problem.what);
    }
    for open in &report.open_intents {
        let (agent, tool) = (open.agent.escape_debug(), open.tool.escape_debug());
        page += &format!(
            "record {}: {agent} began {tool} and it never ended (call {})\n",
            open.seq,
            open.call.escape_debug()
        );
    }
    page += &format!("{} records, {} checkpoints, signed by {}\n", report.records, report.checkpoints, report.key);
    page + &match report.problem_count {
        0 => "nothing is missing and nothing was changed".to_owned(),
        count => format!("{count} problems: do not trust this record"),
    }
}

fn export(dir: &Path, from: u64) -> Result<ExitCode, Problem> {
    let mut out = BufWriter::new(stdout().lock());
    let mut gone = false;
    let copied = Reader::open(dir)?.export(from, |body| {
        out.write_all(body).and_then(|()| out.write_all(b"\n")).inspect_err(|error| gone = show::reader_left(error))
    });
    match copied {
        Ok(_) => out.flush().or_else(|error| if show::reader_left(&error) { Ok(()) } else { Err(error) })?,
        Err(_) if gone => {}
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use toolgate_contract::Digest;

    use super::*;

    #[test]
    fn a_note_says_who_did_what_to_what() {
        let check = |by: Value, expected: &str| {
            let note = json!({ "kind": "vote", "by": by, "subject": "apr_1", "detail": {} });
            let line =
                Line { seq: 7, hash: Digest::of(b""), body: json!({ "at_ms": 0, "kind": "note", "note": note }) };
            assert_eq!(row(&line), ["7", "1970-01-01 00:00:00", "vote", expected, "", "", "apr_1"]);
        };
        check(json!({ "person": "user:jo" }), "user:jo");
        check(json!({ "agent": "coder" }), "coder");
        check(Value::Null, "");
    }
}
