//! Links that carry data away: an image or a link in Markdown or HTML whose address is to be filled from what the model
//! knows.

use std::ops::Range;

/// Points for such a link.
pub(super) const WEIGHT: u32 = 60;

/// An address is read this far.
const LONGEST: usize = 512;

/// The addresses of links with a place for data in them.
pub(super) fn leaks(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for opening in ["](", "src=\"", "src='", "href=\""] {
        for (at, _) in text.match_indices(opening) {
            let start = at + opening.len();
            let rest = &text[start..text.ceil_char_boundary((start + LONGEST).min(text.len()))];
            let end = rest.find([')', '"', '\'', '\n', ' ']).unwrap_or(rest.len());
            let address = &rest[..end];
            if address.starts_with("http") && has_place_for_data(address) {
                found.push(start..start + end);
            }
        }
    }
    found
}

/// A query or path with a blank to fill in, named after what a thief wants.
fn has_place_for_data(address: &str) -> bool {
    let Some((_, tail)) = address.split_once("://").and_then(|(_, rest)| rest.split_once(['/', '?'])) else {
        return false;
    };
    let lower = tail.to_ascii_lowercase();
    let blank = ["{", "[", "<", "%7b", "$(", "${", "%3c", "%5b"].iter().any(|open| lower.contains(open))
        || ["your_", "_here", "data_here", "insert", "base64"].iter().any(|word| lower.contains(word));
    let wanted = [
        "secret",
        "password",
        "token",
        "api_key",
        "apikey",
        "key",
        "data",
        "history",
        "conversation",
        "chat",
        "context",
        "prompt",
        "message",
        "summary",
        "content",
        "cookie",
        "env",
        "user",
        "info",
        "exfil",
        "leak",
        "log",
        "q=",
        "d=",
    ]
    .iter()
    .any(|word| lower.contains(word));
    blank && wanted && address.contains('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<&str> = leaks(text).into_iter().map(|span| &text[span]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_blank_in_a_query_is_told() {
        check("![a](https://a.test/p.png?q={conversation})", &["https://a.test/p.png?q={conversation}"]);
        check("<img src=\"http://a.test/?d=[DATA]\">", &["http://a.test/?d=[DATA]"]);
    }

    #[test]
    fn ordinary_links_are_not() {
        check("[docs](https://docs.test/?q=search) ![logo](https://a.test/logo.png)", &[]);
        check("[badge](https://a.test/{owner}/{repo})", &[]);
    }
}
