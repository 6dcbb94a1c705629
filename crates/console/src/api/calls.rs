//! Calls: making one, looking at those that were made.

use std::time::Duration;

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, Uri, header},
    response::Response,
};
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contract::{Call, CallId, Principal};
use toolgate_runtime::Watch;

use super::{Answer, body, query};
use crate::{
    Shared,
    caller::{BODY, Caller},
    problem::{Problem, json_answer},
    record::{self, Filter},
};

/// Calls on one page at most.
const MOST: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    tool: String,
    #[serde(default = "nothing")]
    arguments: Value,
    key: Option<String>,
    task: Option<String>,
    #[serde(default)]
    wait: bool,
}

fn nothing() -> Value {
    json!({})
}

/// The caller who goes away cancels the call: this future is dropped, and with it the one that runs the call.
pub(super) async fn make(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Answer {
    let Principal::Agent(agent) = &caller.principal else {
        return Err(Problem::not_allowed("only an agent makes calls", "Use the token of an agent."));
    };
    let most = shared.runtime.config().limits.max_input_bytes + BODY;
    let wanted: Wanted = body(&bytes, most)?;
    let call = shared.runtime.call(agent, &wanted.tool, wanted.arguments);
    let call = Call { key: key(&headers, wanted.key)?, task: wanted.task, ..call };
    let hold = if wanted.wait { shared.runtime.hold() } else { Duration::ZERO };
    let outcome = shared.runtime.invoke(call, Watch { hold, ..Watch::default() }).await;
    Ok(json_answer(&outcome))
}

/// What to call the effect: in a header, as other APIs have it, or beside the arguments.
fn key(headers: &HeaderMap, beside: Option<String>) -> Result<Option<String>, Problem> {
    let mut sent = headers.get_all("idempotency-key").iter();
    let Some(first) = sent.next() else { return Ok(beside) };
    let first = first.to_str().ok().filter(|_| sent.next().is_none());
    match (first, beside) {
        (Some(first), None) => Ok(Some(first.to_owned())),
        (Some(first), Some(beside)) if first == beside => Ok(Some(beside)),
        _ => Err(Problem::bad_request("the call has more than one key", "Give one `Idempotency-Key`.")),
    }
}

pub(super) async fn list(State(shared): State<Shared>, uri: Uri) -> Answer {
    let filter: Filter = query(&uri)?;
    let filter = Filter { limit: filter.limit.map(|limit| limit.min(MOST)), ..filter };
    let calls = shared.read(move |reader| record::list(reader, &filter.without_blanks())).await?;
    Ok(json_answer(&calls))
}

pub(super) async fn one(State(shared): State<Shared>, Path(id): Path<String>) -> Answer {
    let call = CallId(id);
    let whole = shared.read(move |reader| record::whole(reader, &call)).await?;
    whole.map(|whole| json_answer(&whole)).ok_or_else(|| Problem::not_found("nothing is recorded about this call"))
}

/// As bytes nobody renders: it may hold anything.
pub(super) async fn raw(State(shared): State<Shared>, Path(id): Path<String>) -> Answer {
    let call = CallId(id);
    let raw = shared.read(move |reader| record::raw(reader, &call)).await?;
    let raw = raw.ok_or_else(|| Problem::not_found("there is no raw result: the answer shows all of it"))?;
    let mut response = Response::new(Body::from(raw));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"raw.json\""));
    Ok(response)
}
