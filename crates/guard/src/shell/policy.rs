//! A list of prefixes, and what it says about a script.
//!
//! Denied prefixes are about what runs, however it is spelled or wrapped. Allowed prefixes are about what is certain:
//! every command of the script must have one, and nothing about the script may be in doubt.

use serde::Deserialize;
use toolgate_contract::Verdict;

use super::{
    Reading,
    effects::touches,
    ir::{Command, Flow, Role, Why, Word},
    paths::{Place, is_plain_device, is_shared, is_under, resolve},
    programs::{self, Files},
};

/// What a rules file holds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Commands that may run, as the words they start with.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Commands that may not.
    #[serde(default)]
    pub deny: Vec<String>,
    /// For commands on neither list.
    #[serde(default)]
    pub default: Answer,
    /// For scripts that write a file by redirection.
    #[serde(default)]
    pub write_redirect: Answer,
    /// For scripts that cannot be read for certain. `allow` does not hold here: a doubt is asked about at least.
    #[serde(default)]
    pub unparsable: Answer,
}

/// An answer in a rules file. Nothing said means ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Yes.
    Allow,
    /// If a person agrees.
    #[default]
    Ask,
    /// No.
    Deny,
}

impl Answer {
    fn verdict(self) -> Verdict {
        match self {
            Self::Allow => Verdict::Allow,
            Self::Ask => Verdict::Ask,
            Self::Deny => Verdict::Deny,
        }
    }
}

/// A verdict and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The strictest answer.
    pub verdict: Verdict,
    /// Every rule that spoke for asking or denying: the id, then what it spoke about.
    pub rules: Vec<(String, String)>,
}

/// What the rules file, the built-in rules and the doubts say together. The strictest wins.
pub fn judge(reading: &Reading, rules: &Rules) -> Judgement {
    let mut judgement = super::judge(reading);
    if !reading.doubts.is_empty() {
        judgement.tighten(rules.unparsable.verdict(), "unparsable", "it cannot be read for certain");
    }
    for command in &reading.commands {
        judge_command(&mut judgement, command, rules, &reading.place);
    }
    for text in &reading.unread {
        for words in super::loose_commands(text).iter().flat_map(|words| super::loose_windows(words)) {
            if let Some(prefix) = rules.deny.iter().find(|prefix| has_prefix_loosely(words, prefix)) {
                judgement.tighten(Verdict::Deny, &format!("deny:{prefix}"), &words.join(" "));
            }
        }
    }
    if reading.commands.is_empty() {
        judgement.tighten(rules.default.verdict(), "default", "it runs nothing");
    }
    judgement
}

impl Judgement {
    pub(super) fn tighten(&mut self, verdict: Verdict, rule: &str, about: &str) {
        self.verdict = self.verdict.min(verdict);
        let entry = (rule.to_owned(), about.to_owned());
        if verdict != Verdict::Allow && !self.rules.contains(&entry) && self.rules.len() < 256 {
            self.rules.push(entry);
        }
    }
}

fn judge_command(judgement: &mut Judgement, command: &Command, rules: &Rules, place: &Place) {
    let shown = command.shown();
    if let Some(prefix) = rules.deny.iter().find(|prefix| is_denied(command, prefix)) {
        judgement.tighten(Verdict::Deny, &format!("deny:{prefix}"), &shown);
    }
    for redirect in &command.redirects {
        let path = resolve(command.cwd.as_deref(), redirect.target.text());
        let is_nowhere = redirect.target.literal().is_some() && path.as_deref().is_some_and(is_plain_device);
        if redirect.flow == Flow::Write && !is_nowhere {
            judgement.tighten(rules.write_redirect.verdict(), "write_redirect", &format!("> {}", redirect.target));
        }
        if redirect.flow != Flow::Write && redirect.target.why().is_some_and(|why| why >= Why::Variable) {
            judgement.tighten(rules.unparsable.verdict(), "uncertain_input", &redirect.target.to_string());
        }
    }
    for assignment in &command.assignments {
        if assignment.value.why().is_some_and(|why| why >= Why::Variable) {
            judgement.tighten(rules.unparsable.verdict(), "uncertain_value", &assignment.name);
        }
    }
    if command.words.is_empty() || matches!(command.role, Role::Transparent | Role::Call) {
        return;
    }
    if programs::is_flow(command.program()) && command.is_system_program {
        return;
    }
    match rules.allow.iter().find(|prefix| is_allowed(command, prefix)) {
        None => judgement.tighten(rules.default.verdict(), "default", &shown),
        Some(_) => {
            if let Some(what) = not_plain(command, place) {
                judgement.tighten(Verdict::Ask, "not_plain", &format!("{shown}: {what}"));
            }
        }
    }
}

fn is_denied(command: &Command, prefix: &str) -> bool {
    let wanted: Vec<&str> = prefix.split_whitespace().collect();
    let starts =
        |words: &[&str]| !wanted.is_empty() && words.len() >= wanted.len() && words[..wanted.len()] == wanted[..];
    let words: Vec<&str> = command.words.iter().map(Word::text).collect();
    let argv: Vec<&str> = command.argv.iter().map(Word::text).collect();
    // Options between the words do not change what runs.
    let plain: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
    starts(&words) || starts(&argv) || starts(&plain)
}

/// Words of a script nobody could read: is there a denied command among them?
fn has_prefix_loosely(words: &[String], prefix: &str) -> bool {
    let wanted: Vec<&str> = prefix.split_whitespace().collect();
    let base = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
    !wanted.is_empty()
        && words.len() >= wanted.len()
        && words.iter().enumerate().zip(&wanted).all(
            |((at, word), want)| {
                if at == 0 { base(word) == *want } else { word == want }
            },
        )
}

fn is_allowed(command: &Command, prefix: &str) -> bool {
    let wanted: Vec<&str> = prefix.split_whitespace().collect();
    let words: Vec<Option<&str>> = command.words.iter().map(Word::literal).collect();
    command.is_system_program
        && !wanted.is_empty()
        && words.len() >= wanted.len()
        && words.iter().zip(&wanted).all(|(word, want)| *word == Some(want))
}

/// Why an allowed program, used like this, is more than the program that was allowed.
fn not_plain(command: &Command, place: &Place) -> Option<String> {
    let program = command.program();
    if let Some(option) = programs::risky_option(command) {
        return Some(format!("`{option}` runs or writes something"));
    }
    if program == "git" && !is_own_repository(command.cwd.as_deref(), place) {
        return Some("the repository's own config may run programs, and others can write it".to_owned());
    }
    let has_risky_options = programs::has_risky_options(program);
    let mut ended = false;
    for word in command.args() {
        ended |= word.text() == "--";
        let Some(why) = word.why() else { continue };
        if why >= Why::Variable {
            return Some(format!("`{word}`: {}", why.as_str()));
        }
        if has_risky_options && !ended && word.may_be_option() {
            return Some(format!("`{word}` may turn out to be an option"));
        }
    }
    if programs::files(program) == Files::Reads {
        let is_blind = |word: &Word| word.text().contains(super::ir::UNKNOWN);
        if let Some((_, word)) = touches(command).iter().find(|(_, word)| is_blind(word)) {
            return Some(format!("which file `{word}` names is not certain"));
        }
    }
    None
}

/// May the config of a repository in this directory be obeyed? Not where anybody may put one.
fn is_own_repository(cwd: Option<&str>, place: &Place) -> bool {
    cwd.is_some_and(|cwd| {
        let is_in_workspace = is_under(cwd, &place.workspace) && place.workspace.matches('/').count() > 1;
        cwd == place.cwd || is_in_workspace || !is_shared(cwd)
    })
}
