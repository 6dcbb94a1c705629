//! Configuration: one YAML format, read in layers, checked before anything runs.
//!
//! Two steps. The text (`file`) knows which keys there are and where every word stands; nothing is opened. The
//! checked result is [`Config`]: a policy for the gate, and settings with their units. Every mistake comes back with
//! its file, line and column and with what to write instead; wrong words are all reported at once, a wrong shape
//! stops at the first.
//!
//! Layers, in order: the built-in defaults, the user's file, the project's file; or the defaults and the one file
//! that was named. The project's file lies where agents write, so it may only tighten until a person has read it and
//! put its hash on the list ([`trust_file`]): an agent must not configure its own cage.
//!
//! On top of all of them stands the administrator's file, which only root can write. What it sets is what holds; the
//! files below it may make that tighter, and what they say that would loosen it counts for nothing.

mod check;
mod commands;
mod connections;
mod containers;
mod disclosure;
mod egress;
mod error;
mod file;
mod findings;
mod flow;
mod kept;
mod launch;
mod load;
mod merge;
mod people;
mod recipe;
mod resources;
mod rooms;
mod rules;
mod sandboxing;
mod servers;
mod text;
mod tighten;
mod trust;
mod trusted;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::Serialize;
use serde_json::Value;
use toolgate_contract::{
    ActionRegistry, ActionType, AgentName, Category, Digest, Level, Person, Risk, SourceLine, digest,
};
use toolgate_gate::{Policy, Sourced, ToolName};

use check::Check;
use file::ConfigFile;
use findings::{Findings, Said, Spot};
use load::instead;
use merge::Draft;
use resources::Opened;
use text::{Links, Text};
pub use words::parse_duration;

use crate::{
    definitions::{FirstSight, origin_of},
    secrets::SecretRef,
};

pub use connections::{Auth, Connection, OAuth2, Word};
pub use containers::{ContainerNetwork, ContainerSettings, LogSettings, MountMode};
pub use disclosure::{Disclosing, DisclosureSettings};
pub use egress::EgressSettings;
pub use error::{ConfigError, Note, Snippet};
pub use kept::{
    add_connection, add_server, check_server, connections_file, remove_connection, remove_server, servers_file,
};
pub use people::{Channel, ChannelUrl};
pub use recipe::{Install, Recipe};
pub use rooms::RoomSettings;
pub(crate) use rules::Example;
pub use rules::{PolicyTest, read_tests};
pub use servers::{Access, Address, MayAsk, Offers, Program, Reached, Server, looks_secret, says_secret};

/// The name of a project's file. No tool may write a file of this name at the root of a workspace.
pub const PROJECT_FILE: &str = "toolgate.yaml";

/// What no tool may write in any workspace: the project's config, and the files in which common MCP clients keep how a
/// server is started. An agent that could write those would choose the flags of its own cage.
const PROTECTED: [&str; 8] = [
    PROJECT_FILE,
    ".mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/config.toml",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    ".zed/settings.json",
];

/// A checked configuration: the policy, and the settings that are not policy.
#[derive(Debug, Clone)]
pub struct Config {
    /// What the gate goes by.
    pub policy: Policy,
    /// What else is set for each agent of the policy.
    pub agents: BTreeMap<AgentName, AgentSettings>,
    /// How much at once.
    pub limits: Limits,
    /// Paths that no tool may write: the config's own files, those of MCP clients, and what the config names. They are relative
    /// to a workspace, or count in the one that holds them.
    pub protected: Vec<String>,
    /// What rooms are like that are made of processes.
    pub rooms: RoomSettings,
    /// What rooms are like that are containers.
    pub containers: ContainerSettings,
    /// How long a call waits for people to answer before it is told to come back.
    pub hold: Duration,
    /// How people are told that they are asked.
    pub channels: Vec<Channel>,
    /// The person who sits at the client of an agent, and whose word there counts.
    pub at_client: BTreeMap<AgentName, Person>,
    /// How other machines are found and reached.
    pub egress: EgressSettings,
    /// Whether cards, accounts and national ids are taken out of results like credentials are.
    pub redact_personal_data: Sourced<bool>,
    /// What happens to tools of an origin that was never seen before.
    pub first_sight: Sourced<FirstSight>,
    /// How much of its tools an agent is shown before it asks.
    pub disclosure: DisclosureSettings,
    /// Other people's APIs, by name.
    pub connections: BTreeMap<String, Sourced<Connection>>,
    /// Other MCP servers, by name.
    pub servers: BTreeMap<String, Sourced<Server>>,
    /// What the operator says about levels, for people.
    pub level_descriptions: BTreeMap<Level, String>,
    /// What an operator should know though the config holds.
    pub notes: Vec<Note>,
    /// The files it was read from, in the order they were applied.
    pub files: Vec<ConfigFileInfo>,
    places: BTreeMap<Category, Place>,
    mentions: Mentions,
    /// What rules about calls say that is not for the gate.
    rules: rules::Kept,
    /// The agents that set a workspace, and where.
    workspaces: Vec<(AgentName, Spot)>,
    /// The directories that are opened to agents, and where.
    directories: Vec<(AgentName, Said<Opened>)>,
    /// The directories rooms are to see, and where they are named.
    room_dirs: Vec<Said<PathBuf>>,
    /// The directories and connections servers name, and where.
    named: servers::Named,
}

/// Long enough for somebody who sits there, and shorter than any client waits.
const HOLD: Duration = Duration::from_secs(20);

/// The tool names in a config, and the texts they are in: only those that no tool has are ever shown.
#[derive(Debug, Clone, Default)]
struct Mentions {
    names: Vec<Said<String>>,
    arguments: Vec<flow::Argument>,
    texts: Vec<Arc<Text>>,
    /// What they offer is known once they are connected.
    servers: BTreeSet<String>,
}

/// What is set for one agent besides its part of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// The directory its file tools work in: absolute, and there when the config was loaded.
    pub workspace: PathBuf,
    /// The project that belongs to; the workspace where there is none.
    pub project: PathBuf,
    /// The directories the operator opened to it besides.
    pub directories: Vec<Directory>,
}

/// A directory the operator opened to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Directory {
    /// Where it is.
    pub path: PathBuf,
    /// May it be changed?
    pub write: bool,
}

/// How much at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Calls of one turn that run at the same time.
    pub max_concurrency: usize,
    /// Bytes of one call's arguments. A tool's own cap may be lower.
    pub max_input_bytes: usize,
}

/// Where tools of one category run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In this process, on the opened workspace.
    Inline,
    /// In a process room.
    Room,
    /// In a container; what starts no programs runs in this process, within what containers are allowed.
    Docker {
        /// The line that asks for it.
        source: SourceLine,
    },
    /// In a backend this build does not have: they are refused.
    Unavailable {
        /// The backend, as config spells it.
        backend: &'static str,
        /// The line that asks for it.
        source: SourceLine,
    },
    /// Nowhere: they are refused.
    DenyAll,
}

/// A file the config was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFileInfo {
    /// As it was opened.
    pub path: PathBuf,
    /// An untrusted file may only tighten.
    pub trusted: bool,
    /// The hash of its bytes.
    pub sha256: Digest,
}

/// Where configuration may come from. The caller reads the environment; nothing here does.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The administrator's file: it has the last word over every other. It need not exist; one that others than root
    /// could have written is an error.
    pub admin: Option<PathBuf>,
    /// `--config FILE`: trusted, and then the only file below the administrator's.
    pub explicit: Option<PathBuf>,
    /// The user's own file: trusted. It need not exist.
    pub user: Option<PathBuf>,
    /// The project's file: may only tighten until a person trusts its hash. It need not exist.
    pub project: Option<PathBuf>,
    /// The files in which MCP clients keep for the whole user how a server is started. They need not exist.
    pub clients: Vec<PathBuf>,
    /// Where the trusted hashes are kept.
    pub data_dir: PathBuf,
    /// The workspace of an agent that sets none.
    pub cwd: PathBuf,
    /// `--workspace DIR`: where this agent works, whatever the files say.
    pub workspace: Option<(AgentName, PathBuf)>,
}

/// A text that holds.
#[derive(Debug, Clone)]
pub struct CheckReport {
    /// What an operator should know.
    pub notes: Vec<Note>,
    /// The hash of the text.
    pub sha256: Digest,
    /// Its rules carry examples, which can be tried once the tools are known.
    pub has_examples: bool,
    mentions: Mentions,
}

impl Config {
    /// The configuration of a fresh machine: one agent, `default`, at level standard, working in `cwd`.
    pub fn built_in(cwd: &Path) -> Self {
        Draft::new(ActionRegistry::default()).finish(cwd, &mut Findings::default())
    }

    /// Reads and checks the files there are.
    pub fn load(sources: &Sources) -> Result<Self, Vec<ConfigError>> {
        let mut findings = Findings::default();
        let mut layers = Vec::new();
        if let Some(path) = &sources.admin {
            open_admin(path, &mut layers, &mut findings);
        }
        match &sources.explicit {
            Some(path) => {
                if open(path, Links::Follow, true, &mut layers, &mut findings).is_none() {
                    let error = ConfigError::whole(
                        path.display().to_string(),
                        "there is no such file",
                        "Name a config that exists, or none at all for the defaults.",
                    );
                    findings.errors.push(error);
                }
            }
            None => {
                if let Some(path) = &sources.user {
                    open(path, Links::Follow, true, &mut layers, &mut findings);
                }
                if let Some(path) = &sources.project {
                    open_project(path, &sources.data_dir, &mut layers, &mut findings);
                }
            }
        }
        kept::open(&sources.data_dir, &mut layers, &mut findings);
        let mut config = build(&layers, &sources.cwd, &mut findings);
        config.move_agent(sources);
        config.open_workspaces(&mut findings);
        config.open_directories(sources, &mut findings);
        config.open_room_dirs(&sources.data_dir, &mut findings);
        servers::open(&mut config.servers, &config.named, &real(&sources.data_dir), &mut findings);
        config.protect(sources);
        config.files = layers.iter().filter_map(|layer| layer.info(&findings)).collect();
        findings.into_result().map(|notes| Self { notes, ..config })
    }

    /// The categories whose place is a container.
    pub fn in_containers(&self) -> impl Iterator<Item = (Category, &SourceLine)> {
        self.places.iter().filter_map(|(category, place)| match place {
            Place::Docker { source } => Some((*category, source)),
            Place::Inline | Place::Room | Place::Unavailable { .. } | Place::DenyAll => None,
        })
    }

    /// Where tools of this category run. Tools that need nothing at all run inline whatever this says.
    pub fn backend_for(&self, category: Category) -> Place {
        self.places.get(&category).cloned().unwrap_or(Place::DenyAll)
    }

    /// The tool names in the config that no tool has. The catalog is known later than the config.
    pub fn check_tools<'a>(&self, known: impl IntoIterator<Item = &'a str>) -> Vec<ConfigError> {
        self.mentions.unknown(known)
    }

    /// The arguments in the config that their tool does not have, by its schema.
    pub fn check_arguments<'a>(&self, schema_of: impl Fn(&str) -> Option<&'a Value>) -> Vec<ConfigError> {
        self.mentions.unknown_arguments(schema_of)
    }

    /// The files secrets are read from. No tool may see them.
    pub fn secret_files(&self) -> Vec<PathBuf> {
        let told = self.channels.iter().flat_map(Channel::secrets);
        let servers = self.servers.values().flat_map(|known| known.value.secrets());
        let connections = self.connections.values().flat_map(|known| known.value.auth.secrets());
        let references = connections.chain(servers).chain(told);
        let file = |reference: &SecretRef| match reference {
            SecretRef::File(path) => Some(path.clone()),
            SecretRef::Env(_) | SecretRef::Vault(_) | SecretRef::Keyring { .. } => None,
        };
        references.filter_map(file).collect()
    }

    /// A workspace that was named on the command line takes the place of the configured one.
    fn move_agent(&mut self, sources: &Sources) {
        let Some((name, dir)) = &sources.workspace else { return };
        if let Some(settings) = self.agents.get_mut(name) {
            settings.workspace.clone_from(dir);
            self.workspaces.retain(|(agent, _)| agent != name);
        }
    }

    /// The hash that names what every decision and every room rests on. An approval is bound to it: one that was given
    /// under other walls is another approval.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        #[derive(Serialize)]
        struct Ground<'a> {
            policy: &'a Policy,
            risks: BTreeMap<ActionType, Risk>,
            places: &'a BTreeMap<Category, Place>,
            rooms: &'a RoomSettings,
            containers: &'a ContainerSettings,
            egress: &'a EgressSettings,
            protected: &'a [String],
            redact_personal_data: bool,
            directories: BTreeMap<&'a AgentName, &'a [Directory]>,
            connections: BTreeMap<&'a str, &'a Connection>,
            servers: BTreeMap<&'a str, &'a Server>,
        }
        let actions = &self.policy.actions;
        digest(&Ground {
            policy: &self.policy,
            risks: actions.all().map(|action| (action.clone(), actions.risk(&action))).collect(),
            places: &self.places,
            rooms: &self.rooms,
            containers: &self.containers,
            egress: &self.egress,
            protected: &self.protected,
            redact_personal_data: self.redact_personal_data.value,
            directories: self.agents.iter().map(|(name, settings)| (name, &*settings.directories)).collect(),
            connections: self.connections.iter().map(|(name, known)| (&**name, &known.value)).collect(),
            servers: self.servers.iter().map(|(name, known)| (&**name, &known.value)).collect(),
        })
    }

    /// A look at the world: workspaces that are set must be directories.
    fn open_workspaces(&mut self, findings: &mut Findings) {
        for (name, spot) in &self.workspaces {
            let Some(settings) = self.agents.get_mut(name) else { continue };
            match settings.workspace.canonicalize() {
                Ok(real) if real.is_dir() => settings.workspace = real,
                Ok(_) => {
                    let message = format!("`{}` is not a directory", settings.workspace.display());
                    findings.error(*spot, message, "Write a directory, relative to this file.");
                }
                Err(error) => {
                    let message = format!("`{}` cannot be opened: {error}", settings.workspace.display());
                    findings.error(*spot, message, "Create the directory, or write one that exists.");
                }
            }
        }
    }

    /// Another look at the world: what is open besides workspaces.
    fn open_directories(&mut self, sources: &Sources, findings: &mut Findings) {
        let data_dir = real(&sources.data_dir);
        let home = sources.user.as_deref().and_then(Path::parent).map(real);
        let kept: Vec<PathBuf> = std::iter::once(data_dir.clone()).chain(home).collect();
        for (name, settings) in &mut self.agents {
            settings.project = resources::project(&real(&settings.workspace), &kept);
            let said = self.directories.iter().filter(|(agent, _)| agent == name).map(|(_, said)| said.clone());
            settings.directories = resources::open(&said.collect::<Vec<_>>(), &data_dir, findings);
        }
    }

    /// The last look at the world: what rooms are to see.
    fn open_room_dirs(&mut self, data_dir: &Path, findings: &mut Findings) {
        let workspaces: Vec<PathBuf> = self.agents.values().map(|settings| real(&settings.workspace)).collect();
        rooms::open(&mut self.rooms, &self.room_dirs, &real(data_dir), &workspaces, findings);
    }

    /// No tool may write a config, also one that is not there yet; nor a link to it, which it could replace.
    fn protect(&mut self, sources: &Sources) {
        let both = |path: &PathBuf| [Some(real(path)), real_name(path)];
        let clients: BTreeSet<PathBuf> = sources.clients.iter().flat_map(both).flatten().collect();
        self.protected.extend(clients.iter().filter_map(|path| path.to_str().map(str::to_owned)));
        let named = [&sources.admin, &sources.explicit, &sources.user, &sources.project];
        let configs: Vec<PathBuf> = named.into_iter().flatten().flat_map(both).flatten().collect();
        for settings in self.agents.values() {
            let root = real(&settings.workspace);
            for name in configs.iter().filter_map(|path| path.strip_prefix(&root).ok()?.to_str()) {
                if !self.protected.iter().any(|known| known == name) {
                    self.protected.push(name.to_owned());
                }
            }
        }
    }
}

/// Checks a text, as a trusted file on top of the defaults. It may hold a single block.
pub fn check_text(file_name: &str, text: &str) -> Result<CheckReport, Vec<ConfigError>> {
    let mut findings = Findings::default();
    let mut layers = Vec::new();
    let text = Text::new(file_name, text);
    let sha256 = text.sha256;
    parse(text, true, &mut layers, &mut findings);
    let config = build(&layers, Path::new("."), &mut findings);
    let has_examples = !config.examples().is_empty();
    findings.into_result().map(|notes| CheckReport { notes, sha256, has_examples, mentions: config.mentions })
}

/// Checks a file. What is no regular file, or too large for a config, is not read.
pub fn check_file(path: &Path) -> Result<CheckReport, Vec<ConfigError>> {
    let name = path.display().to_string();
    let missing = || vec![ConfigError::whole(&*name, "there is no such file", "Name a config that exists.")];
    let text = Text::open(path, Links::Follow).map_err(|error| vec![error])?.ok_or_else(missing)?;
    check_text(&name, &text.text)
}

/// Puts a project's file, as it is now, on the list of trusted ones. A later change of one byte takes it off again.
///
/// The hash in the report is the one that is trusted: the file is read once. Only a file of the right shape is taken;
/// its words are judged when it is loaded, because they may depend on the user's file.
pub fn trust_file(data_dir: &Path, path: &Path) -> Result<CheckReport, Vec<ConfigError>> {
    let missing =
        || vec![ConfigError::whole(path.display().to_string(), "there is no such file", "Name the file to trust.")];
    let text = Text::open(path, Links::Refuse).map_err(|error| vec![error])?.ok_or_else(missing)?;
    let sha256 = text.sha256;
    let mut findings = Findings::default();
    let mut layers = Vec::new();
    parse(text, true, &mut layers, &mut findings);
    if !findings.errors.is_empty() {
        return Err(findings.errors);
    }
    trusted::add(data_dir, path, sha256).map_err(|error| vec![error])?;
    let config = build(&layers, Path::new("."), &mut findings);
    let has_examples = !config.examples().is_empty();
    Ok(CheckReport { notes: findings.notes, sha256, has_examples, mentions: config.mentions })
}

/// Is the file, as it is now, on the list of trusted ones?
pub fn is_trusted(data_dir: &Path, path: &Path) -> Result<bool, ConfigError> {
    match Text::open(path, Links::Refuse)? {
        Some(text) => trusted::is_listed(data_dir, path, text.sha256),
        None => Ok(false),
    }
}

impl CheckReport {
    /// The tool names in the text that no tool has.
    pub fn check_tools<'a>(&self, known: impl IntoIterator<Item = &'a str>) -> Vec<ConfigError> {
        self.mentions.unknown(known)
    }

    /// The arguments in the text that their tool does not have, by its schema.
    pub fn check_arguments<'a>(&self, schema_of: impl Fn(&str) -> Option<&'a Value>) -> Vec<ConfigError> {
        self.mentions.unknown_arguments(schema_of)
    }
}

impl Limits {
    const MOST_CONCURRENCY: u64 = 64;
    const MOST_INPUT_BYTES: u64 = 64 * 1024 * 1024;

    fn built_in() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        Self { max_concurrency: cores.clamp(2, 16), max_input_bytes: 32 * 1024 * 1024 }
    }
}

/// One file that could be read.
struct Read {
    number: usize,
    file: ConfigFile,
    trusted: bool,
    /// It has the last word.
    admin: bool,
}

impl Read {
    fn info(&self, findings: &Findings) -> Option<ConfigFileInfo> {
        let text = findings.texts.get(self.number)?;
        Some(ConfigFileInfo { path: text.path.clone(), trusted: self.trusted, sha256: text.sha256 })
    }
}

/// Reads a file; none where there is no such file. One that cannot be read is an error, not a missing one.
fn open(path: &Path, links: Links, trusted: bool, layers: &mut Vec<Read>, findings: &mut Findings) -> Option<()> {
    match Text::open(path, links) {
        Ok(text) => parse(text?, trusted, layers, findings),
        Err(error) => findings.errors.push(error),
    }
    Some(())
}

fn open_admin(path: &Path, layers: &mut Vec<Read>, findings: &mut Findings) {
    match Text::open_of_root(path) {
        Ok(Some(text)) => {
            parse(text, true, layers, findings);
            layers.iter_mut().for_each(|layer| layer.admin = true);
        }
        Ok(None) => {}
        Err(error) => findings.errors.push(error),
    }
}

fn open_project(path: &Path, data_dir: &Path, layers: &mut Vec<Read>, findings: &mut Findings) {
    let text = match Text::open(path, Links::Refuse) {
        Ok(Some(text)) => text,
        Ok(None) => return,
        Err(error) => return findings.errors.push(error),
    };
    match trusted::is_listed(data_dir, path, text.sha256) {
        Ok(trusted) => parse(text, trusted, layers, findings),
        Err(error) => findings.errors.push(error),
    }
}

fn parse(text: Text, trusted: bool, layers: &mut Vec<Read>, findings: &mut Findings) {
    let parsed = load::parse(&text.text);
    let number = findings.add(text);
    match parsed {
        Ok(file) => layers.push(Read { number, file, trusted, admin: false }),
        Err(why) => findings.unreadable(number, why),
    }
}

/// From texts to a configuration. Pure, and wrong as long as there are errors among the findings.
fn build(layers: &[Read], cwd: &Path, findings: &mut Findings) -> Config {
    let (admin, below): (Vec<&Read>, Vec<&Read>) = layers.iter().partition(|layer| layer.admin);
    let (trusted, untrusted): (Vec<&Read>, Vec<&Read>) = below.into_iter().partition(|layer| layer.trusted);
    let mut actions = ActionRegistry::default();
    for layer in admin.iter().chain(&trusted) {
        check::register(&layer.file, layer.number, findings, &mut actions);
    }
    let mut draft = Draft::new(actions.clone());
    // Lists add up; of single values the last word holds, and that is the administrator's.
    for layer in trusted.iter().chain(&admin) {
        let checked = Check::new(layer.number, findings, &actions).layer(&layer.file);
        draft.apply(checked, findings);
    }
    let mut config = draft.finish(cwd, findings);
    if !admin.is_empty() {
        for layer in &trusted {
            // What is wrong in it was said before; what would loosen is left out.
            let mut said = Findings { texts: findings.texts.clone(), ..Findings::default() };
            let checked = Check::new(layer.number, &mut said, &actions).layer(&layer.file);
            tighten::tighten_again(&mut config, checked, &mut said);
        }
    }
    for layer in &untrusted {
        let checked = Check::new(layer.number, findings, &actions).layer(&layer.file);
        tighten::tighten(&mut config, checked, findings);
    }
    config.rules.unknown(&config.policy, admin.first().map(|layer| layer.number), findings);
    config
}

impl Mentions {
    fn unknown<'a>(&self, known: impl IntoIterator<Item = &'a str>) -> Vec<ConfigError> {
        let known: Vec<&str> = known.into_iter().collect();
        let mut findings = Findings { texts: self.texts.clone(), ..Findings::default() };
        let is_known = |name: &str| known.iter().any(|known| ToolName::of(name).means(known));
        let is_of_server = |name: &str| origin_of(name).is_some_and(|origin| self.servers.contains(origin));
        for said in self.names.iter().filter(|said| !is_known(&said.value) && !is_of_server(&said.value)) {
            let remedy = instead(&said.value, known.iter().copied());
            findings.error(said.spot, format!("unknown tool `{}`", said.value), remedy);
        }
        findings.into_result().err().unwrap_or_default()
    }

    fn unknown_arguments<'a>(&self, schema_of: impl Fn(&str) -> Option<&'a Value>) -> Vec<ConfigError> {
        let mut findings = Findings { texts: self.texts.clone(), ..Findings::default() };
        flow::unknown(&self.arguments, schema_of, &mut findings);
        findings.into_result().err().unwrap_or_default()
    }
}

/// Where a path leads, also when its last parts are not there yet.
pub(crate) fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known =
        path.ancestors().find_map(|ancestor| Some((ancestor.canonicalize().ok()?, path.strip_prefix(ancestor).ok()?)));
    match known {
        Some((whole, rest)) if rest == Path::new("") => whole,
        Some((known, rest)) => known.join(rest),
        None => path,
    }
}

/// Where the name itself is: of a link the link, not what it leads to.
fn real_name(path: &Path) -> Option<PathBuf> {
    Some(real(path.parent()?).join(path.file_name()?))
}
