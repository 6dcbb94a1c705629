//! The languages of search engines: how each is asked, and how its answer is read.
//!
//! An answer is results, an empty list only where the engine says that it found nothing, or a fault. What cannot be read
//! is never taken for nothing.

mod brave;
mod duckduckgo;
mod searxng;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use toolgate_contract::{Fault, SearchEngine, SearchProvider, WebRequest, WebResponse};
use toolgate_guard::{html::Document, url::WebUrl};

use super::fault::{SEARCH_REFUSED, SEARCH_UNREADABLE, again, refuse_status};

/// One page that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) snippet: String,
}

/// Longer titles and snippets are cut, in bytes.
const LONGEST_TITLE: usize = 300;
const LONGEST_SNIPPET: usize = 1_000;

/// What to send.
pub(super) fn question(engine: &SearchEngine, query: &str, most: usize) -> WebRequest {
    let most = most.to_string();
    let (accept, parts) = match engine.provider {
        SearchProvider::Duckduckgo => ("text/html", vec![("q", query)]),
        SearchProvider::Searxng => ("application/json", vec![("q", query), ("format", "json")]),
        SearchProvider::Brave => ("application/json", vec![("q", query), ("count", &most)]),
    };
    WebRequest {
        headers: vec![("accept".into(), accept.into())],
        connection: engine.connection.clone(),
        ..WebRequest::get(with_query(&engine.endpoint, &parts))
    }
}

/// What was found, each page once.
pub(super) fn results(engine: &SearchEngine, response: &WebResponse) -> Result<Vec<Found>, Fault> {
    let found = match engine.provider {
        SearchProvider::Duckduckgo => duckduckgo::results(response)?,
        SearchProvider::Searxng => searxng::results(response)?,
        SearchProvider::Brave => brave::results(response)?,
    };
    let mut known = std::collections::BTreeSet::new();
    Ok(found.into_iter().filter(|found| known.insert(found.url.clone())).collect())
}

const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn with_query(endpoint: &str, parts: &[(&str, &str)]) -> String {
    let mut url = endpoint.to_owned();
    for (name, value) in parts {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(name);
        url.push('=');
        url.extend(utf8_percent_encode(value, QUERY));
    }
    url
}

/// The address, if it is one of the web.
fn web_url(text: &str) -> Option<String> {
    Some(WebUrl::read(text).ok()?.as_str().to_owned())
}

/// Text that may have markup in it, on one line.
fn plain(html: &str, most: usize) -> String {
    Document::read(html).with_name("body").next().map(|body| body.text(most)).unwrap_or_default()
}

/// Fails when the engine does not answer.
fn check_status(response: &WebResponse) -> Result<(), Fault> {
    match response.status {
        401 | 403 | 429 => Err(refused(response, "it does not answer this")),
        _ => refuse_status(response),
    }
}

/// The engine will not answer, at least not now.
fn refused(response: &WebResponse, why: &str) -> Fault {
    let message = format!("the search engine refused with status {}: {why}", response.status);
    let fault = SEARCH_REFUSED.failed(message, again(response));
    if matches!(response.status, 401 | 403) {
        let remedy = "Use a known address, and ask the operator to check how the search engine is set up.";
        return Fault { remedy: remedy.into(), ..fault };
    }
    fault.retryable()
}

/// The engine said something that is neither results nor that there are none.
fn unreadable(what: &str) -> Fault {
    SEARCH_UNREADABLE.failed(
        format!("the answer of the search engine cannot be read: {what}"),
        "Use a known address, and ask the operator to check how the search engine is set up.",
    )
}
