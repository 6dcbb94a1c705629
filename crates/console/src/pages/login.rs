//! Coming in and leaving.

use std::time::Instant;

use askama::Template;
use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, Uri, header},
    response::Response,
};
use toolgate_contract::{Digest, Principal, Scope};

use super::{Frame, Page, render, see};
use crate::{
    Shared,
    caller::{self, BODY, Caller, Holder, Way},
    door::SESSION_LIFE,
    now_ms,
    problem::Problem,
    site::Site,
};

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    code: String,
}

/// The code of a link is not used by looking at it: a preview or a reload would use it up. The button does.
pub(super) async fn page(uri: Uri) -> Page {
    let query = uri.query().unwrap_or_default();
    let code = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "code");
    let code = code.map(|(_, code)| code.into_owned()).unwrap_or_default();
    render(&LoginPage { frame: Frame::bare("Log in", "login"), code })
}

/// With a code from a link, or with a token.
pub(super) async fn enter(State(shared): State<Shared>, Extension(site): Extension<Site>, request: Request) -> Page {
    let (parts, body) = request.into_parts();
    // A page of another site could otherwise log somebody in as somebody else.
    if !parts.headers.contains_key(header::ORIGIN) {
        return Err(Problem::not_allowed("the log-in does not come from the console's own page", "Open /login."));
    }
    let bytes = caller::read(body, BODY).await?;
    let now = Instant::now();
    let field = |name| caller::field(&parts.headers, &bytes, name).filter(|value| !value.is_empty());
    let holder = match (field("code"), field("token")) {
        (Some(code), _) => by_code(&shared, &code).await?,
        (None, Some(token)) => by_token(&shared, token.trim()).await?,
        (None, None) => None,
    };
    let Some(holder) = holder else {
        shared.guesses.take((), now).map_err(Problem::too_often)?;
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "wrong_code",
            "this opens nothing: a link works once and for ten minutes, a token until it is taken back",
            "Start the console again for a new link, or make a token with `toolgate tokens add`.",
        ));
    };
    let name = shared.door.open(holder, now)?;
    let mut response = see("/");
    set_cookie(&mut response, &site, &name, SESSION_LIFE.as_secs());
    Ok(response)
}

/// Whoever can read what this program prints to its terminal is its operator.
async fn by_code(shared: &Shared, code: &str) -> Result<Option<Holder>, Problem> {
    let person = shared.tokens().enter(code, now_ms()).await?;
    let scopes = [Scope::Read, Scope::Approve, Scope::Admin].into();
    Ok(person.map(|person| Holder { person, scopes, token: None }))
}

async fn by_token(shared: &Shared, secret: &str) -> Result<Option<Holder>, Problem> {
    let token = shared.tokens().prove(secret, now_ms()).await?;
    Ok(token.and_then(|token| match token.principal {
        Principal::Person(person) => {
            Some(Holder { person, scopes: token.scopes, token: Some(Digest::of(secret.as_bytes())) })
        }
        // An agent has no business here.
        Principal::Agent(_) => None,
    }))
}

pub(super) async fn leave(
    State(shared): State<Shared>,
    Extension(site): Extension<Site>,
    Extension(caller): Extension<Caller>,
) -> Page {
    if let Way::Session { name, .. } = &caller.way {
        shared.door.leave(name);
    }
    let mut response = see("/login");
    set_cookie(&mut response, &site, "", 0);
    Ok(response)
}

fn set_cookie(response: &mut Response<Body>, site: &Site, value: &str, seconds: u64) {
    let secure = if site.secure { "; Secure" } else { "" };
    let cookie = format!("{}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}", site.cookie);
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}
