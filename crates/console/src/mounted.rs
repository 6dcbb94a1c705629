//! What others put on this port: behind the same fence, for agents with an agent's token, or for people with a person's.

use std::time::Instant;

use axum::{
    Router,
    extract::{Extension, Request, State},
    http::{HeaderValue, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::json;
use toolgate_contract::Scope;
use toolgate_runtime::tokens::Proven;

use crate::{
    Shared,
    caller::{self, Guard, Way},
    problem::{Problem, json_answer},
    site::Site,
};

/// Routes at a path of the console's port.
pub(crate) struct Mounted {
    pub(crate) path: &'static str,
    pub(crate) for_whom: ForWhom,
    /// How much of a body is read.
    pub(crate) body: usize,
    pub(crate) routes: Router,
}

/// Whose token opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForWhom {
    Agents,
    People,
}

/// Where a program that was turned away learns what to prove itself with (RFC 9728).
const ABOUT: &str = "/.well-known/oauth-protected-resource";

/// The routes with a token before them, and what says so.
pub(crate) fn router(shared: &Shared, mounted: Mounted) -> Router<Shared> {
    let Mounted { path, for_whom, body, routes } = mounted;
    let scope = match for_whom {
        ForWhom::Agents => Scope::Call,
        ForWhom::People => Scope::Read,
    };
    let guard = Guard { shared: shared.clone(), scope, body };
    if for_whom == ForWhom::People {
        // Nothing tells of it: whoever has no token of a person is turned away as from every page.
        let routes = routes.layer(middleware::from_fn_with_state(guard, people_only));
        return Router::new().nest_service(path, routes);
    }
    let state = Gate { guard, path };
    let routes = routes.layer(middleware::from_fn_with_state(state, agents_only));
    let about = move |Extension(site): Extension<Site>| async move { about(&site, path) };
    Router::new().nest_service(path, routes).route(ABOUT, get(about)).route(&format!("{ABOUT}{path}"), get(about))
}

/// What stands before the routes.
#[derive(Debug, Clone)]
struct Gate {
    guard: Guard,
    path: &'static str,
}

/// Lets agents through, and tells the routes which one it is.
async fn agents_only(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let site = request.extensions().get::<Site>().cloned();
    match admit(&gate, request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => {
            let mut response = problem.into_response();
            let challenge = response.headers().get(header::WWW_AUTHENTICATE).and_then(|it| it.to_str().ok());
            if let (Some(challenge), Some(site)) = (challenge, site) {
                let more = if challenge.contains('=') { "," } else { "" };
                let about = format!("resource_metadata=\"{}{ABOUT}{}\"", site.origin, gate.path);
                // The origin is one of our own names, so it is a header.
                if let Ok(challenge) = HeaderValue::from_str(&format!("{challenge}{more} {about}")) {
                    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
                }
            }
            response
        }
    }
}

/// How often an agent calls is not held up here, as it is not where it speaks to a pipe: that is for the policy to say.
async fn admit(gate: &Gate, request: Request) -> Result<Request, Problem> {
    // A cookie opens nothing here, so no page of another site can make a browser call a tool.
    let caller = caller::by_token(&gate.guard.shared, request.headers(), Instant::now()).await?;
    let mut request = caller::admit_caller(&gate.guard, &caller, request).await?;
    request.extensions_mut().insert(caller.principal);
    Ok(request)
}

/// Lets people through, and tells the routes who it is and what their token is good for.
async fn people_only(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match admit_person(&guard, request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// How often a person asks is held up as on every page: behind their token is a program, and it may run wild.
async fn admit_person(guard: &Guard, request: Request) -> Result<Request, Problem> {
    let caller = caller::by_paced_token(&guard.shared, request.headers(), Instant::now()).await?;
    let mut request = caller::admit_caller(guard, &caller, request).await?;
    let (person, Way::Token(token)) = (caller.person()?, caller.way) else { return Err(Problem::unknown_caller()) };
    request.extensions_mut().insert(Proven { person, scopes: caller.scopes, token });
    Ok(request)
}

/// What the routes are protected with: a token in a header, given out by the operator and by no server.
fn about(site: &Site, path: &str) -> Response {
    json_answer(&json!({
        "resource": format!("{}{path}", site.origin),
        "resource_name": "Toolgate",
        "bearer_methods_supported": ["header"],
        "scopes_supported": [Scope::Call],
    }))
}
