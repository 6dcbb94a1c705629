//! What holds for every request and every answer, before anybody looks at what it asks for.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{Shared, problem::Problem, site::Site};

/// The one path with answers that never end.
pub(crate) const EVENTS: &str = "/api/events";

/// What a page of ours may do: load our own style and script, send forms to us, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Lets through what was meant for this console and came from it or from no page at all.
pub(crate) async fn fence(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let mut response = match admit(&shared, &request) {
        Ok(site) => {
            request.extensions_mut().insert(site);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    dress(response.headers_mut());
    response
}

fn admit(shared: &Shared, request: &Request) -> Result<Site, Problem> {
    let site = addressed(shared, request).ok_or_else(|| {
        Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong_host",
            "this console is not reached under the name the request was sent to",
            "Use the address it printed, or name the host with --http-host.",
        )
    })?;
    let headers = request.headers();
    let says = |name: HeaderName| headers.get_all(name).iter().collect::<Vec<_>>();
    let foreign = || {
        Problem::new(
            StatusCode::FORBIDDEN,
            "wrong_origin",
            "the request was made by a page of another site",
            "Send it from the console's own page, or without an Origin.",
        )
    };
    // A program sends no origin; a browser sends it wherever it matters, and cannot be made to send another one.
    match says(header::ORIGIN).as_slice() {
        [] => {}
        [origin] if origin.as_bytes() == site.origin.as_bytes() => {}
        _ => return Err(foreign()),
    }
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD) && request.uri().path() != EVENTS;
    match says(HeaderName::from_static("sec-fetch-site")).as_slice() {
        [] => {}
        [from] if *from == "same-origin" || *from == "none" => {}
        _ if is_safe => {}
        _ => return Err(foreign()),
    }
    Ok(site.clone())
}

/// The site a request is addressed to. More than one `Host`, or another one in the request's first line, is nobody's.
fn addressed<'a>(shared: &'a Shared, request: &Request) -> Option<&'a Site> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
    let site = shared.sites.find(host.to_str().ok()?)?;
    match request.uri().authority() {
        Some(named) if !named.as_str().eq_ignore_ascii_case(&site.authority) => None,
        _ => Some(site),
    }
}

fn dress(headers: &mut HeaderMap) {
    const SET: [(HeaderName, HeaderValue); 7] = [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        // With `no-referrer` a browser would send `Origin: null` with our own forms.
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
        (
            HeaderName::from_static("permissions-policy"),
            HeaderValue::from_static("camera=(), geolocation=(), microphone=()"),
        ),
    ];
    headers.reserve(SET.len() + 1);
    for (name, value) in SET {
        headers.insert(name, value);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
