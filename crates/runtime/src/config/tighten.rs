//! A project's file that nobody vouches for: it may make the configuration tighter, and nothing else.
//!
//! It is applied to a finished configuration, so "tighter" is a comparison with what really holds. Whatever is not
//! known to be tighter is refused, with the line.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use toolgate_contract::{Category, Level, Permission};
use toolgate_gate::{Agent, Constraints, LevelRights, NetworkMode, Policy, Resources, Sourced, TerminalMode, Word};
use toolgate_guard::shell::profiles::Profile;

use super::{
    Config,
    check::{AgentLayer, Dimension, Layer, RulesLayer},
    commands,
    findings::{Findings, Said, Spot},
    merge::{Bound, add_resources, add_rules, covers, overlay},
    people,
    rooms::Voice,
    servers, trust,
};

/// Applies an untrusted file.
pub(super) fn tighten(config: &mut Config, layer: Layer, findings: &mut Findings) {
    for block in &layer.trusted_blocks {
        refuse(block.spot, &format!("`{}`", block.value), findings);
    }
    rules(&layer.rules, findings);
    add_rules(&mut config.policy.rules, layer.rules, findings);
    add_resources(&mut config.policy.resources, layer.resources);
    config.rules.tighten(&mut config.policy.book, layer.calls, findings);
    for (name, permission) in layer.tools {
        tool(&mut config.policy, name, permission, findings);
    }
    for (name, agent) in layer.agents {
        match config.policy.agents.get(&name.value).cloned() {
            None => refuse(name.spot, &format!("a new agent, `{}`,", name.value), findings),
            Some(mut known) => {
                let workspace = config.agents.get(&name.value).map(|settings| settings.workspace.as_path());
                tighten_agent(&mut known, agent, workspace, &config.policy, findings);
                config.policy.agents.insert(name.value, known);
            }
        }
    }
    limit("max_concurrency", &mut config.limits.max_concurrency, layer.max_concurrency, findings);
    limit("max_input_bytes", &mut config.limits.max_input_bytes, layer.max_input_bytes, findings);
    config.protected.extend(layer.protected.into_iter().map(|name| name.value));
    commands::add(&mut config.policy.commands, layer.commands, findings);
    layer.sandboxing.tighten(&mut config.places, findings);
    layer.rooms.apply(&mut config.rooms, Voice::Untrusted, findings);
    layer.containers.apply(&mut config.containers, Voice::Untrusted, findings);
    config.mentions.arguments.extend(layer.flow.arguments.iter().cloned());
    layer.flow.tighten(&mut config.policy, findings);
    if let Some(on) = layer.redact_personal_data {
        match !on.value && config.redact_personal_data.value {
            true => refuse(on.spot, "`redact_personal_data: false`", findings),
            false => config.redact_personal_data = findings.sourced(on),
        }
    }
    if let Some(first_sight) = layer.first_sight {
        match first_sight.value < config.first_sight.value {
            true => refuse(first_sight.spot, &format!("`first_sight: {}`", first_sight.value), findings),
            false => config.first_sight = findings.sourced(first_sight),
        }
    }
    servers::tighten(&mut config.servers, layer.servers, findings);
    config.mentions.names.extend(layer.mentions);
}

/// Applies a trusted file once more, below the administrator's: where it is tighter it holds, and the rest of it counts
/// for nothing. Its lists are there already.
pub(super) fn tighten_again(config: &mut Config, layer: Layer, said: &mut Findings) {
    let (mentions, protected) = (config.mentions.clone(), config.protected.clone());
    let agents = layer.agents.into_iter().map(|(name, agent)| {
        let (rules, resources) = (RulesLayer::default(), Resources::default());
        (name, AgentLayer { rules, resources, ..agent })
    });
    let single = Layer {
        rules: RulesLayer::default(),
        resources: Resources::default(),
        calls: Vec::new(),
        commands: Vec::new(),
        servers: layer.servers.into_iter().filter(|(_, server)| server.is_less()).collect(),
        agents: agents.collect(),
        ..layer
    };
    tighten(config, single, said);
    (config.mentions, config.protected) = (mentions, protected);
    for agent in config.policy.agents.values_mut() {
        let mut known = Vec::new();
        agent.budget.retain(|limit| {
            !known.contains(limit) && {
                known.push(limit.clone());
                true
            }
        });
    }
}

/// What to do about a file that asks for more than an untrusted one may.
pub(super) fn remedy(spot: Spot, findings: &Findings) -> String {
    let name = findings.texts.get(spot.file).map_or("FILE", |text| &text.name);
    format!("Read the file, then run `toolgate check --trust {name}`; or remove this line.")
}

/// Says that a line asks for more than an untrusted file may.
pub(super) fn refuse(spot: Spot, what: &str, findings: &mut Findings) {
    let remedy = remedy(spot, findings);
    findings.error(spot, format!("{what} is not for a file that is not trusted yet: it may only tighten"), remedy);
}

/// Denied and asked entries tighten; allowed ones never do.
fn rules(layer: &RulesLayer, findings: &mut Findings) {
    for tool in &layer.allowed.tools {
        refuse(tool.spot, &format!("the `allowed` tool `{}`", tool.value), findings);
    }
    for action in &layer.allowed.actions {
        refuse(action.spot, "an `allowed` action", findings);
    }
}

/// What is said about a tool adds to what was said before: all of it binds. An `allow` that would change nothing is not
/// what its author meant.
fn tool(policy: &mut Policy, name: String, said: Said<Permission>, findings: &mut Findings) {
    let held = policy.tools.entry(name.clone()).or_default();
    let bound = held.iter().any(|held| *held.value.permission() != Permission::Allow);
    if bound && said.value == Permission::Allow {
        return refuse(said.spot, &format!("another permission for tool `{name}`"), findings);
    }
    let said = findings.sourced(said.map(Word::from));
    if !held.iter().any(|held| held.value == said.value) {
        held.push(said);
    }
}

fn tighten_agent(
    agent: &mut Agent,
    layer: AgentLayer,
    workspace: Option<&Path>,
    policy: &Policy,
    findings: &mut Findings,
) {
    if let Some(roles) = &layer.roles {
        refuse(roles.spot, "`roles`", findings);
    }
    if let Some(said) = &layer.workspace {
        let dir = findings.texts.get(said.spot.file).map(|text| text.dir().join(&said.value));
        let same = dir.zip(workspace).is_some_and(|(new, old)| same_place(&new, old));
        if !same {
            refuse(said.spot, &format!("another workspace, `{}`,", said.value), findings);
        }
    }
    for said in &layer.directories {
        refuse(said.spot, "an opened directory", findings);
    }
    add_resources(&mut agent.resources, layer.resources);
    if let Some(level) = layer.level {
        lower(agent, level, &policy.levels, findings);
    }
    rules(&layer.rules, findings);
    add_rules(&mut agent.rules, layer.rules, findings);
    match agent.ladder.is_empty() {
        true => overlay(Arc::make_mut(&mut agent.constraints), layer.constraints, &Bound::Untrusted, findings),
        false => trust::tighten(agent, &layer.constraints, findings),
    }
    if let Some(said) = layer.profile {
        narrow_profile(agent, said, findings);
    }
    if let Some(said) = layer.autonomy {
        people::tighten_autonomy(agent, said, &policy.actions, findings);
    }
    people::tighten_budget(agent, layer.budget, findings);
}

/// Profiles for reading permit less than the one for programming and ask about more; they also permit less than no
/// profile at all, which the one for programming does not: it lets some things pass unasked. Lists of somebody's own
/// are not compared with anything.
fn narrow_profile(agent: &mut Agent, said: Said<Profile>, findings: &mut Findings) {
    let by_terminal = (agent.constraints.terminal.value == TerminalMode::RestrictedCommands).then_some(&Profile::Coder);
    let held = agent.profile.as_ref().map(|profile| &profile.value).or(by_terminal);
    let is_narrower = match (held, &said.value) {
        (None | Some(Profile::Coder), Profile::ReadOnly | Profile::ReadOnlyNoNet)
        | (Some(Profile::ReadOnly), Profile::ReadOnlyNoNet) => true,
        (held, new) => held == Some(new),
    };
    if !is_narrower {
        let held = held.map_or("none", Profile::name);
        refuse(said.spot, &format!("profile `{}` where `{held}` holds", said.value.name()), findings);
        return;
    }
    agent.profile = Some(findings.sourced(said));
}

fn same_place(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// A lower step of the ladder. Levels can be configured, so a lower one may permit what the higher one did not: what
/// held for the agent before goes on holding, and a category it did not have is refused.
fn lower(agent: &mut Agent, said: Said<Level>, levels: &BTreeMap<Level, LevelRights>, findings: &mut Findings) {
    let step = |level: Level| Level::LADDER.iter().position(|known| *known == level);
    let goes_down = |old: Level| step(said.value).zip(step(old)).is_some_and(|(new, old)| new <= old);
    let has =
        |level: Level, category: &Category| levels.get(&level).is_some_and(|it| it.categories.contains_key(category));
    let gains = |old: Level| Category::ALL.iter().any(|category| has(said.value, category) && !has(old, category));
    if agent.ladder.contains_key(&said.value) && !agent.ladder.range(said.value..).any(|(old, _)| gains(*old)) {
        limit_trust(agent, said, findings);
        return;
    }
    let Some(new) = levels.get(&said.value) else { return };
    if !agent.ladder.is_empty() || !goes_down(agent.level.value) || gains(agent.level.value) {
        let what = format!("level `{}` where `{}` ({}) holds", said.value, agent.level.value, agent.level.source);
        refuse(said.spot, &what, findings);
        return;
    }
    agent.constraints = Arc::new(tighter_of(&agent.constraints, &new.constraints));
    agent.level = findings.sourced(said);
}

/// The highest level trust takes the agent to, and no more there than it would have had above.
fn limit_trust(agent: &mut Agent, most: Said<Level>, findings: &Findings) {
    let above = agent.ladder.split_off(&most.value);
    let Some(held) = above.into_values().reduce(|a, b| Arc::new(tighter_of(&b, &a))) else { return };
    if most.value < agent.level.value {
        agent.constraints = held.clone();
        agent.level = findings.sourced(most.clone());
    }
    agent.ladder.insert(most.value, held);
}

fn tighter_of(a: &Constraints, b: &Constraints) -> Constraints {
    Constraints {
        file_system: lower_of(&a.file_system, &b.file_system),
        code_execution: lower_of(&a.code_execution, &b.code_execution),
        network: lower_of(&a.network, &b.network),
        network_allowlist: hosts_of_both(a, b),
        git: lower_of(&a.git, &b.git),
        terminal: lower_of(&a.terminal, &b.terminal),
        requires_approval: b.requires_approval.clone().into_iter().chain(a.requires_approval.clone()).collect(),
        read_only: a.read_only.clone().or_else(|| b.read_only.clone()),
    }
}

fn lower_of<T: Dimension>(a: &Sourced<T>, b: &Sourced<T>) -> Sourced<T> {
    if b.value < a.value { b.clone() } else { a.clone() }
}

/// `a` is the agent, `b` the level it goes down to. A level without a list leaves the hosts to its agents.
fn hosts_of_both(a: &Constraints, b: &Constraints) -> Vec<Sourced<String>> {
    if a.network.value == NetworkMode::Open {
        return b.network_allowlist.clone();
    }
    let keep = |host: &&Sourced<String>| b.network_allowlist.is_empty() || covers(&b.network_allowlist, &host.value);
    a.network_allowlist.iter().filter(keep).cloned().collect()
}

fn limit(key: &str, held: &mut usize, said: Option<Said<usize>>, findings: &mut Findings) {
    let Some(said) = said else { return };
    if said.value > *held {
        refuse(said.spot, &format!("`{key}: {}`, above {held},", said.value), findings);
        return;
    }
    *held = said.value;
}
