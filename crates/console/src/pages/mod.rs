//! The page for people: every answer is whole when it leaves here, and works without a script.

mod agents;
mod approvals;
mod audit;
mod calls;
mod catalog;
mod login;
mod overview;
mod rooms;
mod standing;

use askama::Template;
use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{Html, IntoResponse, Redirect, Response},
    routing::{MethodRouter, get, post},
};
use jiff::Timestamp;
use toolgate_contract::Scope;

use crate::{
    Shared, assets,
    caller::{self, BODY, Caller, Guard},
    house,
    problem::Problem,
    text::Text,
};

pub(crate) type Page = Result<Response, Problem>;

pub(crate) fn router(shared: &Shared) -> Router<Shared> {
    let guarded = |scope: Scope, handler: MethodRouter<Shared>| {
        let guard = Guard { shared: shared.clone(), scope, body: BODY };
        handler.route_layer(middleware::from_fn_with_state(guard, caller::guard))
    };
    let read = |handler| guarded(Scope::Read, handler);
    Router::new()
        .route("/", read(get(overview::page)))
        .route("/approvals", read(get(approvals::list)))
        .route("/approvals/{id}", read(get(approvals::one)).merge(guarded(Scope::Approve, post(approvals::answer))))
        .route("/standing", read(get(standing::page)))
        .route("/standing/grants/{id}", guarded(Scope::Admin, post(standing::revoke)))
        .route("/standing/effects", guarded(Scope::Admin, post(standing::resolve)))
        .route("/calls", read(get(calls::list)))
        .route("/calls/{id}", read(get(calls::one)))
        .route("/agents", read(get(agents::page)))
        .route("/agents/{name}", guarded(Scope::Admin, post(agents::promote)))
        .route("/catalog", read(get(catalog::list)))
        .route("/catalog/{name}", read(get(catalog::one)))
        .route("/rooms", read(get(rooms::page)))
        .route("/audit", read(get(audit::page).post(audit::verify)))
        .route("/logout", read(post(login::leave)))
        .route("/login", get(login::page).post(login::enter))
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn(shown))
}

/// What every page has around it.
pub(crate) struct Frame {
    title: String,
    here: &'static str,
    person: Text,
    csrf: String,
    version: &'static str,
}

impl Frame {
    fn new(title: impl Into<String>, here: &'static str, caller: &Caller) -> Self {
        Self { person: Text(house::name_of(caller)), csrf: caller.csrf().to_owned(), ..Self::bare(title, here) }
    }

    fn nav(&self) -> &'static [(&'static str, &'static str, &'static str)] {
        &[
            ("overview", "/", "Overview"),
            ("approvals", "/approvals", "Approvals"),
            ("calls", "/calls", "Calls"),
            ("standing", "/standing", "Grants and effects"),
            ("agents", "/agents", "Agents"),
            ("catalog", "/catalog", "Catalog"),
            ("rooms", "/rooms", "Rooms"),
            ("audit", "/audit", "Record"),
        ]
    }

    /// For somebody who has not logged in.
    fn bare(title: impl Into<String>, here: &'static str) -> Self {
        let version = assets::version();
        Self { title: title.into(), here, person: Text::default(), csrf: String::new(), version }
    }
}

fn render(page: &impl Template) -> Page {
    let html = page.render().map_err(|error| Problem::broken(format!("the page cannot be made: {error}")))?;
    Ok(Html(html).into_response())
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    frame: Frame,
    problem: Problem,
    message: Text,
}

/// Problems are pages here, and somebody who is not logged in is shown the way.
async fn shown(request: Request, next: Next) -> Response {
    let is_look = matches!(*request.method(), Method::GET | Method::HEAD);
    let response = next.run(request).await;
    let Some(problem) = response.extensions().get::<Problem>().cloned() else { return response };
    if problem.status == StatusCode::UNAUTHORIZED && is_look {
        return Redirect::to("/login").into_response();
    }
    problem_page(problem)
}

fn problem_page(problem: Problem) -> Response {
    let message = Text(problem.message.clone());
    let page = ProblemPage { frame: Frame::bare("That did not work", ""), problem: problem.clone(), message };
    let Ok(html) = page.render() else { return problem.into_response() };
    let mut response = Html(html).into_response();
    problem.dress(&mut response);
    response
}

/// There is nothing at this address.
pub(crate) async fn nothing_here(uri: Uri) -> Response {
    let problem = Problem::not_found("there is nothing at this address");
    if uri.path().starts_with("/api") { problem.into_response() } else { problem_page(problem) }
}

async fn wrong_method() -> Response {
    let message = "this address is not used that way";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", message, "Go back to the page.").into_response()
}

/// After something was done: to the page that shows it.
fn see(path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}

/// A moment, for people.
fn when(at_ms: u64) -> String {
    i64::try_from(at_ms)
        .ok()
        .and_then(|at| Timestamp::from_millisecond(at).ok())
        .map_or_else(|| at_ms.to_string(), |at| at.strftime("%F %T").to_string())
}

/// A name as one part of a path.
fn part(name: &str) -> String {
    form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20")
}
