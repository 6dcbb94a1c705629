//! What there is: agents, tools, rooms, and the state of the record.

use axum::{extract::State, http::Uri};
use serde::Deserialize;
use serde_json::json;

use super::{Answer, query};
use crate::{Shared, house, problem::json_answer, record};

pub(super) async fn agents(State(shared): State<Shared>) -> Answer {
    Ok(json_answer(&json!({ "agents": house::agents(&shared) })))
}

pub(super) async fn catalog(State(shared): State<Shared>) -> Answer {
    Ok(json_answer(&json!({ "tools": house::tools(&shared) })))
}

pub(super) async fn rooms(State(shared): State<Shared>) -> Answer {
    Ok(json_answer(&json!({ "rooms": house::rooms(&shared).await? })))
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
