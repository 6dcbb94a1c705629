//! A list of prefixes, and what it says about a script.
//!
//! Denied and asked prefixes are about what runs, however it is spelled or wrapped. Allowed prefixes are about what is
//! certain: every command of the script must have one, and nothing about the script may be in doubt.

use serde::{Deserialize, Serialize};
use toolgate_contract::{Risk, Verdict};

use super::{
    Reading, TOO_LONG, UserRules,
    effects::touches,
    ir::{Command, Flow, Role, Why, Word},
    paths::{Place, is_plain_device, is_shared, is_under, resolve},
    programs::{self, Files},
    rules::{RULES, Severity},
};

/// What a rules file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// Commands that may run, as the words they start with.
    pub allow: Vec<String>,
    /// Commands a person is asked about, also where a shorter prefix allows them.
    pub ask: Vec<String>,
    /// Commands that may not.
    pub deny: Vec<String>,
    /// For commands on no list.
    pub default: Answer,
    /// For scripts that write a file by redirection.
    pub write_redirect: Answer,
    /// For scripts that cannot be read for certain. `allow` does not hold here: a doubt is asked about at least.
    pub unparsable: Answer,
    /// For programs that lie in the workspace.
    pub own_programs: Answer,
    /// For allowed programs with an option that runs or writes something. With words that are not certain they are
    /// asked about, unless this is `allow`.
    pub not_plain: Answer,
    /// Rules of the table and doubts that are not asked about. What denies cannot be waived.
    pub waive: Vec<String>,
}

/// Doubts about what names mean rather than about what is said. Where any program may run they are worth nothing.
const WAIVABLE_DOUBTS: [&str; 2] = ["function", "hijack"];

impl Rules {
    /// Is there anything in it that could never hold? A sentence about the first such thing.
    pub fn check(&self) -> Result<(), String> {
        if let Some(empty) = [&self.allow, &self.ask, &self.deny].into_iter().flatten().find(|p| p.trim().is_empty()) {
            return Err(format!("`{empty}` is no prefix: write the words a command starts with"));
        }
        for id in &self.waive {
            match RULES.iter().find(|rule| rule.id == id) {
                Some(rule) if rule.severity == Severity::Deny => {
                    return Err(format!("rule `{id}` denies, and cannot be waived"));
                }
                None if !WAIVABLE_DOUBTS.contains(&&**id) => {
                    return Err(format!("there is no rule `{id}` that could be waived"));
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }
}

/// An answer in a rules file. Nothing said means ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    /// What spoke for asking or denying, in the order it was heard.
    pub spoke: Vec<Spoke>,
}

/// One rule that spoke for asking or denying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoke {
    /// What it said.
    pub verdict: Verdict,
    /// Where it stands.
    pub origin: Origin,
    /// Its stable name.
    pub rule: String,
    /// What it means: `removes a tree outside the workspace`.
    pub meaning: String,
    /// The beginning of the command it spoke about; empty where it is about the whole.
    pub about: String,
}

/// Where a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In the table.
    Table,
    /// Nowhere: the script cannot be read for certain.
    Doubt,
    /// In the list of prefixes.
    Prefixes,
    /// In the operator's own rules.
    Own,
}

/// What binds the commands of somebody.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a> {
    /// The list of prefixes, where there is one.
    pub prefixes: Option<&'a Rules>,
    /// The operator's own rules.
    pub own: &'a UserRules,
}

impl Bounds<'_> {
    /// What the list, the operator's rules, the table and the doubts say together. The strictest wins.
    pub fn judge(&self, reading: &Reading) -> Judgement {
        let mut judgement = Judgement::default();
        self.own.judge(&mut judgement, reading);
        match self.prefixes {
            Some(rules) => judgement.all(reading, rules),
            None => {
                judgement.hits(reading, &[]);
                judgement.doubts(reading, &[]);
            }
        }
        judgement
    }

    /// The same for text that is typed into a program nobody can see from here.
    ///
    /// Where there is a list of prefixes it must be whole lines of a script, because what is typed in parts is put
    /// together by the program. Where there is none it need not be a script at all, so doubts do not count.
    pub fn judge_typed(&self, text: &str, reading: &Reading) -> Judgement {
        // A key that stops something, or asks for what was typed before, types nothing.
        if text.trim().is_empty() {
            return Judgement::default();
        }
        let mut judgement = Judgement::default();
        self.own.judge(&mut judgement, reading);
        let Some(rules) = self.prefixes else {
            judgement.hits(reading, &[]);
            return judgement;
        };
        judgement.all(reading, rules);
        if !text.ends_with('\n') || text.contains(|c: char| c.is_control() && c != '\n') {
            let meaning = "it is not a whole line, and what it adds up to is not known";
            judgement.tighten(Verdict::Ask, Origin::Doubt, "typed_in_part", meaning, "");
        }
        judgement
    }
}

/// What the list, the table and the doubts say together. The strictest wins.
pub fn judge(reading: &Reading, rules: &Rules) -> Judgement {
    let mut judgement = Judgement::default();
    judgement.all(reading, rules);
    judgement
}

/// The words a command starts with.
type Prefix<'a> = Vec<&'a str>;

/// The prefixes, taken apart once.
struct Lists<'a> {
    allow: Vec<Prefix<'a>>,
    ask: Vec<Prefix<'a>>,
    deny: Vec<Prefix<'a>>,
}

impl<'a> Lists<'a> {
    fn of(rules: &'a Rules) -> Self {
        let prefixes = |list: &'a [String]| -> Vec<Prefix<'a>> {
            list.iter()
                .map(|prefix| prefix.split_whitespace().collect())
                .filter(|p: &Prefix<'_>| !p.is_empty())
                .collect()
        };
        Self { allow: prefixes(&rules.allow), ask: prefixes(&rules.ask), deny: prefixes(&rules.deny) }
    }

    /// The first prefix of each list that speaks against a command.
    fn against(&self, fits: impl Fn(&[&str]) -> bool) -> impl Iterator<Item = (&[&'a str], Verdict)> {
        let lists = [(&self.deny, Verdict::Deny), (&self.ask, Verdict::Ask)];
        lists.into_iter().filter_map(move |(list, verdict)| {
            list.iter().find(|prefix| fits(prefix)).map(|prefix| (prefix.as_slice(), verdict))
        })
    }
}

impl Default for Judgement {
    fn default() -> Self {
        Self { verdict: Verdict::Allow, spoke: Vec::new() }
    }
}

impl Judgement {
    pub(super) fn tighten(&mut self, verdict: Verdict, origin: Origin, rule: &str, meaning: &str, about: &str) {
        self.verdict = self.verdict.min(verdict);
        let (meaning, about) = (beginning(meaning), beginning(about));
        let is_known = |spoke: &Spoke| spoke.rule == rule && spoke.about == about && spoke.meaning == meaning;
        if verdict != Verdict::Allow && !self.spoke.iter().any(is_known) && self.spoke.len() < 256 {
            let (meaning, about) = (meaning.to_owned(), about.to_owned());
            self.spoke.push(Spoke { verdict, origin, rule: rule.to_owned(), meaning, about });
        }
    }

    /// What the list, the table and the doubts say.
    fn all(&mut self, reading: &Reading, rules: &Rules) {
        self.hits(reading, &rules.waive);
        if self.doubts(reading, &rules.waive) {
            let meaning = "it cannot be read for certain";
            self.tighten(rules.unparsable.verdict(), Origin::Prefixes, "unparsable", meaning, "");
        }
        let lists = Lists::of(rules);
        for command in &reading.commands {
            judge_command(self, command, rules, &lists, &reading.place);
        }
        for text in &reading.unread {
            for words in super::loose_commands(text).iter().flat_map(|words| super::loose_windows(words)) {
                for (prefix, verdict) in lists.against(|prefix| has_prefix_loosely(words, prefix)) {
                    self.prefix(verdict, prefix, &words.join(" "));
                }
            }
        }
        if reading.commands.is_empty() {
            self.tighten(rules.default.verdict(), Origin::Prefixes, "default", "it runs nothing", "");
        }
    }

    /// How much the operator's rules say is at stake.
    pub fn own_risk(&self) -> Risk {
        let worth = |spoke: &Spoke| match spoke.verdict {
            Verdict::Deny => Risk::Critical,
            Verdict::Ask | Verdict::Allow => Risk::High,
        };
        self.spoke.iter().filter(|spoke| spoke.origin == Origin::Own).map(worth).max().unwrap_or(Risk::Low)
    }

    /// What the table says, without the rules that were waived.
    pub(super) fn hits(&mut self, reading: &Reading, waived: &[String]) {
        for hit in &reading.hits {
            let is_waived = hit.rule.severity == Severity::Ask && waived.iter().any(|id| id == hit.rule.id);
            if !is_waived {
                let about = hit.command.map_or_else(String::new, |at| reading.commands[at].shown());
                self.tighten(hit.rule.severity.verdict(), Origin::Table, hit.rule.id, hit.rule.about, &about);
            }
        }
    }

    /// What the doubts say, without those that were waived. Is there any?
    pub(super) fn doubts(&mut self, reading: &Reading, waived: &[String]) -> bool {
        let is_waived = |code: &str| WAIVABLE_DOUBTS.contains(&code) && waived.iter().any(|id| id == code);
        let mut any = false;
        for doubt in reading.doubts.iter().filter(|doubt| !is_waived(doubt.code)) {
            let verdict = if doubt.code == TOO_LONG { Verdict::Deny } else { Verdict::Ask };
            self.tighten(verdict, Origin::Doubt, doubt.code, &doubt.detail, "");
            any = true;
        }
        any
    }

    fn prefix(&mut self, verdict: Verdict, prefix: &[&str], about: &str) {
        let (list, meaning) = match verdict {
            Verdict::Deny => ("deny", "is on the list of commands that may not run"),
            Verdict::Ask | Verdict::Allow => ("ask", "is on the list of commands that are asked about"),
        };
        self.tighten(verdict, Origin::Prefixes, &format!("{list}:{}", prefix.join(" ")), meaning, about);
    }
}

/// As much of a text as a person reads. Words of a script may be as long as the script.
fn beginning(text: &str) -> &str {
    const MOST: usize = 400;
    &text[..text.floor_char_boundary(MOST)]
}

fn judge_command(judgement: &mut Judgement, command: &Command, rules: &Rules, lists: &Lists<'_>, place: &Place) {
    let shown = command.shown();
    for (prefix, verdict) in lists.against(|prefix| is_denied(command, prefix)) {
        judgement.prefix(verdict, prefix, &shown);
    }
    let mut tighten = |answer: Answer, rule: &str, meaning: &str, about: &str| {
        judgement.tighten(answer.verdict(), Origin::Prefixes, rule, meaning, about);
    };
    for redirect in &command.redirects {
        let path = resolve(command.cwd.as_deref(), redirect.target.text());
        let is_nowhere = redirect.target.literal().is_some() && path.as_deref().is_some_and(is_plain_device);
        if redirect.flow == Flow::Write && !is_nowhere {
            let about = format!("> {}", redirect.target);
            tighten(rules.write_redirect, "write_redirect", "writes a file by redirection", &about);
        }
        if redirect.flow != Flow::Write && is_uncertain(&redirect.target, rules) {
            tighten(rules.unparsable, "uncertain_input", "is given what is not certain", &redirect.target.to_string());
        }
    }
    for assignment in &command.assignments {
        if is_uncertain(&assignment.value, rules) {
            tighten(rules.unparsable, "uncertain_value", "is set to what is not certain", &assignment.name);
        }
    }
    if command.words.is_empty() || matches!(command.role, Role::Transparent | Role::Call) {
        return;
    }
    if programs::is_flow(command.program()) && command.is_system_program {
        return;
    }
    if !lists.allow.iter().any(|prefix| is_allowed(command, prefix)) {
        return match is_own(command, place) {
            true => tighten(rules.own_programs, "own_program", "is a program of the workspace", &shown),
            false => tighten(rules.default, "default", "is not among the commands that may run", &shown),
        };
    }
    if let Some((kind, what)) = not_plain(command, place) {
        let verdict = match kind {
            NotPlain::Acts => rules.not_plain.verdict(),
            NotPlain::Uncertain => rules.not_plain.verdict().max(Verdict::Ask),
        };
        judgement.tighten(verdict, Origin::Prefixes, "not_plain", &what, &shown);
    }
}

/// Does it hold what comes from outside the script, where that matters?
fn is_uncertain(word: &Word, rules: &Rules) -> bool {
    rules.not_plain != Answer::Allow && word.why().is_some_and(|why| why >= Why::Variable)
}

/// Is it a program that lies in the workspace, named by its path?
fn is_own(command: &Command, place: &Place) -> bool {
    let name = command.argv.first().and_then(Word::literal).filter(|name| name.contains('/'));
    name.and_then(|name| resolve(command.cwd.as_deref(), name)).is_some_and(|path| is_under(&path, &place.workspace))
}

fn is_denied(command: &Command, prefix: &[&str]) -> bool {
    let words = || command.words.iter().map(Word::text);
    // Options between the words do not change what runs.
    starts(words(), prefix)
        || starts(command.argv.iter().map(Word::text), prefix)
        || starts(words().filter(|word| !word.starts_with('-')), prefix)
}

/// Words of a script nobody could read: is there a denied command among them?
fn has_prefix_loosely(words: &[String], prefix: &[&str]) -> bool {
    let base = words.first().and_then(|name| name.rsplit('/').next());
    starts(base.into_iter().chain(words.iter().skip(1).map(String::as_str)), prefix)
}

fn starts<'w>(mut words: impl Iterator<Item = &'w str>, prefix: &[&str]) -> bool {
    prefix.iter().all(|want| words.next() == Some(want))
}

fn is_allowed(command: &Command, prefix: &[&str]) -> bool {
    let mut words = command.words.iter().map(Word::literal);
    command.is_system_program && prefix.iter().all(|want| words.next() == Some(Some(want)))
}

/// How an allowed program can be more than the program that was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotPlain {
    /// It runs or writes something else.
    Acts,
    /// A word of it is not certain.
    Uncertain,
}

/// Why an allowed program, used like this, is more than the program that was allowed.
fn not_plain(command: &Command, place: &Place) -> Option<(NotPlain, String)> {
    let program = command.program();
    let uncertain = |why: String| Some((NotPlain::Uncertain, why));
    if let Some(option) = programs::risky_option(command) {
        return Some((NotPlain::Acts, format!("`{option}` runs or writes something")));
    }
    if program == "git" && !is_own_repository(command.cwd.as_deref(), place) {
        let why = "the repository's own config may run programs, and others can write it";
        return Some((NotPlain::Acts, why.to_owned()));
    }
    let has_risky_options = programs::has_risky_options(program);
    let mut ended = false;
    for word in command.args() {
        ended |= word.text() == "--";
        let Some(why) = word.why() else { continue };
        if why >= Why::Variable {
            return uncertain(format!("`{word}`: {}", why.as_str()));
        }
        if has_risky_options && !ended && word.may_be_option() {
            return uncertain(format!("`{word}` may turn out to be an option"));
        }
    }
    if programs::files(program) == Files::Reads {
        let is_blind = |word: &Word| word.text().contains(super::ir::UNKNOWN);
        if let Some((_, word)) = touches(command).iter().find(|(_, word)| is_blind(word)) {
            return uncertain(format!("which file `{word}` names is not certain"));
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
