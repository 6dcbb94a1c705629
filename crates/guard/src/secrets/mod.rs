//! Secrets in text: finding them and taking them out.
//!
//! One look at each place of the text finds keywords; only where one stands is a pattern tried, on a piece of bounded
//! length, and what it matches has to be random enough, no stand-in, and right by its checksum where it has one. The cost is
//! linear in the text. [`rules`] has a pattern for each format that a provider publishes; what has no format is found by the
//! name it is assigned to. [`Known`] finds values that the runtime itself holds, and [`Redactor`] replaces what is found.

mod anchors;
mod assign;
mod chance;
mod checks;
mod known;
mod personal;
mod redact;
pub mod rules;
mod services;
mod shape;

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::{LazyLock, OnceLock},
};

use regex::{Regex, RegexBuilder};

use anchors::Anchors;
pub use known::{Known, Place};
pub use redact::{Found, Redactor, Taken};
use rules::{RULES, Rule};

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The stable name of the rule that found it.
    pub rule: &'static str,
    /// Where it stands, on character boundaries.
    pub span: Range<usize>,
    /// What it is: `token`, `key`, `password`, `private key`.
    pub kind: &'static str,
}

/// Every secret in a text, in order and none over another.
pub fn find(text: &str) -> Vec<Secret> {
    let mut found = Vec::new();
    // Where a rule has found something there is no need to try it again. Most texts have nothing in them.
    let mut done = HashMap::new();
    let mut met = assign::Met::default();
    SCANNER.anchors.find(text, |keyword, hit| {
        for errand in &SCANNER.errands[keyword] {
            let secret = match *errand {
                Errand::Rule(at) if done.get(&at).is_some_and(|end| hit.start < *end) => None,
                Errand::Rule(at) => by_rule(text, hit.clone(), at).inspect(|secret| {
                    done.insert(at, secret.span.end);
                }),
                Errand::Name(kind) => by_name(text, hit.clone(), kind, &mut met),
                Errand::Address => by_address(text, hit.start),
            };
            found.extend(secret.filter(|secret| !in_marker(text, secret)));
        }
    });
    let random = chance::secrets(text).map(|span| Secret { rule: "random_token", span, kind: "token" });
    found.extend(random.filter(|secret| !in_marker(text, secret)));
    without_overlaps(found)
}

/// What to do where a keyword stands.
#[derive(Debug, Clone, Copy)]
enum Errand {
    Rule(usize),
    Name(assign::Name),
    Address,
}

struct Scanner {
    anchors: Anchors,
    /// For each keyword.
    errands: Vec<Vec<Errand>>,
    /// For each rule, made when it is first needed.
    patterns: Vec<OnceLock<Option<Regex>>>,
}

static SCANNER: LazyLock<Scanner> = LazyLock::new(|| {
    let mut keywords: BTreeMap<&'static str, Vec<Errand>> = BTreeMap::new();
    for (at, rule) in RULES.iter().enumerate() {
        for key in rule.keys {
            keywords.entry(key).or_default().push(Errand::Rule(at));
        }
    }
    for (name, kind) in assign::NAMES {
        keywords.entry(name).or_default().push(Errand::Name(*kind));
    }
    for name in services::SERVICES {
        keywords.entry(name).or_default().push(Errand::Name(assign::Name::Service));
    }
    keywords.entry("://").or_default().push(Errand::Address);
    let anchors = Anchors::new(keywords.keys().copied());
    let patterns = RULES.iter().map(|_| OnceLock::new()).collect();
    Scanner { anchors, errands: keywords.into_values().collect(), patterns }
});

/// The pattern of a rule. It is tried at the keyword, or anywhere before it where the secret begins earlier.
fn pattern(at: usize) -> Option<&'static Regex> {
    let rule = RULES.get(at)?;
    let compiled = SCANNER.patterns.get(at)?.get_or_init(|| compile(rule));
    compiled.as_ref()
}

fn compile(rule: &Rule) -> Option<Regex> {
    let start = if rule.before == 0 { "^" } else { "" };
    // Small, because there are many and each is tried on short pieces.
    RegexBuilder::new(&format!("{start}(?:{})", rule.pattern)).dfa_size_limit(256 << 10).build().ok()
}

fn by_rule(text: &str, hit: Range<usize>, at: usize) -> Option<Secret> {
    let rule = RULES.get(at)?;
    if rule.before == 0 && !begins(text, hit.start) {
        return None;
    }
    let from = text.floor_char_boundary(hit.start.saturating_sub(rule.before));
    let to = text.floor_char_boundary(hit.end.saturating_add(rule.reach + 1).min(text.len()));
    let pattern = pattern(at)?;
    let window = &text[from..to];
    let group = match pattern.captures_len() {
        1 => pattern.find(window)?,
        _ => pattern.captures(window)?.iter().skip(1).flatten().next()?,
    };
    let span = from + group.start()..from + group.end();
    let secret = &text[span.clone()];
    let edges = pattern.captures_len() > 1 || begins(text, span.start);
    let holds = edges
        && ends(text, span.end)
        && shape::entropy(secret) >= rule.entropy
        && match rule.check {
            Some(check) => check(text, span.clone()),
            None => true,
        }
        && (rule.is_its_own_proof() || !shape::is_stand_in(secret));
    holds.then_some(Secret { rule: rule.id, span, kind: rule.kind })
}

fn by_name(text: &str, hit: Range<usize>, kind: assign::Name, met: &mut assign::Met) -> Option<Secret> {
    let span = assign::value(text, hit, kind, met)?;
    let (rule, kind) = match kind {
        assign::Name::Password => ("assigned_password", "password"),
        assign::Name::Service => ("service_key", "key"),
        assign::Name::Telling | assign::Name::Hinting => ("assigned_secret", "secret"),
    };
    Some(Secret { rule, span, kind })
}

fn by_address(text: &str, colon: usize) -> Option<Secret> {
    Some(Secret { rule: "address_password", span: assign::address_password(text, colon)?, kind: "password" })
}

/// Nothing before this place belongs to the same word. An escape like `\n` or `%20` is no part of a word.
fn begins(text: &str, at: usize) -> bool {
    let (before, after) = text.as_bytes().split_at(at);
    match before {
        _ if !after.first().is_some_and(u8::is_ascii_alphanumeric) => true,
        [.., b'\\', b'n' | b't' | b'r'] => true,
        [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
        [.., last] => !last.is_ascii_alphanumeric(),
        [] => true,
    }
}

/// Nothing after this place belongs to the same word.
fn ends(text: &str, at: usize) -> bool {
    !text.as_bytes().get(at).is_some_and(u8::is_ascii_alphanumeric)
}

/// Does it reach into something that was redacted already? Only a marker as it is written here counts: what merely begins like
/// one must not hide what stands behind it.
fn in_marker(text: &str, secret: &Secret) -> bool {
    let from = text.floor_char_boundary(secret.span.start.saturating_sub(redact::LONGEST_MARKER));
    let around = &text[from..secret.span.end];
    around.match_indices(redact::OPEN).any(|(at, _)| {
        let start = from + at;
        marker(&text[start..]).is_some_and(|len| start + len > secret.span.start)
    })
}

/// The length of the marker that a text begins with.
fn marker(text: &str) -> Option<usize> {
    let (rule, rest) = text.strip_prefix(redact::OPEN)?.split_once(':')?;
    let tag = rest.get(..9)?.strip_suffix(']')?;
    let known = NAMED.contains(&rule) || is_personal(rule) || RULES.iter().any(|other| other.id == rule);
    (known && tag.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(redact::OPEN.len() + rule.len() + 1 + 9)
}

/// Does this rule find what tells of a person, and no credential?
pub fn is_personal(rule: &str) -> bool {
    personal::RULES.contains(&rule)
}

/// The rules that are no patterns.
const NAMED: [&str; 5] = ["assigned_password", "service_key", "assigned_secret", "address_password", "random_token"];

/// In order, one where several overlap: it covers them all and has the name of the rule with a format.
fn without_overlaps(mut found: Vec<Secret>) -> Vec<Secret> {
    found.sort_by(|a, b| a.span.start.cmp(&b.span.start).then(b.span.end.cmp(&a.span.end)).then(rank(a).cmp(&rank(b))));
    let mut apart: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found {
        match apart.last_mut() {
            Some(last) if secret.span.start < last.span.end => {
                last.span.end = last.span.end.max(secret.span.end);
                if rank(&secret) < rank(last) {
                    (last.rule, last.kind) = (secret.rule, secret.kind);
                }
            }
            _ => apart.push(secret),
        }
    }
    apart
}

/// Rules with a format come first, in the order of the table.
fn rank(secret: &Secret) -> usize {
    RULES
        .iter()
        .position(|rule| rule.id == secret.rule)
        .unwrap_or(RULES.len() + usize::from(secret.rule == "service_key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_finds_its_examples_and_nothing_near_them() {
        let mut wrong = Vec::new();
        for rule in RULES {
            if rule.examples.is_empty() || compile(rule).is_none() {
                wrong.push(format!("{}: no examples or no pattern", rule.id));
            }
            for text in rule.examples.iter().map(|example| rules::fill(example)) {
                let at = RULES.iter().position(|other| other.id == rule.id).unwrap();
                if !tried_alone(at, &text) {
                    wrong.push(format!("{} misses {text}", rule.id));
                }
                if find(&text).is_empty() {
                    wrong.push(format!("{} is not found in {text}", rule.id));
                }
            }
            for text in rule.counters.iter().map(|counter| rules::fill(counter)) {
                let at = RULES.iter().position(|other| other.id == rule.id).unwrap();
                if tried_alone(at, &text) {
                    wrong.push(format!("{} takes {text}", rule.id));
                }
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
    }

    /// Is this the rule that finds something, wherever one of its keywords stands?
    fn tried_alone(at: usize, text: &str) -> bool {
        let lower = text.to_ascii_lowercase();
        RULES[at]
            .keys
            .iter()
            .any(|key| lower.match_indices(key).any(|(start, _)| by_rule(text, start..start + key.len(), at).is_some()))
    }

    #[test]
    fn names_of_rules_are_used_once() {
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
        assert!(names.iter().all(|name| name.len() + redact::OPEN.len() + 10 <= redact::LONGEST_MARKER));
        assert!(RULES.iter().flat_map(|rule| rule.keys).all(|key| key.len() >= 3 && *key == key.to_ascii_lowercase()));
    }
}
