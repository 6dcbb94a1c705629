//! What the road runs through: catalog, policy, store, workspaces, clock.

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use toolgate_contract::{AgentName, Category, Digest, Fault, Files, Level, Network, ToolDef, nearest};
use toolgate_gate::{Agent, Decision, Permit, Policy, Request, Sourced, Terrain, decide};
use toolgate_guard::{secrets::Redactor, shell};
use toolgate_store::Store;
use toolgate_tools::{Caller, Clock, Listener, ProgressSink, Workspace};

use crate::{
    approvals::Approvals,
    catalog::{Catalog, Entry},
    config::{Config, Place, Server},
    connections::Connections,
    conversation::Conversations,
    definitions::{Definitions, Offer, Shelf, origin_of},
    disclosure::Desks,
    fence::{Directories, Fence},
    listings::Listings,
    means::Means,
    once::Effects,
    rooms::Quarters,
    standing::Trust,
    traffic::Traffic,
    watched::Watched,
    web::Gateway,
};

/// What `~` is in a room.
const ROOM_HOME: &str = "/home/agent";

/// How long whoever wants to know what there is waits for servers, from when the last of them set out.
const MOMENT: Duration = Duration::from_secs(2);

/// What takes down more than one call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// A tool's body panicked.
    #[error("tool `{tool}` panicked: {message}")]
    Panic {
        /// Whose.
        tool: String,
        /// What it said.
        message: String,
    },
    /// The record cannot be written.
    #[error("the record cannot be written: {0}")]
    StoreLost(String),
}

/// How a caller follows a call: stops it, hears how far it is.
#[derive(Clone, Default)]
pub struct Watch {
    /// Cancel it to stop the call.
    pub cancel: CancellationToken,
    /// Gets progress reports.
    pub progress: Option<ProgressSink>,
    /// Gets what is said on the way.
    pub remarks: Option<Listener>,
    /// Whoever called, where they can be asked what a tool has to know.
    pub caller: Option<Arc<dyn Caller>>,
    /// How long it waits for people to answer before it is told to come back.
    pub hold: Duration,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("cancelled", &self.cancel.is_cancelled()).finish_non_exhaustive()
    }
}

pub(crate) struct House {
    pub(crate) catalog: ArcSwap<Catalog>,
    /// Counts what became of the catalog, for those who show it.
    pub(crate) changes: watch::Sender<u64>,
    /// The servers that are being connected for the first time, and since when.
    pub(crate) arriving: watch::Sender<BTreeMap<String, Instant>>,
    pub(crate) listings: Listings,
    pub(crate) config: Config,
    /// Agents within what containers are allowed, by category and level: see [`House::standing`].
    pub(crate) bound: BTreeMap<Category, BTreeMap<AgentName, BTreeMap<Level, Agent>>>,
    pub(crate) policy_digest: Digest,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) trust: Trust,
    pub(crate) approvals: Option<Approvals>,
    pub(crate) effects: Option<Effects>,
    pub(crate) means: Means,
    pub(crate) directories: BTreeMap<AgentName, Directories>,
    pub(crate) quarters: Arc<Quarters>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) conversations: Conversations,
    /// What is pinned of the tools of others, and what each origin offers.
    pub(crate) definitions: Definitions,
    pub(crate) offers: Mutex<BTreeMap<String, Offer>>,
    /// What each origin offers beside its tools.
    pub(crate) shelves: Mutex<BTreeMap<String, Arc<Shelf>>>,
    /// What servers are to tell of when it changes.
    pub(crate) watched: Watched,
    /// What each agent has loaded.
    pub(crate) desks: Desks,
    pub(crate) traffic: Traffic,
    /// Takes credentials out of texts; its key is made when the runtime opens.
    pub(crate) redactor: Redactor,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl House {
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Tells whoever shows the catalog that it is another one.
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn offers(&self) -> MutexGuard<'_, BTreeMap<String, Offer>> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn shelves(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Shelf>>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.config.policy
    }

    pub(crate) fn policy_digest(&self) -> Digest {
        self.policy_digest
    }

    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.now().as_millisecond()).unwrap_or(0)
    }

    pub(crate) fn agent(&self, name: &AgentName) -> Result<&Agent, Fault> {
        self.policy().agents.get(name).ok_or_else(|| {
            let known = self.policy().agents.keys().map(|known| &*known.0);
            let remedy = match nearest(&name.0, known) {
                Some(near) => format!("Did you mean `{near}`?"),
                None => "Name an agent of the config.".to_owned(),
            };
            let name: String = name.0.chars().take(80).flat_map(char::escape_default).collect();
            Fault::refused("unknown_agent", format!("there is no agent `{name}`"), remedy)
        })
    }

    /// A server of the config that is not switched off.
    pub(crate) fn server(&self, name: &str) -> Result<&Sourced<Server>, Fault> {
        let known = self.config.servers.iter().filter(|(_, server)| !server.value.disabled);
        known.clone().find(|(known, _)| *known == name).map(|(_, server)| server).ok_or_else(|| {
            let remedy = match nearest(name, known.map(|(known, _)| known.as_str())) {
                Some(near) => format!("Did you mean `{near}`?"),
                None => "Name a server of the config that is not disabled.".to_owned(),
            };
            let name: String = name.chars().take(80).flat_map(char::escape_default).collect();
            Fault::refused("unknown_server", format!("there is no server `{name}`"), remedy)
        })
    }

    /// The server of the config that would offer a tool of this name.
    pub(crate) fn server_of<'a>(&self, tool: &'a str) -> Option<&'a str> {
        origin_of(tool).filter(|origin| self.config.servers.contains_key(*origin))
    }

    /// Waits until this server is not on its way any more, and no longer than its handshake may take.
    pub(crate) async fn arrived(&self, server: &str) {
        let longest = self.config.servers.get(server).map(|server| server.value.handshake).unwrap_or_default();
        let mut arriving = self.arriving.subscribe();
        let is_there = arriving.wait_for(|arriving| !arriving.contains_key(server));
        // Whether it came or time was up, there is nothing more to wait for.
        let _ = tokio::time::timeout(longest, is_there).await;
    }

    /// Waits a moment for the servers that are on their way: most have come by then, and one that does not come holds up
    /// nobody who only wants to know what there is. Who comes later is told of.
    pub(crate) async fn most_arrived(&self) {
        let mut arriving = self.arriving.subscribe();
        let last = arriving.borrow().values().max().copied();
        let Some(last) = last else { return };
        let all_are_there = arriving.wait_for(BTreeMap::is_empty);
        // Whether they came or time was up, there is nothing more to wait for.
        let _ = tokio::time::timeout_at(last + MOMENT, all_are_there).await;
    }

    /// A tool that is not there may be one of a server that is not there. Which tools that has nobody knows.
    pub(crate) fn is_offered(&self, tool: &str) -> Result<(), Fault> {
        let Some(origin) = self.server_of(tool) else {
            return Ok(());
        };
        if self.config.servers.get(origin).is_some_and(|server| server.value.disabled) {
            let message = format!("server `{origin}` is switched off");
            return Err(Fault::refused("server_unavailable", message, "Use another tool, or ask the operator."));
        }
        if self.offers().contains_key(origin) {
            return Ok(());
        }
        let message = format!("server `{origin}` is not connected, so its tools are not known");
        Err(Fault::refused("server_unavailable", message, "Try again later, or ask the operator.").retryable())
    }

    /// The agent as it stands in a category: at the level it has there, and within what the category's place allows.
    /// Everything a call is held to is taken from it: gate, client and room.
    pub(crate) fn standing<'a>(&'a self, agent: &'a Agent, category: Category) -> &'a Agent {
        let at = self.trust.at(agent, category);
        let bound = self.bound.get(&category).and_then(|agents| agents.get(&at.name)?.get(&at.level.value));
        bound.unwrap_or(at)
    }

    /// Would the gate let this agent know of this tool?
    pub(crate) fn shown_to(&self, agent: &Agent, entry: &Entry) -> Decision {
        let def = &entry.tool.def;
        let risk = self.policy().actions.risk(&def.action);
        decide(
            self.policy(),
            self.standing(agent, def.category),
            &Request { risk, foreign: entry.origin.is_some(), word: Some(&entry.word), ..Request::of(def) },
        )
    }

    /// The tools this agent may know of, by name.
    pub(crate) fn permitted<'a>(
        &'a self,
        catalog: &'a Catalog,
        agent: &'a Agent,
    ) -> impl Iterator<Item = &'a Arc<Entry>> + 'a {
        catalog.iter().filter(|entry| !matches!(self.shown_to(agent, entry), Decision::Deny(_)))
    }

    /// Where a call of this tool runs, or why nowhere. A tool that needs nothing from outside runs here whatever the config
    /// says.
    pub(crate) fn place_of(&self, def: &ToolDef) -> Result<Place, Fault> {
        if def.needs.stays_here() {
            return Ok(Place::Inline);
        }
        match self.config.backend_for(def.category) {
            place @ (Place::Room | Place::Docker { .. }) => Ok(place),
            Place::Inline if !def.needs.room() => Ok(Place::Inline),
            Place::Inline | Place::DenyAll => Err(Fault::refused(
                "no_room",
                format!("tool `{}` needs a room, and category `{}` has none", def.name, def.category),
                "Give the category a backend under `sandboxing` in the config.",
            )),
            Place::Unavailable { backend, source } => Err(Fault::refused(
                "backend_unavailable",
                format!(
                    "category `{}` is to run in backend `{backend}` ({source}), which this build does not have",
                    def.category
                ),
                "Remove that line to run file tools on the opened workspace, or use a build with the backend.",
            )),
        }
    }

    /// What is open to the agent, with the access the permit grants and without what rules close; none where it grants no
    /// files.
    pub(crate) fn workspace(&self, agent: &Agent, permit: &Permit, fence: &Fence) -> Result<Option<Workspace>, Fault> {
        if permit.needs().files == Files::None {
            return Ok(None);
        }
        let directories = self.directories.get(&agent.name).ok_or_else(|| {
            Fault::refused(
                "no_workspace",
                format!("agent `{}` has no workspace", agent.name),
                "Give it a `workspace` in the config.",
            )
        })?;
        let handle = fence.handle(directories, permit.constraints().file_system.value);
        let is_read = permit.constraints().read_only.is_some() && !permit.needs().exec;
        Ok(Some(handle.with_access(if is_read { Files::Read } else { permit.needs().files })))
    }

    pub(crate) fn workspace_path(&self, agent: &AgentName) -> Option<&Path> {
        self.directories.get(agent).map(|directories| directories.workspace.root())
    }

    /// What is open to an agent, by the words of a path.
    pub(crate) fn open_to(&self, agent: &Agent) -> Arc<Terrain> {
        let scope = agent.constraints.file_system.value;
        self.directories.get(&agent.name).map(|directories| directories.terrain(scope)).unwrap_or_default()
    }

    /// Where an agent's commands would run.
    pub(crate) fn ground(&self, agent: &Agent) -> shell::Place {
        let workspace = self.workspace_path(&agent.name).map_or("/workspace".into(), Path::to_string_lossy);
        shell::Place::at(&workspace, ROOM_HOME)
    }

    /// The walls that stand around a body that runs here.
    pub(crate) fn walls(&self, permit: &Permit) -> Vec<String> {
        let files: &[&str] = match permit.needs().files {
            Files::None => &[],
            Files::Read => &["openat2_beneath", "read_only_workspace"],
            Files::Write => &["openat2_beneath"],
        };
        let network: &[&str] = match permit.needs().network {
            Network::None => &[],
            Network::Fenced => &["judged_egress"],
        };
        files.iter().chain(network).map(|wall| (*wall).to_owned()).collect()
    }
}

/// The agents as they are in the categories whose place is a container, at every level they may have.
pub(crate) fn bound(config: &Config) -> BTreeMap<Category, BTreeMap<AgentName, BTreeMap<Level, Agent>>> {
    let at_levels = |category: Category, agent: &Agent| {
        let standing = Level::LADDER.into_iter().map(|level| agent.standing_at(level));
        let bound = standing.chain([agent.clone()]).map(|agent| (agent.level.value, within(config, category, agent)));
        (agent.name.clone(), bound.collect())
    };
    let of_category = |category| config.policy.agents.values().map(|agent| at_levels(category, agent)).collect();
    config.in_containers().map(|(category, _)| (category, of_category(category))).collect()
}

/// An agent within what the place of a category allows.
pub(crate) fn within(config: &Config, category: Category, agent: Agent) -> Agent {
    match config.backend_for(category) {
        Place::Docker { source } => {
            let constraints = Arc::new(config.containers.bind(category, &source, &agent.constraints));
            Agent { constraints, ..agent }
        }
        Place::Inline | Place::Room | Place::Unavailable { .. } | Place::DenyAll => agent,
    }
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("House").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
