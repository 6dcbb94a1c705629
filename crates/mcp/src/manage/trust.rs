//! How far agents are trusted, why, and what people have to say about it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{AgentName, Category, Difficulty, Evidence, Fact, Fault, Part, Scope, Score, TaskOutcome};

use super::{
    answer::{Answered, Data},
    args::{One, OneAgent},
    desk::Desk,
    page::{Moment, Window},
    tool::{Tool, admin, read, write},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read(
            "trust_show",
            "What one agent has earned in each category, every step that led there, and what the next one takes.",
            show,
        ),
        read("trust_evidence", "What is known about one agent, in the order it was added.", evidence).paged(),
        admin("trust_promote", Scope::Admin, "Agree to a step up of an agent that waits for a person.", promote),
        admin(
            "trust_feedback",
            Scope::Admin,
            "Report how a task of an agent ended, how hard it was and how good. A task counts once; once it failed it stays \
             failed.",
            feedback,
        ),
        write(
            "trust_incident",
            Scope::Admin,
            "Report that something happened that must not: it costs the agent one step, once.",
            incident,
        ),
        write(
            "trust_identity",
            Scope::Admin,
            "Say what an agent is now: another model, definition or role than before costs one step of what it earned.",
            identity,
        ),
        admin(
            "trust_vouch",
            Scope::Admin,
            "Stand for values: in the conversation of this agent they are trusted from now on, whoever said them before.",
            vouch,
        ),
    ]
}

async fn show(desk: Desk, OneAgent { agent }: OneAgent) -> Answered {
    let agent = desk.agent(&agent)?;
    let standing = desk.runtime().trust().standing(&agent).await?;
    let policy = &desk.config().policy;
    let start = policy.agents.get(&agent).map(|agent| agent.level.value);
    let strategy = policy.trust.strategy.as_str();
    Ok(Data::one(&json!({ "agent": agent, "strategy": strategy, "start": start, "standing": standing })))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Known {
    /// The agent, by its name in the config.
    agent: String,
    /// From this moment on: ISO 8601 with a time zone.
    since: Option<Moment>,
    /// Up to this moment: ISO 8601 with a time zone.
    until: Option<Moment>,
}

async fn evidence(desk: Desk, Known { agent, since, until }: Known) -> Answered {
    let window = Window::of(since, until)?;
    let agent = desk.agent(&agent)?;
    let found = desk.runtime().trust().evidence(&agent).await?;
    let within = found.into_iter().enumerate().filter(|(_, evidence)| window.has(evidence.at_ms));
    desk.page.of(within.map(|(number, evidence)| (number.to_string(), json!(evidence))).collect())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Promote {
    /// The agent, by its name in the config.
    agent: String,
    /// The category of tools.
    category: One<Category>,
}

async fn promote(desk: Desk, Promote { agent, category: One(category) }: Promote) -> Answered {
    let agent = desk.agent(&agent)?;
    Ok(Data::one(&desk.runtime().trust().promote(&agent, category, desk.person()).await?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Feedback {
    /// The agent, by its name in the config.
    agent: String,
    /// Where the work was.
    category: One<Category>,
    /// The name of the task.
    task: String,
    /// How it ended.
    outcome: One<TaskOutcome>,
    /// How hard it was.
    difficulty: One<Difficulty>,
    /// How good it was, from 0 to 10; 5 speaks neither for nor against.
    #[schemars(range(min = 0, max = 10))]
    quality: Option<f64>,
}

async fn feedback(desk: Desk, given: Feedback) -> Answered {
    let Feedback { agent, category: One(category), task, outcome: One(outcome), difficulty: One(difficulty), quality } =
        given;
    let agent = desk.agent(&agent)?;
    let quality = quality.map(|quality| Score::from_number(quality).ok_or_else(no_mark)).transpose()?;
    let mut facts = vec![Fact::Task { task: task.clone(), outcome, difficulty, quality }];
    facts.extend(quality.map(|rating| Fact::Feedback { task: Some(task), rating }));
    report(&desk, &agent, Some(category), facts).await
}

fn no_mark() -> Fault {
    Fault::failed("invalid_arguments", "the quality is no mark from 0 to 10", "Write a number from 0 to 10.")
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Incident {
    /// The agent, by its name in the config.
    agent: String,
    /// Where it happened.
    category: One<Category>,
    /// The name of the incident: it counts once.
    incident: String,
}

async fn incident(desk: Desk, Incident { agent, category: One(category), incident }: Incident) -> Answered {
    let agent = desk.agent(&agent)?;
    report(&desk, &agent, Some(category), vec![Fact::Incident { incident }]).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Identity {
    /// The agent, by its name in the config.
    agent: String,
    /// What of it.
    part: One<Part>,
    /// The name or the hash of what it is now.
    value: String,
}

async fn identity(desk: Desk, Identity { agent, part: One(part), value }: Identity) -> Answered {
    let agent = desk.agent(&agent)?;
    report(&desk, &agent, None, vec![Fact::Identity { part, value }]).await
}

async fn report(desk: &Desk, agent: &AgentName, category: Option<Category>, facts: Vec<Fact>) -> Answered {
    let trust = desk.runtime().trust();
    let mut evidence: Vec<Evidence> = Vec::new();
    for fact in facts {
        evidence.push(trust.report(agent, category, fact, desk.person()).await?);
    }
    let standing = trust.standing(agent).await?;
    let level = standing.zip(category).map(|(standing, category)| standing.level(category));
    Ok(Data::one(&json!({ "agent": agent, "evidence": evidence, "level": level })))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Vouch {
    /// The agent, by its name in the config.
    agent: String,
    /// The values, word for word.
    #[schemars(length(min = 1, max = 100))]
    values: Vec<String>,
}

async fn vouch(desk: Desk, Vouch { agent, values }: Vouch) -> Answered {
    let agent = desk.agent(&agent)?;
    desk.runtime().declassify(&agent, json!(values), desk.person()).await?;
    Ok(Data::one(&json!({ "agent": agent, "values": values.len(), "vouched_by": desk.person() })))
}
