//! Replacing what is found by something that tells nothing and still tells equal from unequal.

use std::{borrow::Cow, collections::BTreeSet, fmt};

use aho_corasick::AhoCorasick;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::{Secret, find, shape};

/// How a marker begins. Nothing is looked for inside of one.
pub(super) const OPEN: &str = "[redacted:";
/// No marker is longer.
pub(super) const LONGEST_MARKER: usize = 80;

/// A secret that was taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The stable name of the rule.
    pub rule: &'static str,
    /// What it was.
    pub kind: &'static str,
    /// The same for equal secrets of a session.
    pub tag: String,
}

/// Takes secrets out of texts.
///
/// The key belongs to one session and goes nowhere: with it, a short secret could be guessed from its tag.
#[derive(Clone)]
pub struct Redactor {
    /// What tags are made with.
    pub key: [u8; 32],
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor(..)")
    }
}

/// Taking a secret out can bring another to light. More rounds than this only a made-up text needs.
const ROUNDS: usize = 8;

impl Redactor {
    /// The text with `[redacted:RULE:TAG]` where secrets stood, and what they were. A secret that looks like chance is taken
    /// out wherever else it stands, too.
    pub fn redact<'t>(&self, text: &'t str) -> (Cow<'t, str>, Vec<Found>) {
        let mut clean = Cow::Borrowed(text);
        let mut all = Vec::new();
        for _ in 0..ROUNDS {
            let secrets = everywhere(&clean, find(&clean));
            if secrets.is_empty() {
                break;
            }
            let (next, found) = self.replace(&clean, &secrets);
            clean = Cow::Owned(next);
            all.extend(found);
        }
        (clean, all)
    }

    fn replace(&self, text: &str, secrets: &[Secret]) -> (String, Vec<Found>) {
        let mut clean = String::with_capacity(text.len());
        let mut found = Vec::with_capacity(secrets.len());
        let mut done = 0;
        for Secret { rule, span, kind } in secrets {
            let tag = self.tag(&text[span.clone()]);
            clean.push_str(&text[done..span.start]);
            clean.extend([OPEN, rule, ":", &tag, "]"]);
            found.push(Found { rule, kind, tag });
            done = span.end;
        }
        clean.push_str(&text[done..]);
        (clean, found)
    }

    /// Eight hexadecimal digits that say which secret it was to nobody without the key.
    fn tag(&self, secret: &str) -> String {
        use fmt::Write as _;
        let mut tag = String::with_capacity(8);
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else { return tag };
        mac.update(secret.as_bytes());
        for byte in &mac.finalize().into_bytes()[..4] {
            let _ = write!(tag, "{byte:02x}");
        }
        tag
    }
}

/// The secrets with every other place where one of them stands, if it is one that stands nowhere by chance.
fn everywhere(text: &str, secrets: Vec<Secret>) -> Vec<Secret> {
    let mut seen = BTreeSet::new();
    let values: Vec<&Secret> = secrets
        .iter()
        .filter(|secret| is_unmistakable(&text[secret.span.clone()]))
        .filter(|secret| seen.insert(&text[secret.span.clone()]))
        .collect();
    if values.is_empty() {
        return secrets;
    }
    let Ok(automaton) = AhoCorasick::new(values.iter().map(|secret| &text[secret.span.clone()])) else {
        return secrets;
    };
    let mut all: Vec<Secret> = secrets.clone();
    for hit in automaton.find_overlapping_iter(text) {
        let Secret { rule, kind, .. } = *values[hit.pattern().as_usize()];
        let again = Secret { rule, span: hit.range(), kind };
        if !super::in_marker(text, &again) {
            all.push(again);
        }
    }
    super::without_overlaps(all)
}

/// Twelve characters and more of more than one kind.
fn is_unmistakable(secret: &str) -> bool {
    let mix = shape::Mix::of(secret);
    secret.len() >= 12 && mix.digits > 0 && mix.letters() > 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::secrets::rules::{RULES, fill};

    const REDACTOR: Redactor = Redactor { key: [7; 32] };

    #[test]
    fn the_marker_says_what_it_was_and_equal_secrets_stay_equal() {
        let token = fill("gh·p_<w36>");
        let text = format!("a {token} b {token} c");
        let (clean, found) = REDACTOR.redact(&text);
        let tag = &found[0].tag;
        assert_eq!(clean, format!("a [redacted:github_token:{tag}] b [redacted:github_token:{tag}] c"));
        assert_eq!(found, vec![Found { rule: "github_token", kind: "token", tag: tag.clone() }; 2]);
        assert!(tag.len() == 8 && tag.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn another_session_has_other_tags() {
        let token = fill("gh·p_<w36>");
        let other = Redactor { key: [8; 32] };
        assert_ne!(REDACTOR.redact(&token).0, other.redact(&token).0);
    }

    #[test]
    fn the_tag_is_the_one_of_the_standard() {
        // The second case of RFC 4231, whose key is padded with zeros to the length of ours.
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        assert_eq!(Redactor { key }.tag("what do ya want for nothing?"), "5bdcc146");
    }

    #[test]
    fn a_secret_is_taken_out_where_no_name_stands_before_it() {
        let value = fill("<w24>");
        let text = format!("ACME_TOKEN={value}\nlater: see {value}, twice");
        let (clean, _) = REDACTOR.redact(&text);
        assert!(!clean.contains(&value), "{clean}");
    }

    #[test]
    fn what_begins_like_a_marker_hides_nothing() {
        let token = fill("gh·p_<w36>");
        for text in
            [format!("[redacted:{token}]"), format!("[redacted: {token}"), format!("[redacted:x:00000000] {token}")]
        {
            assert!(!REDACTOR.redact(&text).0.contains(&token), "{text}");
        }
    }

    #[test]
    fn clean_text_is_given_back_as_it_is() {
        let (clean, found) = REDACTOR.redact("nothing to see here");
        assert!(matches!(clean, Cow::Borrowed("nothing to see here")) && found.is_empty());
    }

    /// Texts made of examples, names, separators, markers and letters of several widths.
    fn texts() -> impl Strategy<Value = String> {
        let examples: Vec<&str> =
            RULES.iter().flat_map(|rule| rule.examples.iter().chain(rule.counters)).copied().collect();
        let piece = prop_oneof![
            3 => prop::sample::select(examples).prop_map(fill),
            3 => prop::sample::select(vec!["key", "TOKEN=", "password: ", "secret-", "://u:", "@h/", "\"", "'", " ", "\n", "\\n", "-----BEGIN RSA PRIVATE KEY-----", "[redacted:jwt:0011aabb]", "[redacted:", "]", "é", "\u{1f600}", "eyJ", "sk-", "=", ":", "%20", "auth", "trello "]).prop_map(str::to_owned),
            2 => "[A-Za-z0-9_.+/=-]{0,40}",
            1 => any::<String>(),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn spans_are_in_order_and_on_boundaries(text in texts()) {
            let mut end = 0;
            for secret in find(&text) {
                prop_assert!(secret.span.start >= end && secret.span.start < secret.span.end, "{secret:?}");
                prop_assert!(text.get(secret.span.clone()).is_some());
                end = secret.span.end;
            }
        }

        #[test]
        fn redacting_twice_is_redacting_once(text in texts()) {
            let (once, _) = REDACTOR.redact(&text);
            let (twice, found) = REDACTOR.redact(&once);
            prop_assert_eq!(&once, &twice);
            prop_assert_eq!(found, vec![]);
        }

        #[test]
        fn no_secret_that_was_found_survives(text in texts()) {
            let (clean, _) = REDACTOR.redact(&text);
            for secret in find(&text) {
                let value = &text[secret.span];
                prop_assert!(!is_unmistakable(value) || !clean.contains(value), "{value} in {clean}");
            }
        }
    }
}
