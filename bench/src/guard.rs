//! What the guard sees and what it takes for something it is not, on labelled data that is kept outside the repository.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::Context as _;
use clap::Args;
use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use toolgate_guard::injection::{self, Verdict};

use crate::{Programs, clean::Clean, lines::Lines, secrets::Secrets};

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// The directory with the labelled sets, gzipped JSON lines
    dir: PathBuf,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Kinds that hold bare instructions or harmful requests: text alone does not tell those from ordinary ones.
const OUT_OF_SCOPE: &[&str] = &["atr_model-abuse", "injection_string", "tool_output"];

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    lines: Lines,
    injection: Injection,
    secrets: Secrets,
    clean: Clean,
}

pub(crate) fn measure(programs: &Programs, options: &Options) -> anyhow::Result<Report> {
    let dir = &options.dir;
    Ok(Report {
        lines: Lines::measure(&programs.toolgate, dir)?,
        injection: Injection::measure(dir)?,
        secrets: Secrets::measure(dir)?,
        clean: Clean::measure(dir)?,
    })
}

#[derive(Debug, Serialize)]
struct Injection {
    /// Hits per kind of attack: the higher, the better.
    attacks: BTreeMap<String, Count>,
    /// All attacks of a kind that is in scope.
    in_scope: Count,
    /// Hits on text that is none: the lower, the better.
    benign: Count,
    hard_negatives: Count,
    bulk: Count,
    /// Ordinary text judged in a second.
    megabytes_per_second: f64,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Count {
    hits: usize,
    malicious: usize,
    rows: usize,
}

impl Count {
    fn add(&mut self, verdict: Verdict) {
        self.rows += 1;
        self.hits += usize::from(verdict > Verdict::Clean);
        self.malicious += usize::from(verdict == Verdict::Malicious);
    }

    fn percent(self) -> f64 {
        100.0 * self.hits as f64 / self.rows.max(1) as f64
    }
}

impl Injection {
    fn measure(dir: &Path) -> anyhow::Result<Self> {
        let mut attacks: BTreeMap<String, Count> = BTreeMap::new();
        let mut in_scope = Count::default();
        for row in rows::<Row>(dir, "injection_attacks")? {
            let verdict = injection::judge(&row.text).verdict;
            if !OUT_OF_SCOPE.contains(&row.kind.as_str()) {
                in_scope.add(verdict);
            }
            attacks.entry(row.kind).or_default().add(verdict);
        }
        let bulk: Vec<Row> = rows(dir, "injection_bulk")?;
        let bytes: usize = bulk.iter().map(|row| row.text.len()).sum();
        let start = Instant::now();
        let judged = count(&bulk);
        let seconds = start.elapsed().as_secs_f64();
        Ok(Self {
            attacks,
            in_scope,
            benign: count(&rows(dir, "injection_benign")?),
            hard_negatives: count(&rows(dir, "injection_hard_negatives")?),
            bulk: judged,
            megabytes_per_second: bytes as f64 / 1e6 / seconds,
        })
    }
}

fn count(rows: &[Row]) -> Count {
    let mut count = Count::default();
    for row in rows {
        count.add(injection::judge(&row.text).verdict);
    }
    count
}

#[derive(Debug, Deserialize)]
struct Row {
    text: String,
    kind: String,
}

pub(crate) fn rows<T: DeserializeOwned>(dir: &Path, name: &str) -> anyhow::Result<Vec<T>> {
    let path = dir.join(format!("{name}.jsonl.gz"));
    let mut text = String::new();
    GzDecoder::new(File::open(&path).with_context(|| path.display().to_string())?).read_to_string(&mut text)?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.lines)?;
        let injection = &self.injection;
        writeln!(f, "{:<28} {:>6} {:>6} {:>10} {:>8}", "injection", "rows", "hits", "malicious", "percent")?;
        let mut line = |name: &str, count: Count| {
            writeln!(
                f,
                "{name:<28} {:>6} {:>6} {:>10} {:>8.2}",
                count.rows,
                count.hits,
                count.malicious,
                count.percent()
            )
        };
        for (kind, count) in &injection.attacks {
            line(kind, *count)?;
        }
        line("attacks in scope", injection.in_scope)?;
        line("benign", injection.benign)?;
        line("hard negatives", injection.hard_negatives)?;
        line("bulk", injection.bulk)?;
        writeln!(f, "{:.0} MB of ordinary text in a second\n", injection.megabytes_per_second)?;
        writeln!(f, "{}", self.secrets)?;
        write!(f, "{}", self.clean)
    }
}
