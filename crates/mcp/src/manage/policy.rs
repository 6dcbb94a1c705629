//! What the policy says, about everything and about one call.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_contract::Category;

use super::{
    answer::{Answered, Data},
    args::{Nothing, OneAgent},
    desk::Desk,
    tool::{Tool, read},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read(
            "policy_show",
            "What binds every agent: lists, classes people are asked about, how questions are handled, where tools run.",
            show,
        ),
        read("policy_agent", "What binds one agent besides: its own lists, its constraints, its budget.", agent),
        read("policy_rules", "The operators' own rules about calls, in the order they are written.", rules).paged(),
        read(
            "policy_explain",
            "What would be decided about a call, by which rule in which file, and what would make it pass. Nothing runs.",
            explain,
        ),
        read("policy_test", "Try the examples that the rules carry, and say which do not hold.", test).paged(),
    ]
}

async fn show(desk: Desk, _: Nothing) -> Answered {
    let config = desk.config();
    let policy = &config.policy;
    let places: Map<String, Value> =
        Category::ALL.into_iter().map(|category| (category.to_string(), json!(config.backend_for(category)))).collect();
    Ok(Data::one(&json!({
        "lists": policy.rules, "tools": policy.tools, "resources": policy.resources, "approvals": policy.approvals,
        "downgrades": policy.downgrades, "flow": policy.flow, "sinks": policy.sinks, "levels": policy.levels,
        "places": places, "rules": policy.book.iter().count(),
    })))
}

async fn agent(desk: Desk, OneAgent { agent }: OneAgent) -> Answered {
    let agent = desk.agent(&agent)?;
    Ok(Data::one(&desk.config().policy.agents.get(&agent)))
}

async fn rules(desk: Desk, _: Nothing) -> Answered {
    desk.page.of(desk.config().policy.book.iter().map(|rule| (rule.id.clone(), json!(rule))).collect())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// The agent that would call.
    agent: String,
    /// The tool.
    tool: String,
    /// The arguments of the call.
    arguments: Map<String, Value>,
}

async fn explain(desk: Desk, Asked { agent, tool, arguments }: Asked) -> Answered {
    let agent = desk.agent(&agent)?;
    desk.runtime().trust().look(&agent).await?;
    let call = desk.runtime().call(&agent, &tool, Value::Object(arguments));
    Ok(Data::one(&desk.runtime().explain(&call)?))
}

async fn test(desk: Desk, _: Nothing) -> Answered {
    let trials = desk.runtime().try_examples();
    let row = |(number, trial): (usize, &toolgate_runtime::Trial)| {
        let mut row = json!(trial);
        row["passed"] = json!(trial.passed());
        (number.to_string(), row)
    };
    desk.page.of(trials.iter().enumerate().map(row).collect())
}
