//! Replacing what is found by something that tells nothing and still tells equal from unequal.

use std::{borrow::Cow, collections::BTreeSet, fmt};

use aho_corasick::{AhoCorasick, MatchKind};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{Secret, find, personal, shape};

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
    /// Cards, accounts and national ids are taken out too.
    pub personal: bool,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor(..)")
    }
}

/// Taking a secret out can bring another to light. More rounds than this only a made-up text needs.
const ROUNDS: usize = 8;
/// A field whose value is longer holds a text, which is searched by itself.
const LONGEST_FIELD: usize = 512;
/// So many values are looked for in the other parts of a result.
const MOST_VALUES: usize = 1024;

/// What was taken out of the parts of one result, so that it can be taken out of all of them.
#[derive(Default)]
pub struct Taken {
    /// In the order it was found.
    pub found: Vec<Found>,
    /// Each with the marker that takes its place.
    values: Vec<(Zeroizing<String>, String)>,
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken").field("found", &self.found).finish_non_exhaustive()
    }
}

impl Redactor {
    /// The text with `[redacted:RULE:TAG]` where secrets stood, and what they were. A secret that looks like chance is taken
    /// out wherever else it stands, too.
    pub fn redact<'t>(&self, text: &'t str) -> (Cow<'t, str>, Vec<Found>) {
        let mut taken = Taken::default();
        let clean = self.take(text, &mut taken);
        (clean, taken.found)
    }

    /// The same for one part of a result that has several.
    pub fn take<'t>(&self, text: &'t str, taken: &mut Taken) -> Cow<'t, str> {
        let mut clean = Cow::Borrowed(text);
        for _ in 0..ROUNDS {
            let mut secrets = find(&clean);
            if self.personal {
                let personal = personal::find(&clean).into_iter().filter(|it| !super::in_marker(&clean, it));
                secrets = super::without_overlaps(secrets.into_iter().chain(personal).collect());
            }
            let secrets = everywhere(&clean, secrets);
            if secrets.is_empty() {
                break;
            }
            clean = Cow::Owned(self.replace(&clean, &secrets, taken));
        }
        clean
    }

    /// The same for the value of a field, whose name may say that it is a secret.
    pub fn take_field<'t>(&self, name: &str, value: &'t str, taken: &mut Taken) -> Cow<'t, str> {
        let clean = self.take(value, taken);
        let in_question = value.len() <= LONGEST_FIELD && names_a_secret(name) && !value.contains(char::is_whitespace);
        if matches!(clean, Cow::Owned(_)) || !in_question {
            return clean;
        }
        let before = format!("\"{name}\": \"");
        let whole = format!("{before}{value}\"");
        let within = |secret: Secret| {
            let span = secret.span.start.checked_sub(before.len())?..secret.span.end.checked_sub(before.len())?;
            (span.end <= value.len()).then_some(Secret { span, ..secret })
        };
        let secrets: Vec<Secret> = find(&whole).into_iter().filter_map(within).collect();
        match secrets.is_empty() {
            true => clean,
            false => Cow::Owned(self.replace(value, &secrets, taken)),
        }
    }

    fn replace(&self, text: &str, secrets: &[Secret], taken: &mut Taken) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut done = 0;
        for Secret { rule, span, kind } in secrets {
            let value = &text[span.clone()];
            let found = Found { rule, kind, tag: self.tag(value) };
            clean.push_str(&text[done..span.start]);
            let marker = format!("{OPEN}{rule}:{}]", found.tag);
            clean.push_str(&marker);
            if is_unmistakable(value)
                && taken.values.len() < MOST_VALUES
                && taken.values.iter().all(|(known, _)| **known != *value)
            {
                taken.values.push((Zeroizing::new(value.to_owned()), marker));
            }
            taken.found.push(found);
            done = span.end;
        }
        clean.push_str(&text[done..]);
        clean
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

impl Taken {
    /// Takes what was found in one part out of another. None where there is nothing to look for.
    pub fn everywhere(&self) -> Option<impl Fn(&str) -> Option<String>> {
        if self.values.is_empty() {
            return None;
        }
        let values = self.values.iter().map(|(value, _)| value.as_bytes());
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(values).ok()?;
        let markers: Vec<String> = self.values.iter().map(|(_, marker)| marker.clone()).collect();
        Some(move |text: &str| automaton.is_match(text).then(|| automaton.replace_all(text, &markers)))
    }
}

/// Does the name of a field say that a secret may be in it?
fn names_a_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["key", "token", "secret", "pass", "pwd", "auth", "cred", "_pat", "private", "access", "bearer"]
        .iter()
        .any(|part| lower.contains(part))
        && name.len() <= 64
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

    const REDACTOR: Redactor = Redactor { key: [7; 32], personal: false };

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
        let other = Redactor { key: [8; 32], personal: false };
        assert_ne!(REDACTOR.redact(&token).0, other.redact(&token).0);
    }

    #[test]
    fn the_tag_is_the_one_of_the_standard() {
        // The second case of RFC 4231, whose key is padded with zeros to the length of ours.
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        assert_eq!(Redactor { key, personal: false }.tag("what do ya want for nothing?"), "5bdcc146");
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
    fn what_tells_of_a_person_is_taken_out_where_that_is_wanted() {
        let text = "card 4242 4242 4242 4242, account DE89 3704 0044 0532 0130 00";
        assert_eq!(REDACTOR.redact(text).0, text);
        let careful = Redactor { personal: true, ..REDACTOR };
        let (clean, found) = careful.redact(text);
        let [account, card] = [1, 0].map(|at| &found[at].tag);
        assert_eq!(clean, format!("card [redacted:card:{card}], account [redacted:iban:{account}]"));
        assert!(found.iter().all(|it| crate::secrets::is_personal(it.rule)));
        assert_eq!(careful.redact(&clean), (Cow::Borrowed(&*clean), vec![]));
    }

    #[test]
    fn the_name_of_a_field_and_the_other_parts_count() {
        let value = fill("<w24>");
        let mut taken = Taken::default();
        assert_eq!(REDACTOR.take_field("colour", &value, &mut taken), value);
        let clean = REDACTOR.take_field("apiKey", &value, &mut taken).into_owned();
        assert_eq!(clean, format!("[redacted:assigned_secret:{}]", taken.found[0].tag));
        let everywhere = taken.everywhere().unwrap();
        assert_eq!(everywhere(&format!("see {value}!")), Some(format!("see {clean}!")));
        assert_eq!(everywhere("see nothing"), None);
        assert!(Taken::default().everywhere().is_none());
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
