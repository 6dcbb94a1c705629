//! Tools, and the definitions of others that a person has agreed to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contract::Scope;
use toolgate_guard::definition;
use toolgate_runtime::{Listed, definitions::Definitions};

use super::{
    answer::{Answered, Data},
    approvals::hash,
    args::{Nothing, OneAgent},
    desk::{Desk, blocking, unknown},
    tool::{Tool, admin, read, write},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read(
            "catalog_list",
            "Every tool, in short: what a call of it amounts to, and which agents may know of it.",
            list,
        )
        .paged(),
        read(
            "catalog_show",
            "One tool with its whole definition, the hash of that, and what a look at it found.",
            show,
        ),
        read(
            "catalog_shown",
            "What the clients of an agent are shown of its tools at first, and how many tokens that saves.",
            shown,
        ),
        read("catalog_pins", "Tools of other servers that a person has pinned, or that are held back, and why.", pins)
            .paged(),
        read(
            "catalog_diff",
            "What is held back of a tool of another server, line by line against what is pinned.",
            diff,
        ),
        admin(
            "catalog_pin",
            Scope::Admin,
            "Agree to what is held back of a tool of another server: agents are shown it and may call it. Only what has the \
             hash that `catalog_diff` showed is pinned.",
            pin,
        ),
        write("catalog_unpin", Scope::Admin, "Hold a tool of another server back from now on.", unpin),
    ]
}

/// The agents that may know of each tool.
fn known(desk: &Desk) -> BTreeMap<String, Vec<String>> {
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for agent in desk.config().policy.agents.keys() {
        for tool in desk.runtime().definitions(agent).unwrap_or_default() {
            known.entry(tool.def.name.into_owned()).or_default().push(agent.to_string());
        }
    }
    known
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Only what this agent may know of.
    agent: Option<String>,
}

async fn list(desk: Desk, Which { agent }: Which) -> Answered {
    let agent = agent.map(|agent| desk.agent(&agent).map(|agent| agent.to_string())).transpose()?;
    let known = known(&desk);
    let none = Vec::new();
    let rows = desk.runtime().catalog().into_iter().filter_map(|listed| {
        let def = &listed.def;
        let agents = known.get(&*def.name).unwrap_or(&none);
        if agent.as_ref().is_some_and(|agent| !agents.contains(agent)) {
            return None;
        }
        let row = json!({
            "name": def.name, "summary": def.summary, "category": def.category, "action": def.action,
            "class": def.safety, "cost": def.cost, "definition": listed.digest, "agents": agents,
            "imported": listed.relayed, "findings": listed.findings.len(),
        });
        Some((def.name.to_string(), row))
    });
    desk.page.of(rows.collect())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneTool {
    /// The tool, as agents call it.
    tool: String,
}

async fn show(desk: Desk, OneTool { tool }: OneTool) -> Answered {
    let all = desk.runtime().catalog();
    let Some(listed) = all.iter().find(|listed| listed.def.name == tool) else {
        let names = all.iter().map(|listed| &*listed.def.name);
        return Err(unknown("tool", &tool, names, "Look at all of them with `catalog_list`."));
    };
    let Listed { def, digest, relayed, .. } = listed;
    let mut page = json!(def);
    page["definition"] = json!(digest);
    page["imported"] = json!(relayed);
    page["findings"] = json!(definition::scan(&as_models_see_it(listed)));
    page["agents"] = json!(known(&desk).remove(&*def.name).unwrap_or_default());
    Ok(Data::one(&page))
}

async fn shown(desk: Desk, OneAgent { agent }: OneAgent) -> Answered {
    let (runtime, agent) = (desk.runtime().clone(), desk.agent(&agent)?);
    runtime.trust().look(&agent).await?;
    // Every definition is counted, which takes its time.
    Ok(Data::one(&blocking(move || runtime.spared(&agent)).await??))
}

fn as_models_see_it(Listed { def, .. }: &Listed) -> Value {
    json!({
        "name": def.name, "title": def.summary, "description": def.description,
        "inputSchema": def.input_schema, "outputSchema": def.output_schema,
    })
}

async fn pins(desk: Desk, _: Nothing) -> Answered {
    let dir = desk.data_dir();
    let found = blocking(move || Definitions::open(&*dir).list()).await??;
    desk.page.of(found.into_iter().map(|pin| (pin.tool.clone(), json!(pin))).collect())
}

async fn diff(desk: Desk, OneTool { tool }: OneTool) -> Answered {
    let dir = desk.data_dir();
    Ok(Data::one(&blocking(move || Definitions::open(&*dir).show(&tool)).await??))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pin {
    /// The tool, as agents call it.
    tool: String,
    /// The `hash` that `catalog_diff` showed.
    hash: String,
}

async fn pin(desk: Desk, Pin { tool, hash: shown }: Pin) -> Answered {
    let (dir, hash, by) = (desk.data_dir(), hash(&shown)?, desk.person().to_string());
    let name = tool.clone();
    blocking(move || Definitions::open(&*dir).pin(&name, hash, &by)).await??;
    Ok(Data::one(&json!({ "tool": tool, "standing": "pinned", "hash": hash, "by": desk.person() })))
}

async fn unpin(desk: Desk, OneTool { tool }: OneTool) -> Answered {
    let (dir, name) = (desk.data_dir(), tool.clone());
    blocking(move || Definitions::open(&*dir).unpin(&name)).await??;
    Ok(Data::one(&json!({ "tool": tool, "standing": "held back" })))
}
