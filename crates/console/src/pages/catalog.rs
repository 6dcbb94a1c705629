//! The catalog: tools, the hashes of their definitions, what a look at them found.

use askama::Template;
use axum::{
    Extension,
    extract::{Path, State},
};

use super::{Frame, Page, part, render};
use crate::{Shared, caller::Caller, house, problem::Problem, text::Text};

#[derive(Template)]
#[template(path = "catalog.html")]
struct CatalogPage {
    frame: Frame,
    tools: Vec<Tool>,
}

struct Tool {
    link: String,
    name: Text,
    summary: Text,
    category: String,
    action: Text,
    class: &'static str,
    digest: String,
    agents: Text,
    findings: Vec<Found>,
}

struct Found {
    rule: &'static str,
    at: Text,
    detail: Text,
}

impl From<&house::Tool> for Tool {
    fn from(tool: &house::Tool) -> Self {
        let found = |found: &toolgate_guard::definition::Found| Found {
            rule: found.rule,
            at: Text(found.at.clone()),
            detail: Text(found.detail.clone()),
        };
        Self {
            link: format!("/catalog/{}", part(&tool.def.name)),
            name: Text(tool.def.name.to_string()),
            summary: Text(tool.def.summary.to_string()),
            category: tool.def.category.to_string(),
            action: Text(tool.def.action.to_string()),
            class: tool.def.safety.as_str(),
            digest: tool.digest.to_string(),
            agents: Text(tool.agents.join(", ")),
            findings: tool.findings.iter().map(found).collect(),
        }
    }
}

impl Tool {
    fn short_digest(&self) -> &str {
        self.digest.get(..19).unwrap_or(&self.digest)
    }
}

pub(super) async fn list(State(shared): State<Shared>, Extension(caller): Extension<Caller>) -> Page {
    let tools = house::tools(&shared).iter().map(Tool::from).collect();
    render(&CatalogPage { frame: Frame::new("Catalog", "catalog", &caller), tools })
}

#[derive(Template)]
#[template(path = "tool.html")]
struct ToolPage {
    frame: Frame,
    tool: Tool,
    description: Text,
    input: Text,
    output: Text,
    declaration: Text,
}

pub(super) async fn one(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Page {
    let tools = house::tools(&shared);
    let tool = tools.iter().find(|tool| tool.def.name == name);
    let tool = tool.ok_or_else(|| Problem::not_found("there is no such tool"))?;
    let declaration = serde_json::json!({
        "needs": tool.def.needs, "idempotency": tool.def.idempotency, "permission": tool.def.permission,
        "caps": tool.def.caps, "cost": tool.def.cost, "concurrency": tool.def.concurrency,
    });
    render(&ToolPage {
        frame: Frame::new(format!("Tool {}", Text(name.clone()).plain()), "catalog", &caller),
        tool: Tool::from(tool),
        description: Text(tool.def.description.to_string()),
        input: Text::json(&tool.def.input_schema),
        output: Text::json(&tool.def.output_schema),
        declaration: Text::json(&declaration),
    })
}
