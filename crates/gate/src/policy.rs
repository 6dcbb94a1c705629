//! The policy: plain data, already checked. Every rule knows the line it was written on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Serialize, Serializer};
use toolgate_contract::{
    ActionRegistry, ActionType, AgentName, Category, Digest, Level, Limit, Permission, SafetyClass, SourceLine, digest,
    scale,
};

use toolgate_guard::shell::profiles::Profile;

use crate::{
    ApprovalRules, Autonomy, Constraints, Downgrades, OwnRules, Preset, Resources, RuleBook, Sink, When,
    condition::ConditionError, trust::TrustRules,
};

/// A value and the line that set it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it is written.
    pub source: SourceLine,
}

impl<T> Sourced<T> {
    /// A value from the defaults.
    pub fn built_in(value: T) -> Self {
        Self { value, source: SourceLine::built_in() }
    }
}

/// A list of tools and actions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// By tool name.
    pub tools: BTreeMap<String, SourceLine>,
    /// By what the call amounts to.
    pub actions: BTreeMap<ActionType, SourceLine>,
}

impl Listed {
    /// The entry that names this tool or action.
    pub(crate) fn entry(&self, tool: &str, action: &ActionType) -> Option<(String, &SourceLine)> {
        self.tools
            .get(tool)
            .map(|source| (format!("tool `{tool}`"), source))
            .or_else(|| self.actions.get(action).map(|source| (format!("action `{action}`"), source)))
    }
}

/// The three lists, in the order they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Rules {
    /// Never.
    pub denied: Listed,
    /// Only if a person agrees.
    pub ask: Listed,
    /// Classes nobody uses unasked, and how many people must agree.
    pub ask_classes: BTreeMap<SafetyClass, Sourced<u8>>,
    /// Yes, unless an earlier list speaks.
    pub allowed: Listed,
}

/// What is known about one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// How far it is let.
    pub level: Sourced<Level>,
    /// What it is for.
    pub roles: BTreeSet<String>,
    /// Its own lists.
    pub rules: Rules,
    /// What binds it: its level's constraints and its own. Shared with the permits made for it.
    pub constraints: Arc<Constraints>,
    /// What binds it at each level trust may take it to; empty for an agent whose level is set by hand.
    pub ladder: BTreeMap<Level, Arc<Constraints>>,
    /// Which commands it may run; none leaves that to its terminal constraint.
    pub profile: Option<Sourced<Profile>>,
    /// What it does without asking.
    pub autonomy: Sourced<Autonomy>,
    /// What it is given to spend. All of them bind.
    pub budget: Vec<Sourced<Limit>>,
    /// Files and hosts it is kept from, besides those of the policy.
    pub resources: Resources,
}

/// What a level permits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LevelRights {
    /// Whole categories.
    pub categories: BTreeMap<Category, SourceLine>,
    /// Six dimensions.
    pub constraints: Constraints,
}

impl LevelRights {
    /// What a level permits unless the config says otherwise.
    pub fn of(level: Level) -> Self {
        use Category::{Analytics, Browser, CodeExecution, FileSystem, Memory, Terminal, VersionControl, Web};
        let categories: &[Category] = match level {
            Level::Sandboxed => &[FileSystem, CodeExecution, VersionControl, Memory],
            Level::Restricted => &[FileSystem, CodeExecution, VersionControl, Memory, Web],
            Level::Standard => &[FileSystem, CodeExecution, VersionControl, Memory, Web, Terminal, Analytics, Browser],
            Level::Elevated => &Category::ALL,
            Level::Custom => &[],
        };
        Self {
            categories: categories.iter().map(|category| (*category, SourceLine::built_in())).collect(),
            constraints: Constraints::of(level),
        }
    }
}

scale! {
    /// How strictly it is followed where the words of a call come from. Later is stricter.
    FlowMode {
        /// Not at all.
        Off = "off",
        /// A call that sends, spends, removes or publishes is asked about if a word that steers it was heard only in
        /// untrusted prose, or once orders were found in what was heard; and one that would tell another machine what
        /// is not for everybody.
        Origin = "origin",
        /// As `origin`, and every such call is asked about once anything untrusted was heard.
        Session = "session",
    }
}

/// What is said about who may call a tool. A condition in it is read once.
#[derive(Debug, Clone)]
pub struct Word {
    permission: Permission,
    when: Option<Result<When, ConditionError>>,
}

impl Word {
    /// What is said.
    pub fn permission(&self) -> &Permission {
        &self.permission
    }

    /// The condition in it, or why it cannot be read; none where it has none.
    pub(crate) fn when(&self) -> Option<&Result<When, ConditionError>> {
        self.when.as_ref()
    }
}

impl From<Permission> for Word {
    fn from(permission: Permission) -> Self {
        let when = match &permission {
            Permission::Condition(text) => Some(When::parse(text)),
            Permission::Allow | Permission::Confirm | Permission::Deny | Permission::Roles(_) => None,
        };
        Self { permission, when }
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        self.permission == other.permission
    }
}

impl Eq for Word {}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.permission.serialize(serializer)
    }
}

/// Everything the gate goes by.
#[derive(Debug, Clone, Serialize)]
pub struct Policy {
    /// The agents that may call at all.
    pub agents: BTreeMap<AgentName, Agent>,
    /// What binds every agent.
    pub rules: Rules,
    /// What each level permits.
    pub levels: BTreeMap<Level, LevelRights>,
    /// What operators say about single tools. All of it binds, and can only narrow what the tool's own declaration says.
    pub tools: BTreeMap<String, Vec<Sourced<Word>>>,
    /// The operators' own rules about calls.
    pub book: RuleBook,
    /// The operator's own rules about commands.
    pub commands: OwnRules,
    /// Files and hosts every agent is kept from.
    pub resources: Resources,
    /// How questions to people are handled.
    pub approvals: ApprovalRules,
    /// What holds an agent back that goes wrong.
    pub downgrades: Downgrades,
    /// How agents earn a higher level, and lose it again.
    pub trust: TrustRules,
    /// How strictly words are followed.
    pub flow: Sourced<FlowMode>,
    /// What is said about single arguments: where their values must come from.
    pub sinks: Vec<Sink>,
    /// The action types there are.
    #[serde(skip)]
    pub actions: ActionRegistry,
}

impl Policy {
    /// The policy of a fresh machine: one agent, `default`, at level standard.
    pub fn built_in() -> Self {
        let default = Agent::at(AgentName::from("default"), Sourced::built_in(Level::Standard));
        Self {
            agents: [(default.name.clone(), default)].into(),
            rules: Rules {
                ask_classes: [
                    (SafetyClass::Financial, Sourced::built_in(1)),
                    (SafetyClass::Privileged, Sourced::built_in(2)),
                ]
                .into(),
                ..Rules::default()
            },
            levels: Level::ALL.iter().map(|level| (*level, LevelRights::of(*level))).collect(),
            tools: BTreeMap::new(),
            book: RuleBook::default(),
            commands: OwnRules::default(),
            resources: Resources::default(),
            approvals: ApprovalRules::default(),
            downgrades: Downgrades::default(),
            trust: TrustRules::disabled(),
            flow: Sourced::built_in(FlowMode::Origin),
            sinks: Vec::new(),
            actions: ActionRegistry::default(),
        }
    }

    /// The hash that names this policy in every record decided under it.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        digest(self)
    }
}

impl Agent {
    /// An agent with nothing of its own.
    pub fn at(name: AgentName, level: Sourced<Level>) -> Self {
        let constraints = Arc::new(Constraints::of(level.value));
        let autonomy = Sourced::built_in(Autonomy::preset(Preset::Full, &ActionRegistry::default()));
        Self {
            name,
            level,
            roles: BTreeSet::new(),
            rules: Rules::default(),
            constraints,
            ladder: BTreeMap::new(),
            profile: None,
            autonomy,
            budget: Vec::new(),
            resources: Resources::default(),
        }
    }

    /// The agent as it is at a level it has earned, or at the highest it may get to below that. One whose level is set by
    /// hand is what it is.
    pub fn standing_at(&self, level: Level) -> Self {
        let Some((level, constraints)) = self.ladder.range(..=level).next_back() else {
            return self.clone();
        };
        let level = Sourced { value: *level, source: self.level.source.clone() };
        Self { level, constraints: constraints.clone(), ..self.clone() }
    }
}
