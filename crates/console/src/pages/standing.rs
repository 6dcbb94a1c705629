//! What stands: yeses given in advance, and effects that happen once.

use askama::Template;
use axum::{
    Extension,
    body::Bytes,
    extract::{Path, State},
    http::HeaderMap,
};
use toolgate_contract::{AgentName, Covers, Once, OnceKey, OnceState, Resolution, Scope};

use super::{Frame, Page, part, render, see, when};
use crate::{
    Shared,
    caller::{self, Caller},
    now_ms,
    people::{self, Standing},
    problem::Problem,
    text::Text,
};

#[derive(Template)]
#[template(path = "standing.html")]
struct StandingPage {
    frame: Frame,
    may: bool,
    grants: Vec<GrantRow>,
    effects: Vec<EffectRow>,
}

struct GrantRow {
    link: String,
    id: Text,
    agent: Text,
    tool: Text,
    covers: Vec<Text>,
    left: u32,
    until: String,
    by: Text,
    reason: Text,
    state: &'static str,
}

struct EffectRow {
    agent: Text,
    tool: Text,
    key: Text,
    state: &'static str,
    is_unknown: bool,
    call: String,
    attempt: u32,
    changed: String,
    word: Text,
}

impl GrantRow {
    fn of(Standing { grant, stale }: &Standing) -> Self {
        let covers = match &grant.terms.covers {
            Covers::Exactly(digest) => vec![Text(format!("exactly {digest}"))],
            Covers::Arguments(patterns) => {
                patterns.iter().map(|(path, pattern)| Text(format!("{path} = {pattern}"))).collect()
            }
        };
        Self {
            link: format!("/standing/grants/{}", part(&grant.id.0)),
            id: Text(grant.id.to_string()),
            agent: Text(grant.terms.agent.to_string()),
            tool: Text(grant.terms.tool.clone()),
            covers,
            left: grant.left,
            until: grant.terms.until_ms.map_or_else(|| "taken back".to_owned(), when),
            by: Text(grant.terms.by.to_string()),
            reason: Text(grant.terms.reason.clone()),
            state: match () {
                () if grant.revoked.is_some() => "revoked",
                () if !grant.holds(now_ms()) => "over",
                () if *stale => "stale",
                () => "holds",
            },
        }
    }
}

impl From<Once> for EffectRow {
    fn from(once: Once) -> Self {
        let word = once.resolved.map(|resolved| match resolved.resolution {
            Resolution::Happened(_) => format!("{}: it happened", resolved.by),
            Resolution::DidNotHappen => format!("{}: it did not happen", resolved.by),
        });
        Self {
            agent: Text(once.key.agent.to_string()),
            tool: Text(once.key.tool),
            key: Text(once.key.key),
            state: once.state.as_str(),
            is_unknown: once.state == OnceState::Unknown,
            call: format!("/calls/{}", part(&once.call.0)),
            attempt: once.attempt,
            changed: when(once.changed_ms),
            word: Text(word.unwrap_or_default()),
        }
    }
}

pub(super) async fn page(State(shared): State<Shared>, Extension(caller): Extension<Caller>) -> Page {
    let grants = people::grants(&shared, None).await?;
    let mut effects = people::effects(&shared, Vec::new(), None).await?;
    // Those that wait for a person come first.
    effects.sort_by_key(|once| once.state != OnceState::Unknown);
    render(&StandingPage {
        frame: Frame::new("Grants and effects", "standing", &caller),
        may: caller.may(Scope::Admin),
        grants: grants.iter().map(GrantRow::of).collect(),
        effects: effects.into_iter().take(100).map(EffectRow::from).collect(),
    })
}

pub(super) async fn revoke(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Page {
    people::revoke(&shared, &id, &caller.person()?).await?;
    Ok(see("/standing"))
}

pub(super) async fn resolve(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Page {
    let field = |name| caller::field(&headers, &bytes, name).unwrap_or_default();
    let key = OnceKey { agent: AgentName::from(&*field("agent")), tool: field("tool"), key: field("key") };
    let happened = match &*field("found") {
        "happened" => true,
        "not" => false,
        _ => return Err(Problem::bad_request("the form does not say what was found", "Load the page again.")),
    };
    people::resolve(&shared, &key, &caller.person()?, happened, &field("told")).await?;
    Ok(see("/standing"))
}
