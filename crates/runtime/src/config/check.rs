//! From the text of one file to checked values. Pure: nothing is opened, and every wrong word is reported.

use std::{borrow::Cow, collections::BTreeSet, ops::RangeInclusive};

use toolgate_contract::{
    ActionRegistry, ActionType, AgentName, BadAction, CALL_TOOL, Level, Limit, Permission, Risk, SafetyClass,
};
use toolgate_gate::{
    CodeIsolation, FileScope, FlowMode, GitLevel, NetworkMode, OriginWanted, Policy, Resources, TerminalMode,
    condition::{Condition, ConditionError},
};
use toolgate_guard::shell::profiles::Profile;

use super::{
    Limits,
    commands::{self, CommandRule},
    connections::{self, Connection},
    containers::{self, ContainersLayer},
    disclosure::{self, Disclosing, DisclosureLayer},
    egress::{self, EgressLayer},
    file::{
        AgentFile, AskFile, ConfigFile, ConstraintsFile, LevelFile, LimitsFile, ListedFile, PermissionFile, RulesFile,
        ToolFile,
    },
    findings::{Findings, Said, Spot},
    flow::{self, FlowLayer},
    load::{At, Entries, ListOr, Mark, Outline, WordOr, instead},
    people::{self, ApprovalsLayer, AutonomyLayer},
    resources::{self, Opened},
    rooms::{self, RoomsLayer},
    rules::{self, CallRule},
    sandboxing::{self, Sandboxing},
    servers::{self, ServerLayers},
    trust::{self, TrustLayer},
    words::{Port, parse_host},
};
use crate::definitions::FirstSight;

/// The checked values of one file.
#[derive(Debug, Default)]
pub(super) struct Layer {
    pub(super) rules: RulesLayer,
    pub(super) resources: Resources,
    pub(super) calls: Vec<CallRule>,
    pub(super) tools: Vec<(String, Said<Permission>)>,
    pub(super) agents: Vec<(Said<AgentName>, AgentLayer)>,
    pub(super) max_concurrency: Option<Said<usize>>,
    pub(super) max_input_bytes: Option<Said<usize>>,
    pub(super) protected: Vec<Said<String>>,
    pub(super) commands: Vec<CommandRule>,
    pub(super) sandboxing: Sandboxing,
    pub(super) rooms: RoomsLayer,
    pub(super) containers: ContainersLayer,
    pub(super) egress: EgressLayer,
    pub(super) flow: FlowLayer,
    pub(super) redact_personal_data: Option<Said<bool>>,
    pub(super) first_sight: Option<Said<FirstSight>>,
    pub(super) disclosure: DisclosureLayer,
    pub(super) levels: Vec<(Level, LevelLayer)>,
    pub(super) trust: TrustLayer,
    pub(super) autonomy: AutonomyLayer,
    pub(super) approvals: ApprovalsLayer,
    pub(super) connections: Vec<(Said<String>, Connection)>,
    pub(super) servers: ServerLayers,
    /// Every tool name in the file, for the day the catalog is known.
    pub(super) mentions: Vec<Said<String>>,
    /// The blocks that only a trusted file may have.
    pub(super) trusted_blocks: Vec<Said<&'static str>>,
}

/// Lists of one file or one agent.
#[derive(Debug, Default)]
pub(super) struct RulesLayer {
    pub(super) denied: ListedLayer,
    pub(super) ask: ListedLayer,
    pub(super) classes: Vec<(SafetyClass, Said<u8>)>,
    pub(super) allowed: ListedLayer,
}

#[derive(Debug, Default)]
pub(super) struct ListedLayer {
    pub(super) tools: Vec<Said<String>>,
    pub(super) actions: Vec<Said<BTreeSet<ActionType>>>,
}

#[derive(Debug, Default)]
pub(super) struct AgentLayer {
    pub(super) level: Option<Said<Level>>,
    pub(super) roles: Option<Said<BTreeSet<String>>>,
    pub(super) workspace: Option<Said<String>>,
    pub(super) directories: Vec<Said<Opened>>,
    pub(super) resources: Resources,
    pub(super) profile: Option<Said<Profile>>,
    pub(super) rules: RulesLayer,
    pub(super) constraints: ConstraintsLayer,
    pub(super) autonomy: Option<Said<String>>,
    pub(super) budget: Vec<Said<Limit>>,
}

#[derive(Debug, Default)]
pub(super) struct LevelLayer {
    pub(super) description: Option<String>,
    pub(super) deployment: Option<Said<bool>>,
    pub(super) constraints: ConstraintsLayer,
}

#[derive(Debug, Default)]
pub(super) struct ConstraintsLayer {
    pub(super) file_system: Option<Said<FileScope>>,
    pub(super) code_execution: Option<Said<CodeIsolation>>,
    pub(super) network: Option<Said<NetworkMode>>,
    pub(super) network_allowlist: Option<Vec<Said<String>>>,
    pub(super) git: Option<Said<GitLevel>>,
    pub(super) terminal: Option<Said<TerminalMode>>,
    pub(super) requires_approval: Option<Vec<Said<BTreeSet<ActionType>>>>,
}

/// One of the scales of `toolgate_gate::Constraints`: earlier values permit less.
pub(super) trait Dimension: Copy + Ord + 'static {
    const VALUES: &'static [Self];
    fn word(self) -> &'static str;
}

macro_rules! dimensions {
    ($($name:ident)*) => {
        $(impl Dimension for $name {
            const VALUES: &'static [Self] = $name::ALL;

            fn word(self) -> &'static str {
                self.as_str()
            }
        })*
    };
}

dimensions! { FileScope CodeIsolation NetworkMode GitLevel TerminalMode FlowMode OriginWanted FirstSight Disclosing }

/// Adds the actions a file registers. All files register before any is checked, so that `all` means all.
pub(super) fn register(file: &ConfigFile, number: usize, findings: &mut Findings, actions: &mut ActionRegistry) {
    for (name, risk) in entries(&file.actions) {
        let at = |mark| Spot { file: number, mark };
        let Some(known) = Risk::parse(&risk.value) else {
            let remedy = instead(&risk.value, Risk::ALL.iter().map(|risk| risk.as_str()));
            findings.error(at(risk.mark), format!("unknown risk `{}`", risk.value), remedy);
            continue;
        };
        let remedy = match actions.register(&name.value, known) {
            Ok(_) => continue,
            Err(BadAction::Taken(_)) => "Remove the line, or choose another name.",
            Err(_) => "Write `group:action` in lower case, such as `payroll:run`.",
        };
        let message = match actions.parse(&name.value) {
            Ok(_) => format!("action type `{}` is there already", name.value),
            Err(_) => format!("`{}` is not the name of an action type", name.value),
        };
        findings.error(at(name.mark), message, remedy);
    }
}

/// One file under check.
pub(super) struct Check<'a> {
    pub(super) findings: &'a mut Findings,
    pub(super) file: usize,
    actions: &'a ActionRegistry,
    outline: Outline,
    mentions: Vec<Said<String>>,
}

impl<'a> Check<'a> {
    pub(super) fn new(file: usize, findings: &'a mut Findings, actions: &'a ActionRegistry) -> Self {
        let outline = findings.texts.get(file).map(|text| Outline::of(&text.text)).unwrap_or_default();
        Self { findings, file, actions, outline, mentions: Vec::new() }
    }

    /// Checks the whole file.
    pub(super) fn layer(mut self, file: &ConfigFile) -> Layer {
        self.version(file.version.as_ref());
        let (max_concurrency, max_input_bytes) = self.limits(file.limits.as_ref());
        let mut layer = Layer {
            rules: file.policy.as_ref().map(|rules| self.rules(rules)).unwrap_or_default(),
            resources: file
                .policy
                .as_ref()
                .map(|policy| resources::check(&mut self, policy.files.as_deref(), policy.hosts.as_deref()))
                .unwrap_or_default(),
            calls: file
                .policy
                .as_ref()
                .and_then(|policy| policy.rules.as_deref())
                .map(|written| rules::check(&mut self, written))
                .unwrap_or_default(),
            tools: entries(&file.tools).filter_map(|(name, tool)| self.tool(name, tool)).collect(),
            agents: entries(&file.agents).filter_map(|(name, agent)| self.agent(name, agent)).collect(),
            max_concurrency,
            max_input_bytes,
            protected: self.protected(file.protected.as_deref().unwrap_or_default()),
            commands: commands::check(&mut self, file.commands.as_deref().unwrap_or_default()),
            rooms: file
                .sandboxing
                .as_ref()
                .and_then(|block| block.subprocess.as_ref())
                .map(|block| rooms::check(&mut self, block))
                .unwrap_or_default(),
            containers: file
                .sandboxing
                .as_ref()
                .and_then(|block| block.docker.as_ref())
                .map(|block| containers::check(&mut self, block))
                .unwrap_or_default(),
            sandboxing: file.sandboxing.as_ref().map(|block| sandboxing::check(&mut self, block)).unwrap_or_default(),
            egress: egress::check(&mut self, file.egress.as_ref(), file.search.as_ref()),
            flow: flow::check(&mut self, file.information_flow.as_ref()),
            redact_personal_data: file.redact_personal_data.as_ref().map(|on| self.said(on)),
            first_sight: self
                .dimension("first_sight", file.definitions.as_ref().and_then(|it| it.first_sight.as_ref())),
            disclosure: file.disclosure.as_ref().map(|block| disclosure::check(&mut self, block)).unwrap_or_default(),
            levels: self.levels(file),
            trust: file.trust.as_ref().map(|block| trust::check(&mut self, block)).unwrap_or_default(),
            autonomy: file.autonomy.as_ref().map(|block| people::check_autonomy(&mut self, block)).unwrap_or_default(),
            approvals: file
                .approvals
                .as_ref()
                .map(|block| people::check_approvals(&mut self, block))
                .unwrap_or_default(),
            connections: connections::check(&mut self, &file.connections),
            servers: servers::check(&mut self, &file.mcp_servers),
            trusted_blocks: self.trusted_blocks(file),
            mentions: Vec::new(),
        };
        layer.mentions = self.mentions;
        layer
    }

    fn version(&mut self, version: Option<&At<u64>>) {
        if let Some(version) = version.filter(|version| version.value != 1) {
            self.error(version.mark, format!("config version {} is not known", version.value), "Write `version: 1`.");
        }
    }

    fn trusted_blocks(&self, file: &ConfigFile) -> Vec<Said<&'static str>> {
        let sandboxing = file.sandboxing.as_ref();
        let blocks: [(&[&str], &str, bool); 10] = [
            (&["actions"], "actions", file.actions.is_some()),
            (&["sandboxing", "k8s"], "k8s", sandboxing.is_some_and(|block| block.k8s.is_some())),
            (&["egress"], "egress", file.egress.is_some()),
            (&["disclosure"], "disclosure", file.disclosure.is_some()),
            (&["search"], "search", file.search.is_some()),
            (&["tool_access"], "tool_access", file.tool_access.is_some()),
            (&["trust"], "trust", file.trust.is_some()),
            (&["autonomy"], "autonomy", file.autonomy.is_some()),
            (&["approvals"], "approvals", file.approvals.is_some()),
            (&["connections"], "connections", file.connections.is_some()),
        ];
        let there = blocks.into_iter().filter(|(_, _, there)| *there);
        there.map(|(path, name, _)| Said { value: name, spot: self.spot(self.key(path)) }).collect()
    }

    // ---- lists ----

    fn rules(&mut self, rules: &RulesFile) -> RulesLayer {
        self.three_lists(rules.denied.as_ref(), rules.ask.as_ref(), rules.allowed.as_ref())
    }

    fn three_lists(
        &mut self,
        denied: Option<&ListedFile>,
        ask: Option<&AskFile>,
        allowed: Option<&ListedFile>,
    ) -> RulesLayer {
        let listed = |this: &mut Self, list: Option<&ListedFile>| {
            list.map(|list| this.listed(list.tools.as_deref(), list.actions.as_deref())).unwrap_or_default()
        };
        RulesLayer {
            denied: listed(self, denied),
            ask: ask.map(|ask| self.asked(ask)).unwrap_or_default(),
            classes: ask.and_then(|ask| ask.classes.as_ref()).map(|list| self.classes(list)).unwrap_or_default(),
            allowed: listed(self, allowed),
        }
    }

    fn listed(&mut self, tools: Option<&[At<String>]>, actions: Option<&[At<String>]>) -> ListedLayer {
        let tools = tools.unwrap_or_default().iter().map(|name| self.mention(name)).collect();
        let actions = actions.unwrap_or_default().iter().filter_map(|entry| self.expand(entry)).collect();
        ListedLayer { tools, actions }
    }

    fn asked(&mut self, ask: &AskFile) -> ListedLayer {
        ask.tools.iter().flatten().for_each(|name| self.can_be_asked_about(name));
        self.listed(ask.tools.as_deref(), ask.actions.as_deref())
    }

    /// A yes to a call that becomes another one could not be used. What means this tool without naming it, such as `*`, is the
    /// gate's to refuse.
    pub(super) fn can_be_asked_about(&mut self, name: &At<String>) {
        if name.value == CALL_TOOL {
            let message = format!("nobody can be asked about `{CALL_TOOL}`: a call of it is one of the tool it names");
            self.error(name.mark, message, "Ask about the tools it calls, or put it on a `denied` list.");
        }
    }

    /// Tools whose names begin alike, or one tool.
    pub(super) fn mention_some(&mut self, name: &At<String>) -> Said<String> {
        let said = self.said(name);
        self.mentions.push(said.clone());
        said
    }

    pub(super) fn mention(&mut self, name: &At<String>) -> Said<String> {
        if name.value.ends_with('*') {
            let message = format!("`{}` is no tool: a `*` stands for tools in `policy.rules` only", name.value);
            self.error(name.mark, message, "Write the names of the tools, or a rule under `policy.rules`.");
        }
        let said = self.said(name);
        self.mentions.push(said.clone());
        said
    }

    pub(super) fn expand(&mut self, entry: &At<String>) -> Option<Said<BTreeSet<ActionType>>> {
        // No action has so long a name, and looking for the nearest one would take its time.
        let name = if entry.value.len() > 200 { "" } else { &entry.value };
        match self.actions.expand(name) {
            Ok(actions) => Some(Said { value: actions, spot: self.spot(entry.mark) }),
            Err(error) => {
                let remedy = match error {
                    BadAction::Unknown { nearest: Some(word), .. } => format!("Write `{word}`."),
                    _ => "Write an action such as `code:read`, a group such as `code`, or `all`; register your own \
                          under `actions`."
                        .into(),
                };
                self.error(entry.mark, format!("unknown action `{}`", entry.value), remedy);
                None
            }
        }
    }

    fn classes(&mut self, classes: &ListOr<At<u64>>) -> Vec<(SafetyClass, Said<u8>)> {
        match classes {
            ListOr::List(names) => names
                .iter()
                .filter_map(|name| {
                    let class = self.class(name)?;
                    Some((class, Said { value: built_in_people(class).max(1), spot: self.spot(name.mark) }))
                })
                .collect(),
            ListOr::Mapping(Entries(pairs)) => pairs
                .iter()
                .filter_map(|(name, people)| {
                    let class = self.class(name)?;
                    Some((class, self.people(class, people)?))
                })
                .collect(),
        }
    }

    pub(super) fn class(&mut self, name: &At<String>) -> Option<SafetyClass> {
        let class = SafetyClass::parse(&name.value);
        if class.is_none() {
            self.unknown("safety class", name, SafetyClass::ALL.iter().map(|class| class.as_str()));
        }
        class
    }

    fn people(&mut self, class: SafetyClass, people: &At<u64>) -> Option<Said<u8>> {
        let floor = built_in_people(class);
        let said = self.whole(class.as_str(), Some(people), 1..=10)?;
        let value = u8::try_from(said.value).ok()?;
        if value < floor {
            let message = format!("class `{class}` always asks {floor} people; {value} would be fewer");
            self.error(people.mark, message, format!("Write `{class}: {floor}` or more, or leave it out."));
            return None;
        }
        Some(Said { value, spot: said.spot })
    }

    // ---- tools ----

    fn tool(&mut self, name: &At<String>, tool: &ToolFile) -> Option<(String, Said<Permission>)> {
        let said = self.mention(name);
        let written = tool.permission.as_ref()?;
        let value = match &written.value {
            WordOr::Word(word) => self.permission_word(word, written.mark)?,
            WordOr::Mapping(mapping) => self.permission_mapping(mapping, written.mark)?,
        };
        if value == Permission::Confirm {
            self.can_be_asked_about(name);
        }
        Some((said.value, Said { value, spot: self.spot(written.mark) }))
    }

    fn permission_word(&mut self, word: &str, mark: Mark) -> Option<Permission> {
        match word {
            "allow" => Some(Permission::Allow),
            "confirm" => Some(Permission::Confirm),
            "deny" => Some(Permission::Deny),
            _ => {
                let mut remedy = instead(word, ["allow", "confirm", "deny"]);
                remedy.push_str(" Or `{roles: [..]}`, or `{condition: \"..\"}`.");
                self.error(mark, format!("unknown permission `{word}`"), remedy);
                None
            }
        }
    }

    fn permission_mapping(&mut self, mapping: &PermissionFile, mark: Mark) -> Option<Permission> {
        match (&mapping.roles, &mapping.condition) {
            (Some(roles), None) if roles.is_empty() => {
                self.error(mark, "no agent has one of no roles", "Name a role, or write `permission: deny`.");
                None
            }
            (Some(roles), None) => {
                let roles = roles.iter().filter_map(|role| self.name("role", role)).map(Cow::Owned).collect();
                Some(Permission::Roles(roles))
            }
            (None, Some(condition)) => self.condition(condition),
            (Some(_), Some(_)) => {
                let remedy = "Keep one of them; a condition may say `\"admin\" in agent.roles`.";
                self.error(mark, "a permission has roles or a condition, not both", remedy);
                None
            }
            (None, None) => {
                self.error(
                    mark,
                    "this permission says nothing",
                    "Write `allow`, `confirm`, `deny`, roles or a condition.",
                );
                None
            }
        }
    }

    // ---- agents and levels ----

    fn agent(&mut self, name: &At<String>, agent: &AgentFile) -> Option<(Said<AgentName>, AgentLayer)> {
        let known = self.name("agent", name)?;
        let layer = AgentLayer {
            level: agent.level.as_ref().and_then(|level| self.level(level)),
            roles: agent.roles.as_deref().map(|roles| {
                let mark = roles.first().map_or(name.mark, |role| role.mark);
                let value = roles.iter().filter_map(|role| self.name("role", role)).collect();
                Said { value, spot: self.spot(mark) }
            }),
            workspace: agent.workspace.as_ref().and_then(|path| self.workspace(path)),
            directories: resources::directories(self, agent.directories.as_deref()),
            resources: resources::check(self, agent.files.as_deref(), agent.hosts.as_deref()),
            profile: agent.profile.as_ref().and_then(|profile| commands::profile(self, profile)),
            rules: self.three_lists(agent.denied.as_ref(), agent.ask.as_ref(), agent.allowed.as_ref()),
            constraints: agent.constraints.as_ref().map(|given| self.constraints(given)).unwrap_or_default(),
            autonomy: agent.autonomy.as_ref().map(|name| self.said(name)),
            budget: agent.budget.as_ref().map(|given| people::check_budget(self, given)).unwrap_or_default(),
        };
        Some((Said { value: AgentName::from(&*known), spot: self.spot(name.mark) }, layer))
    }

    /// A name of the operator's own: it ends up in records, in commands and on screens.
    pub(super) fn name(&mut self, what: &str, name: &At<String>) -> Option<String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.value.is_empty() || name.value.len() > 64 || !name.value.chars().all(fits) {
            let message =
                format!("`{}` is not a name for {} {what}", name.value, if what == "agent" { "an" } else { "a" });
            self.error(name.mark, message, "Write at most 64 letters, digits, `_`, `-` or `.`.");
            return None;
        }
        Some(name.value.clone())
    }

    /// A person: a name, or `user:` and the name of a user of this machine.
    pub(super) fn person(&mut self, name: &At<String>) -> Option<String> {
        let plain = name.value.strip_prefix("user:").unwrap_or(&name.value);
        self.name("person", &At { value: plain.to_owned(), mark: name.mark })?;
        Some(name.value.clone())
    }

    pub(super) fn level(&mut self, level: &At<String>) -> Option<Said<Level>> {
        let known = Level::parse(&level.value);
        if known.is_none() {
            self.unknown("level", level, Level::ALL.iter().map(|level| level.as_str()));
        }
        known.map(|value| Said { value, spot: self.spot(level.mark) })
    }

    pub(super) fn workspace(&mut self, path: &At<String>) -> Option<Said<String>> {
        if path.value.trim().is_empty() {
            self.error(path.mark, "the workspace is empty", "Write a directory; `.` is the one this file is in.");
            return None;
        }
        if path.value.starts_with('~') {
            let remedy = "Write the whole path, or one relative to this file.";
            self.error(path.mark, "`~` does not stand for a home directory here", remedy);
            return None;
        }
        Some(self.said(path))
    }

    fn levels(&mut self, file: &ConfigFile) -> Vec<(Level, LevelLayer)> {
        let Some(levels) = file.tool_access.as_ref().map(|block| &block.levels) else {
            return Vec::new();
        };
        entries(levels)
            .filter_map(|(name, level)| {
                let known = self.level(name)?.value;
                Some((known, self.level_rights(level)))
            })
            .collect()
    }

    fn level_rights(&mut self, level: &LevelFile) -> LevelLayer {
        let constraints = ConstraintsFile {
            file_system: level.file_system.clone(),
            code_execution: level.code_execution.clone(),
            network: level.network.clone(),
            network_allowlist: level.network_allowlist.clone(),
            git: level.git.clone(),
            terminal: level.terminal.clone(),
            requires_approval: level.requires_approval.clone(),
        };
        LevelLayer {
            description: level.description.as_ref().map(|text| text.value.clone()),
            deployment: level.deployment.as_ref().map(|there| self.said(there)),
            constraints: self.constraints(&constraints),
        }
    }

    fn constraints(&mut self, given: &ConstraintsFile) -> ConstraintsLayer {
        ConstraintsLayer {
            file_system: self.dimension("file_system", given.file_system.as_ref()),
            code_execution: self.dimension("code_execution", given.code_execution.as_ref()),
            network: self.dimension("network", given.network.as_ref()),
            network_allowlist: given.network_allowlist.as_deref().map(|hosts| self.hosts(hosts, Port::Optional)),
            git: self.dimension("git", given.git.as_ref()),
            terminal: self.dimension("terminal", given.terminal.as_ref()),
            requires_approval: given
                .requires_approval
                .as_deref()
                .map(|words| words.iter().filter_map(|word| self.approval(word)).collect()),
        }
    }

    pub(super) fn dimension<T: Dimension>(&mut self, key: &str, word: Option<&At<String>>) -> Option<Said<T>> {
        let word = word?;
        let known = T::VALUES.iter().copied().find(|value| value.word() == word.value);
        if known.is_none() {
            self.unknown(&format!("value for `{key}`:"), word, T::VALUES.iter().map(|value| value.word()));
        }
        known.map(|value| Said { value, spot: self.spot(word.mark) })
    }

    pub(super) fn hosts(&mut self, hosts: &[At<String>], port: Port) -> Vec<Said<String>> {
        hosts
            .iter()
            .filter_map(|host| match parse_host(&host.value, port) {
                Ok(value) => Some(Said { value, spot: self.spot(host.mark) }),
                Err((message, remedy)) => {
                    self.error(host.mark, message, remedy);
                    None
                }
            })
            .collect()
    }

    /// `deployment` and `database_write` are words of their own; the rest are actions, groups or `all`.
    fn approval(&mut self, word: &At<String>) -> Option<Said<BTreeSet<ActionType>>> {
        let actions = match word.value.as_str() {
            "deployment" => {
                let deploy = At { value: "deploy".to_owned(), mark: word.mark };
                return self.expand(&deploy);
            }
            "database_write" => [ActionType::DbMutate, ActionType::DbAdmin].into(),
            _ => return self.expand(word),
        };
        Some(Said { value: actions, spot: self.spot(word.mark) })
    }

    // ---- the rest ----

    fn limits(&mut self, limits: Option<&LimitsFile>) -> (Option<Said<usize>>, Option<Said<usize>>) {
        let Some(limits) = limits else {
            return (None, None);
        };
        let concurrency = self.whole("max_concurrency", limits.max_concurrency.as_ref(), 1..=Limits::MOST_CONCURRENCY);
        let bytes = self.whole("max_input_bytes", limits.max_input_bytes.as_ref(), 1_024..=Limits::MOST_INPUT_BYTES);
        let usize = |said: Said<u64>| Some(Said { value: usize::try_from(said.value).ok()?, spot: said.spot });
        (concurrency.and_then(usize), bytes.and_then(usize))
    }

    fn protected(&mut self, names: &[At<String>]) -> Vec<Said<String>> {
        names
            .iter()
            .filter_map(|name| {
                let parts: Vec<&str> = name.value.trim_end_matches('/').split('/').collect();
                let odd = parts.iter().any(|part| part.is_empty() || *part == "." || *part == "..");
                if odd || name.value.contains(['\\', '\0']) || name.value.starts_with('~') {
                    let message = format!("`{}` is not a name inside a workspace", name.value);
                    self.error(name.mark, message, "Write a relative path without `.` and `..`, such as `secrets/`.");
                    return None;
                }
                Some(self.said(name))
            })
            .collect()
    }

    fn condition(&mut self, text: &At<String>) -> Option<Permission> {
        let Err(error) = Condition::parse(&text.value) else {
            return Some(Permission::Condition(Cow::Owned(text.value.clone())));
        };
        self.bad_condition(text, &error);
        None
    }

    pub(super) fn bad_condition(&mut self, text: &At<String>, error: &ConditionError) {
        let mark = self.inside(text, error.offset);
        let remedy = "Compare what is known of a call, such as `agent.level == \"elevated\"` or `args.path`.";
        self.error(mark, format!("the condition cannot be read: {}", error.message), remedy);
    }

    /// The place of a byte inside a text; of the text as a whole where escapes hide which column that is.
    fn inside(&self, text: &At<String>, offset: usize) -> Mark {
        let quotes = match text.mark.width.checked_sub(text.value.chars().count()) {
            Some(0) => 0,
            Some(2) => 1,
            _ => return text.mark,
        };
        let before = text.value.get(..offset).map_or(0, |text| text.chars().count());
        Mark { line: text.mark.line, column: text.mark.column + (quotes + before) as u64, width: 1 }
    }

    // ---- saying where ----

    pub(super) fn error(&mut self, mark: Mark, message: impl Into<String>, remedy: impl Into<String>) {
        self.findings.error(self.spot(mark), message, remedy);
    }

    /// An error about a place where a secret may stand: the line is shown up to there.
    pub(super) fn hidden_error(&mut self, mark: Mark, message: impl Into<String>, remedy: impl Into<String>) {
        self.findings.hidden_error(self.spot(mark), message, remedy);
    }

    pub(super) fn note(&mut self, mark: Mark, text: impl Into<String>) {
        self.findings.note(self.spot(mark), text);
    }

    pub(super) fn spot(&self, mark: Mark) -> Spot {
        Spot { file: self.file, mark }
    }

    pub(super) fn said<T: Clone>(&self, at: &At<T>) -> Said<T> {
        Said { value: at.value.clone(), spot: self.spot(at.mark) }
    }

    /// Where the key at the end of this path is written.
    pub(super) fn key(&self, path: &[&str]) -> Mark {
        self.outline.key(path)
    }

    pub(super) fn unknown<'w>(&mut self, what: &str, word: &At<String>, known: impl IntoIterator<Item = &'w str>) {
        let remedy = instead(&word.value, known);
        self.error(word.mark, format!("unknown {what} `{}`", word.value), remedy);
    }

    /// A whole number inside a range.
    pub(super) fn whole(
        &mut self,
        key: &str,
        number: Option<&At<u64>>,
        range: RangeInclusive<u64>,
    ) -> Option<Said<u64>> {
        let number = number?;
        if !range.contains(&number.value) {
            let message = format!("`{key}: {}` is out of range", number.value);
            self.error(
                number.mark,
                message,
                format!("Write a whole number from {} to {}.", range.start(), range.end()),
            );
            return None;
        }
        Some(self.said(number))
    }

    /// A number inside a range. What is not a number at all is in no range.
    pub(super) fn number(&mut self, key: &str, number: Option<&At<f64>>, range: RangeInclusive<f64>) -> Option<f64> {
        let number = number?;
        if !range.contains(&number.value) {
            let message = format!("`{key}: {}` is out of range", number.value);
            self.error(number.mark, message, format!("Write a number from {} to {}.", range.start(), range.end()));
            return None;
        }
        Some(number.value)
    }
}

/// How many people the built-in policy asks about a class.
fn built_in_people(class: SafetyClass) -> u8 {
    Policy::built_in().rules.ask_classes.get(&class).map_or(0, |people| people.value)
}

pub(super) fn entries<T>(entries: &Option<Entries<T>>) -> impl Iterator<Item = (&At<String>, &T)> {
    entries.iter().flat_map(|Entries(pairs)| pairs.iter().map(|(key, value)| (key, value)))
}
