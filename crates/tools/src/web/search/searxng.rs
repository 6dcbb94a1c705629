//! The JSON interface of a SearXNG instance.

use serde::Deserialize;
use toolgate_contract::{Fault, WebResponse};

use super::{Found, LONGEST_SNIPPET, LONGEST_TITLE, check_status, plain, refused, unreadable, web_url};

#[derive(Deserialize)]
struct Answer {
    results: Vec<Entry>,
    /// The engines behind it that did not answer.
    #[serde(default)]
    unresponsive_engines: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Entry {
    url: Option<String>,
    title: Option<String>,
    content: Option<String>,
}

pub(super) fn results(response: &WebResponse) -> Result<Vec<Found>, Fault> {
    check_status(response)?;
    let answer: Answer = serde_json::from_slice(&response.body).map_err(|error| unreadable(&error.to_string()))?;
    let found: Vec<_> = answer.results.iter().filter_map(read).collect();
    if found.is_empty() && !answer.results.is_empty() {
        return Err(unreadable("none of its results leads to the web"));
    }
    // Nobody was asked, so nobody said that there is nothing.
    if found.is_empty() && !answer.unresponsive_engines.is_empty() {
        return Err(refused(response, "the engines behind it do not answer"));
    }
    Ok(found)
}

fn read(entry: &Entry) -> Option<Found> {
    Some(Found {
        url: web_url(entry.url.as_deref()?)?,
        title: plain(entry.title.as_deref().unwrap_or_default(), LONGEST_TITLE),
        snippet: plain(entry.content.as_deref().unwrap_or_default(), LONGEST_SNIPPET),
    })
}
