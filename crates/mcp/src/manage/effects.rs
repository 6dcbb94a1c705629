//! Effects that happen once, and what became of those nobody knows about.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{AgentName, Fault, OnceKey, OnceState, Scope};
use toolgate_runtime::store::state::EffectFilter;

use super::{
    answer::{Answered, Data},
    args::One,
    desk::Desk,
    tool::{Tool, admin, read},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read("effects_list", "Effects that happen once, those changed last first, and what is known about each.", list)
            .paged(),
        admin(
            "effects_resolve",
            Scope::Admin,
            "Say what became of an effect that is `unknown`. One that happened is never tried again, and the same call is \
             answered with what was said; one that did not happen is tried when the call is made again.",
            resolve,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Only in this state.
    state: Option<One<OnceState>>,
    /// Only of this agent.
    agent: Option<String>,
}

async fn list(desk: Desk, Which { state, agent }: Which) -> Answered {
    let states = state.map(|One(state)| state).into_iter().collect();
    let agent = agent.as_deref().map(AgentName::from);
    let found = desk.effects()?.list(EffectFilter { states, agent, limit: desk.page.depth() }).await?;
    let key = |key: &OnceKey| json!([key.agent, key.tool, key.key]).to_string();
    desk.page.of(found.into_iter().map(|once| (key(&once.key), json!(once))).collect())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Resolve {
    /// The agent that called.
    agent: String,
    /// The tool it called.
    tool: String,
    /// What the caller called the effect.
    key: String,
    /// Did it happen?
    happened: bool,
    /// What the caller is told when it asks again.
    #[schemars(length(max = 2000))]
    said: String,
}

async fn resolve(desk: Desk, Resolve { agent, tool, key, happened, said }: Resolve) -> Answered {
    let key = OnceKey { agent: AgentName::from(&*agent), tool, key };
    if desk.state().effect(key.clone()).await?.is_none() {
        return Err(Fault::failed("unknown_effect", "there is no such effect", "Look with `effects_list`."));
    }
    Ok(Data::one(&desk.effects()?.resolve(&key, desk.person(), happened, &said).await?))
}
