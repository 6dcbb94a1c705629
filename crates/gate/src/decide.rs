//! The decision.

use std::sync::Arc;

use serde_json::Value;
use toolgate_contract::{
    ActionType, Decided, Effect, EffectKind, Level, Needs, Permission, Reason, Risk, SafetyClass, SourceLine, ToolDef,
    Verdict,
};
use toolgate_guard::shell::policy::Judgement;

use crate::{
    Agent, Answer, Asking, ConnectionTerms, Constraints, GitLevel, Origin, Policy, Terrain, Word, command, flow,
    resource, rule::Scope,
};

/// What is asked: this tool, to do this.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The tool.
    pub def: &'a ToolDef,
    /// Whether it is the tool of somebody else's program.
    pub foreign: bool,
    /// The tool's own word on who may call it, as it was read when the tool was registered; none to read it now.
    pub word: Option<&'a Word>,
    /// What the call amounts to.
    pub action: &'a ActionType,
    /// What it would do.
    pub effects: &'a [Effect],
    /// What else it amounts to: spending, or spending more than there is.
    pub also: &'a [ActionType],
    /// How much is at stake.
    pub risk: Risk,
    /// What was made of the command it would start; none where it starts none, or that is not known yet.
    pub command: Option<&'a Judgement>,
    /// How far that command takes git.
    pub git: GitLevel,
    /// The connection it would use; none where it uses none, or that is not known yet.
    pub connection: Option<&'a ConnectionTerms>,
    /// Where its words come from and what it would tell; none where that is not known yet.
    pub origin: Option<&'a Origin>,
    /// Where its paths lead.
    pub terrain: &'a Terrain,
    /// The validated arguments; none when the question is whether to show the tool at all.
    pub arguments: Option<&'a Value>,
}

impl<'a> Request<'a> {
    /// Is this tool to be known at all? Nothing is said about a call.
    pub fn of(def: &'a ToolDef) -> Self {
        Self {
            def,
            foreign: false,
            word: None,
            action: &def.action,
            effects: &[],
            also: &[],
            risk: Risk::Low,
            command: None,
            git: GitLevel::LocalOnly,
            connection: None,
            origin: None,
            terrain: Terrain::NOWHERE,
            arguments: None,
        }
    }

    /// The strictest class that applies: the declared one or that of an effect.
    pub fn class(&self) -> SafetyClass {
        self.effects.iter().map(|effect| effect.kind.class()).fold(self.def.safety, SafetyClass::max)
    }

    /// Everything it amounts to.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &ActionType> {
        std::iter::once(self.action).chain(self.also)
    }
}

/// The right to run one call. Only this crate makes one, and whatever runs a call wants one.
#[derive(Debug)]
pub struct Permit {
    needs: Needs,
    constraints: Arc<Constraints>,
}

impl Permit {
    /// What a person at the command line gives to a program they start themselves. There is no agent, so there is no
    /// policy to ask; a command that takes a call from an agent must not use this.
    pub fn of_operator(needs: Needs) -> Self {
        Self { needs, constraints: Arc::new(Constraints::of(Level::Custom)) }
    }

    /// What the operator's config gives to a server that it names, and that runs beside calls. There is no agent: what
    /// binds it is the room its entry describes. Calls of its tools are decided one by one, like all others.
    pub fn of_server(needs: Needs) -> Self {
        Self::of_operator(needs)
    }

    /// The hands the call gets.
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// What binds it while it runs.
    pub fn constraints(&self) -> &Constraints {
        &self.constraints
    }
}

/// May it run?
#[derive(Debug)]
pub enum Decision {
    /// Yes.
    Allow(Permit, Vec<Reason>),
    /// If people agree.
    Ask(Asking),
    /// No.
    Deny(Vec<Reason>),
}

impl Decision {
    /// The verdict and its reasons, for the record.
    pub fn decided(&self) -> Decided {
        let (verdict, reasons) = match self {
            Self::Allow(_, reasons) => (Verdict::Allow, reasons),
            Self::Ask(asking) => (Verdict::Ask, &asking.reasons),
            Self::Deny(reasons) => (Verdict::Deny, reasons),
        };
        Decided { verdict, reasons: reasons.clone() }
    }
}

/// May `agent` do this?
///
/// The first rule that speaks wins: what is denied, what must be asked, what is allowed, what the access level
/// permits. When nothing speaks the answer is no, and a rule that cannot be evaluated is a no.
pub fn decide(policy: &Policy, agent: &Agent, request: &Request<'_>) -> Decision {
    match first_that_speaks(policy, agent, request) {
        Decision::Ask(asking) if request.def.stands_for_another() => Decision::Deny(nobody_is_asked(request, asking)),
        decision => decision,
    }
}

/// A call that stands for another becomes that one before it is decided, so there is nothing left that a yes to it could be
/// used for. People are asked about the other tool; until that is what the policy says, nothing goes through this one.
fn nobody_is_asked(request: &Request<'_>, asking: Asking) -> Vec<Reason> {
    let text = format!("nobody can be asked about `{}`, only about the tool it calls", request.def.name);
    [vec![reason("stands_for_another", text, &SourceLine::built_in())], asking.reasons].concat()
}

fn first_that_speaks(policy: &Policy, agent: &Agent, request: &Request<'_>) -> Decision {
    if let Some(reason) = denied(policy, agent, request) {
        return Decision::Deny(vec![reason]);
    }
    let rules = policy.book.speak(agent, request);
    if !rules.denied.is_empty() {
        return Decision::Deny(rules.denied);
    }
    let refused = resource::reasons(policy, agent, request, Answer::Deny);
    if !refused.is_empty() {
        return Decision::Deny(refused);
    }
    let refused = command::reasons(policy, agent, request.command, Verdict::Deny);
    if !refused.is_empty() {
        return Decision::Deny(refused);
    }
    let permit = Permit { needs: request.def.needs, constraints: agent.constraints.clone() };
    let (people, mut asks) = must_ask(policy, agent, request);
    asks.extend(rules.asked);
    if !asks.is_empty() {
        return Decision::Ask(Asking::new(people, asks, permit));
    }
    let listed = allowed(policy, agent, request).or(rules.allowed);
    let Some(granted) = listed.or_else(|| level_permits(policy, agent, request)) else {
        return Decision::Deny([vec![nothing_speaks(agent, request)], rules.unsure].concat());
    };
    let mut asks = tightened(policy, agent, request);
    if !asks.is_empty() {
        asks.push(granted);
        return Decision::Ask(Asking::new(1, asks, permit));
    }
    Decision::Allow(permit, vec![granted])
}

/// A level's approval constraint and the agent's autonomy tighten what was granted; they never grant anything by themselves.
fn tightened(policy: &Policy, agent: &Agent, request: &Request<'_>) -> Vec<Reason> {
    let mut asks = Vec::new();
    for action in request.actions() {
        if let Some(source) = agent.constraints.requires_approval.get(action) {
            let text = format!("action `{action}` requires approval for this agent");
            asks.push(reason("requires_approval", text, source));
        }
        let listed = [&policy.rules, &agent.rules].iter().any(|rules| rules.allowed.actions.contains_key(action));
        if *action == ActionType::BudgetExceed && !listed {
            let text = "the call would pass the agent's budget".to_owned();
            asks.push(reason("budget", text, &SourceLine::built_in()));
            continue;
        }
        // What finds tools tells no more than a longer list would have, unasked.
        if request.def.finds_tools() {
            continue;
        }
        asks.extend(agent.autonomy.value.asks(action).map(|text| reason("autonomy", text, &agent.autonomy.source)));
    }
    asks
}

fn denied(policy: &Policy, agent: &Agent, request: &Request<'_>) -> Option<Reason> {
    let name = &*request.def.name;
    for rules in [&policy.rules, &agent.rules] {
        if let Some((what, source)) = request.actions().find_map(|action| rules.denied.entry(name, action)) {
            return Some(reason("denied", format!("{what} is on the denied list"), source));
        }
    }
    let declared = match request.word {
        Some(word) => word,
        None => &Word::from(request.def.permission.clone()),
    };
    if let Some((rule, text)) = forbids(declared, agent, request) {
        return Some(reason(rule, text, &SourceLine::declaration(name)));
    }
    for said in policy.tools.get(name).into_iter().flatten() {
        if let Some((rule, text)) = forbids(&said.value, agent, request) {
            return Some(reason(rule, text, &said.source));
        }
    }
    if let Some((text, connection)) = request.connection.and_then(|it| Some((it.refuses()?, it))) {
        return Some(reason("connection_write", text, &connection.source));
    }
    let (rule, text, source) = agent.constraints.overstepped(request)?;
    Some(reason(rule, text, &source))
}

/// Does this say no?
fn forbids(word: &Word, agent: &Agent, request: &Request<'_>) -> Option<(&'static str, String)> {
    match word.permission() {
        Permission::Allow | Permission::Confirm => None,
        Permission::Deny => Some(("permission_deny", "the tool's permission is `deny`".into())),
        Permission::Roles(roles) => {
            let has_one = roles.iter().any(|role| agent.roles.contains(&**role));
            (!has_one).then(|| ("permission_roles", format!("the tool wants one of the roles: {}", roles.join(", "))))
        }
        Permission::Condition(text) => {
            let when = match word.when()? {
                Ok(when) => when,
                Err(error) => return Some(("permission_condition", format!("its condition cannot be read: {error}"))),
            };
            // Before there are arguments, a condition about them cannot speak; the call itself is decided again.
            if request.arguments.is_none() && when.is_about_arguments() {
                return None;
            }
            match when.holds(&Scope::of(agent, request)) {
                Ok(true) => None,
                Ok(false) => Some(("permission_condition", format!("its condition does not hold: {text}"))),
                Err(error) => Some(("permission_condition", format!("its condition cannot be evaluated: {error}"))),
            }
        }
    }
}

fn must_ask(policy: &Policy, agent: &Agent, request: &Request<'_>) -> (u8, Vec<Reason>) {
    let name = &*request.def.name;
    let mut people = 1;
    let mut reasons = Vec::new();
    for rules in [&policy.rules, &agent.rules] {
        if let Some(count) = rules.ask_classes.get(&request.class()) {
            people = people.max(count.value);
            reasons.push(reason("ask_class", format!("class `{}` needs approval", request.class()), &count.source));
        }
        if let Some((what, source)) = request.actions().find_map(|action| rules.ask.entry(name, action)) {
            reasons.push(reason("ask", format!("{what} is on the list of what must be asked"), source));
        }
    }
    if request.def.permission == Permission::Confirm {
        let source = SourceLine::declaration(name);
        reasons.push(reason("permission_confirm", "the tool asks for confirmation each time".into(), &source));
    }
    let said = policy.tools.get(name).into_iter().flatten();
    for said in said.filter(|said| *said.value.permission() == Permission::Confirm) {
        reasons.push(reason("permission_confirm", "the operator asks for confirmation each time".into(), &said.source));
    }
    reasons.extend(request.effects.iter().filter(|effect| effect.kind.asks()).map(|effect| {
        let what = effect.target.as_ref().map_or_else(String::new, |target| format!(" (`{target}`)"));
        let done = match effect.kind {
            EffectKind::DeleteBranch => "a branch or tag would be removed",
            _ => "history would be rewritten",
        };
        reason("effect_asks", format!("{done}{what}"), &SourceLine::built_in())
    }));
    if let Some((text, connection)) = request.connection.and_then(|it| Some((it.asks()?, it))) {
        reasons.push(reason("connection_asks", text, &connection.source));
    }
    let asked = request.origin.map(|origin| flow::asks(policy, name, origin)).unwrap_or_default();
    reasons.extend(asked.into_iter().map(|asked| asked.reason));
    reasons.extend(resource::reasons(policy, agent, request, Answer::Ask));
    reasons.extend(command::reasons(policy, agent, request.command, Verdict::Ask));
    (people, reasons)
}

fn allowed(policy: &Policy, agent: &Agent, request: &Request<'_>) -> Option<Reason> {
    [&policy.rules, &agent.rules].into_iter().find_map(|rules| {
        let (what, source) = rules.allowed.entry(&request.def.name, request.action)?;
        Some(reason("allowed", format!("{what} is on the allowed list"), source))
    })
}

fn level_permits(policy: &Policy, agent: &Agent, request: &Request<'_>) -> Option<Reason> {
    let level = agent.level.value;
    if request.def.finds_tools() {
        let text = "every level permits tools that find tools".to_owned();
        return Some(reason("level", text, &agent.level.source));
    }
    let rights = policy.levels.get(&level)?;
    if let Some(source) = rights.categories.get(&request.def.category) {
        let text = format!("level `{level}` permits category `{}`", request.def.category);
        return Some(reason("level", text, source));
    }
    // A function of its input is not worth a right; but a custom agent has only what its lists name, and what somebody
    // else's program makes of an input is not known to be one.
    let touches_nothing = request.def.needs.is_nothing() && request.class() == SafetyClass::Read;
    (touches_nothing && !request.foreign && !rights.categories.is_empty()).then(|| {
        let text = format!("level `{level}` permits tools that read nothing and touch nothing");
        reason("level", text, &agent.level.source)
    })
}

fn nothing_speaks(agent: &Agent, request: &Request<'_>) -> Reason {
    let text = format!(
        "no rule allows tool `{}` (category `{}`, action `{}`) to an agent at level `{}`",
        request.def.name, request.def.category, request.action, agent.level.value
    );
    reason("no_rule", text, &agent.level.source)
}

fn reason(rule: &'static str, text: String, source: &SourceLine) -> Reason {
    Reason { rule, text, source: source.clone() }
}
