//! Rules an operator adds to the table, in the same form: a name, a pattern, what a hit is worth and why, with scripts
//! that must hit it and scripts that must not. A rule that does not do what its examples say is an error when it loads.
//!
//! # Patterns
//!
//! A pattern is the words a command starts with, parted by spaces. It is held against the command in its plain form
//! (no directory before the program, no global options of `git`, wrappers taken away), also without its options.
//!
//! | in a pattern | stands for |
//! |---|---|
//! | `push` | this word |
//! | `apply\|destroy` | one of these words |
//! | `*.example.com` | a word; `*` is any text in it |
//! | `*` | any one word |
//! | `**` | any words, or none |
//!
//! `terraform apply|destroy` hits `terraform -chdir=infra apply -auto-approve`, and `git push ** --force|-f` hits
//! `git push origin main -f`. A word that is not certain before the script runs may be any word, so it can make a hit;
//! such a hit is worth no more than asking.

use serde::{Deserialize, Serialize, Serializer};
use toolgate_contract::Verdict;

use super::{
    Place, Reading,
    ir::{Command, UNKNOWN, Why, Word},
    loose_commands, loose_windows,
    policy::{Judgement, Origin},
    read,
    rules::{RULES, Severity},
};

const MAX_RULES: usize = 256;
const MAX_PATTERN: usize = 1024;
/// One less than there are bits in the set of places that matching keeps.
const MAX_PIECES: usize = 63;
const MAX_EXAMPLES: usize = 64;
const MAX_EXAMPLE: usize = 4096;

/// A rule as an operator writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserRule {
    /// The stable name: `[a-z0-9_]`, at most 64.
    pub id: String,
    /// The words a command starts with.
    pub pattern: String,
    /// What a hit is worth.
    pub severity: Severity,
    /// Why, for the person who is asked and the agent that is refused.
    pub reason: String,
    /// Scripts that hit it, at least one.
    #[serde(rename = "match")]
    pub must: Vec<String>,
    /// Scripts that do not.
    #[serde(rename = "not_match", default)]
    pub must_not: Vec<String>,
}

/// Why a rule was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule `{rule}`: {why}")]
pub struct RuleError {
    /// Which of the list, counting from 0.
    pub index: usize,
    /// Its name, as it was written.
    pub rule: String,
    /// The key that is wrong: `id`, `pattern`, `reason`, `match` or `not_match`.
    pub key: &'static str,
    /// One sentence.
    pub why: String,
}

/// Rules that do what their examples say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserRules {
    rules: Vec<(UserRule, Pattern)>,
}

impl UserRules {
    /// Takes the rules, or says about every one that is wrong what is wrong with it.
    pub fn load(rules: Vec<UserRule>) -> Result<Self, Vec<RuleError>> {
        let mut errors = Vec::new();
        let mut loaded = Self::default();
        for (index, rule) in rules.into_iter().enumerate() {
            let taken = loaded.rules.iter().any(|(other, _)| other.id == rule.id);
            match Pattern::read(&rule.pattern).map_err(|why| ("pattern", why)).and_then(|pattern| {
                check(&rule, &pattern, taken || index >= MAX_RULES)?;
                Ok(pattern)
            }) {
                Ok(pattern) => loaded.rules.push((rule, pattern)),
                Err((key, why)) => errors.push(RuleError { index, rule: rule.id, key, why }),
            }
        }
        if errors.is_empty() { Ok(loaded) } else { Err(errors) }
    }

    /// The rules, in the order they were written.
    pub fn iter(&self) -> impl Iterator<Item = &UserRule> {
        self.rules.iter().map(|(rule, _)| rule)
    }

    pub(super) fn judge(&self, judgement: &mut Judgement, reading: &Reading) {
        let loose = loose(reading);
        for (rule, pattern) in &self.rules {
            if let Some((certainty, about)) = pattern.hit(reading, &loose) {
                let verdict = match certainty {
                    Certainty::Certain => rule.severity.verdict(),
                    Certainty::Possible => Verdict::Ask,
                };
                judgement.tighten(verdict, Origin::Own, &rule.id, &rule.reason, &about);
            }
        }
    }
}

impl Serialize for UserRules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

fn check(rule: &UserRule, pattern: &Pattern, no_place: bool) -> Result<(), (&'static str, String)> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if rule.id.is_empty() || rule.id.len() > 64 || !rule.id.chars().all(is_name) {
        return Err(("id", "a name is made of `a-z`, `0-9` and `_`, at most 64 of them".into()));
    }
    if RULES.iter().any(|known| known.id == rule.id) {
        return Err(("id", "a built-in rule has this name; choose another".into()));
    }
    if no_place {
        return Err(("id", format!("another rule has this name, or there are more than {MAX_RULES}")));
    }
    if rule.reason.trim().is_empty() {
        return Err(("reason", "say why, for the person who is asked".into()));
    }
    if rule.must.is_empty() {
        return Err(("match", "give at least one script that must hit it".into()));
    }
    for (key, examples) in [("match", &rule.must), ("not_match", &rule.must_not)] {
        if examples.len() > MAX_EXAMPLES || examples.iter().any(|example| example.len() > MAX_EXAMPLE) {
            return Err((key, format!("at most {MAX_EXAMPLES} examples of at most {MAX_EXAMPLE} bytes")));
        }
    }
    let place = Place::at("/srv/space", "/home/me");
    let hit = |example: &str| {
        let reading = read(example, &place);
        pattern.hit(&reading, &loose(&reading)).map(|(certainty, _)| certainty)
    };
    if let Some(missed) = rule.must.iter().find(|example| hit(example) != Some(Certainty::Certain)) {
        return Err(("match", format!("it must hit `{missed}` and does not")));
    }
    if let Some(hit) = rule.must_not.iter().find(|example| hit(example).is_some()) {
        return Err(("not_match", format!("it must not hit `{hit}` and does")));
    }
    Ok(())
}

/// What could be commands in the text that was not read.
fn loose(reading: &Reading) -> Vec<Vec<String>> {
    reading.unread.iter().flat_map(|text| loose_commands(text)).collect()
}

/// How sure a hit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// The words say so.
    Certain,
    /// They may turn out to say so.
    Possible,
}

/// A pattern, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Any words, or none.
    Words,
    /// One word, which fits one of these.
    OneOf(Vec<String>),
}

/// A word as a pattern sees it.
#[derive(Debug, Clone, Copy)]
enum Said<'a> {
    Text(&'a str),
    /// It may turn out to be any words.
    Anything,
}

impl<'a> Said<'a> {
    fn of(word: &'a Word) -> Self {
        match word.why() {
            Some(Why::Spelled | Why::ShellVariable | Why::ScriptVariable | Why::Glob) | None
                if !word.text().contains(UNKNOWN) =>
            {
                Self::Text(word.text())
            }
            _ => Self::Anything,
        }
    }

    fn is_option(self) -> bool {
        matches!(self, Self::Text(text) if text.starts_with('-'))
    }
}

impl Pattern {
    fn read(text: &str) -> Result<Self, String> {
        if text.len() > MAX_PATTERN {
            return Err(format!("a pattern has at most {MAX_PATTERN} bytes"));
        }
        let pieces: Vec<Piece> = text
            .split_whitespace()
            .map(|word| match word {
                "**" => Piece::Words,
                word => Piece::OneOf(word.split('|').map(str::to_owned).collect()),
            })
            .collect();
        if pieces.len() > MAX_PIECES {
            return Err(format!("a pattern has at most {MAX_PIECES} words"));
        }
        match pieces.first() {
            None => Err("a pattern names at least a program".into()),
            Some(Piece::Words) => Err("a pattern starts with a program, not with `**`".into()),
            Some(Piece::OneOf(names)) if names.iter().any(|name| name.chars().all(|c| c == '*')) => {
                Err("a pattern names a program; one that fits every program would ask about everything".into())
            }
            Some(Piece::OneOf(_)) => Ok(Self(pieces)),
        }
    }

    /// The first command that hits, the certain ones first.
    fn hit(&self, reading: &Reading, loose: &[Vec<String>]) -> Option<(Certainty, String)> {
        let sure = |command: &&Command| self.starts_command(command, Certainty::Certain);
        if let Some(command) = reading.commands.iter().find(sure) {
            return Some((Certainty::Certain, command.shown()));
        }
        for words in loose.iter().flat_map(|words| loose_windows(words)) {
            let base = words[0].rsplit('/').next().unwrap_or_default();
            let said = std::iter::once(base).chain(words[1..].iter().map(String::as_str)).map(Said::Text);
            if self.starts(said, Certainty::Certain) {
                return Some((Certainty::Certain, words.join(" ")));
            }
        }
        let possible = |command: &&Command| {
            let is_open = command.words.iter().any(|word| matches!(Said::of(word), Said::Anything));
            is_open && self.starts_command(command, Certainty::Possible)
        };
        reading.commands.iter().find(possible).map(|command| (Certainty::Possible, command.shown()))
    }

    fn starts_command(&self, command: &Command, certainty: Certainty) -> bool {
        let words = || command.words.iter().map(Said::of);
        self.starts(words(), certainty)
            || self.starts(words().filter(|word| !word.is_option()), certainty)
            || (command.argv != command.words && self.starts(command.argv.iter().map(Said::of), certainty))
    }

    /// Do the words start like this? Keeps the set of places in the pattern that the words so far can have led to, a
    /// bit for each.
    fn starts<'a>(&self, words: impl Iterator<Item = Said<'a>>, certainty: Certainty) -> bool {
        let end = self.0.len();
        let mut reached: u64 = 1;
        for word in words {
            let mut next: u64 = 0;
            for at in (0..end).filter(|at| reached >> at & 1 == 1) {
                match (&self.0[at], word) {
                    // Which program runs is in doubt by itself where it is not certain.
                    (_, Said::Anything) if at > 0 && certainty == Certainty::Possible => next |= u64::MAX << at,
                    (Piece::Words, _) => next |= 1 << at,
                    (Piece::OneOf(choices), Said::Text(text)) if choices.iter().any(|c| fits(c, text)) => {
                        next |= 1 << (at + 1);
                    }
                    (Piece::OneOf(_), _) => {}
                }
            }
            for at in (0..end).filter(|at| self.0[*at] == Piece::Words) {
                next |= (next >> at & 1) << (at + 1);
            }
            if next >> end & 1 == 1 {
                return true;
            }
            if next == 0 {
                return false;
            }
            reached = next;
        }
        false
    }
}

/// Does a word fit a pattern in which `*` is any text?
fn fits(pattern: &str, word: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == word };
    let Some(mut left) = word.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.len() >= tail.len() && left.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::{super::policy::Bounds, *};

    fn rule(pattern: &str, severity: Severity, must: &[&str], must_not: &[&str]) -> UserRule {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        UserRule {
            id: "own".into(),
            pattern: pattern.into(),
            severity,
            reason: "because".into(),
            must: texts(must),
            must_not: texts(must_not),
        }
    }

    /// A pattern, scripts it hits, scripts it does not.
    fn check(pattern: &str, must: &[&str], must_not: &[&str]) {
        let loaded = UserRules::load(vec![rule(pattern, Severity::Deny, must, must_not)]);
        assert_eq!(loaded.map(|_| ()).map_err(|errors| errors[0].to_string()), Ok(()), "{pattern}");
    }

    /// The key and the sentence of the one error.
    fn wrong(rule: UserRule, key: &str, why: &str) {
        let errors = UserRules::load(vec![rule]).unwrap_err();
        assert_eq!((errors.len(), errors[0].key), (1, key), "{errors:?}");
        assert!(errors[0].why.contains(why), "{errors:?}");
    }

    fn verdict(pattern: &str, severity: Severity, script: &str) -> Verdict {
        let rule = rule(pattern, severity, &[], &[]);
        let own = UserRules { rules: vec![(rule.clone(), Pattern::read(&rule.pattern).unwrap())] };
        Bounds { prefixes: None, own: &own }.judge(&read(script, &Place::at("/srv/space", "/home/me"))).verdict
    }

    #[test]
    fn a_pattern_is_the_words_a_command_starts_with() {
        check(
            "terraform apply|destroy",
            &[
                "terraform apply",
                "terraform -chdir=infra apply -auto-approve",
                "cd infra && terraform destroy",
                "sudo /usr/bin/terraform apply",
                "echo $(terraform apply)",
                "bash -c 'terraform apply'",
                "X=apply; terraform $X",
                "find . -exec terraform apply \\;",
            ],
            &["terraform plan", "echo terraform apply", "terraform-docs apply", "terraform", "ls terraform apply"],
        );
        check(
            "git push ** --force|-f",
            &["git push --force", "git -C x push origin main -f", "git push -q --force o"],
            &["git push", "git pull --force", "git push --force-with-lease", "git push origin f"],
        );
        check("curl ** *.example.com*", &["curl -s https://a.example.com/x"], &["curl https://example.org"]);
        check("npm * left-pad", &["npm install left-pad", "npm i left-pad"], &["npm left-pad", "npm i --save x"]);
        check("deploy*", &["deploy", "./deploy.sh now"], &["redeploy"]);
        check("./deploy.sh", &["./deploy.sh now"], &["deploy.sh", "sh deploy.sh"]);
    }

    #[test]
    fn what_was_not_read_is_searched_word_by_word() {
        assert_eq!(verdict("terraform apply", Severity::Deny, "echo 'x; terraform apply"), Verdict::Deny);
    }

    #[test]
    fn a_word_that_is_not_certain_can_make_a_hit_that_is_asked_about() {
        assert_eq!(verdict("terraform apply", Severity::Deny, "terraform plan"), Verdict::Allow);
        assert_eq!(verdict("terraform apply", Severity::Deny, "terraform $X"), Verdict::Ask);
        assert_eq!(verdict("terraform apply", Severity::Deny, "terraform $(cat verb)"), Verdict::Ask);
        assert_eq!(verdict("git push ** --force", Severity::Deny, "git push origin $X"), Verdict::Ask);
        assert_eq!(verdict("git push ** --force", Severity::Deny, "git log $X"), Verdict::Allow);
        assert_eq!(verdict("git push", Severity::Ask, "git push"), Verdict::Ask);
    }

    #[test]
    fn a_rule_that_does_not_do_what_its_examples_say_is_an_error() {
        let deny = Severity::Deny;
        wrong(rule("git push", deny, &["git push", "git pull"], &[]), "match", "`git pull`");
        wrong(rule("git push", deny, &["git push"], &["git push -n"]), "not_match", "`git push -n`");
        wrong(rule("git push", deny, &["git $X"], &[]), "match", "must hit");
        wrong(rule("git push", deny, &["git push"], &["git $X"]), "not_match", "must not hit");
        wrong(rule("git push", deny, &[], &[]), "match", "at least one");
    }

    #[test]
    fn a_rule_that_cannot_hold_is_an_error() {
        let good = rule("git push", Severity::Deny, &["git push"], &[]);
        for pattern in ["", "  ", "** x", "* x", "git|* x", "***"] {
            wrong(UserRule { pattern: pattern.into(), ..good.clone() }, "pattern", "a pattern");
        }
        wrong(UserRule { pattern: "x".repeat(1025), ..good.clone() }, "pattern", "1024");
        wrong(UserRule { pattern: "x ".repeat(64), ..good.clone() }, "pattern", "63");
        check(&"x ".repeat(63), &[&"x ".repeat(64)], &[&"x ".repeat(62)]);
        for id in ["", "No", "a-b", "ü"] {
            wrong(UserRule { id: id.into(), ..good.clone() }, "id", "a name is made of");
        }
        wrong(UserRule { id: "delete_system".into(), ..good.clone() }, "id", "built-in");
        wrong(UserRule { reason: " ".into(), ..good.clone() }, "reason", "why");
        wrong(UserRule { must: vec!["git push".into(); 65], ..good.clone() }, "match", "at most 64");
        let errors = UserRules::load(vec![good.clone(), good.clone()]).unwrap_err();
        assert_eq!((errors.len(), errors[0].index, errors[0].key), (1, 1, "id"));
        assert!(serde_json::from_str::<UserRule>(r#"{"id":"a","pattern":"b","severity":"allow"}"#).is_err());
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, word, expected) in [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "ab", false),
            ("*", "", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("*aa", "a", false),
            ("é*", "éa", true),
            ("abc", "abcd", false),
        ] {
            assert_eq!(fits(pattern, word), expected, "{pattern} {word}");
        }
    }
}
