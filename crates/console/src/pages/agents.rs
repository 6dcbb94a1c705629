//! Agents: their levels, and what they have earned.

use askama::Template;
use axum::{Extension, extract::State};

use super::{Frame, Page, render};
use crate::{Shared, caller::Caller, house, text::Text};

#[derive(Template)]
#[template(path = "agents.html")]
struct AgentsPage {
    frame: Frame,
    agents: Vec<Agent>,
}

struct Agent {
    name: Text,
    level: &'static str,
    source: Text,
    roles: Text,
    workspace: Text,
    tools: usize,
}

pub(super) async fn page(State(shared): State<Shared>, Extension(caller): Extension<Caller>) -> Page {
    let agent = |agent: house::Agent| Agent {
        name: Text(agent.name),
        level: agent.level,
        source: Text(agent.source),
        roles: Text(agent.roles.join(", ")),
        workspace: Text(agent.workspace),
        tools: agent.tools,
    };
    let agents = house::agents(&shared).into_iter().map(agent).collect();
    render(&AgentsPage { frame: Frame::new("Agents", "agents", &caller), agents })
}
