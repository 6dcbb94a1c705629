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
        // Orders and credentials are fenced, hashed, kept and searched for again; ordinary text has none.
        let ordinary =
            |texts: Vec<String>| -> Vec<String> { texts.into_iter().filter(|text| is_ordinary(text)).collect() };
        let prose = ordinary(rows::<Row>(dir, "injection_bulk")?.into_iter().map(|row| row.text).collect());
        let source = ordinary(sources()?);
        let whole = |what, texts: &[String]| speed(what, texts, answer, |answer| _ = black_box(whole(answer)));
        let results = vec![whole("prose", &prose), whole("source", &source)];
        let joined = prose.join("\n");
        let lengths = LENGTHS.map(|length| whole("one text", &[long(&joined, length * 1_000_000)]));
        let part = |what, work: fn(&str)| speed(what, &prose, |text| text, work);
        let parts = vec![
            part("credentials", |text| _ = black_box(secrets::find(text))),
            part("escapes and what is hidden", |text| _ = black_box(clean::clean(text))),
            part("orders", |text| _ = black_box(injection::judge(text))),
        ];
        Ok(Self { results, lengths: lengths.into(), parts })
    }
}

/// What a tool gives: the text, and a structured value that has the same in it.
fn answer(text: &str) -> result::Answer {
    result::Answer { text: text.to_owned(), structured: json!({ "content": text }), truncated: None }
}

/// The step as a call takes it.
fn whole(answer: result::Answer) -> result::Cleaned {
    const REDACTOR: Redactor = Redactor { key: [7; 32], personal: false };
    // A result within its caps is the usual one; what is over them is cut, and there is less to do.
    let caps = Caps { output_bytes: usize::MAX, output_lines: usize::MAX, ..Caps::DEFAULT };
    result::clean(answer, &caps, Some("workspace"), &REDACTOR)
}

/// Does it come out as it went in?
fn is_ordinary(text: &str) -> bool {
    let cleaned = whole(answer(text));
    cleaned.raw.is_none() && cleaned.findings.is_empty()
}

/// The best of a few rounds, of which the first makes the tables. What is worked on is made before.
fn speed<'t, T>(what: &str, texts: &'t [String], make: impl Fn(&'t str) -> T, work: impl Fn(T)) -> Speed {
    let bytes: usize = texts.iter().map(String::len).sum();
    let round = || {
        let made: Vec<T> = texts.iter().map(|text| make(text)).collect();
        let start = Instant::now();
        made.into_iter().for_each(&work);
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
