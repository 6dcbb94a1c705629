//! What a policy says about calls nobody makes: the examples its rules carry, tests in files of their own, calls that
//! were recorded. The same steps of the road classify and decide; nothing runs, and nothing is recorded.

use serde::Serialize;
use serde_json::Value;
use toolgate_contract::{Call, Decided, Fault, Verdict};
use toolgate_gate::{Agent, Rule};

use crate::{
    Runtime,
    catalog::Entry,
    config::{ConfigError, Example, PolicyTest},
    house::House,
    invoke::{self, Meaning},
};

/// What came of an example or a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// The file it is written in.
    pub file: String,
    /// The line.
    pub line: u64,
    /// What is to hold.
    pub what: String,
    /// Why it does not; none where it does.
    pub why: Option<String>,
}

impl Trial {
    /// Does it hold?
    pub fn passed(&self) -> bool {
        self.why.is_none()
    }
}

impl Runtime {
    /// Tries every example the rules carry.
    pub fn try_examples(&self) -> Vec<Trial> {
        let config = &self.house.config;
        let trial = |example: &Example| {
            let source = config.line_of(example);
            let means = if example.meant { "means" } else { "does not mean" };
            let what = format!("rule `{}` {means} `{}` {}", example.rule, example.tool, example.arguments);
            Trial { file: source.file, line: source.line, what, why: wrong(&self.house, example) }
        };
        config.examples().iter().map(trial).collect()
    }

    /// What is wrong with the examples, each at its line.
    pub fn wrong_examples(&self) -> Vec<ConfigError> {
        let config = &self.house.config;
        let wrong: Vec<(&Example, String)> =
            config.examples().iter().filter_map(|example| Some((example, wrong(&self.house, example)?))).collect();
        config.wrong_examples(&wrong)
    }

    /// Is decided what a test expects, and by whom it expects it?
    pub fn try_test(&self, test: &PolicyTest) -> Trial {
        let PolicyTest { source, agent, tool, arguments, expect, rule } = test;
        let by = rule.as_ref().map(|rule| format!(" by `{rule}`")).unwrap_or_default();
        let what = format!("`{tool}` {arguments} of agent `{agent}`: {}{by}", word(*expect));
        let why = match self.preview(&self.call(agent, tool, arguments.clone())) {
            Err(fault) => Some(format!("it is no call of the tool: {}", fault.message)),
            Ok(decided) => self.unexpected(&decided, *expect, rule.as_deref()),
        };
        Trial { file: source.file.clone(), line: source.line, what, why }
    }

    /// What would be decided about a call. What agents have earned, what they heard and what they spent is left out, so
    /// that two policies can be compared.
    pub fn preview(&self, call: &Call) -> Result<Decided, Fault> {
        Ok(invoke::preview(&self.house, call)?.1.decided())
    }

    /// The names of what decided: the `id` of a rule about calls, or the name of what else spoke.
    pub fn deciders(&self, decided: &Decided) -> Vec<String> {
        let book = &self.house.policy().book;
        let name = |reason| book.behind(reason).map_or_else(|| reason.rule.to_owned(), |rule| rule.id.clone());
        decided.reasons.iter().map(name).collect()
    }

    fn unexpected(&self, decided: &Decided, expect: Verdict, rule: Option<&str>) -> Option<String> {
        let deciders = self.deciders(decided);
        if decided.verdict == expect && rule.is_none_or(|rule| deciders.iter().any(|decider| decider == rule)) {
            return None;
        }
        let reasons: Vec<String> =
            decided.reasons.iter().map(|reason| format!("{} ({})", reason.text, reason.source)).collect();
        Some(format!("{} by `{}`: {}", word(decided.verdict), deciders.join("`, `"), reasons.join("; ")))
    }
}

/// What a policy says, as files spell it.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Deny => "deny",
        Verdict::Ask => "ask",
        Verdict::Allow => "allow",
    }
}

/// Why an example does not hold; none where it does.
fn wrong(house: &House, example: &Example) -> Option<String> {
    let named = format!("`{}` {}", example.tool, example.arguments);
    let rule = house.policy().book.get(&example.rule)?;
    let agent = match caller(house, rule, example) {
        Ok(agent) => agent,
        Err(why) => return Some(why),
    };
    let meant = meant(house, agent, rule, &example.tool, &example.arguments);
    match (meant, example.meant) {
        (Ok(true), true) | (Ok(false), false) => None,
        (Ok(false), true) => Some(format!("{named} is to be meant by rule `{}`, and is not", rule.id)),
        (Ok(true), false) => Some(format!("{named} is not to be meant by rule `{}`, and is", rule.id)),
        (Err(why), _) => Some(format!("{named} cannot be tried on rule `{}`: {why}", rule.id)),
    }
}

/// The agent an example is about.
fn caller<'h>(house: &'h House, rule: &Rule, example: &Example) -> Result<&'h Agent, String> {
    if let Some(name) = &example.agent {
        return house.agent(name).map_err(|fault| fault.message);
    }
    let is_meant = |agent: &&Agent| {
        (rule.agents.is_empty() || rule.agents.contains(&agent.name))
            && (rule.roles.is_empty() || rule.roles.iter().any(|role| agent.roles.contains(role)))
    };
    let nobody = || format!("rule `{}` is about no agent of this config, so its examples cannot be tried", rule.id);
    house.policy().agents.values().find(is_meant).ok_or_else(nobody)
}

fn meant(house: &House, agent: &Agent, rule: &Rule, tool: &str, arguments: &Value) -> Result<bool, String> {
    let catalog = house.catalog();
    let entry = catalog.get(tool).ok_or_else(|| format!("there is no tool `{tool}`"))?;
    let (input, meaning) = understood(house, agent, entry, arguments).map_err(|fault| fault.message)?;
    rule.means(agent, &meaning.request(entry, None, Some(&input))).map_err(|error| error.to_string())
}

/// A call with defaults filled in, and what it amounts to.
pub(crate) fn understood(
    house: &House,
    agent: &Agent,
    entry: &Entry,
    arguments: &Value,
) -> Result<(Value, Meaning), Fault> {
    let input = invoke::admit_input(house, entry, arguments)?;
    let meaning = invoke::classify(house, agent, entry, &input)?;
    Ok((input, meaning))
}
