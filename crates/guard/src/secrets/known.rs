//! Values that are known to be secret, found in the forms they come back in.
//!
//! A value is looked for as it is and as it looks in JSON, in a URL, inside base64, in hexadecimal and backwards. This is a
//! second net and not the wall: who wants to can spell a secret in ways nobody looks for.

use std::{borrow::Cow, cmp::Reverse, fmt, ops::Range};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::{Engine as _, engine::general_purpose};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use zeroize::Zeroizing;

use super::redact::OPEN;

/// Base64 of a part of a text is found by what its middle looks like; shorter middles are everywhere.
const SHORTEST_MIDDLE: usize = 6;
/// Other forms shorter than this stand in texts by chance.
const SHORTEST_FORM: usize = 8;
/// An automaton of more bytes than this is kept small rather than quick.
const MOST_QUICK: usize = 16 << 10;

/// What a URL leaves as it is.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Values that must not be seen, each with the name that takes its place.
#[derive(Default)]
pub struct Known {
    forms: Vec<Form>,
    automaton: Option<AhoCorasick>,
}

/// One way a value is spelled.
struct Form {
    text: Zeroizing<String>,
    label: String,
}

/// Where a known value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place<'k> {
    /// In the text.
    pub span: Range<usize>,
    /// What the value is called.
    pub label: &'k str,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Known({} forms)", self.forms.len())
    }
}

impl Known {
    /// Remembers a value. One that is there already under another name keeps the name that sorts first, so that equal
    /// secrets stay equal.
    pub fn remember(&mut self, label: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        let before = self.forms.len();
        for text in forms(value) {
            match self.forms.iter_mut().find(|form| form.text == text) {
                Some(form) if *label < *form.label => label.clone_into(&mut form.label),
                Some(_) => {}
                None => self.forms.push(Form { text, label: label.to_owned() }),
            }
        }
        if self.forms.len() > before {
            self.automaton = self.automaton();
        }
    }

    fn automaton(&self) -> Option<AhoCorasick> {
        let bytes: usize = self.forms.iter().map(|form| form.text.len()).sum();
        let kind = if bytes <= MOST_QUICK { AhoCorasickKind::DFA } else { AhoCorasickKind::ContiguousNFA };
        AhoCorasick::builder().kind(Some(kind)).build(self.forms.iter().map(|form| form.text.as_bytes())).ok()
    }

    /// Where they stand, in order. Places that overlap are one, and the longest value at its beginning names it.
    pub fn find(&self, text: &[u8]) -> Vec<Place<'_>> {
        let Some(automaton) = &self.automaton else { return Vec::new() };
        let mut places: Vec<(Place<'_>, usize)> = Vec::new();
        for hit in automaton.find_overlapping_iter(text) {
            let mut place = Place { span: hit.range(), label: &self.forms[hit.pattern().as_usize()].label };
            let mut named = hit.range().len();
            // Hits come by where they end, so that only the last places can lie under this one.
            while let Some((last, last_named)) = places.pop_if(|(last, _)| last.span.end > place.span.start) {
                let by_last = (last.span.start, Reverse(last_named), last.label);
                if by_last < (place.span.start, Reverse(named), place.label) {
                    (place.label, named) = (last.label, last_named);
                }
                place.span = place.span.start.min(last.span.start)..place.span.end.max(last.span.end);
            }
            places.push((place, named));
        }
        places.into_iter().map(|(place, _)| place).collect()
    }

    /// The text with `[redacted:LABEL]` in their place.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.redact_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A whole text was taken out of a text, so that what is left is one.
            Cow::Owned(clean) => Cow::Owned(String::from_utf8_lossy(&clean).into_owned()),
        }
    }

    /// The same for bytes that may be text.
    pub fn redact_bytes<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let places = self.find(text);
        if places.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut clean = Vec::with_capacity(text.len());
        let mut done = 0;
        for Place { span, label } in places {
            clean.extend_from_slice(&text[done..span.start]);
            clean.extend_from_slice(format!("{OPEN}{label}]").as_bytes());
            done = span.end;
        }
        clean.extend_from_slice(&text[done..]);
        Cow::Owned(clean)
    }
}

/// Every form of a value.
fn forms(value: &str) -> Vec<Zeroizing<String>> {
    let mut forms = vec![Zeroizing::new(value.to_owned())];
    let mut add = |text: String| forms.push(Zeroizing::new(text));
    let quoted = Zeroizing::new(serde_json::Value::from(value).to_string());
    add(quoted[1..quoted.len() - 1].to_owned());
    let escaped = Zeroizing::new(utf8_percent_encode(value, UNRESERVED).to_string());
    add(lower_escapes(&escaped));
    add(escaped.replace("%20", "+"));
    add(escaped.to_string());
    for before in 0..3 {
        let (plain, url) = middle_of_base64(value, before);
        if plain.len() >= SHORTEST_MIDDLE {
            add(plain);
            add(url);
        }
    }
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    if hex.len() >= SHORTEST_FORM {
        add(hex.to_ascii_uppercase());
        add(hex);
    }
    if value.len() >= SHORTEST_FORM {
        add(value.chars().rev().collect());
    }
    forms
}

/// `%2F` as `%2f`.
fn lower_escapes(text: &str) -> String {
    let mut left = 0;
    let lower = |c: char| {
        left = if c == '%' { 2 } else { i32::max(left - 1, -1) };
        if left >= 0 { c.to_ascii_lowercase() } else { c }
    };
    text.chars().map(lower).collect()
}

/// The base64 digits that are the same whatever stands before and after the value, where what stands before has this
/// many bytes, not counting whole threes. The name and the colon before a password are such a text.
fn middle_of_base64(value: &str, before: usize) -> (String, String) {
    let padded = Zeroizing::new([&[0; 2][..before], value.as_bytes()].concat());
    // A digit is six bits: the first that holds only bits of the value, and the one after the last.
    let (first, end) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
    let cut = |whole: String| Zeroizing::new(whole).get(first..end).unwrap_or_default().to_owned();
    (cut(general_purpose::STANDARD_NO_PAD.encode(&padded)), cut(general_purpose::URL_SAFE_NO_PAD.encode(&padded)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(secrets: &[(&str, &str)]) -> Known {
        let mut known = Known::default();
        secrets.iter().for_each(|(label, value)| known.remember(label, value));
        known
    }

    fn check(secrets: &[(&str, &str)], text: &str, expected: &str) {
        assert_eq!(with(secrets).redact(text), expected);
    }

    #[test]
    fn a_secret_is_taken_out_wherever_it_stands() {
        check(&[("t", "s3cret")], "s3cret, s3crets3cret.", "[redacted:t], [redacted:t][redacted:t].");
        check(&[("t", "s3cret")], "nothing here", "nothing here");
        check(&[("t", "gehäim")], "ist gehäim!", "ist [redacted:t]!");
        check(&[("t", "")], "nothing", "nothing");
        assert!(matches!(with(&[("t", "s3cret")]).redact("s3cre t"), Cow::Borrowed(_)));
    }

    #[test]
    fn bytes_that_are_no_text_are_left_as_they_are_around_it() {
        let known = with(&[("t", "s3cret")]);
        assert_eq!(*known.redact_bytes(b"\xff s3cret \xfe"), *b"\xff [redacted:t] \xfe");
        assert!(matches!(known.redact_bytes(b"\xff s3cre"), Cow::Borrowed(b"\xff s3cre")));
    }

    #[test]
    fn the_forms_it_comes_back_in_are_taken_out() {
        let value = "s3cret/with \"odd\" parts+é";
        let json = serde_json::json!({ "echo": value }).to_string();
        check(&[("t", value)], &json, r#"{"echo":"[redacted:t]"}"#);
        let escaped = "s3cret%2Fwith%20%22odd%22%20parts%2B%C3%A9";
        check(&[("t", value)], &format!("?q={escaped}&"), "?q=[redacted:t]&");
        let small = escaped.replace("%2F", "%2f").replace("%2B", "%2b").replace("%C3%A9", "%c3%a9");
        check(&[("t", value)], &small, "[redacted:t]");
        check(&[("t", value)], &escaped.replace("%20", "+"), "[redacted:t]");
        check(&[("t", "hunter22")], "x=68756e7465723232", "x=[redacted:t]");
        check(&[("t", "n0ne-such")], "6E306E652D73756368", "[redacted:t]");
        check(&[("t", value)], &value.chars().rev().collect::<String>(), "[redacted:t]");
    }

    #[test]
    fn base64_of_a_text_with_a_secret_in_it_does_not_tell_the_secret() {
        let value = "tok\u{ff}en?>1234567";
        let known = with(&[("t", value)]);
        let engines = [
            general_purpose::STANDARD,
            general_purpose::STANDARD_NO_PAD,
            general_purpose::URL_SAFE,
            general_purpose::URL_SAFE_NO_PAD,
        ];
        for user in ["", "a", "me", "bob", "long.user@example.com"] {
            for encode in &engines {
                let sent = encode.encode(format!("{user}:{value}"));
                let clean = known.redact(&sent).into_owned();
                let (before, after) = clean.split_once("[redacted:t]").unwrap_or_else(|| panic!("{sent}"));
                // What is left are the digits that are not the secret's alone.
                assert!(before.len() <= (user.len() + 1) * 8 / 6 + 1 && after.len() <= 4, "{sent} {clean}");
            }
        }
    }

    #[test]
    fn what_overlaps_is_taken_out_as_a_whole() {
        check(&[("a", "abcdef"), ("b", "defghi")], "-abcdefghi-", "-[redacted:a]-");
        check(&[("a", "abcd"), ("b", "abcdefgh")], "abcdefgh abcd", "[redacted:b] [redacted:a]");
        check(&[("a", "cdef"), ("b", "abcdefgh")], "abcdefgh", "[redacted:b]");
        check(&[("a", "aaaa")], "aaaaaa", "[redacted:a]");
        check(&[("a", "abab")], "abababx", "[redacted:a]x");
    }

    #[test]
    fn equal_secrets_stay_equal() {
        check(&[("b", "same-value"), ("a", "same-value")], "same-value", "[redacted:a]");
        check(&[("a", "same-value"), ("b", "same-value")], "same-value", "[redacted:a]");
    }

    #[test]
    fn short_secrets_are_not_seen_in_every_base64() {
        // Four bytes have a middle of no more than five digits.
        check(&[("t", "test")], "dGVzdA== tset test", "dGVzdA== tset [redacted:t]");
    }

    #[test]
    fn a_very_long_secret_is_found_too() {
        let long: String =
            (0..64 << 10).map(|n: u32| char::from(b'a' + (n.wrapping_mul(2_654_435_761) >> 27) as u8 % 26)).collect();
        check(&[("t", &long)], &format!("<{long}>"), "<[redacted:t]>");
    }
}
