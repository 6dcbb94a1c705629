//! Reading shell commands: what a script would run, before anything runs.
//!
//! [`read`] parses a script twice, with two parsers, and brings it down to a flat list of simple commands: wrappers
//! are unwrapped, substitutions walked, `cd` folded into what follows. Over that list one table of [`rules`] looks for
//! what should never happen unasked, and [`policy::judge`] holds it against a list of prefixes, which may be one of the
//! [`profiles`]. An operator adds to the table with rules in the same form ([`UserRules`]). What cannot be read for
//! certain is a [`Doubt`], and a doubt is never a yes.
//!
//! Words that no shell will see are read by [`read_argv`]: there is nothing to parse, and the rest is the same.
//!
//! This decides only whether a person is asked. What a command can do is decided by the room it runs in.

mod effects;
pub mod ir;
mod limits;
mod own;
mod paths;
pub mod policy;
pub mod profiles;
mod programs;
mod quiet;
pub mod rules;
mod second;
mod unwrap;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use toolgate_contract::Risk;

pub use effects::{Effect, EffectKind};
pub use limits::{MAX_BYTES, MAX_NESTING, MAX_WRAPPERS};
pub use own::{RuleError, UserRule, UserRules};
pub use paths::{Place, is_secret};

use ir::{Assignment, Command, Context, Role, Word};
use policy::Judgement;
use rules::{RULES, Rule};
use walk::Walker;

/// The one doubt that is a no: nobody who is asked can read that much, and neither can this.
const TOO_LONG: &str = "too_long";

/// How well a script could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parse {
    /// In full, and both parsers agree.
    Ok,
    /// In part, or the parsers differ.
    Partial,
    /// Not at all.
    Failed,
}

/// Something about a script that is not certain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Doubt {
    /// A stable name.
    pub code: &'static str,
    /// In words.
    pub detail: String,
}

/// A rule that a command hit.
#[derive(Debug, Clone, Copy)]
pub struct Hit {
    /// The rule.
    pub rule: &'static Rule,
    /// Which command of the list; none for text that could not be read.
    pub command: Option<usize>,
}

/// A script, read.
#[derive(Debug)]
pub struct Reading {
    /// Where it would run.
    pub place: Place,
    /// How well it could be read.
    pub parse: Parse,
    /// Every simple command that it would or could run, in the order of the text.
    pub commands: Vec<Command>,
    /// What is not certain about it.
    pub doubts: Vec<Doubt>,
    /// Parts of it that were not read in full, and in which denied commands are looked for word by word.
    pub unread: Vec<String>,
    /// What it would do.
    pub effects: BTreeSet<Effect>,
    /// The rules it hits.
    pub hits: Vec<Hit>,
    /// How much is at stake.
    pub risk: Risk,
}

impl Reading {
    /// The programs it runs whose names are certain. What the shell does itself (`time`, `command`, a function, the
    /// shell of `bash -c`) is not one of them.
    pub fn programs(&self) -> Vec<String> {
        let is_shell = |command: &Command| {
            let program = command.program();
            command.role == Role::Call
                || (command.role == Role::Transparent
                    && (matches!(program, "time" | "command" | "builtin") || unwrap::SHELLS.contains(&program)))
        };
        let names = self.commands.iter().filter(|command| !is_shell(command)).filter_map(|c| c.words.first());
        names.filter(|name| name.literal().is_some()).map(ToString::to_string).collect()
    }
}

/// Reads a script that would run in `place`.
pub fn read(script: &str, place: &Place) -> Reading {
    read_with(script, &BTreeMap::new(), place)
}

/// Reads a script that would run in `place` with these variables set.
pub fn read_with(script: &str, env: &BTreeMap<String, String>, place: &Place) -> Reading {
    let mut walker = Walker::new(place);
    if admit(&mut walker, [script].into_iter()) {
        walker.set(env);
        walker.script(script, &Context::default());
    }
    conclude(walker, place)
}

/// Reads a program and its arguments, which no shell would look at, with the variables set for it.
pub fn read_argv(argv: &[String], env: &BTreeMap<String, String>, place: &Place) -> Reading {
    let mut walker = Walker::new(place);
    if admit(&mut walker, argv.iter().map(String::as_str)) {
        let assignments =
            env.iter().map(|(name, value)| Assignment { name: name.clone(), value: Word::new(value) }).collect();
        walker.argv(argv.iter().map(|word| Word::new(word)).collect(), assignments);
    }
    conclude(walker, place)
}

/// Is it short enough to be read at all?
fn admit<'t>(walker: &mut Walker<'_>, texts: impl Iterator<Item = &'t str> + Clone) -> bool {
    if let Some(odd) = texts.clone().flat_map(str::chars).find(|c| limits::is_odd(*c)) {
        walker.doubt("odd_character", format!("it holds {}, which is not seen", odd.escape_unicode()));
    }
    let is_short = texts.map(str::len).sum::<usize>() <= MAX_BYTES;
    if !is_short {
        walker.parse = Parse::Failed;
        walker.doubt(TOO_LONG, format!("it is longer than {MAX_BYTES} bytes"));
    }
    is_short
}

/// Holds what was walked against the table.
fn conclude(walker: Walker<'_>, place: &Place) -> Reading {
    let mut hits: Vec<Hit> = Vec::new();
    for rule in RULES {
        for at in 0..walker.commands.len() {
            if (rule.hits)(&rules::View { commands: &walker.commands, at, place }) {
                hits.push(Hit { rule, command: Some(at) });
                break;
            }
        }
    }
    for text in &walker.unread {
        hits.extend(loose_hits(text, place));
    }
    let effects = effects::effects(&walker.commands, place);
    let risk = risk(&effects, &hits, &walker.doubts);
    Reading {
        place: place.clone(),
        parse: walker.parse,
        commands: walker.commands,
        doubts: walker.doubts,
        unread: walker.unread,
        effects,
        hits,
        risk,
    }
}

/// What the built-in rules and the doubts say.
pub fn judge(reading: &Reading) -> Judgement {
    let mut judgement = Judgement::default();
    judgement.hits(reading, &[]);
    judgement.doubts(reading, &[]);
    judgement
}

/// The deny rules that text nobody could parse would hit, if each of its pieces were a command.
fn loose_hits(text: &str, place: &Place) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    let pieces = loose_commands(text);
    let starts = pieces.iter().flat_map(|words| loose_windows(words)).filter(|words| rules::is_dangerous(&words[0]));
    for words in starts.take(limits::MAX_LOOSE) {
        let argv: Vec<Word> = words.iter().map(|word| Word::new(word)).collect();
        let normal = unwrap::normalise(&argv);
        let command = Command {
            argv,
            words: normal.words,
            assignments: Vec::new(),
            redirects: Vec::new(),
            context: Context::default(),
            role: Role::Plain,
            cwd: Some(place.cwd.clone()),
            is_system_program: true,
        };
        let view = rules::View { commands: &[command], at: 0, place };
        let is_new = |rule: &&Rule| !hits.iter().any(|hit| hit.rule.id == rule.id);
        let new: Vec<&'static Rule> = RULES.iter().filter(is_new).filter(|rule| (rule.hits)(&view)).collect();
        hits.extend(new.into_iter().map(|rule| Hit { rule, command: None }));
    }
    hits
}

/// Text cut at everything that could end a command, without quotes.
fn loose_commands(text: &str) -> Vec<Vec<String>> {
    let strip = |word: &str| word.replace(['"', '\'', '\\', '$'], "");
    let ends = [';', '|', '&', '\n', '(', ')', '{', '}', '`', '<', '>'];
    let words = |piece: &str| piece.split_whitespace().map(strip).filter(|word| !word.is_empty()).collect();
    text.split(ends).map(words).collect()
}

/// Every word could be the start of a command, as wrappers are not known here. A rule needs a name and a few
/// arguments; a window keeps long pieces from being looked at again and again.
fn loose_windows(words: &[String]) -> impl Iterator<Item = &[String]> {
    (0..words.len()).map(|at| &words[at..words.len().min(at + 8)])
}

fn risk(effects: &BTreeSet<Effect>, hits: &[Hit], doubts: &[Doubt]) -> Risk {
    let of_effect = |effect: &Effect| match effect.kind {
        EffectKind::FsRead | EffectKind::OutsideWorkspace => Risk::Low,
        EffectKind::FsWrite | EffectKind::Network | EffectKind::Exec => Risk::Medium,
        EffectKind::FsDelete | EffectKind::ReadsSecret => Risk::High,
        EffectKind::Privileged => Risk::Critical,
    };
    let of_hit = |hit: &Hit| match hit.rule.severity {
        rules::Severity::Deny => Risk::Critical,
        rules::Severity::Ask => Risk::High,
    };
    let least = if doubts.is_empty() { Risk::Low } else { Risk::High };
    effects.iter().map(of_effect).chain(hits.iter().map(of_hit)).fold(least, Ord::max)
}
