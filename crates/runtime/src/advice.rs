//! What would make a call pass: the line to change, the level that permits it, the people to ask, the argument to leave
//! out. It is found by asking the gate again with one thing changed, never by reading its reasons alone.

use std::sync::Arc;

use serde_json::Value;
use toolgate_contract::{Level, Reason, SafetyClass, Verdict};
use toolgate_gate::{Agent, Autonomy, Decision, Preset, Rule, Sourced, decide};

use crate::{
    catalog::Entry,
    house::{self, House},
    invoke::Meaning,
    trials::{understood, word},
};

/// A call and what was decided about it.
pub(crate) struct Decided<'a> {
    pub(crate) house: &'a House,
    pub(crate) agent: &'a Agent,
    pub(crate) entry: &'a Entry,
    /// The arguments as they came.
    pub(crate) arguments: &'a Value,
    pub(crate) meaning: &'a Meaning,
    pub(crate) decision: &'a Decision,
}

impl Decided<'_> {
    /// What would make it pass, the nearest first; nothing for a call that passes.
    pub(crate) fn advice(&self) -> Vec<String> {
        let (verdict, reasons) = match self.decision {
            Decision::Allow(..) => return Vec::new(),
            Decision::Ask(asking) => (Verdict::Ask, &asking.reasons),
            Decision::Deny(reasons) => (Verdict::Deny, reasons),
        };
        let mut advice: Vec<String> = Vec::new();
        for reason in reasons {
            if let Some(rule) = self.house.policy().book.behind(reason) {
                advice.extend(self.around(rule));
            }
        }
        if let Decision::Ask(asking) = self.decision {
            advice.extend(self.people(asking.people));
        }
        advice.extend(reasons.iter().filter_map(change));
        advice.extend(self.level(verdict));
        advice.extend(self.autonomy(reasons));
        advice.dedup();
        advice
    }

    /// Ways around a rule: what it says itself, arguments that it is not about, a call it says it does not mean.
    fn around(&self, rule: &Rule) -> Vec<String> {
        let instead =
            rule.instead.as_ref().map(|instead| format!("Do what rule `{}` says instead: {instead}", rule.id));
        let names = self.arguments.as_object().into_iter().flatten().map(|(name, _)| name);
        let without =
            names.filter(|name| self.avoids(rule, name)).map(|name| format!("Leave out the argument `{name}`"));
        let tool = &*self.entry.tool.def.name;
        let examples = self.house.config.examples().iter();
        let other = examples.filter(|it| it.rule == rule.id && !it.meant && it.tool == tool);
        let other = other.map(|it| format!("Call it with other arguments, such as {}", it.arguments));
        instead.into_iter().chain(without).chain(other.take(1)).collect()
    }

    /// Is the call without this argument one the rule does not mean?
    fn avoids(&self, rule: &Rule, name: &str) -> bool {
        let mut arguments = self.arguments.clone();
        arguments.as_object_mut().map(|members| members.remove(name));
        let Ok((input, meaning)) = understood(self.house, self.agent, self.entry, &arguments) else { return false };
        rule.means(self.agent, &meaning.request(self.entry, None, Some(&input))) == Ok(false)
    }

    /// Who can say yes, and whether a yes can stand for more than one call.
    fn people(&self, people: u8) -> Vec<String> {
        let (agent, tool) = (&self.agent.name, &self.entry.tool.def.name);
        let mut ways = vec![match people {
            1 => {
                "One person's yes: make the call, then `toolgate approvals approve` with the name it answers".to_owned()
            }
            many => {
                format!("The yes of {many} people: make the call, then `toolgate approvals approve` by each of them")
            }
        }];
        if people == 1 && self.meaning.class < SafetyClass::Financial {
            ways.push(format!(
                "A grant for calls like it: `toolgate approvals grant --agent {agent} --tool {tool} --where ..`"
            ));
        }
        ways
    }

    /// The first level above at which more is decided.
    fn level(&self, now: Verdict) -> Option<String> {
        let policy = self.house.policy();
        let above = Level::LADDER.iter().filter(|level| **level > self.agent.level.value);
        let (level, then) = above.filter(|_| self.agent.level.value != Level::Custom).find_map(|level| {
            let constraints = Arc::new(policy.levels.get(level)?.constraints.clone());
            let raised = Agent { level: Sourced::built_in(*level), constraints, ..self.agent.clone() };
            let raised = house::within(&self.house.config, self.entry.tool.def.category, raised);
            let then = self.again(&raised)?;
            (then > now).then_some((level, then))
        })?;
        let (agent, source) = (&self.agent.name, &self.agent.level.source);
        Some(format!(
            "At level `{level}` it is `{}`; agent `{agent}` is at `{}` ({source})",
            word(then),
            self.agent.level.value
        ))
    }

    /// The strictest preset that does it unasked.
    fn autonomy(&self, reasons: &[Reason]) -> Option<String> {
        let reason = reasons.iter().find(|reason| reason.rule == "autonomy")?;
        let freer = Preset::ALL.iter().rev().find(|preset| {
            let autonomy = Autonomy::preset(**preset, &self.house.policy().actions);
            let agent = Agent { autonomy: Sourced::built_in(autonomy), ..self.agent.clone() };
            self.again(&agent) == Some(Verdict::Allow)
        })?;
        Some(format!("Autonomy `{freer}` does it unasked; set at {}", reason.source))
    }

    /// What is decided for the agent as it would be.
    fn again(&self, agent: &Agent) -> Option<Verdict> {
        let (input, meaning) = understood(self.house, agent, self.entry, self.arguments).ok()?;
        let request = meaning.request(self.entry, None, Some(&input));
        Some(decide(self.house.policy(), agent, &request).decided().verdict)
    }
}

/// Which line an operator would change. What is built in has none.
fn change(reason: &Reason) -> Option<String> {
    let Reason { rule, text, source } = reason;
    let way = match *rule {
        "denied" => format!("Take it off the `denied` list at {source}"),
        "ask" => format!("Take it off the `ask` list at {source}"),
        "ask_class" if source.line > 0 => format!("Take the class off `ask.classes` at {source}"),
        "rule_denies" | "rule_asks" | "rule_unsure" => format!("Change the rule at {source}"),
        "permission_deny" | "permission_confirm" if source.line > 0 => format!("Change the permission at {source}"),
        "permission_roles" => format!("Give the agent a role: {text} ({source})"),
        "permission_condition" => {
            format!("Make a call for which it holds, or change the condition at {source}: {text}")
        }
        "no_rule" => "Put the tool on an `allowed` list of the agent, or write a rule that allows it".to_owned(),
        "file_denied" | "file_asks" => format!("Name another file, or change the rule at {source}"),
        "host_denied" | "host_asks" => format!("Name another host, or change the rule at {source}"),
        "requires_approval" if source.line > 0 => format!("Take the action off `requires_approval` at {source}"),
        _ if source.line > 0 => format!("Change {source}"),
        _ => return None,
    };
    Some(way)
}
