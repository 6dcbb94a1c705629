//! The ways the web fails its readers, each said once.

use toolgate_contract::{Fault, WebResponse};

use super::body::{self, Content};
use crate::files::{
    fault::Known,
    text::{brief, prefix},
};

pub(super) const HTTP_STATUS: Known = Known::new(
    "http_status",
    "The server answers with a status of 400 or more. The message has the status and the beginning of what it says; \
     with 429 and most of 500 and above the same call may succeed later.",
);
pub(super) const NOT_A_PAGE: Known =
    Known::new("not_a_page", "What is at the address is neither a page nor other text. Use another address.");
pub(super) const BODY_REFUSED: Known = Known::new(
    "body_not_allowed",
    "There is a body with GET, HEAD or OPTIONS, or both `body` and `json` are given. Give one, with a method that writes.",
);
pub(super) const BAD_BASE: Known =
    Known::new("bad_base_url", "`base_url` is not a plain `https` or `http` URL. Write it whole, or leave it out.");
pub(super) const NO_SEARCH_ENGINE: Known =
    Known::new("no_search_engine", "The operator has set up no search engine. Use `fetch_url` with a known address.");
pub(super) const SEARCH_REFUSED: Known = Known::new(
    "search_refused",
    "The search engine does not answer programs, or not so many questions. Wait, or use a known address.",
);
pub(super) const SEARCH_UNREADABLE: Known = Known::new(
    "search_unreadable",
    "What the search engine said cannot be read. That does not mean that there is nothing to find; ask the operator.",
);

/// Fails when the server did.
pub(super) fn refuse_status(response: &WebResponse) -> Result<(), Fault> {
    if response.status < 400 {
        return Ok(());
    }
    let url = brief(&response.url);
    let message = format!("`{url}` answered with status {}{}", response.status, said(response));
    if response.is_retryable() {
        return Err(HTTP_STATUS.failed(message, again(response)).retryable());
    }
    let remedy = match response.status {
        401 | 403 => "It is not for everyone. Use another source, or a connection of the operator's.",
        404 | 410 => "Check the address.",
        _ => "Change the request.",
    };
    Err(HTTP_STATUS.failed(message, remedy))
}

/// When to try again.
pub(super) fn again(response: &WebResponse) -> String {
    match response.header("retry-after").map(str::trim) {
        Some(seconds) if !seconds.is_empty() && seconds.bytes().all(|b| b.is_ascii_digit()) => {
            format!("Try again in {} seconds.", brief(seconds))
        }
        Some(date) if !date.is_empty() => format!("Try again after `{}`.", brief(date)),
        Some(_) | None => "Try again later.".to_owned(),
    }
}

/// The beginning of what the server says about it.
fn said(response: &WebResponse) -> String {
    let text = match body::read(response).content {
        Content::Page(page) => page.text(),
        Content::Text(text) => text,
        Content::Binary => String::new(),
    };
    let words: Vec<_> = prefix(&text, 2_000).split_whitespace().collect();
    let words = words.join(" ");
    if words.is_empty() { String::new() } else { format!(" and says `{}`", brief(&words)) }
}
