//! How fast a whole result is made fit for the model: credentials, escapes, what nobody sees, orders and caps together, as
//! a call takes them, on one core.

use std::{
    fmt, fs,
    hint::black_box,
    path::{Path, PathBuf},
    time::Instant,
};

use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::Caps;
use toolgate_guard::{
    clean::{self, result},
    injection,
    secrets::{self, Redactor},
};

use crate::guard::rows;

/// Lengths of the one long text, in MB, to show that the time grows with the length and no faster.
const LENGTHS: [usize; 3] = [1, 10, 100];

#[derive(Debug, Serialize)]
pub(crate) struct Clean {
    /// Ordinary results, one by one.
    results: Vec<Speed>,
    /// One long text.
    lengths: Vec<Speed>,
    /// What each part takes, on the ordinary results that are prose.
    parts: Vec<Speed>,
}

#[derive(Debug, Serialize)]
struct Speed {
    what: String,
    megabytes: f64,
    megabytes_per_second: f64,
}

#[derive(Debug, Deserialize)]
struct Row {
    text: String,
}

impl Clean {
    pub(crate) fn measure(dir: &Path) -> anyhow::Result<Self> {
        let prose: Vec<String> = rows::<Row>(dir, "injection_bulk")?.into_iter().map(|row| row.text).collect();
        let source = sources()?;
        let whole = |text: &String| _ = black_box(whole(text));
        let results = vec![speed("prose", &prose, whole), speed("source", &source, whole)];
        // Orders and credentials are fenced, hashed, kept and searched for again; ordinary text has none.
        let both: String = prose.iter().chain(&source).filter(|text| is_ordinary(text)).map(String::as_str).collect();
        let lengths = LENGTHS.map(|length| speed("one text", &[long(&both, length * 1_000_000)], whole));
        let parts = vec![
            speed("credentials", &prose, |text| _ = black_box(secrets::find(text))),
            speed("escapes and what is hidden", &prose, |text| _ = black_box(clean::clean(text))),
            speed("orders", &prose, |text| _ = black_box(injection::judge(text))),
        ];
        Ok(Self { results, lengths: lengths.into(), parts })
    }
}

/// The step as a call takes it: the text, and a structured value that has the same in it.
fn whole(text: &str) -> result::Cleaned {
    const REDACTOR: Redactor = Redactor { key: [7; 32], personal: false };
    // A result within its caps is the usual one; what is over them is cut, and there is less to do.
    let caps = Caps { output_bytes: usize::MAX, output_lines: usize::MAX, ..Caps::DEFAULT };
    let answer = result::Answer { text: text.to_owned(), structured: json!({ "content": text }), truncated: None };
    result::clean(answer, &caps, Some("workspace"), &REDACTOR)
}

/// Does it come out as it went in?
fn is_ordinary(text: &str) -> bool {
    let cleaned = whole(text);
    cleaned.raw.is_none() && cleaned.findings.is_empty()
}

/// The best of a few rounds, of which the first makes the tables.
fn speed(what: &str, texts: &[String], work: impl Fn(&String)) -> Speed {
    let bytes: usize = texts.iter().map(String::len).sum();
    let round = || {
        let start = Instant::now();
        texts.iter().for_each(&work);
        start.elapsed().as_secs_f64()
    };
    let rounds = if bytes > 50_000_000 { 2 } else { 5 };
    let best = (0..rounds).map(|_| round()).fold(f64::INFINITY, f64::min);
    let megabytes = bytes as f64 / 1e6;
    Speed { what: what.to_owned(), megabytes, megabytes_per_second: megabytes / best }
}

/// The text again and again, up to a length.
fn long(text: &str, length: usize) -> String {
    let mut long = text.repeat(length / text.len().max(1) + 1);
    long.truncate(long.floor_char_boundary(length));
    long
}

/// The sources of this workspace.
fn sources() -> anyhow::Result<Vec<String>> {
    let mut dirs: Vec<PathBuf> = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")];
    let mut sources = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(fs::read_to_string(path)?);
            }
        }
    }
    Ok(sources)
}

impl fmt::Display for Clean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28} {:>8} {:>8}", "clean step", "MB", "MB/s")?;
        for Speed { what, megabytes, megabytes_per_second } in
            self.results.iter().chain(&self.lengths).chain(&self.parts)
        {
            writeln!(f, "{what:<28} {megabytes:>8.1} {megabytes_per_second:>8.0}")?;
        }
        Ok(())
    }
}
