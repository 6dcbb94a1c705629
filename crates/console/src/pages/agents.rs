//! Agents: their levels, what they have earned, and by what.

use askama::Template;
use axum::{
    Extension,
    body::Bytes,
    extract::{Path, State},
    http::HeaderMap,
};
use serde_json::Value;
use toolgate_contract::{AgentName, Category, Scope};

use super::{Frame, Page, part, render, see, when};
use crate::{
    Shared,
    caller::{self, Caller},
    house,
    problem::Problem,
    record::items,
    text::Text,
};

/// How much of the evidence and of the steps is shown.
const LATEST: usize = 20;

#[derive(Template)]
#[template(path = "agents.html")]
struct AgentsPage {
    frame: Frame,
    may: bool,
    agents: Vec<Agent>,
}

struct Agent {
    link: String,
    name: Text,
    level: &'static str,
    source: Text,
    roles: Text,
    workspace: Text,
    tools: usize,
    is_earned: bool,
    levels: Vec<(String, Text)>,
    pending: Vec<Step>,
    next: Vec<Next>,
    because: Vec<(String, Text)>,
    evidence: Vec<(String, Text, Text, Text)>,
}

/// A step that waits for a person.
struct Step {
    category: Text,
    from: Text,
    to: Text,
}

/// What the next step takes.
struct Next {
    step: Step,
    needs: Vec<Text>,
}

pub(super) async fn page(State(shared): State<Shared>, Extension(caller): Extension<Caller>) -> Page {
    let mut agents = Vec::new();
    for agent in house::agents(&shared).await? {
        let name = AgentName::from(&*agent.name);
        let evidence = shared.runtime.trust().evidence(&name).await?;
        let evidence: Vec<Value> = evidence.iter().rev().take(LATEST).map(|one| serde_json::json!(one)).collect();
        agents.push(Agent::of(agent, &evidence));
    }
    render(&AgentsPage { frame: Frame::new("Agents", "agents", &caller), may: caller.may(Scope::Admin), agents })
}

impl Agent {
    fn of(agent: house::Agent, evidence: &[Value]) -> Self {
        let standing = &agent.standing;
        let level = |category: &Category| (category.to_string(), Text::of(&standing["levels"][category.as_str()]));
        let next = |next: &Value| Next {
            step: Step::of(next),
            needs: items(&next["needs"]).map(|need| Text(need_of(need))).collect(),
        };
        Self {
            link: format!("/agents/{}", part(&agent.name)),
            name: Text(agent.name.clone()),
            level: agent.level,
            source: Text(agent.source.clone()),
            roles: Text(agent.roles.join(", ")),
            workspace: Text(agent.workspace.clone()),
            tools: agent.tools,
            is_earned: !standing.is_null(),
            levels: Category::ALL.iter().filter(|_| !standing.is_null()).map(level).collect(),
            pending: items(&standing["pending"]).map(Step::of).collect(),
            next: items(&standing["next"]).filter(|next| next["possible"] == true).map(next).collect(),
            because: latest(&standing["because"]).into_iter().map(because).collect(),
            evidence: evidence.iter().map(row).collect(),
        }
    }
}

impl Step {
    fn of(step: &Value) -> Self {
        let category = match &step["category"] {
            Value::Null => Text("every category".into()),
            category => Text::of(category),
        };
        Self { category, from: Text::of(&step["from"]), to: Text::of(&step["to"]) }
    }
}

/// The last of a list, the newest first.
fn latest(list: &Value) -> Vec<&Value> {
    let mut latest: Vec<_> = items(list).collect();
    latest.reverse();
    latest.truncate(LATEST);
    latest
}

fn because(step: &Value) -> (String, Text) {
    let Step { category, from, to } = Step::of(step);
    let text = format!("{}: {} to {}, {}", category.0, from.0, to.0, Text::of(&step["why"]).0);
    (step["at_ms"].as_u64().map(when).unwrap_or_default(), Text(text))
}

/// One thing a step takes, in words.
fn need_of(need: &Value) -> String {
    let (have, want) = (&need["have"], &need["want"]);
    match need["need"].as_str() {
        Some("tasks") => format!("{have} of {want} tasks done that are at least {}", Text::of(&need["difficulty"]).0),
        Some("active_days") => format!("{have} of {want} days of work"),
        Some("clean_days") => format!("{have} of {want} days of work without a failure"),
        Some("score") => format!("a score of {have} of {want} ten-thousandths"),
        _ => need.to_string(),
    }
}

/// One piece of evidence: when, who says so, where, what.
fn row(evidence: &Value) -> (String, Text, Text, Text) {
    let mut fact = evidence.clone();
    if let Some(fields) = fact.as_object_mut() {
        ["at_ms", "agent", "category", "by"].iter().for_each(|known| {
            fields.remove(*known);
        });
    }
    let at = evidence["at_ms"].as_u64().map(when).unwrap_or_default();
    (at, Text::of(&evidence["by"]), Text::of(&evidence["category"]), Text(fact.to_string()))
}

/// A person agrees to a step.
pub(super) async fn promote(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Page {
    let field = caller::field(&headers, &bytes, "category").unwrap_or_default();
    let category = Category::parse(&field)
        .ok_or_else(|| Problem::bad_request("the form names no category", "Load the page again."))?;
    shared.runtime.trust().promote(&AgentName::from(&*name), category, &caller.person()?).await?;
    Ok(see("/agents"))
}
