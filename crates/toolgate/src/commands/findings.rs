//! `toolgate audit findings`: how often guards saw what, from where, over time.

use std::{collections::BTreeMap, path::Path, process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use serde_json::json;
use toolgate_guard::owasp::Kind;
use toolgate_runtime::store::{FindingCount, Reader, Span};

use crate::{problem::Problem, show};

/// How often guards saw orders, hidden text, credentials and the like in results, by time, kind and source
///
/// Counted from the record itself. A result with several findings of one kind counts once among RESULTS.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate audit findings
  toolgate audit findings --since 36h --by hour --json")]
pub(crate) struct Findings {
    /// How far back: a number and `m`, `h`, `d` or `w`; everything when it is left out
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,
    /// One row for each hour or each day (UTC)
    #[arg(long, value_enum, default_value_t = By::Day)]
    by: By,
    /// Print JSON, also on a terminal
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Hour,
    Day,
}

impl Findings {
    pub(crate) fn run(self, dir: &Path) -> Result<ExitCode, Problem> {
        let now = jiff::Timestamp::now().as_millisecond();
        let back = self.since.map(|since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        let since = back.map_or(0, |back| now.saturating_sub(back).max(0));
        let span = match self.by {
            By::Hour => Span::Hour,
            By::Day => Span::Day,
        };
        let counts = Reader::open(dir)?.findings(u64::try_from(since).unwrap_or(0), span)?;
        let totals = totals(&counts);
        if show::wants_json(self.json) {
            show::json(&json!({ "by": span, "since_ms": since, "counts": counts, "totals": totals }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let rows = counts.iter().map(|count| {
            let FindingCount { from_ms, kind, source, results, findings } = count;
            let kind = show::plain(kind).into_owned();
            [self.when(*from_ms), kind, show::plain(source).into_owned(), results.to_string(), findings.to_string()]
        });
        show::table(["FROM", "KIND", "SOURCE", "RESULTS", "FINDINGS"], rows)?;
        for (counter, results) in totals {
            show::line(&format!("{counter} {results}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn when(&self, from_ms: u64) -> String {
        let form = match self.by {
            By::Hour => "%F %H:00",
            By::Day => "%F",
        };
        let at = i64::try_from(from_ms).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
        at.map_or_else(|| from_ms.to_string(), |at| at.strftime(form).to_string())
    }
}

/// In how many results each kind was seen, by the name of its counter.
fn totals(counts: &[FindingCount]) -> BTreeMap<String, u64> {
    let mut totals = BTreeMap::new();
    for count in counts {
        let known = Kind::ALL.into_iter().find(|kind| kind.as_str() == count.kind);
        let counter = known.map_or_else(|| count.kind.clone(), |kind| kind.counter().to_owned());
        *totals.entry(counter).or_default() += count.results;
    }
    totals
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number and `m`, `h`, `d` or `w`, such as `36h`".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number: u64 = text.strip_suffix(unit).and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
    let seconds = match unit {
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(wrong()),
    };
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(duration(text).ok().map(|duration| duration.as_secs()), expected, "{text}");
        };
        check("90m", Some(5_400));
        check("36h", Some(129_600));
        check("2d", Some(172_800));
        check("1w", Some(604_800));
        for wrong in ["", "h", "1", "1s", "-1h", "1.5h", "99999999999999999999h", "1h ", "1é"] {
            check(wrong, None);
        }
    }
}
