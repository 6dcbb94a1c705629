//! Agents: how far each is let, what it does unasked, and what holds it back.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{ActionType, AgentName, Fault, Latch, LatchKind, Level, Scope};

use super::{
    answer::{Answered, Data},
    args::{Nothing, One, OneAgent},
    desk::Desk,
    tool::{Tool, admin, read},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read("agents_list", "The agents of the config: level, roles, workspace, tools, what holds each back.", list)
            .paged(),
        read(
            "agents_show",
            "One agent: its level, what it does without asking, what holds it back, and the tools it may know of.",
            show,
        ),
        admin(
            "agents_release",
            Scope::Admin,
            "Let go of an agent that is held back, so that it does again unasked what it is given.",
            release,
        ),
    ]
}

/// An agent, and what its config says about it.
#[derive(Serialize)]
struct Row {
    name: String,
    level: Level,
    /// Where the level is written.
    source: String,
    roles: BTreeSet<String>,
    workspace: String,
    /// How many tools it may know of.
    tools: usize,
    held_back: Vec<Latch>,
}

async fn row(desk: &Desk, name: &AgentName) -> Result<Row, Fault> {
    let agent = desk.config().policy.agents.get(name).ok_or_else(|| gone(name))?;
    let workspace = desk.config().agents.get(name).map(|own| own.workspace.display().to_string());
    Ok(Row {
        name: name.to_string(),
        level: agent.level.value,
        source: agent.level.source.to_string(),
        roles: agent.roles.clone(),
        workspace: workspace.unwrap_or_default(),
        tools: desk.runtime().definitions(name).map_or(0, |tools| tools.len()),
        held_back: held_back(desk, name).await?,
    })
}

/// What holds an agent back at this moment.
pub(super) async fn held_back(desk: &Desk, agent: &AgentName) -> Result<Vec<Latch>, Fault> {
    let latches = desk.runtime().means().latches(agent).await?;
    Ok(latches.into_iter().filter(Latch::holds).collect())
}

async fn list(desk: Desk, _: Nothing) -> Answered {
    let mut rows = Vec::new();
    for name in desk.config().policy.agents.keys() {
        rows.push((name.to_string(), json!(row(&desk, name).await?)));
    }
    desk.page.of(rows)
}

/// What an agent does without asking.
#[derive(Serialize)]
struct Autonomy {
    /// What the config gives it.
    given: String,
    /// What holds now.
    now: String,
    /// The line that says so.
    source: String,
    unasked: BTreeSet<ActionType>,
}

async fn show(desk: Desk, OneAgent { agent }: OneAgent) -> Answered {
    let name = desk.agent(&agent)?;
    let row = row(&desk, &name).await?;
    let policy = &desk.config().policy;
    let agent = policy.agents.get(&name).ok_or_else(|| gone(&name))?;
    let kinds: Vec<LatchKind> = row.held_back.iter().map(|latch| latch.kind).collect();
    let held = policy.downgrades.hold(agent, &kinds, &policy.actions).autonomy;
    let autonomy = Autonomy {
        given: agent.autonomy.value.name.clone(),
        now: held.value.name,
        source: held.source.to_string(),
        unasked: held.value.auto,
    };
    let tools = desk.runtime().definitions(&name)?;
    let tools: Vec<_> = tools.into_iter().map(|tool| tool.def.name).collect();
    let mut page = json!(row);
    (page["autonomy"], page["tools"]) = (json!(autonomy), json!(tools));
    page["level_description"] = json!(desk.config().level_descriptions.get(&agent.level.value));
    Ok(Data::one(&page))
}

/// The config does not change while it holds, so this is never told.
pub(super) fn gone(name: &AgentName) -> Fault {
    Fault::failed("unknown_agent", format!("there is no agent `{name}`"), "Look at all of them with `agents_list`.")
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Release {
    /// The agent, by its name in the config.
    agent: String,
    /// What it is held back for, as `agents_show` tells it.
    kind: One<LatchKind>,
}

async fn release(desk: Desk, Release { agent, kind: One(kind) }: Release) -> Answered {
    let agent = desk.agent(&agent)?;
    if !desk.runtime().means().release(&agent, kind, desk.person()).await? {
        let message = format!("agent `{agent}` is not held back for `{kind}`");
        return Err(Fault::failed("not_held_back", message, "Look with `agents_show` what it is held back for."));
    }
    Ok(Data::one(&json!({ "agent": agent, "kind": kind, "released_by": desk.person() })))
}
