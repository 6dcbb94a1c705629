//! The HTML page of DuckDuckGo.

use percent_encoding::percent_decode_str;
use toolgate_contract::{Fault, WebResponse};
use toolgate_guard::html::{Document, Part, decode};

use super::{Found, LONGEST_SNIPPET, LONGEST_TITLE, check_status, refused, unreadable, web_url};

/// More results than a page has are not looked for.
const MOST: usize = 100;

pub(super) fn results(response: &WebResponse) -> Result<Vec<Found>, Fault> {
    let (html, _) = decode(&response.body, response.header("content-type"));
    let page = Document::read(&html);
    let entries: Vec<_> = page.with_class("result").take(MOST).filter(|entry| !is_other(*entry)).collect();
    let found: Vec<_> = entries.iter().filter_map(|entry| read(*entry)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    // The results come first: a page with some is an answer, whatever else is on it.
    if is_challenge(&page) || response.status == 202 {
        return Err(refused(response, "it wants to know whether a person is asking"));
    }
    check_status(response)?;
    if entries.is_empty() && page.with_class("no-results").next().is_some() {
        return Ok(Vec::new());
    }
    Err(unreadable("there are neither results nor the words that there are none"))
}

/// An advertisement, or the entry that says that there is nothing.
fn is_other(entry: Part<'_>) -> bool {
    entry.has_class("result--ad") || entry.has_class("result--no-result")
}

fn read(entry: Part<'_>) -> Option<Found> {
    let title = entry.with_class("result__a").next()?;
    let url = unwrap(title.attribute("href")?)?;
    let snippet = entry.with_class("result__snippet").next();
    Some(Found {
        title: title.text(LONGEST_TITLE),
        url,
        snippet: snippet.map(|snippet| snippet.text(LONGEST_SNIPPET)).unwrap_or_default(),
    })
}

/// Where a result leads. The page counts who follows which: its links lead to itself, with the address inside.
fn unwrap(href: &str) -> Option<String> {
    let href = href.trim();
    let whole = if href.starts_with("//") { format!("https:{href}") } else { href.to_owned() };
    let after_scheme = whole.strip_prefix("https://").or_else(|| whole.strip_prefix("http://"));
    let (host, rest) = match after_scheme {
        Some(rest) => rest.split_once('/').unwrap_or((rest, "")),
        None => ("duckduckgo.com", whole.strip_prefix('/')?),
    };
    let is_own = host == "duckduckgo.com" || host.ends_with(".duckduckgo.com");
    if !is_own {
        return web_url(&whole);
    }
    let query = rest.strip_prefix("l/?")?;
    let wrapped = query.split('&').find_map(|part| part.strip_prefix("uddg="))?;
    web_url(&percent_decode_str(wrapped).decode_utf8().ok()?)
}

fn is_challenge(page: &Document) -> bool {
    let marks = ["anomaly-modal", "anomaly-modal__title", "anomaly-modal__mask", "challenge-form"];
    let has_mark = |name: &str| page.with_class(name).next().is_some() || page.with_id(name).next().is_some();
    let leads = |form: Part<'_>| form.attribute("action").is_some_and(|action| action.contains("anomaly.js"));
    marks.into_iter().any(has_mark) || page.with_name("form").any(leads)
}
