//! Tasks, as far as the runtime knows of them: it is told their names, how people say they ended, and when they are over.
//! And memory, which it does not have.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{Evidence, Fact, Fault, Scope};

use super::{
    answer::{Answered, Data},
    args::{Nothing, OneAgent},
    desk::{Desk, blocking},
    tool::{Tool, admin, read},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read(
            "tasks_list",
            "The tasks of an agent that people reported on, and how they say each ended, in that order.",
            list,
        )
        .paged(),
        admin(
            "tasks_end",
            Scope::Admin,
            "Say that a task of an agent is over: rooms that were kept for it are closed, and what runs in them ends.",
            end,
        ),
        read("memory_list", "What agents remember. This version keeps no memory for agents, and says so.", memory),
    ]
}

async fn list(desk: Desk, OneAgent { agent }: OneAgent) -> Answered {
    let agent = desk.agent(&agent)?;
    let found = desk.runtime().trust().evidence(&agent).await?;
    let tasks = found.into_iter().enumerate().filter(|(_, Evidence { fact, .. })| matches!(fact, Fact::Task { .. }));
    desk.page.of(tasks.map(|(number, evidence)| (number.to_string(), json!(evidence))).collect())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneTask {
    /// The agent, by its name in the config.
    agent: String,
    /// The task, as the agent's calls name it.
    #[schemars(length(min = 1, max = 200))]
    task: String,
}

async fn end(desk: Desk, OneTask { agent, task }: OneTask) -> Answered {
    let agent = desk.agent(&agent)?;
    let (runtime, over) = (desk.runtime().clone(), task.clone());
    let whose = agent.clone();
    blocking(move || runtime.task_ended(&whose, &over)).await?;
    Ok(Data::one(&json!({ "agent": agent, "task": task, "ended": true })))
}

async fn memory(_: Desk, _: Nothing) -> Answered {
    let message = "this version keeps no memory for agents";
    Err(Fault::refused("not_supported", message, "Look into the record with `audit_calls` for what an agent has seen."))
}
