//! How often guards saw what, counted from the record itself: there is no second book that could say otherwise.

use std::collections::BTreeMap;

use rusqlite::params;
use serde::Serialize;
use serde_json::Value;

use crate::{Reader, StoreError};

/// How much time one row of counts is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// An hour.
    Hour,
    /// A day of UTC.
    Day,
}

/// What was seen in one span of time, of one kind, in what came from one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FindingCount {
    /// When the span begins, in milliseconds since 1970.
    pub from_ms: u64,
    /// The kind, such as `injection`.
    pub kind: String,
    /// Where it came from: `workspace`, `web:` and the machine, `connection:` and its name, or the tool.
    pub source: String,
    /// In how many results.
    pub results: u64,
    /// How many findings.
    pub findings: u64,
}

impl Reader {
    /// What guards saw since this moment, by span, kind and source.
    ///
    /// Records are in the order of time, so the first one of interest is looked for by halves; of the others only those
    /// with findings are read.
    pub fn findings(&self, since_ms: u64, span: Span) -> Result<Vec<FindingCount>, StoreError> {
        let sql = r#"SELECT seq, body, hash FROM records
            WHERE seq >= ?1 AND instr(body, CAST('"findings":[{' AS BLOB)) > 0 ORDER BY seq"#;
        let lines = self.lines(sql, params![self.first_since(since_ms)?])?;
        let mut counts: BTreeMap<(u64, String, String), (u64, u64)> = BTreeMap::new();
        for line in lines {
            let at_ms = line.body["at_ms"].as_u64().unwrap_or_default();
            if at_ms < since_ms {
                continue;
            }
            let outcome = &line.body["outcome"];
            for (kind, findings) in kinds(outcome) {
                let row = counts.entry((span.start(at_ms), kind, source(outcome))).or_default();
                row.0 += 1;
                row.1 += findings;
            }
        }
        let row =
            |((from_ms, kind, source), (results, findings))| FindingCount { from_ms, kind, source, results, findings };
        Ok(counts.into_iter().map(row).collect())
    }

    /// A record before which all are older. Clocks of several processes may differ by a moment, and a clock that is set
    /// back makes this earlier than it has to be, never later by more than that.
    fn first_since(&self, since_ms: u64) -> Result<u64, StoreError> {
        const CLOCKS_DIFFER: u64 = 60_000;
        let wanted = since_ms.saturating_sub(CLOCKS_DIFFER);
        let (mut low, mut high) = (1, self.count()? + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.at_ms(middle)? {
                Some(at_ms) if at_ms < wanted => low = middle + 1,
                Some(_) | None => high = middle,
            }
        }
        Ok(low)
    }

    fn count(&self) -> Result<u64, StoreError> {
        let last = self.lines("SELECT seq, body, hash FROM records ORDER BY seq DESC LIMIT 1", [])?;
        Ok(last.first().map_or(0, |line| line.seq))
    }

    fn at_ms(&self, seq: u64) -> Result<Option<u64>, StoreError> {
        let lines = self.lines("SELECT seq, body, hash FROM records WHERE seq = ?1", params![seq])?;
        Ok(lines.first().and_then(|line| line.body["at_ms"].as_u64()))
    }
}

impl Span {
    fn start(self, at_ms: u64) -> u64 {
        let length = match self {
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
        };
        at_ms - at_ms % length
    }
}

/// The kinds of findings of one outcome, and how many of each.
fn kinds(outcome: &Value) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for finding in outcome["findings"].as_array().into_iter().flatten() {
        *kinds.entry(finding["kind"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    kinds
}

/// Where an outcome's text came from: its first label that names a place, of the web the machine; else the tool.
fn source(outcome: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = outcome["labels"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_place = |label: &&Value| {
        label.as_str().is_some_and(|label| matches!(label, "workspace" | "web") || label.contains(':'))
    };
    let Some(place) = labels.iter().find(is_place) else { return text(&outcome["tool"]) };
    let machine = |effect: &&Value| effect["kind"] == "network" && effect["target"].is_string();
    let machine = outcome["effects"].as_array().into_iter().flatten().find(machine);
    match (place.as_str(), machine) {
        (Some("web"), Some(machine)) => format!("web:{}", text(&machine["target"])),
        _ => text(place),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_source_is_a_place_or_the_tool() {
        let check = |outcome: Value, expected: &str| assert_eq!(source(&outcome), expected, "{outcome}");
        let network = json!([{ "kind": "network", "target": "docs.rs:443" }]);
        check(json!({ "tool": "t", "labels": ["web", "untrusted", "public"], "effects": network }), "web:docs.rs:443");
        check(json!({ "tool": "t", "labels": ["workspace", "trusted", "private"], "effects": [] }), "workspace");
        check(json!({ "tool": "t", "labels": ["connection:forge", "untrusted", "private"] }), "connection:forge");
        check(json!({ "tool": "bash", "labels": ["trusted", "private"] }), "bash");
        check(json!({ "tool": "bash", "labels": [] }), "bash");
    }
}
