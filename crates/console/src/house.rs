//! What there is: agents, tools, rooms, and whether the record holds.

use serde::Serialize;
use serde_json::{Value, json};
use toolgate_contract::{Digest, Principal, ToolDef};
use toolgate_guard::definition::{self, Found};
use toolgate_runtime::{
    sandbox::registry,
    store::{self, Report},
};

use crate::{Shared, blocking, caller::Caller, now_ms, problem::Problem};

/// An agent, and what its config says about it.
#[derive(Debug, Serialize)]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) level: &'static str,
    /// What the operator says about that level.
    pub(crate) level_description: Option<String>,
    /// Where the level is written.
    pub(crate) source: String,
    pub(crate) roles: Vec<String>,
    pub(crate) workspace: String,
    /// How many tools it may know of.
    pub(crate) tools: usize,
    /// What it has earned in each category; null where its level is set by hand.
    pub(crate) standing: Value,
}

/// The agents, by name.
pub(crate) async fn agents(shared: &Shared) -> Result<Vec<Agent>, Problem> {
    let config = shared.runtime.config();
    let mut agents = Vec::new();
    for (name, agent) in &config.policy.agents {
        agents.push(Agent {
            name: name.to_string(),
            level: agent.level.value.as_str(),
            level_description: config.level_descriptions.get(&agent.level.value).cloned(),
            source: agent.level.source.to_string(),
            roles: agent.roles.iter().cloned().collect(),
            workspace: config.agents.get(name).map(|own| own.workspace.display().to_string()).unwrap_or_default(),
            standing: json!(shared.runtime.trust().standing(name).await?),
            tools: shared.runtime.definitions(name).map_or(0, |tools| tools.len()),
        });
    }
    Ok(agents)
}

/// A tool, its hash, and what a look at its definition found.
#[derive(Debug, Serialize)]
pub(crate) struct Tool {
    #[serde(flatten)]
    pub(crate) def: ToolDef,
    pub(crate) digest: Digest,
    pub(crate) findings: Vec<Found>,
    /// The agents that may know of it.
    pub(crate) agents: Vec<String>,
}

/// Every tool, by name.
pub(crate) fn tools(shared: &Shared) -> Vec<Tool> {
    let config = shared.runtime.config();
    let known: Vec<(String, Vec<String>)> = config
        .policy
        .agents
        .keys()
        .filter_map(|name| {
            let tools = shared.runtime.definitions(name).ok()?;
            Some((name.to_string(), tools.into_iter().map(|tool| tool.def.name.into_owned()).collect()))
        })
        .collect();
    let tools = shared.runtime.catalog().into_iter().map(|listed| {
        let name = &*listed.def.name;
        let agents = known.iter().filter(|(_, tools)| tools.iter().any(|tool| tool == name));
        Tool {
            agents: agents.map(|(agent, _)| agent.clone()).collect(),
            findings: definition::scan(&as_models_see_it(&listed.def)),
            digest: listed.digest,
            def: listed.def,
        }
    });
    tools.collect()
}

fn as_models_see_it(def: &ToolDef) -> Value {
    json!({
        "name": def.name, "title": def.summary, "description": def.description,
        "inputSchema": def.input_schema, "outputSchema": def.output_schema,
    })
}

/// A room.
#[derive(Debug, Serialize)]
pub(crate) struct Room {
    pub(crate) id: String,
    pub(crate) owner: String,
    pub(crate) backend: String,
    pub(crate) tier: String,
    pub(crate) age_ms: u64,
    pub(crate) pid: u32,
    pub(crate) spec: String,
    pub(crate) workspace: Option<String>,
    /// `alive` or `left_over`.
    pub(crate) state: &'static str,
}

/// The rooms, oldest first.
pub(crate) async fn rooms(shared: &Shared) -> Result<Vec<Room>, Problem> {
    let dir = shared.data_dir.clone();
    let listed = blocking(move || registry::list(&dir)).await?;
    let listed = listed.map_err(|error| Problem::broken(format!("the rooms cannot be listed: {error}")))?;
    let room = |listed: registry::Listed| Room {
        age_ms: now_ms().saturating_sub(listed.room.opened_at_ms),
        id: listed.room.id,
        owner: listed.room.owner,
        backend: listed.room.backend,
        tier: listed.room.tier,
        pid: listed.pid,
        spec: listed.room.spec_hash,
        workspace: listed.room.workspace.map(|path| path.display().to_string()),
        state: if listed.is_alive { "alive" } else { "left_over" },
    };
    Ok(listed.into_iter().map(room).collect())
}

/// Reads every byte of the record. One at a time: it takes as long as the disk does.
pub(crate) async fn prove(shared: &Shared) -> Result<Report, Problem> {
    let _turn = shared.proving.acquire().await.map_err(|_| Problem::broken("the console is closing"))?;
    let dir = shared.data_dir.clone();
    Ok(blocking(move || store::verify(&dir, &mut |_, _| {})).await??)
}

/// Who a page is for.
pub(crate) fn name_of(caller: &Caller) -> String {
    match &caller.principal {
        Principal::Person(person) => person.to_string(),
        agent @ Principal::Agent(_) => agent.to_string(),
    }
}
