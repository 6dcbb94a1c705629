//! The first page: the last day in charts, and what guards saw.

use askama::Template;
use axum::{Extension, extract::State};

use super::{Frame, Page, render};
use crate::{
    Shared,
    caller::Caller,
    chart::{self, Series},
    now_ms,
    record::{self, Step, Tally},
    text::Text,
};

const HOURS: u64 = 24;
const STEPS: usize = 48;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    tally: Tally,
    calls: u64,
    denied: u64,
    waiting: u64,
    found: u64,
    calls_chart: String,
    denials_chart: String,
    findings_chart: String,
    latency_chart: String,
    findings: Vec<(Text, Text, u64)>,
    codes: Vec<(Text, u64)>,
}

pub(super) async fn page(State(shared): State<Shared>, Extension(caller): Extension<Caller>) -> Page {
    let until = now_ms();
    let since = until.saturating_sub(HOURS * 3_600_000);
    let tally = shared.read(move |reader| record::tally(reader, since, until, STEPS)).await?;
    let series = |name, of: fn(&Step) -> u64| Series { name, values: tally.steps.iter().map(of).collect() };
    let sum = |of: fn(&Step) -> u64| tally.steps.iter().map(of).sum::<u64>();
    let mut codes: Vec<_> = tally.by_code.iter().map(|(code, count)| (Text(code.clone()), *count)).collect();
    codes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    codes.truncate(12);
    let findings = tally
        .findings
        .iter()
        .flat_map(|(kind, rules)| rules.iter().map(|(rule, count)| (Text(kind.clone()), Text(rule.clone()), *count)));
    render(&Overview {
        frame: Frame::new("Overview", "overview", &caller),
        calls: sum(|step| step.done + step.refused + step.pending + step.failed),
        denied: sum(|step| step.refused),
        waiting: sum(|step| step.pending),
        found: sum(|step| step.findings),
        calls_chart: chart::stacked(
            "Calls by how they ended, in half hours",
            &[
                series("done", |step| step.done),
                series("failed", |step| step.failed),
                series("pending", |step| step.pending),
                series("refused", |step| step.refused),
            ],
        ),
        denials_chart: chart::stacked("Refused calls, in half hours", &[series("refused", |step| step.refused)]),
        findings_chart: chart::stacked("Findings, in half hours", &[series("findings", |step| step.findings)]),
        latency_chart: chart::lines(
            "How long calls took, in milliseconds",
            &[series("p50", |step| step.p50_ms), series("p95", |step| step.p95_ms)],
        ),
        findings: findings.collect(),
        codes,
        tally,
    })
}
