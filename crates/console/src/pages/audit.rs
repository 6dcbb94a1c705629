//! The record: is it as it was written?

use askama::Template;
use axum::{Extension, extract::State};
use toolgate_runtime::store::Report;

use super::{Frame, Page, render, when};
use crate::{Shared, caller::Caller, house, text::Text};

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    report: Option<Shown>,
}

struct Shown {
    report: Report,
    problems: Vec<(String, Text, Text)>,
    open: Vec<(u64, String, Text, Text, Text)>,
}

pub(super) async fn page(Extension(caller): Extension<Caller>) -> Page {
    render(&AuditPage { frame: Frame::new("Record", "audit", &caller), report: None })
}

pub(super) async fn verify(State(shared): State<Shared>, Extension(caller): Extension<Caller>) -> Page {
    let report = house::prove(&shared).await?;
    let problem = |problem: &toolgate_runtime::store::Problem| {
        let seq = problem.seq.map(|seq| seq.to_string()).unwrap_or_default();
        (seq, Text(problem.call.clone().unwrap_or_default()), Text(problem.what.clone()))
    };
    let shown = Shown {
        problems: report.problems.iter().map(problem).collect(),
        open: report
            .open_intents
            .iter()
            .map(|open| {
                let (agent, tool, call) = (open.agent.clone(), open.tool.clone(), open.call.clone());
                (open.seq, when(open.at_ms), Text(agent), Text(tool), Text(call))
            })
            .collect(),
        report,
    };
    render(&AuditPage { frame: Frame::new("Record", "audit", &caller), report: Some(shown) })
}
