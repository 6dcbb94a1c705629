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
    level_description: Text,
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
#[derive(Debug, PartialEq)]
struct Step {
    category: Text,
    /// What the form says. One step for all categories is agreed to in any of them.
    field: String,
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
            level_description: Text(agent.level_description.clone().unwrap_or_default()),
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
        let (category, field) = match &step["category"] {
            Value::Null => (Text("every category".into()), Category::FileSystem.to_string()),
            category => (Text::of(category), Text::of(category).0),
        };
        Self { category, field, from: Text::of(&step["from"]), to: Text::of(&step["to"]) }
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
    let Step { category, from, to, .. } = Step::of(step);
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
        Some("score") => format!("a score of {} of {}", share(have), share(want)),
        _ => need.to_string(),
    }
}

/// Scores are counted in ten-thousandths.
fn share(score: &Value) -> f64 {
    score.as_f64().unwrap_or_default() / 10_000.0
}

/// One piece of evidence: when, who says so, where, what.
fn row(evidence: &Value) -> (String, Text, Text, Text) {
    let told = ["at_ms", "agent", "category", "by", "kind"];
    let rest = evidence.as_object().into_iter().flatten().filter(|(name, _)| !told.contains(&name.as_str()));
    let mut fact = Text::of(&evidence["kind"]).0;
    rest.for_each(|(name, value)| fact.push_str(&format!(", {name} {}", Text::of(value).0)));
    let at = evidence["at_ms"].as_u64().map(when).unwrap_or_default();
    (at, Text::of(&evidence["by"]), Text::of(&evidence["category"]), Text(fact))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_step_that_waits_can_be_agreed_to() {
        let check = |category: Value, shown: &str| {
            let step = Step::of(&json!({ "category": category, "from": "standard", "to": "elevated" }));
            assert_eq!(step.category.0, shown);
            assert!(Category::parse(&step.field).is_some(), "{step:?}");
        };
        check(json!("web"), "web");
        check(Value::Null, "every category");
    }

    #[test]
    fn evidence_is_told_in_words() {
        let evidence = json!({
            "at_ms": 0, "agent": "a", "by": "user:ann", "category": "web", "kind": "task", "outcome": "success",
            "quality": 8.5, "task": "T-1",
        });
        let what = "task, outcome success, quality 8.5, task T-1";
        assert_eq!(row(&evidence), ("1970-01-01 00:00:00".into(), "user:ann".into(), "web".into(), what.into()));
        let need = json!({ "need": "score", "have": 10_000, "want": 8_000 });
        assert_eq!(need_of(&need), "a score of 1 of 0.8");
    }
}
