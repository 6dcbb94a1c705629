//! Finding secrets in a text and taking them out.
//!
//! A secret is looked for as it is and as it looks in JSON, in a URL and inside base64, because those are the forms a
//! server sends back what it was sent in. This is a second net, not the wall: a server that wants to can spell a secret
//! in ways nobody looks for. The wall is that a secret only ever goes to the connection it belongs to.

use std::{borrow::Cow, ops::Range};

use base64::{Engine as _, engine::general_purpose};
use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use zeroize::Zeroizing;

/// Base64 of a part of a text is found by what its middle looks like; shorter middles are everywhere.
const SHORTEST_MIDDLE: usize = 6;

/// What a URL leaves as it is.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The secrets that were handed out, in every form they are looked for.
#[derive(Default)]
pub(super) struct Forms {
    known: Vec<Form>,
}

struct Form {
    text: Zeroizing<String>,
    label: String,
}

impl Forms {
    /// Remembers a value. One that is there already under another name keeps the name that sorts first, so that equal
    /// secrets stay equal.
    pub(super) fn remember(&mut self, label: &str, value: &str) {
        for text in forms(value) {
            match self.known.iter_mut().find(|form| form.text == text) {
                Some(form) if *label < *form.label => label.clone_into(&mut form.label),
                Some(_) => {}
                None => self.known.push(Form { text, label: label.to_owned() }),
            }
        }
    }

    /// The text without any of them.
    pub(super) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.redact_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A whole text was taken out of a text, so that what is left is one.
            Cow::Owned(clean) => Cow::Owned(String::from_utf8_lossy(&clean).into_owned()),
        }
    }

    /// The same for bytes that may be text.
    pub(super) fn redact_bytes<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let mut found: Vec<(Range<usize>, &str)> = self.known.iter().flat_map(|form| form.places(text)).collect();
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        // Where several overlap the longest names them all.
        found.sort_by(|(a, an), (b, bn)| a.start.cmp(&b.start).then(b.end.cmp(&a.end)).then(an.cmp(bn)));
        let mut clean = Vec::with_capacity(text.len());
        let mut done = 0;
        let mut found = found.into_iter().peekable();
        while let Some((first, label)) = found.next() {
            let mut end = first.end;
            while let Some((next, _)) = found.next_if(|(next, _)| next.start < end) {
                end = end.max(next.end);
            }
            clean.extend_from_slice(&text[done..first.start]);
            clean.extend_from_slice(format!("[redacted:{label}]").as_bytes());
            done = end;
        }
        clean.extend_from_slice(&text[done..]);
        Cow::Owned(clean)
    }
}

impl Form {
    /// Every place of this form. Those that overlap are one.
    fn places<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (Range<usize>, &'a str)> {
        let finder = memmem::Finder::new(self.text.as_bytes());
        let mut from = 0;
        let mut next = move || {
            let start = from + finder.find(text.get(from..)?)?;
            from = start + 1;
            Some(start)
        };
        let mut ahead = next();
        std::iter::from_fn(move || {
            let start = ahead?;
            let mut end = start + self.text.len();
            ahead = next();
            while let Some(inside) = ahead.filter(|inside| *inside < end) {
                end = inside + self.text.len();
                ahead = next();
            }
            Some((start..end, &*self.label))
        })
    }
}

/// Every form of a value, each once.
fn forms(value: &str) -> Vec<Zeroizing<String>> {
    let mut forms = vec![Zeroizing::new(value.to_owned())];
    let mut add = |text: String| {
        let text = Zeroizing::new(text);
        if !forms.contains(&text) {
            forms.push(text);
        }
    };
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

    fn with(secrets: &[(&str, &str)]) -> Forms {
        let mut forms = Forms::default();
        secrets.iter().for_each(|(label, value)| forms.remember(label, value));
        forms
    }

    fn check(secrets: &[(&str, &str)], text: &str, expected: &str) {
        assert_eq!(with(secrets).redact(text), expected);
    }

    #[test]
    fn a_secret_is_taken_out_wherever_it_stands() {
        check(&[("t", "s3cret")], "s3cret, s3crets3cret.", "[redacted:t], [redacted:t][redacted:t].");
        check(&[("t", "s3cret")], "nothing here", "nothing here");
        check(&[("t", "gehäim")], "ist gehäim!", "ist [redacted:t]!");
        assert!(matches!(with(&[("t", "s3cret")]).redact("s3cre t"), Cow::Borrowed(_)));
    }

    #[test]
    fn bytes_that_are_no_text_are_left_as_they_are_around_it() {
        let forms = with(&[("t", "s3cret")]);
        assert_eq!(*forms.redact_bytes(b"\xff s3cret \xfe"), *b"\xff [redacted:t] \xfe");
        assert!(matches!(forms.redact_bytes(b"\xff s3cre"), Cow::Borrowed(b"\xff s3cre")));
    }

    #[test]
    fn the_forms_it_is_sent_back_in_are_taken_out() {
        let value = "s3cret/with \"odd\" parts+é";
        let json = serde_json::json!({ "echo": value }).to_string();
        check(&[("t", value)], &json, r#"{"echo":"[redacted:t]"}"#);
        let escaped = "s3cret%2Fwith%20%22odd%22%20parts%2B%C3%A9";
        check(&[("t", value)], &format!("?q={escaped}&"), "?q=[redacted:t]&");
        check(
            &[("t", value)],
            &escaped.replace("%2F", "%2f").replace("%2B", "%2b").replace("%C3%A9", "%c3%a9"),
            "[redacted:t]",
        );
        check(&[("t", value)], &escaped.replace("%20", "+"), "[redacted:t]");
    }

    #[test]
    fn base64_of_a_text_with_a_secret_in_it_does_not_tell_the_secret() {
        let value = "tok\u{ff}en?>1234567";
        let forms = with(&[("t", value)]);
        for user in ["", "a", "me", "bob", "long.user@example.com"] {
            for encode in [general_purpose::STANDARD, general_purpose::URL_SAFE] {
                let sent = encode.encode(format!("{user}:{value}"));
                let clean = forms.redact(&sent).into_owned();
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
        check(&[("t", "test")], "dGVzdA== test", "dGVzdA== [redacted:t]");
    }
}
