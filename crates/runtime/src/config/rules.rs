//! The operators' own rules about calls (`policy.rules`), the examples they carry, and tests of a policy in files of
//! their own.
//!
//! A rule is checked in two steps. Its words are when its file is read. What it says about its examples is found when
//! the tools are known: only they say what a call amounts to.

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;
use toolgate_contract::{AgentName, Risk, SafetyClass, SourceLine, Verdict};
use toolgate_gate::{Policy, Rule, RuleBook, ToolName, When};

use super::{
    Config,
    check::Check,
    error::ConfigError,
    file::{CallRuleFile, ExampleFile, TestFile, TestsFile},
    findings::{Findings, Said, Spot},
    load::{self, At, Mark, instead},
    text::{Links, Text},
    tighten::refuse,
};

/// The longest `because` or `instead`, in characters.
const SENTENCE: usize = 500;

const EXAMPLE: &str = "Write `{ tool: read, arguments: { path: a.txt } }`, with `agent` if it matters.";

/// A rule, and where its parts are written.
#[derive(Debug)]
pub(super) struct CallRule {
    rule: Rule,
    id: Spot,
    verdict: Spot,
    instead: Option<Spot>,
    agents: Vec<Said<String>>,
    roles: Vec<Said<String>>,
    examples: Vec<Example>,
}

/// A call that a rule is to mean, or not to mean.
#[derive(Debug, Clone)]
pub(crate) struct Example {
    /// Whose.
    pub(crate) rule: String,
    /// Is it to be meant?
    pub(crate) meant: bool,
    /// Who calls; any agent the rule is about where nobody is named.
    pub(crate) agent: Option<AgentName>,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    spot: Spot,
}

/// What rules say that is looked at once all files have spoken.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    examples: Vec<Example>,
    agents: Vec<Said<String>>,
    roles: Vec<Said<String>>,
}

/// A call and what is to be decided about it, from a file of tests.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyTest {
    /// Where it is written.
    pub source: SourceLine,
    /// Who calls.
    pub agent: AgentName,
    /// Which tool.
    pub tool: String,
    /// With what.
    pub arguments: Value,
    /// What is to be decided.
    pub expect: Verdict,
    /// Which rule is to decide it: the `id` of a rule about calls, or the name of what else decides, such as `denied`.
    pub rule: Option<String>,
}

/// Checks the words of the rules of one file.
pub(super) fn check(cx: &mut Check<'_>, rules: &[At<CallRuleFile>]) -> Vec<CallRule> {
    rules.iter().filter_map(|rule| check_rule(cx, &rule.value, rule.mark)).collect()
}

fn check_rule(cx: &mut Check<'_>, file: &CallRuleFile, mark: Mark) -> Option<CallRule> {
    let parts = [("id", &file.id), ("verdict", &file.verdict), ("because", &file.because)];
    if let Some((key, _)) = parts.iter().find(|(_, part)| part.is_none()) {
        let remedy = "Write `id`, `verdict` and `because` for every rule, and which calls it means.";
        cx.error(mark, format!("a rule about calls has no `{key}`"), remedy);
        return None;
    }
    let (id, verdict) = (file.id.as_ref()?, file.verdict.as_ref()?);
    let name = cx.name("rule", id)?;
    let said = verdict_of(cx, verdict);
    let because = sentence(cx, "because", file.because.as_ref()?);
    let instead = file.instead.as_ref().map(|text| sentence(cx, "instead", text));
    check_lists(cx, file, mark);
    let tools: Vec<Said<String>> = listed(&file.tools).map(|tool| cx.mention_some(tool)).collect();
    if said == Some(Verdict::Ask) {
        listed(&file.tools).for_each(|tool| cx.can_be_asked_about(tool));
    }
    let actions: Vec<_> = listed(&file.actions).filter_map(|action| cx.expand(action)).collect();
    let agents: Vec<_> = listed(&file.agents).filter(|name| cx.name("agent", name).is_some()).collect();
    let roles: Vec<_> = listed(&file.roles).filter(|role| cx.name("role", role).is_some()).collect();
    let classes: BTreeSet<SafetyClass> = listed(&file.classes).filter_map(|class| cx.class(class)).collect();
    let risk = file.risk_at_least.as_ref().map(|risk| risk_of(cx, risk));
    let when = file.when.as_ref().map(|when| cx.when(when));
    let examples = examples(cx, &name, file);
    let rule = Rule {
        id: name,
        verdict: said?,
        tools: tools.iter().map(|tool| ToolName::of(&tool.value)).collect(),
        actions: actions.into_iter().flat_map(|said| said.value).collect(),
        agents: agents.iter().map(|agent| AgentName::from(&*agent.value)).collect(),
        roles: roles.iter().map(|role| role.value.clone()).collect(),
        classes,
        risk_at_least: optional(risk)?,
        when: optional(when)?,
        because: because?,
        instead: optional(instead)?,
        source: cx.findings.source(cx.spot(id.mark)),
    };
    Some(CallRule {
        rule,
        id: cx.spot(id.mark),
        verdict: cx.spot(verdict.mark),
        instead: file.instead.as_ref().map(|text| cx.spot(text.mark)),
        agents: agents.into_iter().map(|agent| cx.said(agent)).collect(),
        roles: roles.into_iter().map(|role| cx.said(role)).collect(),
        examples,
    })
}

/// A part that may be missing, but not wrong.
fn optional<T>(part: Option<Option<T>>) -> Option<Option<T>> {
    match part {
        None => Some(None),
        Some(None) => None,
        Some(there) => Some(there),
    }
}

fn listed(list: &Option<Vec<At<String>>>) -> impl Iterator<Item = &At<String>> {
    list.iter().flatten()
}

/// A list that is there names something, and a rule names something: what means every call says so.
fn check_lists(cx: &mut Check<'_>, file: &CallRuleFile, mark: Mark) {
    let lists = [
        ("tools", &file.tools),
        ("actions", &file.actions),
        ("agents", &file.agents),
        ("roles", &file.roles),
        ("classes", &file.classes),
    ];
    if let Some((key, _)) = lists.iter().find(|(_, list)| list.as_ref().is_some_and(Vec::is_empty)) {
        cx.error(mark, format!("`{key}` of this rule names nothing"), "Name something, or leave the key out.");
    }
    if lists.iter().all(|(_, list)| list.is_none()) && file.risk_at_least.is_none() && file.when.is_none() {
        let remedy = "Write which calls it means; `tools: [\"*\"]` means all.";
        cx.error(mark, "this rule does not say which calls it means", remedy);
    }
}

fn verdict_of(cx: &mut Check<'_>, word: &At<String>) -> Option<Verdict> {
    match word.value.as_str() {
        "deny" => Some(Verdict::Deny),
        "ask" => Some(Verdict::Ask),
        "allow" => Some(Verdict::Allow),
        _ => {
            cx.unknown("verdict", word, ["deny", "ask", "allow"]);
            None
        }
    }
}

fn risk_of(cx: &mut Check<'_>, word: &At<String>) -> Option<Risk> {
    let risk = Risk::parse(&word.value);
    if risk.is_none() {
        cx.unknown("risk", word, Risk::ALL.iter().map(|risk| risk.as_str()));
    }
    risk
}

/// Something people and models read: one line, and not a page.
fn sentence(cx: &mut Check<'_>, key: &str, text: &At<String>) -> Option<String> {
    let trimmed = text.value.trim();
    let why = match trimmed {
        "" => format!("`{key}` says nothing"),
        long if long.chars().count() > SENTENCE => format!("`{key}` has more than {SENTENCE} characters"),
        lines if lines.chars().any(char::is_control) => format!("`{key}` has more than one line"),
        sentence => return Some(sentence.to_owned()),
    };
    cx.error(text.mark, why, "Write one sentence.");
    None
}

fn examples(cx: &mut Check<'_>, rule: &str, file: &CallRuleFile) -> Vec<Example> {
    let must = file.must.iter().flatten().map(|example| (true, example));
    let must_not = file.must_not.iter().flatten().map(|example| (false, example));
    must.chain(must_not)
        .filter_map(|(meant, example)| {
            let ExampleFile { agent, tool, arguments } = &example.value;
            let (tool, arguments) = call(cx, tool.as_ref(), arguments.as_ref(), example.mark)?;
            let agent = agent.as_ref().and_then(|agent| cx.name("agent", agent)).map(|name| AgentName::from(&*name));
            Some(Example { rule: rule.to_owned(), meant, agent, tool, arguments, spot: cx.spot(example.mark) })
        })
        .collect()
}

/// A call, as an example writes it.
fn call(
    cx: &mut Check<'_>,
    tool: Option<&At<String>>,
    arguments: Option<&At<Value>>,
    mark: Mark,
) -> Option<(String, Value)> {
    let Some(tool) = tool else {
        cx.error(mark, "this call names no `tool`", EXAMPLE);
        return None;
    };
    let arguments = match arguments {
        None => Value::Object(serde_json::Map::new()),
        Some(At { value: value @ Value::Object(_), .. }) => value.clone(),
        Some(other) => {
            cx.error(other.mark, "`arguments` is a mapping from names to values", EXAMPLE);
            return None;
        }
    };
    Some((cx.mention(tool).value, arguments))
}

impl Kept {
    /// Adds the rules of a trusted file.
    pub(super) fn add(&mut self, book: &mut RuleBook, new: Vec<CallRule>, findings: &mut Findings) {
        for new in new {
            if let Some(known) = book.get(&new.rule.id) {
                let message = format!("rule `{}` is there already ({})", new.rule.id, known.source);
                findings.error(new.id, message, "Give every rule a name of its own.");
                continue;
            }
            book.add(new.rule);
            self.examples.extend(new.examples);
            self.agents.extend(new.agents);
            self.roles.extend(new.roles);
        }
    }

    /// Adds the rules of a file nobody vouches for: those that tighten, and none that tells models what to do.
    pub(super) fn tighten(&mut self, book: &mut RuleBook, new: Vec<CallRule>, findings: &mut Findings) {
        for rule in &new {
            if rule.rule.verdict == Verdict::Allow {
                refuse(rule.verdict, &format!("rule `{}`, which allows,", rule.rule.id), findings);
            }
            if let Some(instead) = rule.instead {
                refuse(instead, "`instead`, which models are told,", findings);
            }
        }
        let tightens = |rule: &CallRule| rule.rule.verdict != Verdict::Allow && rule.instead.is_none();
        self.add(book, new.into_iter().filter(tightens).collect(), findings);
    }

    /// Agents and roles that nobody has. A rule that means nobody because of a typo must not pass for one that binds.
    /// The administrator's file is for many machines and need not know who is on this one.
    pub(super) fn unknown(&self, policy: &Policy, admin: Option<usize>, findings: &mut Findings) {
        let here = |said: &&Said<String>| Some(said.spot.file) != admin;
        for agent in self.agents.iter().filter(here) {
            if !policy.agents.contains_key(&AgentName::from(&*agent.value)) {
                findings.unknown(agent, "agent", policy.agents.keys().map(|name| &*name.0));
            }
        }
        let roles: BTreeSet<&str> = policy.agents.values().flat_map(|agent| &agent.roles).map(String::as_str).collect();
        for role in self.roles.iter().filter(here).filter(|role| !roles.contains(&*role.value)) {
            let message = format!("no agent has role `{}`", role.value);
            findings.error(role.spot, message, instead(&role.value, roles.iter().copied()));
        }
    }
}

impl Config {
    /// The examples of all rules.
    pub(crate) fn examples(&self) -> &[Example] {
        &self.rules.examples
    }

    /// Where an example is written.
    pub(crate) fn line_of(&self, example: &Example) -> SourceLine {
        self.findings().source(example.spot)
    }

    /// What to say about examples that do not hold, each with why.
    pub(crate) fn wrong_examples(&self, wrong: &[(&Example, String)]) -> Vec<ConfigError> {
        let mut findings = self.findings();
        for (example, why) in wrong {
            findings.error(example.spot, why.clone(), "Change the rule or the example until they agree.");
        }
        findings.into_result().err().unwrap_or_default()
    }

    fn findings(&self) -> Findings {
        Findings { texts: self.mentions.texts.clone(), ..Findings::default() }
    }
}

/// Reads a file of tests; none where it is something else, such as a config.
pub fn read_tests(path: &Path) -> Result<Option<Vec<PolicyTest>>, Vec<ConfigError>> {
    let name = path.display().to_string();
    let missing = || vec![ConfigError::whole(&*name, "there is no such file", "Name a file that exists.")];
    let text = Text::open(path, Links::Follow).map_err(|error| vec![error])?.ok_or_else(missing)?;
    if !load::Outline::of(&text.text).has("tests") {
        return Ok(None);
    }
    let parsed = load::parse::<TestsFile>(&text.text);
    let mut findings = Findings::default();
    let number = findings.add(text);
    match parsed {
        Ok(file) => {
            let actions = toolgate_contract::ActionRegistry::default();
            let mut cx = Check::new(number, &mut findings, &actions);
            let tests = file.tests.iter().flatten().filter_map(|test| check_test(&mut cx, &test.value, test.mark));
            let tests = tests.collect();
            findings.into_result().map(|_| Some(tests))
        }
        Err(why) => {
            findings.unreadable(number, why);
            findings.into_result().map(|_| None)
        }
    }
}

fn check_test(cx: &mut Check<'_>, file: &TestFile, mark: Mark) -> Option<PolicyTest> {
    let Some(expect) = &file.expect else {
        cx.error(mark, "this test expects nothing", "Write `expect: deny`, `expect: ask` or `expect: allow`.");
        return None;
    };
    let (tool, arguments) = call(cx, file.tool.as_ref(), file.arguments.as_ref(), mark)?;
    let agent = match &file.agent {
        Some(agent) => cx.name("agent", agent)?,
        None => "default".to_owned(),
    };
    Some(PolicyTest {
        source: cx.findings.source(cx.spot(mark)),
        agent: AgentName::from(&*agent),
        tool,
        arguments,
        expect: verdict_of(cx, expect)?,
        rule: file.rule.as_ref().map(|rule| rule.value.clone()),
    })
}

/// Reads a condition where it is written.
impl Check<'_> {
    fn when(&mut self, text: &At<String>) -> Option<When> {
        match When::parse(&text.value) {
            Ok(when) => Some(when),
            Err(error) => {
                self.bad_condition(text, &error);
                None
            }
        }
    }
}
