//! Pages, search engines and plain requests, through the fenced client.
//!
//! Every tool here says to whom it would talk, sends one request and reads the answer. Whom the agent may reach, where
//! a name leads and whether a redirect is followed is the client's business.

mod body;
mod fault;
mod search;
mod target;

pub(crate) mod fetch_url;
pub(crate) mod html_parse;
pub(crate) mod http_request;
pub(crate) mod read_webpage;
pub(crate) mod web_search;

use toolgate_contract::{Needs, Network, Truncated, Unit};

use crate::files::text::{prefix, remark};

/// What a tool needs that sends a request.
const NEEDS: Needs = Needs { network: Network::Fenced, ..Needs::NOTHING };

/// The least and the most text a caller can ask for, in bytes.
const MIN_LENGTH: usize = 100;
const MAX_LENGTH: usize = 500_000;

/// The beginning of a text that fits, and what of it is missing.
fn shown(text: &str, max_length: usize) -> (String, Option<Truncated>) {
    let shown = prefix(text, max_length.clamp(MIN_LENGTH, MAX_LENGTH));
    let (shown_bytes, total) = (shown.len() as u64, text.len() as u64);
    let cut = (shown_bytes < total).then_some(Truncated { shown: shown_bytes, total, unit: Unit::Bytes });
    (shown.to_owned(), cut)
}

/// Says that a page holds text it does not show. What that says is nobody's business: a person would not have read it.
fn tell_hidden(said: &mut String, parts: u64) {
    if parts > 0 {
        remark(said, &format!("{parts} parts of the page that nobody would see are left out"));
    }
}

/// Do servers take the method from a header of this name? What looks like a question is then an order.
pub(crate) fn overrides_method(header: &str) -> bool {
    let header = header.trim().to_ascii_lowercase().replace('_', "-");
    matches!(header.as_str(), "x-http-method-override" | "x-http-method" | "x-method-override")
}
