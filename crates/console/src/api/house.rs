//! What there is: agents, tools, rooms, and the state of the record.

use axum::{
    Extension,
    body::Bytes,
    extract::{Path, State},
    http::Uri,
};
use serde::Deserialize;
use serde_json::json;
use toolgate_contract::{AgentName, Category};

use super::{Answer, body, query};
use crate::{
    Shared,
    caller::{BODY, Caller},
    house,
    problem::json_answer,
    record,
};

pub(super) async fn agents(State(shared): State<Shared>) -> Answer {
    Ok(json_answer(&json!({ "agents": house::agents(&shared).await? })))
}

pub(super) async fn trust(State(shared): State<Shared>, Path(name): Path<String>) -> Answer {
    let agent = AgentName::from(&*name);
    let trust = shared.runtime.trust();
    let (standing, evidence) = (trust.standing(&agent).await?, trust.evidence(&agent).await?);
    Ok(json_answer(&json!({ "agent": name, "standing": standing, "evidence": evidence })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promote {
    category: Category,
}

pub(super) async fn promote(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    bytes: Bytes,
) -> Answer {
    let Promote { category } = body(&bytes, BODY)?;
    let step = shared.runtime.trust().promote(&AgentName::from(&*name), category, &caller.person()?).await?;
    Ok(json_answer(&step))
}

pub(super) async fn catalog(State(shared): State<Shared>) -> Answer {
    Ok(json_answer(&json!({ "tools": house::tools(&shared) })))
}

pub(super) async fn rooms(State(shared): State<Shared>) -> Answer {
    let ahead = shared.runtime.pooled();
    Ok(json_answer(&json!({ "rooms": house::rooms(&shared).await?, "made_ahead": ahead })))
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Span {
    hours: Option<u64>,
}

pub(super) async fn findings(State(shared): State<Shared>, uri: Uri) -> Answer {
    let hours = query::<Span>(&uri)?.hours.unwrap_or(24).clamp(1, 720);
    let until = crate::now_ms();
    let since = until.saturating_sub(hours * 3_600_000);
    let tally = shared.read(move |reader| record::tally(reader, since, until, 48)).await?;
    Ok(json_answer(&json!(tally)))
}

pub(super) async fn verify(State(shared): State<Shared>) -> Answer {
    let report = house::prove(&shared).await?;
    let mut answer = json!(report);
    answer["sound"] = json!(report.is_sound());
    Ok(json_answer(&answer))
}
