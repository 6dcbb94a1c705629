//! Calls: the list, and one in full.

use askama::Template;
use axum::{
    Extension,
    extract::{Path, State},
    http::Uri,
};
use serde_json::Value;
use toolgate_contract::{CallId, Scope};

use super::{Frame, Page, part, render, when};
use crate::{
    Shared,
    api::query,
    caller::Caller,
    problem::Problem,
    record::{self, Filter, Summary, Whole, items},
    text::Text,
};

/// The longest name of a tool in a table.
const LONGEST_NAME: usize = 64;

/// The statuses there are.
const STATUSES: [&str; 5] = ["done", "refused", "pending", "failed", "running"];

#[derive(Template)]
#[template(path = "calls.html")]
struct CallsPage {
    frame: Frame,
    agent: Text,
    tool: Text,
    status: String,
    finding: Text,
    agents: Vec<Text>,
    rows: Vec<Row>,
    older: Option<String>,
    is_first: bool,
}

/// One call in a table.
pub(crate) struct Row {
    link: String,
    when: String,
    agent: Text,
    tool: Text,
    status: Text,
    code: Text,
    risk: Text,
    took: String,
    findings: Text,
}

impl From<&Summary> for Row {
    fn from(call: &Summary) -> Self {
        let text = |value: &Option<String>| Text(value.clone().unwrap_or_default());
        Self {
            link: format!("/calls/{}", part(&call.call)),
            when: when(call.at_ms),
            agent: Text(call.agent.clone()),
            tool: Text(call.tool.clone()),
            status: Text(call.status.clone()),
            code: text(&call.code),
            risk: text(&call.risk),
            took: call.elapsed_ms.map(|ms| format!("{ms} ms")).unwrap_or_default(),
            findings: Text(call.findings.join(", ")),
        }
    }
}

impl Row {
    /// An agent calls a tool whatever it likes; a table shows the beginning.
    fn short_tool(&self) -> Text {
        let cut = self.tool.0.char_indices().nth(LONGEST_NAME);
        cut.map_or_else(|| self.tool.clone(), |(at, _)| Text(format!("{}...", &self.tool.0[..at])))
    }
}

pub(super) async fn list(State(shared): State<Shared>, Extension(caller): Extension<Caller>, uri: Uri) -> Page {
    let filter: Filter = query::<Filter>(&uri)?.without_blanks();
    let wanted = filter.clone();
    let calls = shared.read(move |reader| record::list(reader, &wanted)).await?;
    let text = |value: &Option<String>| Text(value.clone().unwrap_or_default());
    let mut same = form_urlencoded::Serializer::new(String::new());
    for (name, value) in
        [("agent", &filter.agent), ("tool", &filter.tool), ("status", &filter.status), ("finding", &filter.finding)]
    {
        if let Some(value) = value {
            same.append_pair(name, value);
        }
    }
    let older = calls.next.map(|next| format!("/calls?{}", same.append_pair("before", &next.to_string()).finish()));
    render(&CallsPage {
        frame: Frame::new("Calls", "calls", &caller),
        agent: text(&filter.agent),
        tool: text(&filter.tool),
        status: filter.status.clone().unwrap_or_default(),
        finding: text(&filter.finding),
        agents: shared.runtime.config().policy.agents.keys().map(|name| Text(name.to_string())).collect(),
        rows: calls.calls.iter().map(Row::from).collect(),
        older,
        is_first: filter.before.is_none(),
    })
}

#[derive(Template)]
#[template(path = "call.html")]
struct CallPage {
    frame: Frame,
    row: Row,
    id: Text,
    action: Text,
    class: Text,
    verdict: Text,
    message: Text,
    remedy: Text,
    approval: Option<(String, Text)>,
    reasons: Vec<Reason>,
    effects: Vec<Effect>,
    walls: Vec<Text>,
    labels: Vec<Text>,
    findings: Vec<(Text, Text)>,
    definition: Text,
    policy: Text,
    arguments: Text,
    clean: Text,
    structured: Text,
    raw: Raw,
    entries: Vec<Entry>,
}

struct Reason {
    rule: Text,
    text: Text,
    source: Text,
}

struct Effect {
    kind: Text,
    target: Text,
}

/// The raw result of a call, as far as it is shown.
enum Raw {
    Same,
    NotYours,
    Shown { text: Text, structured: Text },
}

struct Entry {
    seq: u64,
    kind: Text,
    when: String,
    hash: String,
}

pub(super) async fn one(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Page {
    let call = CallId(id);
    let sees_raw = caller.may(Scope::Admin);
    let found = shared.read(move |reader| {
        let raw = if sees_raw { record::raw(reader, &call)? } else { None };
        Ok((record::whole(reader, &call)?, raw))
    });
    let (Some(whole), raw) = found.await? else {
        return Err(Problem::not_found("nothing is recorded about this call"));
    };
    let raw = match (whole.raw_bytes, raw) {
        (None, _) => Raw::Same,
        (Some(_), None) => Raw::NotYours,
        (Some(_), Some(raw)) => raw_of(&raw),
    };
    render(&call_page(Frame::new("One call", "calls", &caller), &whole, raw))
}

fn raw_of(raw: &[u8]) -> Raw {
    match serde_json::from_slice::<Value>(raw) {
        Ok(value) => Raw::Shown { text: Text::of(&value["text"]), structured: Text::json(&value["structured"]) },
        Err(_) => Raw::Shown { text: String::from_utf8_lossy(raw).into(), structured: Text::default() },
    }
}

fn call_page(frame: Frame, whole: &Whole, raw: Raw) -> CallPage {
    let Whole { summary, record, outcome, entries, .. } = whole;
    let texts = |value: &Value| items(value).map(Text::of).collect::<Vec<_>>();
    let reason = |reason: &Value| {
        let (file, line) = (Text::of(&reason["source"]["file"]), reason["source"]["line"].as_u64());
        let source = line.filter(|line| *line > 0).map_or(file.0.clone(), |line| format!("{}:{line}", file.0));
        Reason { rule: Text::of(&reason["rule"]), text: Text::of(&reason["text"]), source: Text(source) }
    };
    let effects = if outcome["effects"].is_array() { &outcome["effects"] } else { &record["effects"] };
    let text = |value: &Option<String>| Text(value.clone().unwrap_or_default());
    CallPage {
        frame,
        row: Row::from(summary),
        id: Text(summary.call.clone()),
        action: text(&summary.action),
        class: text(&summary.class),
        verdict: text(&summary.verdict),
        message: Text::of(&outcome["message"]),
        remedy: Text::of(&outcome["remedy"]),
        approval: summary.approval.as_ref().map(|id| (format!("/approvals/{}", part(id)), Text(id.clone()))),
        reasons: items(&record["decision"]["reasons"]).map(reason).collect(),
        effects: items(effects).map(effect).collect(),
        walls: texts(&outcome["enforced"]),
        labels: texts(&outcome["labels"]),
        findings: items(&outcome["findings"]).map(|f| (Text::of(&f["kind"]), Text::of(&f["rule"]))).collect(),
        definition: Text::of(&record["definition"]),
        policy: Text::of(&record["policy"]),
        arguments: Text::json(&record["arguments"]),
        clean: Text::of(&outcome["text"]),
        structured: match &outcome["structured"] {
            Value::Null => Text::default(),
            value => Text::json(value),
        },
        raw,
        entries: entries
            .iter()
            .map(|line| Entry {
                seq: line.seq,
                kind: Text::of(&line.body["kind"]),
                when: line.body["at_ms"].as_u64().map(when).unwrap_or_default(),
                hash: line.hash.to_string(),
            })
            .collect(),
    }
}

fn effect(effect: &Value) -> Effect {
    Effect { kind: Text::of(&effect["kind"]), target: Text::of(&effect["target"]) }
}
