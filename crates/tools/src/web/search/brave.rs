//! The Brave Search API.

use serde::Deserialize;
use toolgate_contract::{Fault, WebResponse};

use super::{Found, LONGEST_SNIPPET, LONGEST_TITLE, check_status, plain, unreadable, web_url};

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "type")]
    kind: String,
    /// Left out when nothing was found.
    web: Option<Web>,
}

#[derive(Deserialize)]
struct Web {
    results: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    url: Option<String>,
    title: Option<String>,
    description: Option<String>,
}

pub(super) fn results(response: &WebResponse) -> Result<Vec<Found>, Fault> {
    check_status(response)?;
    let answer: Answer = serde_json::from_slice(&response.body).map_err(|error| unreadable(&error.to_string()))?;
    if answer.kind != "search" {
        return Err(unreadable("it is not an answer to a search"));
    }
    let entries = answer.web.map(|web| web.results).unwrap_or_default();
    let found: Vec<_> = entries.iter().filter_map(read).collect();
    if found.is_empty() && !entries.is_empty() {
        return Err(unreadable("none of its results leads to the web"));
    }
    Ok(found)
}

fn read(entry: &Entry) -> Option<Found> {
    Some(Found {
        url: web_url(entry.url.as_deref()?)?,
        title: plain(entry.title.as_deref().unwrap_or_default(), LONGEST_TITLE),
        snippet: plain(entry.description.as_deref().unwrap_or_default(), LONGEST_SNIPPET),
    })
}
