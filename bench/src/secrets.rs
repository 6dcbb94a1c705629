//! How many secrets of a labelled set the guard finds, and what it takes for one that is none.

use std::{fmt, path::Path, time::Instant};

use serde::{Deserialize, Serialize};
use toolgate_guard::secrets::find;

use crate::guard::rows;

#[derive(Debug, Serialize)]
pub(crate) struct Secrets {
    /// Hits on rows with a secret: the higher, the better.
    secret: Count,
    /// Hits on rows that come near and have none: the lower, the better.
    clean: Count,
    /// Hits on ordinary text: the lower, the better.
    bulk: Count,
    /// Ordinary text searched in a second.
    megabytes_per_second: f64,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Count {
    hits: usize,
    rows: usize,
}

#[derive(Debug, Deserialize)]
struct Row {
    text: String,
    label: String,
}

impl Secrets {
    pub(crate) fn measure(dir: &Path) -> anyhow::Result<Self> {
        let (mut secret, mut clean, mut bulk) = (Count::default(), Count::default(), Count::default());
        for row in rows::<Row>(dir, "secrets")? {
            if row.label == "secret" { secret.add(&row.text) } else { clean.add(&row.text) }
        }
        let texts = rows::<Row>(dir, "injection_bulk")?;
        let bytes: usize = texts.iter().map(|row| row.text.len()).sum();
        // The first round makes the automaton and the patterns.
        texts.iter().for_each(|row| bulk.add(&row.text));
        let start = Instant::now();
        let found: usize = texts.iter().map(|row| find(&row.text).len()).sum();
        let seconds = start.elapsed().as_secs_f64();
        anyhow::ensure!(found >= bulk.hits, "the second round found less than the first");
        Ok(Self { secret, clean, bulk, megabytes_per_second: bytes as f64 / 1e6 / seconds })
    }
}

impl Count {
    fn add(&mut self, text: &str) {
        self.rows += 1;
        self.hits += usize::from(!find(text).is_empty());
    }
}

impl fmt::Display for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28} {:>6} {:>6} {:>8}", "secrets", "rows", "hits", "percent")?;
        for (name, count) in [("secret", self.secret), ("clean", self.clean), ("bulk", self.bulk)] {
            let percent = 100.0 * count.hits as f64 / count.rows.max(1) as f64;
            writeln!(f, "{name:<28} {:>6} {:>6} {percent:>8.2}", count.rows, count.hits)?;
        }
        writeln!(f, "{:.0} MB of ordinary text in a second", self.megabytes_per_second)
    }
}
