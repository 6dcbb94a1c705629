//! The style, the script and the sign: built in, named one by one, so there is no path to walk out of.

use axum::{
    Router,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
    routing::get,
};

const STYLE: &str = include_str!("../assets/console.css");
const SCRIPT: &str = include_str!("../assets/console.js");
const SIGN: &str = include_str!("../assets/sign.svg");

pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/assets/console.css", get(async || asset(STYLE, "text/css; charset=utf-8")))
        .route("/assets/console.js", get(async || asset(SCRIPT, "text/javascript; charset=utf-8")))
        .route("/assets/sign.svg", get(async || asset(SIGN, "image/svg+xml")))
}

/// The version of them all: a page names it, so that a browser never shows a new page in an old style.
pub(crate) fn version() -> &'static str {
    static VERSION: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    VERSION.get_or_init(|| {
        let all = [STYLE, SCRIPT, SIGN].concat();
        toolgate_contract::Digest::of(all.as_bytes()).hex()[..12].to_owned()
    })
}

fn asset(text: &'static str, kind: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400")),
    ];
    (headers, text).into_response()
}
