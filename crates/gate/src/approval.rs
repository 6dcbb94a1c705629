//! Approvals: who may answer, what a standing yes covers, and what silence means.
//!
//! Silence never approves what is at high risk, wants two people, or was steered by words nobody vouches for.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use serde_json::Value;
use toolgate_contract::{Risk, SafetyClass, scale};

/// How questions to people are handled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApprovalRules {
    /// A question nobody answered, or a yes nobody used, ends after this.
    pub expires: Duration,
    /// Who may answer; empty means whoever can reach the machine or the console.
    pub people: Vec<String>,
    /// What happens while nobody answers.
    pub timeout: Timeout,
}

impl Default for ApprovalRules {
    fn default() -> Self {
        Self { expires: Duration::from_secs(24 * 3600), people: Vec::new(), timeout: Timeout::Wait }
    }
}

/// What silence means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeout {
    /// Nothing: the question waits until it expires.
    Wait,
    /// No, after this long.
    Deny(Duration),
    /// It depends on what is at stake. A risk that is not named waits.
    Tiered(BTreeMap<Risk, Tier>),
    /// Somebody else is asked. When all were, it is a no.
    Escalation(Vec<Step>),
}

/// What silence means at one risk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tier {
    /// After this long.
    pub after: Duration,
    /// This.
    pub then: Silence,
}

scale! {
    /// The answer nobody gave.
    Silence {
        /// No.
        Deny = "deny",
        /// Yes; only where little is at stake.
        Approve = "approve",
    }
}

/// One step of an escalation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Who is asked.
    pub to: Vec<String>,
    /// For how long, before the next are asked too.
    pub after: Duration,
}

/// What is known of a question when its time is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// How long ago it was asked.
    pub age: Duration,
    /// What is at stake.
    pub risk: Risk,
    /// The class of the call.
    pub class: SafetyClass,
    /// How many people must agree.
    pub people: u8,
    /// Words of the call were heard only in untrusted text.
    pub steered: bool,
}

/// What is due about a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing yet.
    Waiting,
    /// The first steps up to this one are asked.
    Step(usize),
    /// Silence says no.
    Denied,
    /// Silence says yes.
    Approved,
    /// It is too old.
    Expired,
}

impl ApprovalRules {
    /// What is due about a question now.
    pub fn due(&self, asked: &Asked) -> Due {
        if asked.age >= self.expires {
            return Due::Expired;
        }
        match &self.timeout {
            Timeout::Wait => Due::Waiting,
            Timeout::Deny(after) if asked.age >= *after => Due::Denied,
            Timeout::Deny(_) => Due::Waiting,
            Timeout::Tiered(tiers) => match tiers.get(&asked.risk) {
                Some(tier) if asked.age >= tier.after => match tier.then {
                    Silence::Approve if asked.may_pass_in_silence() => Due::Approved,
                    Silence::Approve => Due::Waiting,
                    Silence::Deny => Due::Denied,
                },
                _ => Due::Waiting,
            },
            Timeout::Escalation(steps) => {
                let mut until = Duration::ZERO;
                let step = steps.iter().position(|step| {
                    until = until.saturating_add(step.after);
                    asked.age < until
                });
                step.map_or(Due::Denied, Due::Step)
            }
        }
    }
}

impl Asked {
    /// Little is at stake, one person would do, and nobody else's words are in it.
    fn may_pass_in_silence(&self) -> bool {
        self.risk < Risk::High && self.class < SafetyClass::Financial && self.people <= 1 && !self.steered
    }
}

/// Does a standing yes with these patterns cover these arguments?
///
/// Every value in the arguments must match the pattern of its dotted path, where `*` stands for any one part, and every
/// pattern must match something: what nobody named is not covered. In a pattern `*` stands for any run of characters but
/// `/`, and `**` for any run at all; in a URL `*` also stays within a name of the host, of the path and of what follows, so
/// that `https://*.example.com/**` is about hosts of `example.com` alone. A value that goes up a directory again is elsewhere than where it begins: it is
/// covered by `**` alone, or where it is spelt out.
pub fn covers(patterns: &BTreeMap<String, String>, arguments: &Value) -> bool {
    let mut leaves = Vec::new();
    flatten(arguments, String::new(), &mut leaves);
    let fits = |(path, pattern): (&String, &String), (at, text): &(String, String)| {
        same_path(path, at) && (pattern == "**" || pattern == text || !climbs(text) && matches(pattern, text))
    };
    leaves.iter().all(|leaf| patterns.iter().any(|pattern| fits(pattern, leaf)))
        && patterns.iter().all(|pattern| leaves.iter().any(|leaf| fits(pattern, leaf)))
}

/// The values of the arguments with their dotted paths. An empty list or object is a value too.
fn flatten(value: &Value, path: String, leaves: &mut Vec<(String, String)>) {
    let below = |part: &str| if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
    match value {
        Value::Null => {}
        Value::Object(fields) if path.is_empty() || !fields.is_empty() => {
            fields.iter().for_each(|(key, value)| flatten(value, below(key), leaves));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(n, item)| flatten(item, below(&n.to_string()), leaves));
        }
        Value::String(text) => leaves.push((path, text.clone())),
        other => leaves.push((path, other.to_string())),
    }
}

fn same_path(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('.'), path.split('.'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(expected), Some(part)) if expected == "*" || expected == part => {}
            _ => return false,
        }
    }
}

/// Is there a name in it that stands for the directory above, as files or as URLs spell it?
fn climbs(text: &str) -> bool {
    let spelt: String = text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
    let plain = spelt.to_ascii_lowercase().replace("%2e", ".");
    plain.split(['/', '\\', '?', '#']).any(|name| name == "..")
}

/// Does the pattern match the whole text? One pass over the text for each star that is tried again: never exponential.
fn matches(pattern: &str, text: &str) -> bool {
    // A URL has other borders too, some of them only to some of those who read it.
    let borders: &[char] = if text.contains("://") { &['/', '\\', '?', '#', '@'] } else { &['/'] };
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // Where the pattern may stand after each character of the text.
    let mut states = vec![false; pattern.len() + 1];
    states[0] = true;
    spread(&pattern, &mut states);
    for c in text {
        let mut next = vec![false; pattern.len() + 1];
        for (at, _) in states.iter().enumerate().filter(|(_, on)| **on) {
            match pattern.get(at) {
                Some('*') if is_double(&pattern, at) || !borders.contains(&c) => next[at] = true,
                Some('*') | None => {}
                Some(expected) if *expected == c => next[at + 1] = true,
                Some(_) => {}
            }
        }
        spread(&pattern, &mut next);
        states = next;
    }
    states[pattern.len()]
}

/// A star may also stand for nothing.
fn spread(pattern: &[char], states: &mut [bool]) {
    for at in 0..pattern.len() {
        if states[at] && pattern[at] == '*' {
            let past = if is_double(pattern, at) { at + 2 } else { at + 1 };
            states[past] = true;
        }
    }
}

fn is_double(pattern: &[char], at: usize) -> bool {
    pattern.get(at + 1) == Some(&'*')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn asked(minutes: u32, risk: Risk) -> Asked {
        Asked { age: MINUTE * minutes, risk, class: SafetyClass::Write, people: 1, steered: false }
    }

    fn rules(timeout: Timeout) -> ApprovalRules {
        ApprovalRules { timeout, ..ApprovalRules::default() }
    }

    #[test]
    fn silence_means_what_the_rules_say() {
        let check = |timeout: Timeout, minutes: u32, risk: Risk, expected: Due| {
            assert_eq!(rules(timeout.clone()).due(&asked(minutes, risk)), expected, "{timeout:?} {minutes} {risk}");
        };
        check(Timeout::Wait, 1439, Risk::Low, Due::Waiting);
        check(Timeout::Wait, 1440, Risk::Low, Due::Expired);
        check(Timeout::Deny(MINUTE * 240), 239, Risk::Low, Due::Waiting);
        check(Timeout::Deny(MINUTE * 240), 240, Risk::Low, Due::Denied);
        let tiers = || {
            let tier = |minutes, then| Tier { after: MINUTE * minutes, then };
            Timeout::Tiered(
                [
                    (Risk::Low, tier(60, Silence::Approve)),
                    (Risk::Medium, tier(240, Silence::Deny)),
                    (Risk::High, tier(60, Silence::Approve)),
                ]
                .into(),
            )
        };
        check(tiers(), 59, Risk::Low, Due::Waiting);
        check(tiers(), 60, Risk::Low, Due::Approved);
        check(tiers(), 240, Risk::Medium, Due::Denied);
        // Whatever a tier says, silence never approves these.
        check(tiers(), 1000, Risk::High, Due::Waiting);
        check(tiers(), 1000, Risk::Critical, Due::Waiting);
        let step = |name: &str, minutes| Step { to: vec![name.into()], after: MINUTE * minutes };
        let steps = || Timeout::Escalation(vec![step("ann", 120), step("bob", 240)]);
        check(steps(), 0, Risk::High, Due::Step(0));
        check(steps(), 120, Risk::High, Due::Step(1));
        check(steps(), 360, Risk::High, Due::Denied);
    }

    #[test]
    fn silence_approves_nothing_that_matters() {
        let rules = rules(Timeout::Tiered([(Risk::Low, Tier { after: MINUTE, then: Silence::Approve })].into()));
        let plain = asked(5, Risk::Low);
        assert_eq!(rules.due(&plain), Due::Approved);
        for grave in [
            Asked { class: SafetyClass::Financial, ..plain },
            Asked { class: SafetyClass::Privileged, ..plain },
            Asked { people: 2, ..plain },
            Asked { steered: true, ..plain },
        ] {
            assert_eq!(rules.due(&grave), Due::Waiting, "{grave:?}");
        }
    }

    #[test]
    fn a_pattern_is_about_the_whole_value() {
        let check = |pattern: &str, text: &str, expected: bool| {
            assert_eq!(matches(pattern, text), expected, "`{pattern}` on `{text}`");
        };
        check("src/*.rs", "src/main.rs", true);
        check("src/*.rs", "src/a/main.rs", false);
        check("src/**.rs", "src/a/main.rs", true);
        check("src/**", "src/", true);
        check("src/**", "srcs/a", false);
        check("*", "", true);
        check("**", "a/b", true);
        check("a*b*c", "aXbYc", true);
        check("a*b*c", "aXbY", false);
        check("", "", true);
        check("", "a", false);
        for host in ["www", "a.b", "www-1", "x:1"] {
            check("https://*.example.com/**", &format!("https://{host}.example.com/a?b#c@d"), true);
        }
        for elsewhere in ["evil.com/", "evil.com#", "evil.com?", "evil.com\\", "a@evil.com/", "a@evil", "a:b@evil"] {
            check("https://*.example.com/**", &format!("https://{elsewhere}.example.com/"), false);
        }
        check("https://a.example/*", "https://a.example/b?c", false);
        check("ann@*", "ann@b?c#d@e\\f", true);
        let long = "a".repeat(2_000);
        check(&"*a".repeat(200), &format!("{long}b"), false);
    }

    #[test]
    fn a_standing_yes_covers_what_it_names_and_nothing_else() {
        let patterns = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let check = |pairs: &[(&str, &str)], arguments: Value, expected: bool| {
            assert_eq!(covers(&patterns(pairs), &arguments), expected, "{pairs:?} {arguments}");
        };
        check(&[("path", "src/*")], json!({ "path": "src/a" }), true);
        check(&[("path", "src/*")], json!({ "path": "src/a", "force": true }), false);
        check(&[("path", "src/*"), ("force", "true")], json!({ "path": "src/a", "force": true }), true);
        check(&[("path", "src/*")], json!({ "path": "src/a", "note": null }), true);
        check(&[("path", "src/*")], json!({}), false);
        for elsewhere in ["src/../a", "src/b/../../a", "src/..", "src/%2E./a", "src/..\\a", "src/.\t./a", "src/..?a"] {
            check(&[("path", "src/**")], json!({ "path": elsewhere }), false);
            check(&[("path", "**")], json!({ "path": elsewhere }), true);
            check(&[("path", elsewhere)], json!({ "path": elsewhere }), true);
        }
        check(&[("path", "*")], json!({ "path": ".." }), false);
        check(&[("path", "src/**")], json!({ "path": "src/..a/b.." }), true);
        check(&[("to.0", "ann@*")], json!({ "to": ["ann@example.com"] }), true);
        check(&[], json!({}), true);
        check(&[], json!({ "path": "x" }), false);
        check(&[], json!([1]), false);
        // Naming one element of a list says nothing about the others.
        check(&[("to.0", "ann@*")], json!({ "to": ["ann@example.com", "eve@example.com"] }), false);
        check(&[("to.*", "*@example.com")], json!({ "to": ["ann@example.com", "eve@example.com"] }), true);
        check(&[("to.*", "*@example.com")], json!({ "to": ["ann@example.com", "eve@example.org"] }), false);
        check(&[("to", "**")], json!({ "to": ["ann@example.com"] }), false);
        check(&[("path", "**")], json!({ "path": "x", "more": [] }), false);
        check(&[("path", "**")], json!({ "path": "x", "more": {} }), false);
        check(&[("path", "**"), ("more", "{}")], json!({ "path": "x", "more": {} }), true);
        check(&[("more.to", "ann@*")], json!({ "more": { "to": "ann@example.com" } }), true);
    }
}
