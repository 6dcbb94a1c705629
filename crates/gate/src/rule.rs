//! The operator's own rules about calls: which are meant, what is answered, why, and what to do instead.
//!
//! Every part of a rule that is there must fit. Of the rules that fit, the strictest wins: one that denies, then one
//! that asks, then one that allows, each at its step of [`decide`](crate::decide). A rule that denies or asks and cannot
//! be evaluated is a no; one that allows and cannot be evaluated allows nothing.
//!
//! Rules are kept by what they name, so that a decision looks at those that may fit and not at all there are.

use std::{
    cell::OnceCell,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use toolgate_contract::{ActionType, AgentName, Reason, Risk, SafetyClass, SourceLine, Verdict};

use crate::{
    Agent, Request,
    condition::{Condition, ConditionError, EvalError, Glance, Variables},
};

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Its name.
    pub id: String,
    /// What it says about the calls it means.
    pub verdict: Verdict,
    /// Calls of these tools; of any where it names none.
    pub tools: Vec<ToolName>,
    /// Calls that amount to one of these; to anything where it names none.
    pub actions: BTreeSet<ActionType>,
    /// Calls of these agents.
    pub agents: BTreeSet<AgentName>,
    /// Calls of agents with one of these roles.
    pub roles: BTreeSet<String>,
    /// Calls of these classes.
    pub classes: BTreeSet<SafetyClass>,
    /// Calls with so much at stake, or more.
    pub risk_at_least: Option<Risk>,
    /// Calls for which this holds.
    pub when: Option<When>,
    /// Why, in the operator's words.
    pub because: String,
    /// What to do instead, for whoever called.
    pub instead: Option<String>,
    /// Where it is written.
    pub source: SourceLine,
}

/// A tool, or all whose names begin alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolName {
    /// This one.
    Exactly(String),
    /// Those that begin with this.
    Begins(String),
}

impl ToolName {
    /// A name, or the beginning of one and `*`.
    pub fn of(written: &str) -> Self {
        match written.strip_suffix('*') {
            Some(beginning) => Self::Begins(beginning.to_owned()),
            None => Self::Exactly(written.to_owned()),
        }
    }

    /// Is this tool meant?
    pub fn means(&self, tool: &str) -> bool {
        match self {
            Self::Exactly(name) => name == tool,
            Self::Begins(beginning) => tool.starts_with(beginning.as_str()),
        }
    }
}

/// A condition that was read once. It is compared, hashed and shown by its text.
#[derive(Debug, Clone)]
pub struct When {
    text: String,
    condition: Arc<Condition>,
    /// It speaks about more than the agent and the tool: before there is a call it has no answer.
    wants_call: bool,
}

impl When {
    /// Reads a condition.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let condition = Condition::parse(text)?;
        let wants_call = condition.variables().iter().any(|name| !matches!(*name, "agent" | "tool"));
        Ok(Self { text: text.to_owned(), condition: Arc::new(condition), wants_call })
    }

    /// As it is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Does it speak about the arguments?
    pub(crate) fn is_about_arguments(&self) -> bool {
        self.condition.variables().contains("args")
    }

    pub(crate) fn holds(&self, scope: &Scope<'_>) -> Result<bool, EvalError> {
        self.condition.eval_for(scope.variables())
    }
}

impl PartialEq for When {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for When {}

impl Serialize for When {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// What conditions may speak about. The arguments are not copied: they may be large. The rest is put together when the first
/// condition wants to know.
pub(crate) struct Scope<'a> {
    agent: &'a Agent,
    request: &'a Request<'a>,
    known: OnceCell<Value>,
}

impl<'a> Scope<'a> {
    pub(crate) fn of(agent: &'a Agent, request: &'a Request<'a>) -> Self {
        Self { agent, request, known: OnceCell::new() }
    }

    fn variables(&self) -> Variables<'_> {
        let Self { agent, request, known } = self;
        let known = known.get_or_init(|| {
            json!({
                "agent": { "name": agent.name, "level": agent.level.value, "roles": agent.roles },
                "args": null,
                "tool": request.def.name,
                "action": request.action,
                "class": request.class(),
                "risk": request.risk,
            })
        });
        Variables { known, arguments: request.arguments }
    }
}

impl Rule {
    /// Does it mean this call?
    pub fn means(&self, agent: &Agent, request: &Request<'_>) -> Result<bool, EvalError> {
        Ok(self.names(agent, request) && self.holds(&Scope::of(agent, request))?)
    }

    fn holds(&self, scope: &Scope<'_>) -> Result<bool, EvalError> {
        self.when.as_ref().map_or(Ok(true), |when| when.holds(scope))
    }

    /// All of it but its condition.
    fn names(&self, agent: &Agent, request: &Request<'_>) -> bool {
        (self.tools.is_empty() || self.tools.iter().any(|tool| tool.means(&request.def.name)))
            && (self.actions.is_empty() || self.names_action(request))
            && (self.agents.is_empty() || self.agents.contains(&agent.name))
            && (self.roles.is_empty() || self.roles.iter().any(|role| agent.roles.contains(role)))
            && (self.classes.is_empty() || self.names_class(request))
            && self.risk_at_least.is_none_or(|least| request.risk >= least || request.arguments.is_none())
    }

    /// What a call also amounts to can be denied and asked about; allowed is what it is for.
    fn names_action(&self, request: &Request<'_>) -> bool {
        match self.verdict {
            Verdict::Allow => self.actions.contains(request.action),
            Verdict::Ask | Verdict::Deny => request.actions().any(|action| self.actions.contains(action)),
        }
    }

    /// A call may turn out stricter than its tool says, so what allows a stricter class may still allow it.
    fn names_class(&self, request: &Request<'_>) -> bool {
        match request.arguments.is_none() && self.verdict == Verdict::Allow {
            true => self.classes.iter().any(|class| *class >= request.class()),
            false => self.classes.contains(&request.class()),
        }
    }

    /// Must there be a call before it can speak?
    fn wants_call(&self) -> bool {
        self.risk_at_least.is_some() || self.when.as_ref().is_some_and(|when| when.wants_call)
    }

    fn reason(&self) -> Reason {
        let (rule, says) = match self.verdict {
            Verdict::Deny => ("rule_denies", "denies it"),
            Verdict::Ask => ("rule_asks", "asks a person"),
            Verdict::Allow => ("rule_allows", "allows it"),
        };
        // Whoever is refused is told what to do instead as the remedy.
        let instead = self.instead.as_ref().filter(|_| self.verdict == Verdict::Ask);
        let instead = instead.map(|instead| format!("; instead: {instead}")).unwrap_or_default();
        let text = format!("{} {says}: {}{instead}", self.named(), self.because);
        Reason { rule, text, source: self.source.clone() }
    }

    fn unsure(&self, error: &EvalError) -> Reason {
        let text = format!("{} cannot be evaluated: {error}", self.named());
        Reason { rule: "rule_unsure", text, source: self.source.clone() }
    }

    fn named(&self) -> String {
        format!("rule `{}`", self.id)
    }
}

/// All rules, by what they name.
#[derive(Debug, Clone, Default)]
pub struct RuleBook {
    rules: Vec<Rule>,
    by_tool: HashMap<String, Vec<Entry>>,
    by_action: HashMap<ActionType, Vec<Entry>>,
    by_agent: HashMap<AgentName, Vec<Entry>>,
    /// Those that name nothing they could be found by.
    others: Vec<Entry>,
    /// The variables that conditions begin with, each once.
    variables: Vec<Vec<String>>,
}

/// Where a rule is.
#[derive(Debug, Clone)]
struct Entry {
    number: usize,
    /// What its condition begins with, and which variable of the book that is about. It lies beside the next rule's, and a
    /// rule that is ruled out by it is not read at all: most of what a decision does is to pass by rules. Without it every
    /// decision is the same, and takes longer.
    glance: Option<(usize, Glance)>,
}

impl Serialize for RuleBook {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rules.serialize(serializer)
    }
}

/// What the rules say about a call.
#[derive(Debug, Default)]
pub(crate) struct Spoken {
    pub(crate) denied: Vec<Reason>,
    pub(crate) asked: Vec<Reason>,
    pub(crate) allowed: Option<Reason>,
    /// Rules that would allow it, if they could be evaluated.
    pub(crate) unsure: Vec<Reason>,
}

impl RuleBook {
    /// One more rule. Each is found in one way: by its tools, else by its actions, else by its agents.
    pub fn add(&mut self, rule: Rule) {
        let number = self.rules.len();
        let exact = |tool: &ToolName| match tool {
            ToolName::Exactly(name) => Some(name.clone()),
            ToolName::Begins(_) => None,
        };
        let tools: Vec<String> = rule.tools.iter().filter_map(exact).collect();
        let entry = Entry { number, glance: self.glance(&rule) };
        if !tools.is_empty() && tools.len() == rule.tools.len() {
            tools.into_iter().for_each(|tool| self.by_tool.entry(tool).or_default().push(entry.clone()));
        } else if !rule.actions.is_empty() {
            rule.actions
                .iter()
                .for_each(|action| self.by_action.entry(action.clone()).or_default().push(entry.clone()));
        } else if !rule.agents.is_empty() {
            rule.agents.iter().for_each(|agent| self.by_agent.entry(agent.clone()).or_default().push(entry.clone()));
        } else {
            self.others.push(entry);
        }
        self.rules.push(rule);
    }

    fn glance(&mut self, rule: &Rule) -> Option<(usize, Glance)> {
        let (path, glance) = rule.when.as_ref()?.condition.glance()?;
        let known = self.variables.iter().position(|known| *known == path);
        let variable = known.unwrap_or_else(|| {
            self.variables.push(path.to_vec());
            self.variables.len() - 1
        });
        Some((variable, glance))
    }

    /// All rules, in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// The rule of this name.
    pub fn get(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// The rule that gave this reason; none where something else did.
    pub fn behind(&self, reason: &Reason) -> Option<&Rule> {
        let is_it = |rule: &&Rule| rule.source == reason.source && reason.text.starts_with(&rule.named());
        reason.rule.starts_with("rule_").then(|| self.rules.iter().find(is_it)).flatten()
    }

    pub(crate) fn speak(&self, agent: &Agent, request: &Request<'_>) -> Spoken {
        let mut spoken = Spoken::default();
        let scope = Scope::of(agent, request);
        // Before there is a call no variable is known for certain.
        let value = |path: &Vec<String>| request.arguments.and_then(|_| scope.variables().get(path));
        let values: Vec<Option<&Value>> = self.variables.iter().map(value).collect();
        for entry in self.candidates(agent, request) {
            if let Some((variable, glance)) = &entry.glance
                && glance.rules_out(values.get(*variable).copied().flatten())
            {
                continue;
            }
            let Some(rule) = self.rules.get(entry.number).filter(|rule| rule.names(agent, request)) else { continue };
            if request.arguments.is_none() && rule.wants_call() {
                // Whether the tool is shown: what may be allowed is, and what may be denied is decided with the call.
                if rule.verdict == Verdict::Allow {
                    spoken.allowed.get_or_insert_with(|| rule.reason());
                }
                continue;
            }
            match (rule.holds(&scope), rule.verdict) {
                (Ok(false), _) => {}
                (Ok(true), Verdict::Deny) => spoken.denied.push(rule.reason()),
                (Ok(true), Verdict::Ask) => spoken.asked.push(rule.reason()),
                (Ok(true), Verdict::Allow) => _ = spoken.allowed.get_or_insert_with(|| rule.reason()),
                (Err(error), Verdict::Deny | Verdict::Ask) => spoken.denied.push(rule.unsure(&error)),
                (Err(error), Verdict::Allow) => spoken.unsure.push(rule.unsure(&error)),
            }
        }
        spoken
    }

    /// The rules that may mean this call, in the order they were added.
    fn candidates(&self, agent: &Agent, request: &Request<'_>) -> Vec<&Entry> {
        let by_tool = self.by_tool.get(&*request.def.name);
        let by_action = request.actions().filter_map(|action| self.by_action.get(action));
        let by_agent = self.by_agent.get(&agent.name);
        let found = by_tool.into_iter().chain(by_action).chain(by_agent).chain([&self.others]).flatten();
        let mut found: Vec<&Entry> = found.collect();
        found.sort_unstable_by_key(|entry| entry.number);
        found.dedup_by_key(|entry| entry.number);
        found
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contract::{Level, ToolDef};

    use super::*;
    use crate::Sourced;

    fn rule(id: &str, tools: &[&str], actions: &[ActionType], agents: &[&str]) -> Rule {
        Rule {
            id: id.to_owned(),
            verdict: Verdict::Deny,
            tools: tools.iter().map(|tool| ToolName::of(tool)).collect(),
            actions: actions.iter().cloned().collect(),
            agents: agents.iter().map(|agent| AgentName::from(*agent)).collect(),
            roles: BTreeSet::new(),
            classes: BTreeSet::new(),
            risk_at_least: None,
            when: None,
            because: "x".to_owned(),
            instead: None,
            source: SourceLine::built_in(),
        }
    }

    /// Whatever a rule is found by, it speaks about what it means, once, in the order rules were added.
    #[test]
    fn a_rule_is_found_by_whatever_it_names() {
        let push = [ActionType::VcsPush, ActionType::BudgetSpend];
        let all = [
            rule("by-tool", &["push", "pull"], &[], &[]),
            rule("by-beginning", &["pu*"], &[], &[]),
            rule("by-mixed", &["push", "x*"], &[], &[]),
            rule("by-mixed-too", &["pull", "pus*"], &[], &[]),
            rule("by-action", &[], &push, &[]),
            rule("by-beginning-and-action", &["p*"], &push, &[]),
            rule("by-agent", &[], &[], &["coder"]),
            rule("other-tool", &["pull"], &[], &[]),
            rule("other-action", &["push"], &[ActionType::CodeRead], &[]),
            rule("other-agent", &[], &[], &["other"]),
        ];
        let mut book = RuleBook::default();
        all.into_iter().for_each(|rule| book.add(rule));
        let def = ToolDef { name: "push".into(), action: ActionType::VcsPush, ..ToolDef::default() };
        let agent = Agent::at(AgentName::from("coder"), Sourced::built_in(Level::Standard));
        let request = Request { also: &[ActionType::BudgetSpend], arguments: Some(&Value::Null), ..Request::of(&def) };
        let spoken = book.speak(&agent, &request).denied;
        let ids: Vec<&str> = spoken.iter().filter_map(|reason| Some(&*book.behind(reason)?.id)).collect();
        let expected =
            ["by-tool", "by-beginning", "by-mixed", "by-mixed-too", "by-action", "by-beginning-and-action", "by-agent"];
        assert_eq!(ids, expected);
        assert_eq!(book.iter().count(), 10);
        assert_eq!(book.get("by-agent").map(|rule| &*rule.id), Some("by-agent"));
        assert_eq!(book.get("nobody"), None);
    }

    /// Passing a rule by at a glance says what reading it would have said.
    #[test]
    fn a_glance_never_changes_what_is_said() {
        let conditions = [
            "args.path == 'a/b'",
            "args.path != 'a/b'",
            "starts_with(args.path, 'a/')",
            "ends_with(args.path, '/b')",
            "contains(args.path, '/')",
            "args.path == 'a/b' and args.count > 1",
            "args.path == 'a/b' or args.count > 1",
            "args.count > 1 and args.path == 'a/b'",
            "not args.path == 'a/b'",
            "args.path in ['a/b']",
            "args.path < 'high'",
            "args.path == null",
            "args.deep.path == 'a/b'",
            "agent.name == 'coder' and args.path == 'a/b'",
            "agent.name == 'nobody'",
        ];
        let calls = [
            json!({ "path": "a/b", "count": 2 }),
            json!({ "path": "a/b", "count": 1 }),
            json!({ "path": "a/b" }),
            json!({ "path": "a/c", "count": 2 }),
            json!({ "path": "c/b" }),
            json!({ "path": "c" }),
            json!({ "path": ["a/b"] }),
            json!({ "path": null }),
            json!({ "path": 7 }),
            json!({ "deep": { "path": "a/b" } }),
            json!({ "deep": { "path": "c" } }),
            json!({}),
        ];
        let def = ToolDef { name: "push".into(), ..ToolDef::default() };
        let agent = Agent::at(AgentName::from("coder"), Sourced::built_in(Level::Standard));
        let rules: Vec<Rule> = conditions
            .iter()
            .map(|text| Rule { when: Some(When::parse(text).unwrap()), ..rule(text, &["push"], &[], &[]) })
            .collect();
        let mut book = RuleBook::default();
        rules.iter().for_each(|rule| book.add(rule.clone()));
        let seen = book.by_tool["push"].iter().filter(|entry| entry.glance.is_some()).count();
        assert_eq!((seen, book.variables.len()), (10, 3), "each variable once");
        for call in &calls {
            let request = Request { arguments: Some(call), ..Request::of(&def) };
            let read = |rule: &Rule| match rule.means(&agent, &request) {
                Ok(true) => Some(rule.reason()),
                Ok(false) => None,
                Err(error) => Some(rule.unsure(&error)),
            };
            let expected: Vec<Reason> = rules.iter().filter_map(read).collect();
            assert_eq!(book.speak(&agent, &request).denied, expected, "{call}");
        }
    }

    #[test]
    fn a_rule_means_a_call_it_names_and_for_which_its_condition_holds() {
        let check = |rule: Rule, risk: Risk, expected: Result<bool, ()>| {
            let def = ToolDef { name: "push".into(), ..ToolDef::default() };
            let agent = Agent::at(AgentName::from("coder"), Sourced::built_in(Level::Standard));
            let request = Request { risk, arguments: Some(&Value::Null), ..Request::of(&def) };
            assert_eq!(rule.means(&agent, &request).map_err(|_| ()), expected, "{rule:?} {risk}");
        };
        let (named, other) = (|| rule("r", &["pu*"], &[], &[]), || rule("r", &["pull", "pushes*"], &[], &[]));
        let when = |text: &str| Some(When::parse(text).unwrap());
        check(named(), Risk::Low, Ok(true));
        check(other(), Risk::Low, Ok(false));
        check(Rule { when: when("tool == 'push'"), ..named() }, Risk::Low, Ok(true));
        check(Rule { when: when("tool == 'pull'"), ..named() }, Risk::Low, Ok(false));
        check(Rule { when: when("args.absent"), ..named() }, Risk::Low, Err(()));
        check(Rule { when: when("args.absent"), ..other() }, Risk::Low, Ok(false));
        check(Rule { risk_at_least: Some(Risk::High), ..named() }, Risk::Medium, Ok(false));
        check(Rule { risk_at_least: Some(Risk::High), ..named() }, Risk::High, Ok(true));
    }

    #[test]
    fn whoever_is_asked_reads_what_could_be_done_instead() {
        let told =
            |verdict| Rule { verdict, instead: Some("move it".into()), ..rule("r", &[], &[], &[]) }.reason().text;
        assert_eq!(told(Verdict::Ask), "rule `r` asks a person: x; instead: move it");
        assert_eq!(told(Verdict::Deny), "rule `r` denies it: x");
    }

    #[test]
    fn a_condition_is_its_text() {
        let when = |text: &str| When::parse(text).unwrap();
        assert_eq!((when("args.a").text(), when("args.a") == when("args.a")), ("args.a", true));
        assert!(when("args.a") != when("args.b"));
        assert!(when("args.a").is_about_arguments() && !when("agent.name == 'a'").is_about_arguments());
    }

    /// Before there is a call, a rule about the call hides nothing, and one that may allow it shows the tool.
    #[test]
    fn what_a_rule_says_about_a_call_waits_for_one() {
        let check = |rule: Rule, denied: bool, allowed: bool| {
            let mut book = RuleBook::default();
            book.add(rule.clone());
            let def = ToolDef { name: "push".into(), safety: SafetyClass::Write, ..ToolDef::default() };
            let agent = Agent::at(AgentName::from("coder"), Sourced::built_in(Level::Standard));
            let spoken = book.speak(&agent, &Request::of(&def));
            assert_eq!((!spoken.denied.is_empty(), spoken.allowed.is_some()), (denied, allowed), "{rule:?}");
        };
        let plain = || rule("r", &["push"], &[], &[]);
        let allow = || Rule { verdict: Verdict::Allow, ..plain() };
        let when = |text: &str| Some(When::parse(text).unwrap());
        let classes = |class: SafetyClass| BTreeSet::from([class]);
        check(plain(), true, false);
        check(Rule { when: when("agent.name == 'coder'"), ..plain() }, true, false);
        check(Rule { when: when("args.force"), ..plain() }, false, false);
        check(Rule { when: when("class == 'write'"), ..plain() }, false, false);
        check(Rule { risk_at_least: Some(Risk::Low), ..plain() }, false, false);
        check(Rule { classes: classes(SafetyClass::Write), ..plain() }, true, false);
        check(Rule { classes: classes(SafetyClass::Network), ..plain() }, false, false);
        check(allow(), false, true);
        check(Rule { when: when("args.force"), ..allow() }, false, true);
        check(Rule { risk_at_least: Some(Risk::Critical), ..allow() }, false, true);
        check(Rule { classes: classes(SafetyClass::Network), ..allow() }, false, true);
        check(Rule { classes: classes(SafetyClass::Read), ..allow() }, false, false);
    }
}
