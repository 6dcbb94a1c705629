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
