//! Secrets that no telling name and no known format gives away: a variable is set to a long run of letters and digits in
//! which nothing but chance can be read. Ids look like that too, and those a reader needs: so a run with a prefix has to be
//! longer than ids are, and one that a name says to be something else is left.

use std::ops::Range;

use memchr::memchr2_iter;

use super::shape::{self, Mix};

/// The shortest run that is looked at.
const SHORTEST: usize = 20;
/// Longer runs are data.
const LONGEST: usize = 200;
/// The shortest part of a run that is made of several.
const SHORTEST_PART: usize = 32;

/// Every run of a text that something is set to and that looks like a secret by itself.
pub(super) fn secrets(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    memchr2_iter(b'=', b':', bytes)
        .filter_map(|sign| run_behind(bytes, sign + 1))
        .filter(|run| is_secret(text, run.clone()))
}

/// The run that begins here, behind spaces and a quote, if it is as long as it has to be.
fn run_behind(bytes: &[u8], mut at: usize) -> Option<Range<usize>> {
    at += bytes[at..].iter().take(2).take_while(|byte| **byte == b' ').count();
    at += usize::from(matches!(bytes.get(at), Some(b'"' | b'\'')));
    // Most are shorter, and that is seen at once.
    if !bytes.get(at + SHORTEST - 1).copied().is_some_and(is_part_of_run) {
        return None;
    }
    let length = bytes[at..].iter().take(LONGEST + 1).take_while(|byte| is_part_of_run(**byte)).count();
    (SHORTEST..=LONGEST).contains(&length).then_some(at..at + length)
}

fn is_part_of_run(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_secret(text: &str, run: Range<usize>) -> bool {
    let value = &text[run.clone()];
    let shortest = if value.contains(['_', '-']) { SHORTEST_PART } else { SHORTEST };
    is_whole(text.as_bytes(), &run)
        && value.split(['_', '-']).any(|part| part.len() >= shortest && is_chance(part))
        && !value.split(['_', '-']).any(|part| HASHES.iter().any(|hash| part.eq_ignore_ascii_case(hash)))
        && !shape::is_stand_in(value)
        && !is_told_otherwise(text, run.start)
}

/// Prefixes of what is made of public things.
const HASHES: &[&str] = &["sha1", "sha256", "sha384", "sha512", "md5"];

/// Small letters, capitals and digits that change all the time and spell nothing.
fn is_chance(part: &str) -> bool {
    let mix = Mix::of(part);
    let kind = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    let changes = part.as_bytes().windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count();
    mix.lower >= 3
        && mix.upper >= 3
        && mix.digits >= 2
        && changes * 3 >= part.len()
        && shape::entropy(part) >= 3.6
        && shape::wordiness(part) < 0.4
}

/// Nothing follows that belongs to the same value.
fn is_whole(bytes: &[u8], run: &Range<usize>) -> bool {
    bytes.get(run.end).is_none_or(|byte| {
        byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b',' | b';' | b'<' | b']' | b'}' | b')')
    })
}

/// Words that say what else such a run is.
const OTHERWISE: &[&str] = &[
    "id",
    "ids",
    "uid",
    "guid",
    "uuid",
    "hash",
    "digest",
    "checksum",
    "sha",
    "integrity",
    "etag",
    "nonce",
    "cursor",
    "rev",
    "revision",
    "commit",
    "ref",
    "src",
    "href",
    "data",
    "image",
    "video",
    "cid",
    "fingerprint",
    "pin",
    "build",
    "version",
    "public",
    "pubkey",
    "v",
    "q",
    "page",
    "next",
    "name",
    "path",
    "url",
    "file",
    "symbol",
    "type",
    "address",
    "signature",
    "sig",
    "class",
    "cert",
    "certificate",
];

/// Does the name that the run is assigned to say that it is no secret? Also, what stands in the query of an address is one
/// only under a telling name, which is looked for elsewhere.
fn is_told_otherwise(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches(['"', '\'', '`', ' ', '=', ':', '(', '>', '\t', '[']);
    let from = before.len().saturating_sub(48);
    let near = &before[before.ceil_char_boundary(from)..];
    let name_at = near.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').map_or(0, |last| last + 1);
    // The last sign before a name may be longer than a byte.
    let name = near.get(name_at..).unwrap_or_default();
    let in_query = near[..near.len() - name.len()].ends_with(['?', '&']);
    let hashed = |word: &str| ["sha", "md5", "crc", "blake"].iter().any(|hash| word.starts_with(hash));
    in_query || words(name).any(|word| OTHERWISE.contains(&word.as_str()) || hashed(&word))
}

/// The words of `some_name`, `some-name` and `someName`, in lower case.
fn words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (small && c.is_ascii_uppercase()) {
            words.push(String::new());
        }
        small = c.is_ascii_lowercase();
        if c.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.into_iter().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::{find, rules::fill};

    /// What the rule finds in a text, in which a blank stands for chance.
    fn check(text: &str, expected: bool) {
        let text = fill(text);
        assert_eq!(find(&text).iter().any(|secret| secret.rule == "random_token"), expected, "{text}");
    }

    #[test]
    fn a_variable_that_is_set_to_chance_is_found_whatever_its_name() {
        check("acme=<w40>", true);
        check("acme: '<w40>'", true);
        check("{\"acme\": \"<w40>\"}", true);
        check("acme = xy_<w40>", true);
    }

    #[test]
    fn ids_hashes_and_what_is_set_to_nothing_stay() {
        for text in [
            "\"id\": \"<w40>\"",
            "requestId: <w40>",
            "commit=<w40>",
            "a.py,sha256=<w43>,120",
            "integrity: sha512-<w40>",
            "https://example.com/?v=<w40>",
            "workspace: wrk_<w26>",
            "the run <w40> ended",
            "acme=<h40>",
            "acme=getTheNameOfTheFirstOne2InTheList",
            "acme=https://example.com/<w40>",
            "  <w40>\n  <w40>\n",
        ] {
            check(text, false);
        }
    }
}
