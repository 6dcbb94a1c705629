//! Who is asking, and may they?
//!
//! A program sends a token; a browser sends the cookie of its session, and with everything that changes something also a
//! word that only our own pages know. Every route but a few names the scope it wants, and [`guard`] stands before it.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use toolgate_contract::{Digest, Person, Principal, Scope};
use toolgate_runtime::tokens::may;

use crate::{Shared, now_ms, problem::Problem, site::Site};

/// How long the body of a request may take.
const BODY_TIME: Duration = Duration::from_secs(15);
/// How much of it is read, where a route says nothing else.
pub(crate) const BODY: usize = 64 * 1024;

/// Somebody who was let in.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) scopes: BTreeSet<Scope>,
    pub(crate) way: Way,
}

/// How they came in.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// With a token, by its name.
    Token(String),
    /// With a browser. What its cookie says, and the word of its forms.
    Session { name: String, csrf: String },
}

/// What is known about somebody with a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) person: Person,
    pub(crate) scopes: BTreeSet<Scope>,
    /// The token they logged in with: when it no longer holds, neither does the session.
    pub(crate) token: Option<Digest>,
}

impl Caller {
    pub(crate) fn may(&self, scope: Scope) -> bool {
        may(&self.principal, &self.scopes, scope)
    }

    /// The person, for what only a person does.
    pub(crate) fn person(&self) -> Result<Person, Problem> {
        match &self.principal {
            Principal::Person(person) => Ok(person.clone()),
            Principal::Agent(_) => Err(Problem::not_allowed(
                "only a person can do this",
                "Ask the operator; an agent's token is for calls.",
            )),
        }
    }

    pub(crate) fn csrf(&self) -> &str {
        match &self.way {
            Way::Session { csrf, .. } => csrf,
            Way::Token(_) => "",
        }
    }
}

/// What stands before a route.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) shared: Shared,
    pub(crate) scope: Scope,
    /// How much of a body is read.
    pub(crate) body: usize,
}

/// Lets through those who may.
pub(crate) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match admit(&guard, request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

async fn admit(guard: &Guard, request: Request) -> Result<Request, Problem> {
    let site = request.extensions().get::<Site>().cloned().ok_or_else(|| Problem::broken("there is no fence"))?;
    let caller = identify(&guard.shared, &site, request.headers()).await?;
    let mut request = admit_caller(guard, &caller, request).await?;
    request.extensions_mut().insert(caller);
    Ok(request)
}

/// The request of somebody who may make it, with its whole body.
pub(crate) async fn admit_caller(guard: &Guard, caller: &Caller, request: Request) -> Result<Request, Problem> {
    if let (Principal::Person(person), Scope::Call) = (&caller.principal, guard.scope) {
        let message = format!("calls are made by agents, and `{person}` is a person");
        let remedy = "Use an agent's token: `toolgate tokens add --agent NAME` makes one.";
        return Err(Problem::not_allowed(message, remedy).lacks(guard.scope));
    }
    if !caller.may(guard.scope) {
        let message = format!("`{}` has no scope `{}`", caller.principal, guard.scope);
        return Err(Problem::not_allowed(message, "Use a token or a log-in that has it.").lacks(guard.scope));
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let bytes = read(body, guard.body).await?;
    if let Way::Session { csrf, .. } = &caller.way {
        knows_the_word(&parts.headers, &bytes, csrf)?;
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// All of a body, if it comes soon and is not too long.
pub(crate) async fn read(body: Body, most: usize) -> Result<Bytes, Problem> {
    let read = tokio::time::timeout(BODY_TIME, to_bytes(body, most)).await.map_err(|_| {
        Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "too_slow",
            "the body of the request did not come in time",
            "Try again.",
        )
    })?;
    read.map_err(|_| {
        let message = format!("the body of the request is broken off or has more than {most} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message, "Send less at once.")
    })
}

/// Somebody else's page can make a browser send its cookie, but cannot read this word out of one of ours.
fn knows_the_word(headers: &HeaderMap, body: &Bytes, csrf: &str) -> Result<(), Problem> {
    let told = headers.get("x-csrf-token").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let told = told.or_else(|| field(headers, body, "csrf")).unwrap_or_default();
    // Browsers name the origin of everything that changes something; one that does not is too old to be trusted here.
    let has_origin = headers.contains_key(header::ORIGIN);
    if has_origin && Digest::of(told.as_bytes()) == Digest::of(csrf.as_bytes()) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "not_from_here",
        "the request does not come from a page of this session",
        "Load the page again and repeat it there.",
    ))
}

/// One field of a form.
pub(crate) fn field(headers: &HeaderMap, body: &Bytes, name: &str) -> Option<String> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    if !kind.starts_with("application/x-www-form-urlencoded") {
        return None;
    }
    let mut fields = form_urlencoded::parse(body);
    fields.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Who is asking, and not too often?
pub(crate) async fn identify(shared: &Shared, site: &Site, headers: &HeaderMap) -> Result<Caller, Problem> {
    let now = Instant::now();
    let caller = match headers.contains_key(header::AUTHORIZATION) {
        true => by_token(shared, headers, now).await?,
        false => by_cookie(shared, site, headers, now).await?,
    };
    paced(shared, caller, now)
}

/// The same for those who can prove themselves with a token only.
pub(crate) async fn by_paced_token(shared: &Shared, headers: &HeaderMap, now: Instant) -> Result<Caller, Problem> {
    let caller = by_token(shared, headers, now).await?;
    paced(shared, caller, now)
}

fn paced(shared: &Shared, caller: Caller, now: Instant) -> Result<Caller, Problem> {
    let key = match &caller.way {
        Way::Token(id) => id.clone(),
        // Not by its name: logging in again would be a way to a new pace.
        Way::Session { .. } => caller.principal.to_string(),
    };
    shared.requests.take(key, now).map_err(Problem::too_often)?;
    Ok(caller)
}

/// Who proves themselves with a token.
pub(crate) async fn by_token(shared: &Shared, headers: &HeaderMap, now: Instant) -> Result<Caller, Problem> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(given), None) = (given.next(), given.next()) else { return Err(Problem::unknown_caller()) };
    let given = given.to_str().unwrap_or_default();
    let secret = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    if let Some((_, secret)) = secret
        && let Some(token) = shared.tokens().prove(secret.trim(), now_ms()).await?
    {
        return Ok(Caller { principal: token.principal, scopes: token.scopes, way: Way::Token(token.id) });
    }
    shared.guesses.take((), now).map_err(Problem::too_often)?;
    Err(if secret.is_some() { Problem::unknown_token() } else { Problem::unknown_caller() })
}

async fn by_cookie(shared: &Shared, site: &Site, headers: &HeaderMap, now: Instant) -> Result<Caller, Problem> {
    let name = cookie(headers, &site.cookie).ok_or_else(Problem::unknown_caller)?;
    let pass = shared.door.pass(&name, now).ok_or_else(Problem::unknown_caller)?;
    let Holder { person, mut scopes, token } = pass.holder;
    if let Some(hash) = token {
        let held = shared.state.token_by_hash(hash, now_ms()).await?;
        let Some(held) = held else {
            shared.door.leave(&name);
            return Err(Problem::unknown_caller());
        };
        scopes = held.scopes;
    }
    Ok(Caller { principal: Principal::Person(person), scopes, way: Way::Session { name, csrf: pass.csrf } })
}

/// The value of a cookie; none where it is given twice, because then somebody else set one of them.
fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut found = all
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value.to_owned());
    let first = found.next()?;
    found.next().is_none().then_some(first)
}
