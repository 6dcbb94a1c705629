//! The runtime: one call from arrival to answer.
//!
//! [`Runtime`] is what every edge (MCP, command line) and every program that embeds Toolgate holds. It has one way to
//! run a tool, [`Runtime::invoke`]; `invoke.rs` is the road that call takes, step by step.

mod advice;
pub mod approvals;
mod catalog;
mod changed;
mod clean;
mod companions;
pub mod config;
pub mod connections;
mod conversation;
pub mod definitions;
mod disclosure;
mod fence;
mod house;
mod inquiries;
mod invoke;
mod lines;
mod listings;
pub mod means;
mod notify;
pub mod once;
mod own_calls;
mod picture;
mod pulse;
mod remarks;
mod rooms;
pub mod schema;
pub mod secrets;
mod standing;
mod terminals;
pub mod tokens;
mod traffic;
mod trials;
mod turn;
mod watched;
mod web;

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Duration,
};

use arc_swap::ArcSwap;
use futures_util::{FutureExt as _, TryFutureExt as _, future::BoxFuture};
use serde_json::Value;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use toolgate_contract::{
    ActionType, AgentName, Call, CallId, DISCOVERY, Decided, Digest, Effect, Fault, Grant, Outcome, Person, Principal,
    Risk, SafetyClass, ToolDef, WebRequest, WebResponse,
};
use toolgate_gate::Decision;
use toolgate_guard::{definition::Found, secrets::Redactor};

pub use catalog::BadTool;
pub use companions::{Companion, Life};
pub use disclosure::{Spared, ToolList};
pub use house::{Fatal, Watch};
pub use lines::ServerLine;
pub use listings::Lister;
pub use rooms::{docker_settings, hidden_from_rooms, protected_in};
pub use standing::Trust;
pub use toolgate_contract as contract;
pub use toolgate_egress as egress;
pub use toolgate_sandbox as sandbox;
pub use toolgate_store as store;
pub use toolgate_tools as tools;
pub use trials::Trial;
pub use turn::Turn;
pub use watched::{News, OfServer, Watching};

use crate::{
    approvals::Approvals,
    catalog::Catalog,
    config::Config,
    connections::Connections,
    conversation::Conversations,
    definitions::{Definition, Definitions, Imported, Library, Offer, Origin, Question, Registered, Wares},
    fence::Directories,
    house::{House, SystemClock},
    listings::Listings,
    means::Means,
    once::Effects,
    rooms::Quarters,
    secrets::{Broker, SecretPlaces},
    traffic::Traffic,
    watched::Watched,
    web::Gateway,
};

/// What a runtime is made of.
#[expect(missing_debug_implementations, reason = "a store behind a trait has nothing to show")]
pub struct Setup {
    /// Policy and settings.
    pub config: Config,
    /// Where calls are recorded.
    pub store: Arc<dyn store::Store>,
    /// Where is kept what changes: questions to people, keys of effects, evidence. Without it nobody can be asked, and
    /// whatever would have to be is refused.
    pub state: Option<Arc<dyn store::state::State>>,
    /// The tools; [`built_in_tools`] are those that ship.
    pub tools: Vec<tools::Tool>,
    /// Files and directories no tool sees: the data directory, key files.
    pub hidden: Vec<PathBuf>,
    /// Where is noted which rooms are open, for whoever cleans up after a crash. Without it no program is started.
    pub rooms: Option<PathBuf>,
    /// Where the credentials of connections come from. Without it there are none.
    pub secrets: Option<SecretPlaces>,
}

/// Why a runtime could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A tool is not fit for the catalog.
    #[error(transparent)]
    Tool(#[from] BadTool),
    /// The config names what does not exist.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Config(Vec<config::ConfigError>),
    /// An agent's workspace cannot be opened.
    #[error("the workspace of agent `{agent}` cannot be opened: {fault}")]
    Workspace {
        /// Whose.
        agent: AgentName,
        /// Why.
        fault: Fault,
    },
    /// The kernel gives no random bytes.
    #[error("the kernel gave no random bytes: {0}")]
    Chance(String),
    /// The policy has no canonical form.
    #[error("the policy cannot be hashed: {0}")]
    Policy(#[from] serde_json::Error),
}

/// What would be decided about a call, and why.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Explanation {
    /// What the call amounts to.
    pub action: ActionType,
    /// Its class.
    pub class: SafetyClass,
    /// What is at stake.
    pub risk: Risk,
    /// What it would do.
    pub effects: Vec<Effect>,
    /// The verdict and its reasons.
    #[serde(flatten)]
    pub decided: Decided,
    /// What is said about where the values of its arguments must come from.
    pub sinks: Vec<toolgate_gate::Sink>,
    /// What would make it pass, the nearest first; nothing where it passes.
    pub to_pass: Vec<String>,
    /// Where it would run.
    pub place: Whereabouts,
}

/// Where a call would run.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(tag = "runs", rename_all = "snake_case")]
pub enum Whereabouts {
    /// In this process.
    Here,
    /// In a room.
    Room {
        /// The backend that makes it.
        backend: &'static str,
        /// What the room would be.
        spec: Box<sandbox::RoomSpec>,
    },
    /// Nowhere: it is refused, whatever is decided about it.
    Nowhere {
        /// Why.
        why: String,
        /// What to do about it.
        remedy: String,
    },
}

/// A tool as an agent sees it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its definition.
    pub def: ToolDef,
    /// The hash of it.
    pub digest: Digest,
    /// What the guard says about it.
    pub findings: Vec<Found>,
    /// Its results are those of another tool, whole: one of another MCP server, or the one it is told to call.
    pub relayed: bool,
    /// As its origin wrote it; none for a tool of our own.
    pub written: Option<Arc<Definition>>,
}

impl Listed {
    fn of(entry: &Arc<catalog::Entry>) -> Self {
        let (def, findings, written) = (entry.tool.def.clone(), entry.findings.clone(), entry.written.clone());
        let relayed = entry.relayed || entry.stands_for_another();
        Self { def, digest: entry.digest, findings, relayed, written }
    }
}

/// The tools that ship.
pub fn built_in_tools() -> Vec<tools::Tool> {
    catalog::built_in_tools()
}

/// A server that is on its way: see [`Runtime::server_arriving`].
#[derive(Debug)]
pub struct Arriving {
    name: String,
    arriving: watch::Sender<BTreeMap<String, Instant>>,
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.arriving.send_if_modified(|arriving| arriving.remove(&self.name).is_some());
    }
}

/// A road that is walked to its end by whoever waits for it, and without them where they leave.
struct Walked(Option<BoxFuture<'static, Result<invoke::Ended, String>>>);

impl Walked {
    fn of(road: impl Future<Output = invoke::Ended> + Send + 'static) -> Self {
        let road = AssertUnwindSafe(road).catch_unwind().map_err(|panic| invoke::panic_message(&*panic));
        Self(Some(Box::pin(road)))
    }
}

impl Future for Walked {
    type Output = Result<invoke::Ended, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(road) = &mut self.0 else { return Poll::Pending };
        let ended = ready!(road.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(ended)
    }
}

impl Drop for Walked {
    fn drop(&mut self) {
        if let (Some(rest), Ok(handle)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            handle.spawn(rest);
        }
    }
}

/// The tool runtime. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Runtime {
    house: Arc<House>,
}

impl Runtime {
    /// Opens workspaces, checks tools and config, tries what the rules of the config say about their examples. Nothing
    /// runs yet.
    pub fn open(setup: Setup) -> Result<Self, OpenError> {
        let runtime = Self::open_untried(setup)?;
        let wrong = runtime.wrong_examples();
        if wrong.is_empty() { Ok(runtime) } else { Err(OpenError::Config(wrong)) }
    }

    /// The same for whoever tries the examples themselves.
    pub fn open_untried(setup: Setup) -> Result<Self, OpenError> {
        let Setup { config, store, state, tools, hidden, rooms, secrets } = setup;
        let mut catalog = Catalog::default();
        for tool in tools {
            catalog.register(tool)?;
        }
        let unknown = config.check_tools(catalog.iter().map(|entry| &*entry.tool.def.name));
        if !unknown.is_empty() {
            return Err(OpenError::Config(unknown));
        }
        let unknown = config.check_arguments(|tool| catalog.get(tool).map(|entry| &entry.tool.def.input_schema));
        if !unknown.is_empty() {
            return Err(OpenError::Config(unknown));
        }
        let mut directories = BTreeMap::new();
        for (agent, settings) in &config.agents {
            let opened = Directories::open(settings, &config.protected, &hidden)
                .map_err(|fault| OpenError::Workspace { agent: agent.clone(), fault })?;
            let own = config.policy.agents.get(agent).map(|agent| &agent.resources);
            let rules = [Some(&config.policy.resources), own].into_iter().flatten().flat_map(|it| &it.files);
            let linked = fence::through_links(&opened, rules);
            if !linked.is_empty() {
                return Err(OpenError::Config(linked));
            }
            directories.insert(agent.clone(), opened);
        }
        let policy_digest = config.digest()?;
        let catalog = ArcSwap::from_pointee(catalog);
        let clock = Arc::new(SystemClock);
        let broker = Arc::new(Broker::open(secrets.unwrap_or_else(SecretPlaces::none)));
        let connections = Arc::new(Connections::new(&config.connections, broker, clock.clone()));
        let gateway = Arc::new(Gateway::new(config.egress.clone(), connections.clone()));
        let mut redactor = Redactor { key: [0; 32], personal: config.redact_personal_data.value };
        getrandom::fill(&mut redactor.key).map_err(|error| OpenError::Chance(error.to_string()))?;
        let conversations = Conversations::open(rooms.as_deref());
        let definitions = Definitions::at(rooms.clone());
        let (processes, containers) = (config.rooms.clone(), config.containers.clone());
        let quarters = Arc::new(Quarters::new(rooms, processes, containers, hidden, gateway.clone()));
        let rules = config.policy.approvals.clone();
        let approvals = state.clone().map(|state| Approvals::new(state, store.clone(), rules, clock.clone()));
        let effects = state.clone().map(|state| Effects::new(state, store.clone(), clock.clone()));
        let trust = Trust::new(&config.policy, state.clone(), store.clone(), clock.clone());
        let means = Means::new(state.clone(), store.clone(), clock.clone());
        let house = House {
            catalog,
            changes: watch::Sender::new(0),
            arriving: watch::Sender::default(),
            listings: Listings::default(),
            bound: house::bound(&config),
            config,
            policy_digest,
            approvals,
            effects,
            means,
            trust,
            store,
            directories,
            quarters,
            connections,
            conversations,
            definitions,
            offers: Mutex::default(),
            shelves: Mutex::default(),
            watched: Watched::default(),
            desks: disclosure::Desks::default(),
            traffic: Traffic::default(),
            redactor,
            gateway,
            clock,
        };
        Ok(Self { house: Arc::new(house) })
    }

    /// Adds a tool while the runtime runs.
    pub fn register(&self, tool: tools::Tool) -> Result<(), BadTool> {
        let mut added = Ok(());
        self.house.catalog.rcu(|catalog| {
            let mut catalog = Catalog::clone(catalog);
            added = catalog.register(tool.clone());
            catalog
        });
        self.house.changed();
        added
    }

    /// Takes in everything an origin offers, in the place of what it offered before. What is not pinned is held back:
    /// it is shown to nobody, and a call of it is refused until a person has pinned its definition.
    pub fn register_imported(&self, origin: Origin, tools: &[Imported]) -> Result<Vec<Registered>, Fault> {
        let mut offers = self.house.offers();
        let offer = Offer::of(origin, tools)?;
        let registered = self.house.import(&offer);
        offers.insert(offer.origin().to_owned(), offer);
        let registered = registered?;
        for near in registered.iter().flat_map(|tool| &tool.near) {
            tracing::warn!("{near}");
        }
        Ok(registered)
    }

    /// Takes in what a server offers beside its tools, in the place of what it offered before, and gives one sentence about
    /// each thing that is left out. Nothing of it is shown to who may not ask for it, and asking is a call.
    pub fn register_wares(&self, server: &str, wares: &Wares, questions: &[Question]) -> Result<Vec<String>, Fault> {
        self.house.stock(server, wares, questions)
    }

    /// What servers offer beside tools that this agent may ask for.
    pub fn library(&self, agent: &AgentName) -> Result<Library, Fault> {
        let agent = self.house.agent(agent)?;
        Ok(self.house.library(&self.house.catalog(), agent))
    }

    /// Has a server tell when what is at this address changes, until what is given is dropped. None where so much is watched
    /// already that nothing more is taken.
    pub fn watch_resource(&self, server: &str, uri: &str) -> Option<Watching> {
        self.house.watched.watch(server, uri)
    }

    /// What a server is to tell of; changes whenever that does.
    pub fn watched_of(&self, server: &str) -> OfServer {
        self.house.watched.of(server)
    }

    /// Tells whoever watches that what is at an address of a server has changed.
    pub fn resource_changed(&self, server: &str, uri: &str) {
        self.house.watched.tell(server, uri);
    }

    /// Word of everything that changes and is watched.
    pub fn resource_news(&self) -> tokio::sync::broadcast::Receiver<News> {
        self.house.watched.news()
    }

    /// Starts the program of a server of the config, in a room of its own. It blocks while the room is made.
    pub fn start_server(&self, name: &str) -> Result<Companion, Fault> {
        let house = &self.house;
        let server = house.server(name)?;
        house.quarters.companion(name, &server.value, house.policy(), &house.config.protected)
    }

    /// Says that a server is being connected for the first time, until what is given is dropped.
    pub fn server_arriving(&self, name: &str) -> Arriving {
        let arriving = self.house.arriving.clone();
        arriving.send_modify(|arriving| _ = arriving.insert(name.to_owned(), Instant::now()));
        Arriving { name: name.to_owned(), arriving }
    }

    /// Waits until every server that is on its way has come or given up, and only a moment: whoever is shown the tools
    /// right after the start is shown those of most servers too, and told of the others when they come.
    pub async fn servers_arrived(&self) {
        self.house.most_arrived().await;
    }

    /// Has the servers that are connected list what they have again, and waits for those that do soon: whoever is shown their
    /// tools after this is shown what they are now.
    pub async fn servers_listed(&self) {
        self.house.listings.again().await;
    }

    /// Says that a server lists what it has when somebody is about to be shown it, until what is given is dropped.
    pub fn lister(&self, server: &str) -> Lister {
        self.house.listings.lister(server)
    }

    /// The way to a server of the config that is at an address.
    pub fn server_line(&self, name: &str) -> Result<ServerLine, Fault> {
        let house = &self.house;
        ServerLine::new(name, &house.server(name)?.value, house.gateway.clone(), house.policy())
    }

    /// Pins what is held back of an imported tool, if it has this hash.
    pub fn pin(&self, tool: &str, hash: Digest, by: &str) -> Result<(), Fault> {
        self.house.definitions.pin(tool, hash, by)
    }

    /// A call with a fresh id.
    pub fn call(&self, agent: &AgentName, tool: &str, arguments: Value) -> Call {
        let id = CallId(uuid::Uuid::now_v7().to_string());
        let by = Principal::Agent(agent.clone());
        Call { id, agent: agent.clone(), by, tool: tool.to_owned(), arguments, key: None, task: None }
    }

    /// How long a call of somebody who can wait waits for people.
    pub fn hold(&self) -> Duration {
        self.house.config.hold
    }

    /// An agent has left, and may come back: its rooms stay for the time of grace.
    pub fn agent_left(&self, agent: &AgentName) {
        self.house.quarters.agent_left(agent);
    }

    /// A task is over, for whoever tells of tasks in its calls: under `per-task` its rooms are closed. It may take as long
    /// as closing a room does.
    pub fn task_ended(&self, agent: &AgentName, task: &str) {
        self.house.quarters.task_ended(agent, task);
    }

    /// How containers that were made ahead do; none where no container was wanted yet.
    pub fn pooled(&self) -> Option<sandbox::Pooled> {
        self.house.quarters.pooled()
    }

    /// Questions to people and their answers; none where nobody can be asked.
    pub fn approvals(&self) -> Option<&Approvals> {
        self.house.approvals.as_ref()
    }

    /// Looks after questions to people until it is told to stop: does what time brings about, and tells people, over the
    /// config's channels, of what this program asks. For whoever serves.
    pub async fn tend(&self, stop: CancellationToken) {
        match &self.house.approvals {
            Some(approvals) => notify::tend(&self.house, approvals, stop).await,
            None => stop.cancelled().await,
        }
    }

    /// What is known about agents, and how far they are trusted.
    pub fn trust(&self) -> &Trust {
        &self.house.trust
    }

    /// What agents are given to spend, and what holds them back.
    pub fn means(&self) -> &Means {
        &self.house.means
    }

    /// Effects that happen once; none where no keys are kept.
    pub fn effects(&self) -> Option<&Effects> {
        self.house.effects.as_ref()
    }

    /// Takes one call down the road.
    ///
    /// The call goes on to its end when this future is dropped: it is cancelled, and its end is recorded. Until then it goes
    /// on where this future is polled.
    pub async fn invoke(&self, call: Call, watch: Watch) -> Outcome {
        let call = invoke::meant(&self.house, call);
        match self.house.server_of(&call.tool) {
            Some(server) => self.house.arrived(server).await,
            // Whoever looks for tools is told of those that are about to come.
            None if DISCOVERY.contains(&&*call.tool) => {
                self.house.most_arrived().await;
                self.house.listings.again().await;
            }
            None => {}
        }
        self.house.refresh();
        let (cancel, gone) = (watch.cancel.clone(), watch.cancel.clone().drop_guard());
        let (id, tool) = (call.id.clone(), call.tool.clone());
        let road = Box::pin(invoke::invoke(self.house.clone(), call, watch));
        let ended = Walked::of(self.house.traffic.joined(road, cancel)).await;
        gone.disarm();
        match ended {
            Ok(ended) => {
                if let Some(fatal) = ended.fatal {
                    tracing::error!(call = %id, "{fatal}");
                }
                ended.outcome
            }
            Err(said) => invoke::lost(id, tool, &said),
        }
    }

    /// Takes the calls of one turn down the road, staged.
    pub async fn turn(&self, calls: Vec<Call>, watch: Watch) -> Turn {
        self.house.refresh();
        turn::turn(self.house.clone(), calls, watch).await
    }

    /// Cancels every call under way, whoever waits for it, and returns when their ends are recorded, or after some seconds.
    /// For whoever is about to close the store.
    pub async fn close(&self) {
        self.house.traffic.close().await;
    }

    /// What would be decided about a call. Nothing runs, nothing is recorded.
    pub fn explain(&self, call: &Call) -> Result<Explanation, Fault> {
        self.house.refresh();
        let house = &*self.house;
        let call = &invoke::meant(house, call.clone());
        let (meaning, decision) = invoke::preview(house, call)?;
        let place = invoke::whereabouts(house, call)?;
        let catalog = house.catalog();
        let (agent, entry) = invoke::find(house, &catalog, call)?;
        let arguments = &call.arguments;
        let asked = advice::Decided { house, agent, entry, arguments, meaning: &meaning, decision: &decision };
        let to_pass = asked.advice();
        let decided = decision.decided();
        let invoke::Meaning { action, effects, risk, class, .. } = meaning;
        let sinks = house.policy().sinks.iter().filter(|sink| sink.tool == call.tool).cloned().collect();
        Ok(Explanation { action, class, risk, effects, decided, sinks, to_pass, place })
    }

    /// Tells what the user said to an agent. Whatever is in it was asked for, and may steer a call.
    pub fn user_said(&self, agent: &AgentName, text: &str) -> Result<(), Fault> {
        let agent = self.house.agent(agent)?;
        self.house.conversations.user_said(&agent.name, text);
        Ok(())
    }

    /// A person stands for these values: in the conversation of this agent they are trusted from now on, whoever said
    /// them before. It is recorded before it holds.
    pub async fn declassify(&self, agent: &AgentName, values: Value, by: &Person) -> Result<(), Fault> {
        invoke::declassify(&self.house, agent, values, by).await
    }

    /// The tools this agent may know of, by name, as far as its standing is known: [`Trust::look`] asks again.
    pub fn definitions(&self, agent: &AgentName) -> Result<Vec<Listed>, Fault> {
        self.house.refresh();
        self.house.definitions_for(agent)
    }

    /// May this agent know of this tool?
    pub fn knows(&self, agent: &AgentName, tool: &str) -> bool {
        self.house.refresh();
        let (house, catalog) = (&self.house, self.house.catalog());
        let shown = |agent| catalog.get(tool).map(|entry| house.shown_to(agent, entry));
        house.agent(agent).ok().and_then(shown).is_some_and(|decision| !matches!(decision, Decision::Deny(_)))
    }

    /// Changes whenever the catalog does. What another process pins is noticed when somebody asks for definitions.
    pub fn catalog_changes(&self) -> watch::Receiver<u64> {
        self.house.changes.subscribe()
    }

    /// What a client's list shows of the tools of this agent: where these are many, some of them, and those that find the
    /// others.
    pub fn offered(&self, agent: &AgentName, list: ToolList) -> Result<Vec<Listed>, Fault> {
        self.house.refresh();
        self.house.offered(agent, list)
    }

    /// Changes whenever an agent loads a tool.
    pub fn loaded_changes(&self) -> watch::Receiver<u64> {
        self.house.desks.changes.subscribe()
    }

    /// What this agent is spared by being shown its tools little by little.
    pub fn spared(&self, agent: &AgentName) -> Result<Spared, Fault> {
        self.house.refresh();
        self.house.spared(agent)
    }

    /// Every tool there is, by name, whoever may use it. For people; agents are shown their [`Runtime::definitions`].
    pub fn catalog(&self) -> Vec<Listed> {
        self.house.refresh();
        self.house.catalog().iter().map(Listed::of).collect()
    }

    /// The hash of the definition a tool has now; none if there is no such tool.
    pub fn definition(&self, tool: &str) -> Option<Digest> {
        self.house.refresh();
        self.house.catalog().get(tool).map(|entry| entry.digest)
    }

    /// Was a standing yes given for another definition of its tool? Of a tool that is not here nobody can say.
    pub fn is_stale(&self, grant: &Grant) -> bool {
        let given_for = grant.terms.definition;
        given_for.is_none() || self.definition(&grant.terms.tool).is_some_and(|now| given_for != Some(now))
    }

    /// Asks a connection for its own address, as a call through it would, and gives what answered.
    pub async fn try_connection(&self, name: &str) -> Result<WebResponse, Fault> {
        let connections = &self.house.connections;
        let answer = match self.house.gateway.client(&[]) {
            Ok(client) => connections.send(name, &WebRequest::get(""), &client).await,
            Err(fault) => Err(fault),
        };
        answer.map_err(|fault| connections.broker().redact_fault(fault))
    }

    /// The settings it runs under.
    pub fn config(&self) -> &Config {
        &self.house.config
    }
}
