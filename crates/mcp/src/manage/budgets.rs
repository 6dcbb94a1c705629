//! What agents are given to spend, and what they have used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_contract::{AgentName, Fault, Latch, LatchKind, Limit, Totals};
use toolgate_runtime::store::state::Account;

use super::{
    agents,
    answer::{Answered, Data},
    args::Nothing,
    desk::{Desk, now_ms},
    tool::{Tool, read},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read(
            "budgets_list",
            "Every agent with its limits, what it has used today and ever, and whether that holds it back.",
            list,
        )
        .paged(),
        read(
            "budgets_show",
            "The limits of one agent, and what it has used; of one of its tasks too, where one is named.",
            show,
        ),
    ]
}

/// What an agent is given, and has used.
#[derive(Serialize)]
struct Budget {
    agent: AgentName,
    limits: Vec<Limited>,
    used: Totals,
    /// Since it would have passed a limit, until a person lets go.
    held_back: Option<Latch>,
}

#[derive(Serialize)]
struct Limited {
    #[serde(flatten)]
    limit: Limit,
    source: String,
}

async fn budget(desk: &Desk, name: &AgentName, task: Option<String>) -> Result<Budget, Fault> {
    let agent = desk.config().policy.agents.get(name).ok_or_else(|| agents::gone(name))?;
    let limits = agent.budget.iter().map(|said| Limited { limit: said.value, source: said.source.to_string() });
    let account = Account { agent: name.clone(), task };
    let held = agents::held_back(desk, name).await?;
    Ok(Budget {
        agent: name.clone(),
        limits: limits.collect(),
        used: desk.state().spent(account, now_ms()).await?,
        held_back: held.into_iter().find(|latch| latch.kind == LatchKind::BudgetExhausted),
    })
}

async fn list(desk: Desk, _: Nothing) -> Answered {
    let mut rows = Vec::new();
    for name in desk.config().policy.agents.keys() {
        rows.push((name.to_string(), json!(budget(&desk, name, None).await?)));
    }
    desk.page.of(rows)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Whose {
    /// The agent, by its name in the config.
    agent: String,
    /// A task of the agent, as its calls name it.
    task: Option<String>,
}

async fn show(desk: Desk, Whose { agent, task }: Whose) -> Answered {
    let agent = desk.agent(&agent)?;
    Ok(Data::one(&budget(&desk, &agent, task).await?))
}
