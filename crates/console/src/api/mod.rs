//! The API: one table of routes, from which come the router, the scope each wants, and the description of it all.

mod calls;
mod events;
mod house;
mod openapi;
mod people;

use std::sync::OnceLock;

use axum::{
    Router,
    body::Bytes,
    http::{Method, StatusCode, Uri},
    middleware,
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolgate_contract::Scope;
use toolgate_guard::json as strict;

use crate::{
    Shared,
    caller::{self, BODY, Guard},
    problem::{Problem, json_answer},
};

pub(crate) type Answer = Result<Response, Problem>;

/// One route.
struct Route {
    method: Method,
    path: &'static str,
    /// None for what everybody may see.
    scope: Option<Scope>,
    handler: MethodRouter<Shared>,
    /// One sentence.
    about: &'static str,
    /// Parameters of the query: name, what it means.
    query: &'static [(&'static str, &'static str)],
    /// The schema of the body, by name.
    body: Option<&'static str>,
    /// The schema of the answer, by name; none where it is no JSON.
    answer: Option<&'static str>,
}

/// A look at something, for whoever may read.
fn look() -> Route {
    Route {
        method: Method::GET,
        path: "",
        scope: Some(Scope::Read),
        handler: MethodRouter::new(),
        about: "",
        query: &[],
        body: None,
        answer: Some("Any"),
    }
}

/// Every route of the API.
fn routes() -> Vec<Route> {
    vec![
        Route {
            path: "/api/openapi.json",
            scope: None,
            handler: get(description),
            about: "This description.",
            ..look()
        },
        Route {
            method: Method::POST,
            path: "/api/calls",
            scope: Some(Scope::Call),
            handler: post(calls::make),
            about: "Make a call. The token's agent makes it, and it takes the road every call takes.",
            body: Some("Call"),
            answer: Some("Outcome"),
            ..look()
        },
        Route {
            path: "/api/calls",
            handler: get(calls::list),
            about: "Calls, newest first.",
            query: &[
                ("agent", "only of this agent"),
                ("tool", "only of this tool"),
                ("status", "`done`, `refused`, `pending`, `failed` or `running`"),
                ("finding", "only with a finding of this kind, or with `any`"),
                ("since_ms", "from this moment on, in milliseconds since 1970"),
                ("until_ms", "up to this moment"),
                ("before", "only before this entry of the record; `next` of the page before"),
                ("limit", "at most so many; 50 if left out, never more than 500"),
            ],
            answer: Some("Calls"),
            ..look()
        },
        Route {
            path: "/api/calls/{id}",
            handler: get(calls::one),
            about: "Everything recorded about one call.",
            answer: Some("Whole"),
            ..look()
        },
        Route {
            path: "/api/calls/{id}/raw",
            scope: Some(Scope::Admin),
            handler: get(calls::raw),
            about: "The result as the tool gave it, before it was cleaned and cut.",
            answer: None,
            ..look()
        },
        Route {
            path: "/api/approvals",
            handler: get(people::questions),
            about: "What people are or were asked, newest first.",
            query: &[
                ("state", "`waiting`, `approved`, `denied`, `expired` or `used`; any if left out"),
                ("agent", "only of this agent"),
                ("limit", "at most so many; 100 if left out, never more than 500"),
            ],
            answer: Some("Approvals"),
            ..look()
        },
        Route {
            path: "/api/approvals/{id}",
            handler: get(people::question),
            about: "One question with everything a person needs to answer it.",
            answer: Some("Approval"),
            ..look()
        },
        Route {
            method: Method::POST,
            path: "/api/approvals/{id}/approve",
            scope: Some(Scope::Approve),
            handler: post(people::approve),
            about: "Say yes. Not to a call of one's own, and once.",
            body: Some("Reason"),
            answer: Some("Approval"),
            ..look()
        },
        Route {
            method: Method::POST,
            path: "/api/approvals/{id}/deny",
            scope: Some(Scope::Approve),
            handler: post(people::deny),
            about: "Say no. The reason is told to the agent.",
            body: Some("Reason"),
            answer: Some("Approval"),
            ..look()
        },
        Route {
            path: "/api/grants",
            handler: get(people::grants),
            about: "What people said yes to in advance, newest first, also what no longer holds.",
            query: &[("agent", "only of this agent")],
            answer: Some("Grants"),
            ..look()
        },
        Route {
            method: Method::POST,
            path: "/api/grants/{id}/revoke",
            scope: Some(Scope::Admin),
            handler: post(people::revoke),
            about: "Take a standing yes back.",
            ..look()
        },
        Route {
            path: "/api/effects",
            handler: get(people::effects),
            about: "Effects that happen once, and what is known about each.",
            query: &[
                ("state", "`running`, `done`, `failed`, `unknown` or `resolved`; any if left out"),
                ("agent", "only of this agent"),
            ],
            answer: Some("Effects"),
            ..look()
        },
        Route {
            method: Method::POST,
            path: "/api/effects/resolve",
            scope: Some(Scope::Admin),
            handler: post(people::resolve),
            about: "Say what became of an effect nobody knows about.",
            body: Some("Resolve"),
            ..look()
        },
        Route {
            path: "/api/agents",
            handler: get(house::agents),
            about: "The agents, their levels and where those are written.",
            answer: Some("Agents"),
            ..look()
        },
        Route {
            path: "/api/agents/{name}/trust",
            handler: get(house::trust),
            about: "How far one agent is trusted in each category, what the next step takes, and the evidence.",
            answer: Some("Standing"),
            ..look()
        },
        Route {
            method: Method::POST,
            path: "/api/agents/{name}/promote",
            scope: Some(Scope::Admin),
            handler: post(house::promote),
            about: "Agree to a step up that waits for a person.",
            body: Some("Promote"),
            ..look()
        },
        Route {
            path: "/api/catalog",
            handler: get(house::catalog),
            about: "Every tool with the hash of its definition and what a look at it found.",
            answer: Some("Catalog"),
            ..look()
        },
        Route {
            path: "/api/rooms",
            handler: get(house::rooms),
            about: "The rooms that are open, or were left over.",
            answer: Some("Rooms"),
            ..look()
        },
        Route {
            path: "/api/findings",
            handler: get(house::findings),
            about: "What guards saw, counted by kind and rule, and calls by how they ended.",
            query: &[("hours", "how far back; 24 if left out, never more than 720")],
            answer: Some("Tally"),
            ..look()
        },
        Route {
            method: Method::POST,
            path: "/api/audit/verify",
            handler: post(house::verify),
            about: "Read every byte of the record and say what was changed, dropped, added or cut.",
            answer: Some("Report"),
            ..look()
        },
        Route {
            path: crate::fence::EVENTS,
            handler: get(events::listen),
            about: "Events as they happen (server-sent): `call` when one ends, `note` when people did something, `missed` \
                    when this reader did not keep up.",
            answer: None,
            ..look()
        },
    ]
}

pub(crate) fn router(shared: &Shared) -> Router<Shared> {
    let mut router = Router::new();
    for Route { method, path, scope, handler, .. } in routes() {
        let handler = match scope {
            Some(scope) => {
                let most = shared.runtime.config().limits.max_input_bytes;
                let body = if (&method, path) == (&Method::POST, "/api/calls") { most + BODY } else { BODY };
                let guard = Guard { shared: shared.clone(), scope, body };
                handler.route_layer(middleware::from_fn_with_state(guard, caller::guard))
            }
            None => handler,
        };
        router = router.route(path, handler);
    }
    router.method_not_allowed_fallback(wrong_method)
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let message = format!("`{method}` is not how `{}` is used", uri.path());
    let remedy = "Look at /api/openapi.json.";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", message, remedy).into_response()
}

async fn description() -> Response {
    static TEXT: OnceLock<Value> = OnceLock::new();
    json_answer(TEXT.get_or_init(|| openapi::document(&routes())))
}

/// The parameters of a request. One that does not exist is an error, not a filter that does nothing.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    let parsed = axum::extract::Query::try_from_uri(uri);
    parsed.map(|query| query.0).map_err(|error| {
        Problem::bad_request(format!("the query cannot be read: {}", error.body_text()), "Look at /api/openapi.json.")
    })
}

/// The body of a request, read strictly: what two readers could read differently is refused.
pub(crate) fn body<T: DeserializeOwned>(bytes: &Bytes, most: usize) -> Result<T, Problem> {
    let remedy = "Send one JSON object as /api/openapi.json describes it.";
    let value = match bytes.is_empty() {
        true => json!({}),
        false => strict::read(bytes, &strict::Limits { bytes: most, ..strict::Limits::default() })
            .map_err(|fault| Problem::bad_request(fault.to_string(), remedy))?,
    };
    serde_json::from_value(value).map_err(|error| Problem::bad_request(error.to_string(), remedy))
}
