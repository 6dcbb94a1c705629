//! Calls, as the record tells of them.
//!
//! A call with effects is two entries, an intent and an end; any other is its end alone. Both are put together here, newest
//! first, by reading backwards: the record has no index, so a look goes only so far and says where the next one starts.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_contract::{AgentName, CallId};

use crate::{Line, Reader, StoreError};

/// Calls on one page at most.
pub const MOST_LISTED: usize = 1_000;

/// One call in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Where in the record it ended, or began if it has not ended.
    pub seq: u64,
    /// When that was, in milliseconds since 1970.
    pub at_ms: u64,
    /// The call.
    pub call: String,
    /// Whose it was.
    pub agent: String,
    /// Of which tool.
    pub tool: String,
    /// `running` where there is no end.
    pub status: String,
    /// Why it did not end well.
    pub code: Option<String>,
    /// What was decided about it.
    pub verdict: Option<String>,
    /// What it amounted to.
    pub action: Option<String>,
    /// Its class.
    pub class: Option<String>,
    /// What was at stake.
    pub risk: Option<String>,
    /// The question people were asked about it.
    pub approval: Option<String>,
    /// How long it took.
    pub elapsed_ms: Option<u64>,
    /// The kinds of what guards saw.
    pub findings: Vec<String>,
    /// What it does to the world: a kind and a target each.
    pub effects: Vec<Value>,
    /// Where its answer came from, whose words it is and for whom.
    pub labels: Vec<String>,
}

/// Which calls.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Of this agent.
    pub agent: Option<String>,
    /// Of this tool.
    pub tool: Option<String>,
    /// That ended like this.
    pub status: Option<String>,
    /// With a finding of this kind, or with `any`.
    pub finding: Option<String>,
    /// From this moment on.
    pub since_ms: Option<u64>,
    /// Up to this moment.
    pub until_ms: Option<u64>,
    /// Only what comes before this entry.
    pub before: Option<u64>,
    /// At most so many; 50 where it is left out, never more than [`MOST_LISTED`].
    pub limit: Option<usize>,
}

impl Filter {
    /// A form sends empty fields for what was left out.
    pub fn without_blanks(mut self) -> Self {
        for field in [&mut self.agent, &mut self.tool, &mut self.status, &mut self.finding] {
            field.take_if(|text| text.is_empty());
        }
        self
    }

    fn fits(&self, call: &Summary) -> bool {
        let is = |wanted: &Option<String>, have: &str| wanted.as_ref().is_none_or(|wanted| wanted == have);
        is(&self.agent, &call.agent)
            && is(&self.tool, &call.tool)
            && is(&self.status, &call.status)
            && self.until_ms.is_none_or(|until| call.at_ms <= until)
            && self.since_ms.is_none_or(|since| call.at_ms >= since)
            && match self.finding.as_deref() {
                None => true,
                Some("any") => !call.findings.is_empty(),
                Some(kind) => call.findings.iter().any(|found| found == kind),
            }
    }
}

/// Some calls, and where to go on.
#[derive(Debug, PartialEq, Serialize)]
pub struct Calls {
    /// The newest first.
    pub calls: Vec<Summary>,
    /// Ask again with this as `before`; null where the record begins.
    pub next: Option<u64>,
}

/// The calls that fit, newest first.
pub fn list(reader: &Reader, filter: &Filter) -> Result<Calls, StoreError> {
    let limit = filter.limit.unwrap_or(50).clamp(1, MOST_LISTED);
    let from = filter.before.unwrap_or(u64::MAX);
    let mut calls: Vec<Summary> = Vec::new();
    let mut full = None;
    let mut look = Look::new(filter.before.is_none());
    let read_to = reader.back(from, |line| {
        let is_older = filter.since_ms.is_some_and(|since| at_ms(&line.body) < since);
        // Once the page is full, only beginnings of calls that are on it are looked for.
        if let Some(call) = look.see(&line)
            && full.is_none_or(|full| call.seq > full)
            && filter.fits(&call)
        {
            calls.push(call);
        }
        if full.is_none() && calls.len() >= limit {
            full = Some(line.seq);
        }
        !((full.is_some() || is_older) && look.is_settled(full))
    })?;
    calls.sort_unstable_by_key(|call| std::cmp::Reverse(call.seq));
    let overflow = calls.len() > limit;
    calls.truncate(limit);
    let next = match calls.last() {
        Some(last) if overflow || full.is_some() => Some(last.seq),
        _ => read_to,
    };
    Ok(Calls { calls, next })
}

/// Puts intents and ends together, read from the newest to the oldest.
struct Look {
    /// Ends whose beginning was not read yet.
    ends: HashMap<String, Summary>,
    /// An intent whose end was not read is a call that runs, or never ended. Not where reading started in the middle:
    /// there its end may be further on.
    from_the_end: bool,
}

impl Look {
    fn new(from_the_end: bool) -> Self {
        Self { ends: HashMap::new(), from_the_end }
    }

    /// Is nothing missing of what came after this entry?
    fn is_settled(&self, after: Option<u64>) -> bool {
        !self.ends.values().any(|end| after.is_none_or(|after| end.seq >= after))
    }

    fn see(&mut self, line: &Line) -> Option<Summary> {
        let body = &line.body;
        match body["kind"].as_str() {
            Some("end") if body["record"].is_null() => {
                let end = summary(line.seq, &Value::Null, Some(body));
                self.ends.insert(end.call.clone(), end);
                None
            }
            Some("end") => Some(summary(line.seq, &body["record"], Some(body))),
            Some("intent") => {
                let begun = summary(line.seq, &body["record"], None);
                match self.ends.remove(&begun.call) {
                    Some(end) => Some(joined(begun, end)),
                    None => self.from_the_end.then_some(begun),
                }
            }
            _ => None,
        }
    }
}

fn joined(begun: Summary, end: Summary) -> Summary {
    Summary {
        agent: begun.agent,
        verdict: begun.verdict,
        action: end.action.or(begun.action),
        class: begun.class,
        risk: end.risk.or(begun.risk),
        ..end
    }
}

fn at_ms(body: &Value) -> u64 {
    body["at_ms"].as_u64().unwrap_or_default()
}

fn summary(seq: u64, record: &Value, end: Option<&Value>) -> Summary {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let outcome = end.map_or(&Value::Null, |end| &end["outcome"]);
    let whole = end.unwrap_or(record);
    let effects = if outcome.is_null() { &record["effects"] } else { &outcome["effects"] };
    let mut findings: Vec<String> = items(&outcome["findings"]).filter_map(|found| text(&found["kind"])).collect();
    findings.sort_unstable();
    findings.dedup();
    Summary {
        seq,
        at_ms: at_ms(whole).max(at_ms(record)),
        call: text(&whole["call"]).unwrap_or_default(),
        agent: text(&record["agent"]).unwrap_or_default(),
        tool: text(&outcome["tool"]).or_else(|| text(&record["tool"])).unwrap_or_default(),
        status: text(&outcome["status"]).unwrap_or_else(|| "running".to_owned()),
        code: text(&outcome["code"]),
        verdict: text(&record["decision"]["verdict"]),
        action: text(&outcome["action"]).or_else(|| text(&record["action"])),
        class: text(&record["class"]),
        risk: text(&outcome["risk"]).or_else(|| text(&record["risk"])),
        approval: text(&outcome["approval"]),
        elapsed_ms: outcome["elapsed_ms"].as_u64(),
        findings,
        effects: items(effects).cloned().collect(),
        labels: items(&outcome["labels"]).filter_map(text).collect(),
    }
}

/// The items of a list; none of what is no list.
pub fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Everything recorded about one call.
#[derive(Debug, Serialize)]
pub struct Whole {
    /// In short.
    pub summary: Summary,
    /// What was asked and decided.
    pub record: Value,
    /// The answer; null while there is none.
    pub outcome: Value,
    /// The size of the raw result, where the record has one.
    pub raw_bytes: Option<u64>,
    /// The entries, each with its place and its hash.
    pub entries: Vec<Line>,
}

/// One call in full. None where nothing is recorded about it.
pub fn whole(reader: &Reader, call: &CallId) -> Result<Option<Whole>, StoreError> {
    Ok(together(reader.show(call)?))
}

/// One call of this agent in full, looked for no further back than a list is. None where it is not there, or somebody
/// else's: whoever asks cannot tell the two apart.
pub fn own(reader: &Reader, agent: &AgentName, call: &CallId) -> Result<Option<Whole>, StoreError> {
    let found = together(reader.show_late(call)?);
    Ok(found.filter(|whole| whole.record["agent"] == *agent.0))
}

fn together(entries: Vec<Line>) -> Option<Whole> {
    let of_kind = |kind: &str| entries.iter().find(|line| line.body["kind"] == kind);
    let (intent, end) = (of_kind("intent"), of_kind("end"));
    let last = end.or(intent)?;
    let body = |line: Option<&Line>, field: &str| line.map_or(Value::Null, |line| line.body[field].clone());
    let record = if intent.is_some() { body(intent, "record") } else { body(end, "record") };
    let mut summary = summary(last.seq, &record, end.map(|line| &line.body));
    summary.at_ms = at_ms(&last.body);
    let raw_bytes = end.and_then(|line| line.body["raw"]["bytes"].as_u64());
    Some(Whole { summary, record, outcome: body(end, "outcome"), raw_bytes, entries })
}

/// The result of a call as the tool gave it, where that is not what the model got.
pub fn raw(reader: &Reader, call: &CallId) -> Result<Option<Vec<u8>>, StoreError> {
    for line in reader.show(call)? {
        if let Some(raw) = reader.raw(&line)? {
            return Ok(Some(raw));
        }
    }
    Ok(None)
}

/// What happened in a span of time, in equal steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tally {
    /// Where the span begins.
    pub since_ms: u64,
    /// Where it ends.
    pub until_ms: u64,
    /// False where the record goes back further than was read.
    pub complete: bool,
    /// The steps, the oldest first.
    pub steps: Vec<Step>,
    /// How often each rule saw something, by kind and rule.
    pub findings: BTreeMap<String, BTreeMap<String, u64>>,
    /// How often calls ended with each code.
    pub by_code: BTreeMap<String, u64>,
}

/// One step of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Step {
    /// Calls that were done.
    pub done: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Calls that wait for people.
    pub pending: u64,
    /// Calls that failed.
    pub failed: u64,
    /// What guards saw.
    pub findings: u64,
    /// How long the middle one took.
    pub p50_ms: u64,
    /// How long the one of twenty took that took longest.
    pub p95_ms: u64,
}

/// Counts the calls of a span.
pub fn tally(reader: &Reader, since_ms: u64, until_ms: u64, steps: usize) -> Result<Tally, StoreError> {
    let width = ((until_ms - since_ms) / steps as u64).max(1);
    let mut counts = vec![Step::default(); steps];
    let mut times: Vec<Vec<u64>> = vec![Vec::new(); steps];
    let (mut findings, mut by_code) = (BTreeMap::<String, BTreeMap<String, u64>>::new(), BTreeMap::new());
    let mut complete = true;
    let stopped = reader.back(u64::MAX, |line| {
        let (body, at) = (&line.body, at_ms(&line.body));
        if at < since_ms {
            return false;
        }
        if body["kind"] != "end" || at > until_ms {
            return true;
        }
        let outcome = &body["outcome"];
        let n = usize::try_from((at - since_ms) / width).unwrap_or(usize::MAX).min(steps - 1);
        let step = &mut counts[n];
        match outcome["status"].as_str() {
            Some("done") => step.done += 1,
            Some("refused") => step.refused += 1,
            Some("pending") => step.pending += 1,
            _ => step.failed += 1,
        }
        times[n].extend(outcome["elapsed_ms"].as_u64());
        if let Some(code) = outcome["code"].as_str() {
            *by_code.entry(code.to_owned()).or_default() += 1;
        }
        for found in items(&outcome["findings"]) {
            step.findings += 1;
            let name = |field: &str| found[field].as_str().unwrap_or("unnamed").to_owned();
            // A room's refusals name what was refused, and there is no end to that.
            let rule = if name("kind") == "egress_refused" { "a connection".to_owned() } else { name("rule") };
            *findings.entry(name("kind")).or_default().entry(rule).or_default() += 1;
        }
        true
    })?;
    if let Some(stopped) = stopped {
        let last = reader.before(stopped + 1, 1)?;
        complete = last.first().is_none_or(|line| at_ms(&line.body) < since_ms);
    }
    for (step, times) in counts.iter_mut().zip(&mut times) {
        times.sort_unstable();
        (step.p50_ms, step.p95_ms) = (share(times, 50), share(times, 95));
    }
    Ok(Tally { since_ms, until_ms, complete, steps: counts, findings, by_code })
}

/// The smallest of these that so many in a hundred do not pass.
fn share(sorted: &[u64], percent: usize) -> u64 {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_slow() {
        let check = |times: &[u64], expected: (u64, u64)| assert_eq!((share(times, 50), share(times, 95)), expected);
        check(&[], (0, 0));
        check(&[7], (7, 7));
        check(&(1..=100).collect::<Vec<_>>(), (50, 95));
        check(&[1, 2, 3, 1_000], (2, 1_000));
    }
}
