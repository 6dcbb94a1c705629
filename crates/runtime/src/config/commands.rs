//! What is said about commands: the operator's own rules, and the profile of an agent.

use std::sync::Arc;

use toolgate_gate::OwnRules;
use toolgate_guard::shell::{
    RuleError, UserRule, UserRules,
    policy::{Answer, Rules},
    profiles::{BadProfile, Profile},
    rules::Severity,
};

use super::{
    check::Check,
    file::{CommandListsFile, CommandRuleFile, ProfileFile},
    findings::{Findings, Said, Spot},
    load::{At, Mark, WordOr},
};

/// A rule, and where its parts are written.
#[derive(Debug)]
pub(super) struct CommandRule {
    rule: UserRule,
    whole: Spot,
    id: Spot,
    pattern: Spot,
    reason: Spot,
    must: Vec<Spot>,
    must_not: Vec<Spot>,
}

/// Checks the shape of the rules. Whether they do what their examples say is found when they are added.
pub(super) fn check(cx: &mut Check<'_>, rules: &[At<CommandRuleFile>]) -> Vec<CommandRule> {
    rules.iter().filter_map(|rule| check_rule(cx, &rule.value, rule.mark)).collect()
}

fn check_rule(cx: &mut Check<'_>, file: &CommandRuleFile, mark: Mark) -> Option<CommandRule> {
    let parts = [("id", &file.id), ("pattern", &file.pattern), ("severity", &file.severity), ("reason", &file.reason)];
    if let Some((key, _)) = parts.iter().find(|(_, part)| part.is_none()) {
        let remedy = "Write `id`, `pattern`, `severity`, `reason` and `match` for every rule.";
        cx.error(mark, format!("a rule about commands has no `{key}`"), remedy);
        return None;
    }
    let (id, pattern, reason) = (file.id.as_ref()?, file.pattern.as_ref()?, file.reason.as_ref()?);
    let severity = file.severity.as_ref()?;
    let severity = match severity.value.as_str() {
        "ask" => Severity::Ask,
        "deny" => Severity::Deny,
        _ => {
            cx.unknown("severity", severity, ["ask", "deny"]);
            return None;
        }
    };
    let (must, must_not) = (file.must.as_deref().unwrap_or_default(), file.must_not.as_deref().unwrap_or_default());
    let spots = |list: &[At<String>]| list.iter().map(|example| cx.spot(example.mark)).collect();
    Some(CommandRule {
        whole: cx.spot(mark),
        id: cx.spot(id.mark),
        pattern: cx.spot(pattern.mark),
        reason: cx.spot(reason.mark),
        must: spots(must),
        must_not: spots(must_not),
        rule: UserRule {
            id: id.value.clone(),
            pattern: pattern.value.clone(),
            severity,
            reason: reason.value.clone(),
            must: values(must),
            must_not: values(must_not),
        },
    })
}

/// Adds rules to those that are there. Rules only tighten, so anybody's may be added.
pub(super) fn add(own: &mut OwnRules, new: Vec<CommandRule>, findings: &mut Findings) {
    if new.is_empty() {
        return;
    }
    let mut rules: Vec<UserRule> = own.rules.iter().cloned().collect();
    let known = rules.len();
    rules.extend(new.iter().map(|new| new.rule.clone()));
    match UserRules::load(rules) {
        Ok(rules) => {
            own.rules = Arc::new(rules);
            own.sources.extend(new.into_iter().map(|new| (new.rule.id, findings.source(new.id))));
        }
        Err(errors) => {
            for error in errors {
                let Some(rule) = error.index.checked_sub(known).and_then(|index| new.get(index)) else { continue };
                findings.error(rule.wrong_at(&error), error.to_string(), remedy(error.key));
            }
        }
    }
}

impl CommandRule {
    /// The line an error is about: of an example that fails, the example's own.
    fn wrong_at(&self, error: &RuleError) -> Spot {
        let example = |texts: &[String], spots: &[Spot]| {
            let is_told = |text: &&String| error.why.contains(&format!("`{text}`"));
            texts.iter().zip(spots).find(|(text, _)| is_told(text)).map_or(self.whole, |(_, spot)| *spot)
        };
        match error.key {
            "id" => self.id,
            "pattern" => self.pattern,
            "reason" => self.reason,
            "match" => example(&self.rule.must, &self.must),
            "not_match" => example(&self.rule.must_not, &self.must_not),
            _ => self.whole,
        }
    }
}

fn remedy(key: &str) -> &'static str {
    match key {
        "id" => "Write a name of its own, such as `no_deploy_on_friday`.",
        "pattern" => "Write the words a command starts with, such as `terraform apply|destroy`.",
        "reason" => "Say in one sentence why a person is asked or the command is refused.",
        _ => "Change the pattern or the example until they agree.",
    }
}

/// The profile of an agent: a name, or lists of its own.
pub(super) fn profile(cx: &mut Check<'_>, written: &At<WordOr<ProfileFile>>) -> Option<Said<Profile>> {
    let profile = match &written.value {
        WordOr::Word(word) => match Profile::parse(word, None) {
            Ok(profile) => profile,
            Err(BadProfile::Unknown { .. }) => {
                cx.unknown("profile", &At { value: word.clone(), mark: written.mark }, Profile::NAMES);
                return None;
            }
            Err(error) => {
                cx.error(written.mark, error.to_string(), "Write `profile: { custom: { allow: [git, cargo test] } }`.");
                return None;
            }
        },
        WordOr::Mapping(ProfileFile { custom: Some(lists) }) => Profile::Custom(check_lists(cx, lists)),
        WordOr::Mapping(ProfileFile { custom: None }) => {
            cx.error(written.mark, "this profile says nothing", "Write `coder`, `read_only`, or lists under `custom`.");
            return None;
        }
    };
    Some(Said { value: profile, spot: cx.spot(written.mark) })
}

fn check_lists(cx: &mut Check<'_>, file: &CommandListsFile) -> Rules {
    let list = |list: &Option<Vec<At<String>>>| values(list.as_deref().unwrap_or_default());
    for word in [&file.allow, &file.ask, &file.deny].into_iter().flatten().flatten() {
        let alone = Rules { allow: vec![word.value.clone()], ..Rules::default() };
        holds(cx, word.mark, &alone, "Write the words a command starts with, such as `git push`.");
    }
    for word in file.waive.iter().flatten() {
        let alone = Rules { waive: vec![word.value.clone()], ..Rules::default() };
        holds(cx, word.mark, &alone, "Write the name of a rule that asks; `toolgate shell` shows them.");
    }
    Rules {
        allow: list(&file.allow),
        ask: list(&file.ask),
        deny: list(&file.deny),
        default: answer(cx, file.default.as_ref()),
        write_redirect: answer(cx, file.write_redirect.as_ref()),
        unparsable: answer(cx, file.unparsable.as_ref()),
        own_programs: answer(cx, file.own_programs.as_ref()),
        not_plain: answer(cx, file.not_plain.as_ref()),
        waive: list(&file.waive),
    }
}

/// The guard's word on one entry, at the line of that entry.
fn holds(cx: &mut Check<'_>, mark: Mark, alone: &Rules, remedy: &str) {
    if let Err(why) = alone.check() {
        cx.error(mark, why, remedy);
    }
}

/// Nothing said means ask.
fn answer(cx: &mut Check<'_>, word: Option<&At<String>>) -> Answer {
    match word.map(|word| (word, word.value.as_str())) {
        None | Some((_, "ask")) => Answer::Ask,
        Some((_, "allow")) => Answer::Allow,
        Some((_, "deny")) => Answer::Deny,
        Some((word, _)) => {
            cx.unknown("answer", word, ["allow", "ask", "deny"]);
            Answer::Deny
        }
    }
}

fn values(list: &[At<String>]) -> Vec<String> {
    list.iter().map(|word| word.value.clone()).collect()
}
