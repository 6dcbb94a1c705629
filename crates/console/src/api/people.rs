//! Questions and answers, standing yeses, effects.

use axum::{
    Extension,
    body::Bytes,
    extract::{Path, State},
    http::Uri,
};
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{AgentName, Answer as Vote, ApprovalState, OnceKey, OnceState};

use super::{Answer, body, query};
use crate::{
    Shared,
    caller::{BODY, Caller},
    people,
    problem::{Problem, json_answer},
};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Which {
    state: Option<String>,
    agent: Option<String>,
    limit: Option<u32>,
}

impl Which {
    fn agent(&self) -> Option<AgentName> {
        self.agent.as_deref().map(AgentName::from)
    }

    /// The state named, or all of them.
    fn states<T>(&self, parse: fn(&str) -> Option<T>) -> Result<Vec<T>, Problem> {
        match self.state.as_deref() {
            None => Ok(Vec::new()),
            Some(name) => parse(name).map(|state| vec![state]).ok_or_else(|| {
                let name: String = name.chars().take(40).flat_map(char::escape_default).collect();
                Problem::bad_request(format!("there is no state `{name}`"), "Look at /api/openapi.json.")
            }),
        }
    }
}

pub(super) async fn questions(State(shared): State<Shared>, uri: Uri) -> Answer {
    let which: Which = query(&uri)?;
    let states = which.states(ApprovalState::parse)?;
    let found = people::questions(&shared, states, which.agent(), which.limit.unwrap_or(100)).await?;
    Ok(json_answer(&json!({ "approvals": found })))
}

pub(super) async fn question(State(shared): State<Shared>, Path(id): Path<String>) -> Answer {
    Ok(json_answer(&people::question(&shared, &id).await?))
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Reason {
    reason: String,
}

pub(super) async fn approve(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    bytes: Bytes,
) -> Answer {
    vote(&shared, &caller, &id, Vote::Yes, &bytes).await
}

pub(super) async fn deny(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    bytes: Bytes,
) -> Answer {
    vote(&shared, &caller, &id, Vote::No, &bytes).await
}

async fn vote(shared: &Shared, caller: &Caller, id: &str, answer: Vote, bytes: &Bytes) -> Answer {
    let Reason { reason } = body(bytes, BODY)?;
    let approval = people::answer(shared, id, &caller.person()?, answer, &reason).await?;
    Ok(json_answer(&approval))
}

pub(super) async fn grants(State(shared): State<Shared>, uri: Uri) -> Answer {
    let which: Which = query(&uri)?;
    Ok(json_answer(&json!({ "grants": people::grants(&shared, which.agent()).await? })))
}

pub(super) async fn revoke(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer {
    Ok(json_answer(&people::revoke(&shared, &id, &caller.person()?).await?))
}

pub(super) async fn effects(State(shared): State<Shared>, uri: Uri) -> Answer {
    let which: Which = query(&uri)?;
    let states = which.states(OnceState::parse)?;
    Ok(json_answer(&json!({ "effects": people::effects(&shared, states, which.agent()).await? })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resolve {
    agent: String,
    tool: String,
    key: String,
    happened: bool,
    #[serde(default)]
    said: String,
}

pub(super) async fn resolve(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    bytes: Bytes,
) -> Answer {
    let Resolve { agent, tool, key, happened, said } = body(&bytes, BODY)?;
    let key = OnceKey { agent: AgentName::from(&*agent), tool, key };
    Ok(json_answer(&people::resolve(&shared, &key, &caller.person()?, happened, &said).await?))
}
