//! Trusted layers on top of each other, and what comes out: a policy and settings.
//!
//! A later file adds to lists and replaces single values, field by field; what a room has and an agent's hosts are
//! replaced as a whole. What an agent may not do, loosening its
//! level, is judged once all files have spoken, because a later file may still change the level.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use toolgate_contract::{ActionRegistry, AgentName, Category, Level, Limit, Person, SourceLine};
use toolgate_gate::{Agent, Constraints, Listed, NetworkMode, Policy, Resources, Rules, Sourced, Word};
use toolgate_guard::shell::profiles::Profile;

use super::{
    AgentSettings, Config, Connection, ContainerSettings, DisclosureSettings, EgressSettings, Limits, Mentions,
    RoomSettings,
    check::{AgentLayer, ConstraintsLayer, Dimension, Layer, LevelLayer, ListedLayer, RulesLayer},
    commands, connections,
    findings::{Findings, Said, Spot},
    flow::Argument,
    people::{self, Channel, Presets, add_budget},
    resources::Opened,
    rooms::Voice,
    rules,
    sandboxing::Sandboxing,
    servers::{self, Named, Server},
    trust,
};
use crate::definitions::FirstSight;

/// A configuration in the making.
#[derive(Debug)]
pub(super) struct Draft {
    policy: Policy,
    agents: BTreeMap<AgentName, AgentDraft>,
    limits: Limits,
    protected: Vec<String>,
    sandboxing: Sandboxing,
    rooms: RoomSettings,
    containers: ContainerSettings,
    egress: EgressSettings,
    redact_personal_data: Sourced<bool>,
    first_sight: Sourced<FirstSight>,
    disclosure: DisclosureSettings,
    room_dirs: Vec<Said<PathBuf>>,
    initial_level: Option<Said<Level>>,
    presets: Presets,
    hold: Duration,
    channels: Vec<Channel>,
    at_client: Vec<(Said<String>, Person)>,
    level_descriptions: BTreeMap<Level, String>,
    connections: BTreeMap<String, Sourced<Connection>>,
    servers: BTreeMap<String, Sourced<Server>>,
    named: Named,
    mentions: Vec<Said<String>>,
    arguments: Vec<Argument>,
    rules: rules::Kept,
}

#[derive(Debug, Default)]
struct AgentDraft {
    level: Option<Said<Level>>,
    roles: BTreeSet<String>,
    workspace: Option<Said<String>>,
    directories: Vec<Said<Opened>>,
    resources: Resources,
    profile: Option<Said<Profile>>,
    rules: Rules,
    constraints: ConstraintsLayer,
    autonomy: Option<Said<String>>,
    budget: Vec<Said<Limit>>,
}

/// What a value of a constraint may not be looser than.
pub(super) enum Bound<'a> {
    /// Anything goes: a level is being defined, or an agent has none.
    Free,
    /// The level of an agent.
    Level(&'a AgentName, Level),
    /// What held before a file that nobody vouches for.
    Untrusted,
}

impl Draft {
    /// The built-in configuration, with the actions all files register.
    pub(super) fn new(actions: ActionRegistry) -> Self {
        let policy = Policy { actions, ..Policy::built_in() };
        Self {
            agents: policy.agents.keys().map(|name| (name.clone(), AgentDraft::default())).collect(),
            policy,
            limits: Limits::built_in(),
            protected: super::PROTECTED.map(str::to_owned).to_vec(),
            sandboxing: Sandboxing::default(),
            rooms: RoomSettings::default(),
            containers: ContainerSettings::default(),
            egress: EgressSettings::default(),
            redact_personal_data: Sourced::built_in(false),
            first_sight: Sourced::built_in(FirstSight::Hold),
            disclosure: DisclosureSettings::default(),
            room_dirs: Vec::new(),
            initial_level: None,
            presets: Presets::default(),
            hold: super::HOLD,
            channels: Vec::new(),
            at_client: Vec::new(),
            level_descriptions: BTreeMap::new(),
            connections: BTreeMap::new(),
            servers: BTreeMap::new(),
            named: Named::default(),
            mentions: Vec::new(),
            arguments: Vec::new(),
            rules: rules::Kept::default(),
        }
    }

    /// Puts one trusted file on top.
    pub(super) fn apply(&mut self, layer: Layer, findings: &mut Findings) {
        add_rules(&mut self.policy.rules, layer.rules, findings);
        add_resources(&mut self.policy.resources, layer.resources);
        self.rules.add(&mut self.policy.book, layer.calls, findings);
        for (name, permission) in layer.tools {
            self.policy.tools.insert(name, vec![findings.sourced(permission.map(Word::from))]);
        }
        for (level, rights) in layer.levels {
            self.define(level, rights, findings);
        }
        for (name, agent) in layer.agents {
            self.agents.entry(name.value).or_default().apply(agent, findings);
        }
        if let Some(most) = layer.max_concurrency {
            self.limits.max_concurrency = most.value;
        }
        if let Some(most) = layer.max_input_bytes {
            self.limits.max_input_bytes = most.value;
        }
        self.protected.extend(layer.protected.into_iter().map(|name| name.value));
        commands::add(&mut self.policy.commands, layer.commands, findings);
        self.sandboxing.merge(layer.sandboxing);
        self.room_dirs.extend(layer.rooms.directories().cloned());
        layer.rooms.apply(&mut self.rooms, Voice::Trusted, findings);
        layer.containers.apply(&mut self.containers, Voice::Trusted, findings);
        layer.egress.apply(&mut self.egress, findings);
        self.arguments.extend(layer.flow.arguments.iter().cloned());
        layer.flow.apply(&mut self.policy, findings);
        if let Some(on) = layer.redact_personal_data {
            self.redact_personal_data = findings.sourced(on);
        }
        if let Some(first_sight) = layer.first_sight {
            self.first_sight = findings.sourced(first_sight);
        }
        layer.disclosure.apply(&mut self.disclosure, findings);
        if let Some(rules) = layer.trust.rules {
            self.policy.trust = rules;
        }
        self.initial_level = layer.trust.initial_level.or(self.initial_level.take());
        layer.autonomy.apply(&mut self.presets, &mut self.policy.downgrades, findings);
        layer.approvals.apply(&mut self.policy.approvals, &mut self.hold, &mut self.channels, &mut self.at_client);
        connections::add(&mut self.connections, layer.connections, findings);
        servers::add(&mut self.servers, &mut self.named, layer.servers, findings);
        self.mentions.extend(layer.mentions);
    }

    fn define(&mut self, level: Level, layer: LevelLayer, findings: &mut Findings) {
        let Some(rights) = self.policy.levels.get_mut(&level) else { return };
        if let Some(there) = layer.deployment {
            if there.value {
                rights.categories.insert(Category::Deployment, findings.source(there.spot));
            } else {
                rights.categories.remove(&Category::Deployment);
            }
        }
        if layer.constraints.requires_approval.is_some() {
            rights.constraints.requires_approval.clear();
        }
        overlay(&mut rights.constraints, layer.constraints, &Bound::Free, findings);
        self.level_descriptions.extend(layer.description.map(|text| (level, text)));
    }

    /// All files have spoken. Workspaces are joined to the directory of their file, and not looked at yet.
    pub(super) fn finish(self, cwd: &Path, findings: &mut Findings) -> Config {
        self.named.unknown_connections(&self.connections, findings);
        let Self { mut policy, agents, limits, protected, initial_level, level_descriptions, .. } = self;
        policy.agents.clear();
        let mut settings = BTreeMap::new();
        let (mut workspaces, mut directories) = (Vec::new(), Vec::new());
        for (name, draft) in agents {
            // A level that is set is the operator's word; trust moves the others.
            let is_moved = draft.level.is_none() && policy.trust.moves();
            let level = match draft.level.or_else(|| initial_level.clone()) {
                Some(level) => findings.sourced(level),
                None => Sourced::built_in(Level::Standard),
            };
            let mut agent = Agent::at(name.clone(), level);
            let bound = match agent.level.value {
                Level::Custom => Bound::Free,
                level => Bound::Level(&name, level),
            };
            if let Some(rights) = policy.levels.get(&agent.level.value) {
                agent.constraints = Arc::new(rights.constraints.clone());
            }
            if is_moved {
                agent.ladder = trust::ladder(&policy.levels, &draft.constraints, findings);
                agent.constraints = agent.ladder.get(&agent.level.value).unwrap_or(&agent.constraints).clone();
            } else {
                overlay(Arc::make_mut(&mut agent.constraints), draft.constraints, &bound, findings);
            }
            agent.roles = draft.roles;
            agent.rules = draft.rules;
            agent.resources = draft.resources;
            directories.extend(draft.directories.into_iter().map(|said| (name.clone(), said)));
            agent.profile = draft.profile.map(|profile| findings.sourced(profile));
            agent.autonomy = self.presets.of(draft.autonomy, &policy.actions, findings);
            agent.budget = draft.budget.into_iter().map(|limit| findings.sourced(limit)).collect();
            let workspace = match draft.workspace {
                None => cwd.to_owned(),
                Some(said) => {
                    workspaces.push((name.clone(), said.spot));
                    findings.texts.get(said.spot.file).map_or(cwd, |text| text.dir()).join(&said.value)
                }
            };
            let project = workspace.clone();
            settings.insert(name.clone(), AgentSettings { workspace, project, directories: Vec::new() });
            policy.agents.insert(name, agent);
        }
        let at_client = people::seats(self.at_client, &policy.agents, findings);
        let offering = self.servers.keys().cloned().collect();
        Config {
            policy,
            agents: settings,
            limits,
            protected,
            level_descriptions,
            notes: Vec::new(),
            files: Vec::new(),
            places: self.sandboxing.places(&self.containers, findings),
            rooms: self.rooms,
            containers: self.containers,
            hold: self.hold,
            channels: self.channels,
            at_client,
            connections: self.connections,
            servers: self.servers,
            named: self.named,
            egress: self.egress,
            redact_personal_data: self.redact_personal_data,
            first_sight: self.first_sight,
            disclosure: self.disclosure,
            room_dirs: self.room_dirs,
            mentions: Mentions {
                names: self.mentions,
                arguments: self.arguments,
                texts: findings.texts.clone(),
                servers: offering,
            },
            rules: self.rules,
            workspaces,
            directories,
        }
    }
}

impl AgentDraft {
    fn apply(&mut self, layer: AgentLayer, findings: &Findings) {
        self.level = layer.level.or(self.level.take());
        if let Some(roles) = layer.roles {
            self.roles = roles.value;
        }
        self.workspace = layer.workspace.or(self.workspace.take());
        self.directories.extend(layer.directories);
        add_resources(&mut self.resources, layer.resources);
        self.profile = layer.profile.or(self.profile.take());
        self.autonomy = layer.autonomy.or(self.autonomy.take());
        add_budget(&mut self.budget, layer.budget);
        add_rules(&mut self.rules, layer.rules, findings);
        let (earlier, later) = (std::mem::take(&mut self.constraints), layer.constraints);
        self.constraints = ConstraintsLayer {
            file_system: later.file_system.or(earlier.file_system),
            code_execution: later.code_execution.or(earlier.code_execution),
            network: later.network.or(earlier.network),
            network_allowlist: later.network_allowlist.or(earlier.network_allowlist),
            git: later.git.or(earlier.git),
            terminal: later.terminal.or(earlier.terminal),
            requires_approval: match (earlier.requires_approval, later.requires_approval) {
                (Some(earlier), Some(later)) => Some(earlier.into_iter().chain(later).collect()),
                (one, other) => one.or(other),
            },
        };
    }
}

/// Adds lists to lists. An entry that is there already keeps the line that named it first.
pub(super) fn add_rules(rules: &mut Rules, layer: RulesLayer, findings: &Findings) {
    add(&mut rules.denied, layer.denied, findings);
    add(&mut rules.ask, layer.ask, findings);
    add(&mut rules.allowed, layer.allowed, findings);
    for (class, people) in layer.classes {
        if rules.ask_classes.get(&class).is_none_or(|known| known.value < people.value) {
            rules.ask_classes.insert(class, findings.sourced(people));
        }
    }
}

/// Adds rules to rules. They only tighten, so anybody's may be added.
pub(super) fn add_resources(held: &mut Resources, new: Resources) {
    held.files.extend(new.files);
    held.hosts.extend(new.hosts);
}

fn add(listed: &mut Listed, layer: ListedLayer, findings: &Findings) {
    for tool in layer.tools {
        let source = findings.source(tool.spot);
        listed.tools.entry(tool.value).or_insert(source);
    }
    for actions in layer.actions {
        for action in actions.value {
            listed.actions.entry(action).or_insert_with(|| findings.source(actions.spot));
        }
    }
}

/// Puts constraints over those that hold, as far as the bound lets them.
pub(super) fn overlay(held: &mut Constraints, layer: ConstraintsLayer, bound: &Bound<'_>, findings: &mut Findings) {
    let mode_before = held.network.value;
    set("file_system", &mut held.file_system, layer.file_system, bound, findings);
    set("code_execution", &mut held.code_execution, layer.code_execution, bound, findings);
    set("network", &mut held.network, layer.network, bound, findings);
    set("git", &mut held.git, layer.git, bound, findings);
    set("terminal", &mut held.terminal, layer.terminal, bound, findings);
    if let Some(hosts) = layer.network_allowlist {
        set_allowlist(held, mode_before, hosts, bound, findings);
    }
    for actions in layer.requires_approval.into_iter().flatten() {
        for action in actions.value {
            held.requires_approval.entry(action).or_insert_with(|| findings.source(actions.spot));
        }
    }
}

fn set<T: Dimension>(
    key: &str,
    held: &mut Sourced<T>,
    said: Option<Said<T>>,
    bound: &Bound<'_>,
    findings: &mut Findings,
) {
    let Some(said) = said else { return };
    let wanted = format!("{key}: {}", said.value.word());
    if said.value > held.value
        && let Some((message, remedy)) = bound.loosens(&wanted, held.value.word(), &held.source, said.spot, findings)
    {
        findings.error(said.spot, message, remedy);
        return;
    }
    *held = findings.sourced(said);
}

fn set_allowlist(
    held: &mut Constraints,
    mode_before: NetworkMode,
    hosts: Vec<Said<String>>,
    bound: &Bound<'_>,
    findings: &mut Findings,
) {
    if let Some(first) = hosts.first().filter(|_| held.network.value == NetworkMode::Open) {
        let message = format!("an allowlist limits nothing while `network` is `open` ({})", held.network.source);
        findings.error(first.spot, message, "Write `network: allowlist_only` beside it.");
        return;
    }
    // A list of its own is what an agent at `allowlist_only` is meant to have; a level that comes with a list, or
    // a list that stood before an untrusted file, is a ceiling.
    let ceiling = match bound {
        Bound::Free => None,
        Bound::Level(..) => Some(&held.network_allowlist).filter(|list| !list.is_empty()),
        Bound::Untrusted => Some(&held.network_allowlist).filter(|_| mode_before != NetworkMode::Open),
    };
    let names: Vec<&str> = ceiling.into_iter().flatten().map(|entry| &*entry.value).collect();
    let names = if names.is_empty() { "no host".to_owned() } else { names.join("`, `") };
    let source = ceiling.and_then(|list| list.first()).map_or(&held.network.source, |entry| &entry.source);
    let mut is_looser = false;
    for host in &hosts {
        if ceiling.is_some_and(|list| !covers(list, &host.value))
            && let Some((message, remedy)) = bound.loosens(&host.value, &names, source, host.spot, findings)
        {
            findings.error(host.spot, message, remedy);
            is_looser = true;
        }
    }
    if is_looser {
        return;
    }
    held.network_allowlist = hosts.into_iter().map(|host| findings.sourced(host)).collect();
}

/// Is this host on the list, with its port or as a whole?
pub(super) fn covers(list: &[Sourced<String>], host: &str) -> bool {
    let whole = host.split(':').next().unwrap_or(host);
    list.iter().any(|entry| entry.value == host || entry.value == whole)
}

impl Bound<'_> {
    /// What to say about a value that is looser than what is held; nothing where that is fine.
    fn loosens(
        &self,
        wanted: &str,
        held: &str,
        source: &SourceLine,
        spot: Spot,
        findings: &Findings,
    ) -> Option<(String, String)> {
        match self {
            Self::Free => None,
            Self::Level(agent, level) => Some((
                format!(
                    "`{wanted}` of agent `{agent}` is looser than its level: `{level}` permits `{held}` ({source})"
                ),
                format!("Write `{held}` or something tighter, or give the agent `level: custom`."),
            )),
            Self::Untrusted => Some((
                format!("`{wanted}` would loosen what holds now: `{held}` ({source})"),
                super::tighten::remedy(spot, findings),
            )),
        }
    }
}
