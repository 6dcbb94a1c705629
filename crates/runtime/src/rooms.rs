//! Rooms for calls that start programs: who gets which, and what stood around it.
//!
//! A body sees a room as [`Programs`]. Behind it is a lease, taken when the body first runs something: a call that is
//! refused, or whose body finds its arguments wanting, opens no room. What stood around each program is noted in the
//! call's [`Ledger`], from which the road takes what it records.
//!
//! Rooms are made of processes or are containers; which, the config says by category. Each kind has its own backend,
//! opened when the first program needs it, and its own life: what hangs in one does not hold up the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak, mpsc},
    thread,
    time::{Duration, Instant},
};

use tokio::runtime::Handle;
use toolgate_contract::{
    AgentName, CallId, CredentialVariable, Fault, Files, Job, Needs, Network, Ran, Reach, Receipt, TerminalSize,
};
use toolgate_gate::{Agent, Constraints, NetworkMode, Permit};
use toolgate_guard::shell::profiles::Profile;
use toolgate_sandbox::{
    Backend, DockerBackend, DockerSettings, Egress, Io, Lease, Lifecycle, Monotonic, Opening, Owner, Pool, PoolSize,
    Pooled, ProcessBackend, RoomLimits, RoomSpec, Rooms, TierChoice, WorkspaceMode, WorkspaceSpec, ids,
};
use toolgate_tools::{Programs, Seen, StopFlag};

use crate::{
    config::{ContainerSettings, EgressSettings, Place, RoomSettings, real},
    fence::{Directories, Fence},
    terminals::Terminals,
    web::{Gateway, host_refused},
};

/// How often rooms are looked at that nobody uses.
const TICK: Duration = Duration::from_secs(5);

/// How often containers are looked for whose runtime has died.
const RECONCILE: Duration = Duration::from_secs(10);

/// How long is waited for rooms to close when the runtime ends. What is left then ends with its streams, and is removed by
/// the next runtime.
const FAREWELL: Duration = Duration::from_secs(30);

/// Where a daemon listens, unless whoever opens the runtime knows better.
const SOCKET: &str = "/var/run/docker.sock";

/// What in every workspace is executed by somebody else later: an agent that could write it would act with that
/// somebody's rights.
const PROTECTED: [&str; 2] = [".git/hooks", ".git/config"];

/// Where the system keeps the certificates it trusts, one a file.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs";

/// What makes rooms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    Process,
    Docker,
}

impl Maker {
    /// Who makes the rooms of a category with this place.
    pub(crate) fn of(place: &Place) -> Self {
        match place {
            Place::Docker { .. } => Self::Docker,
            Place::Inline | Place::Room | Place::Unavailable { .. } | Place::DenyAll => Self::Process,
        }
    }

    /// As config spells it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Process => "subprocess",
            Self::Docker => "docker",
        }
    }
}

/// Who a room is for.
#[derive(Clone, Copy)]
pub(crate) struct Tenant<'a> {
    pub(crate) agent: &'a Agent,
    /// What the agent is at, where its caller says so.
    pub(crate) task: Option<&'a str>,
    /// The call it is for.
    pub(crate) call: &'a CallId,
}

/// The rooms of one runtime. Nothing is started before the first program. Dropping it closes them all.
pub(crate) struct Quarters {
    /// Where notes about open rooms are kept.
    dir: Option<PathBuf>,
    settings: RoomSettings,
    containers: ContainerSettings,
    /// Paths of the machine no room sees.
    hidden: Vec<PathBuf>,
    gateway: Arc<Gateway>,
    processes: OnceLock<Result<Arc<Rooms>, Fault>>,
    docker: OnceLock<Result<Arc<Rooms>, Fault>>,
    /// What makes containers ahead; none before the first was wanted.
    ahead: OnceLock<Arc<Pool>>,
    terminals: Arc<Terminals>,
}

impl Quarters {
    pub(crate) fn new(
        dir: Option<PathBuf>,
        settings: RoomSettings,
        containers: ContainerSettings,
        hidden: Vec<PathBuf>,
        gateway: Arc<Gateway>,
    ) -> Self {
        Self {
            dir,
            settings,
            containers,
            hidden: hidden_from_rooms(hidden),
            gateway,
            processes: OnceLock::new(),
            docker: OnceLock::new(),
            ahead: OnceLock::new(),
            terminals: Arc::default(),
        }
    }

    /// Is a terminal open, in which a program may run between calls?
    pub(crate) fn has_terminals(&self) -> bool {
        !self.terminals.is_empty()
    }

    /// The agent has left: its rooms stay for the time of grace.
    pub(crate) fn agent_left(&self, agent: &AgentName) {
        self.opened().for_each(|rooms| rooms.agent_stopped(&agent.0));
    }

    /// The task is over: its rooms are closed as soon as nobody has them.
    pub(crate) fn task_ended(&self, agent: &AgentName, task: &str) {
        self.opened().for_each(|rooms| rooms.task_ended(&agent.0, task));
    }

    fn opened(&self) -> impl Iterator<Item = &Arc<Rooms>> {
        [self.processes.get(), self.docker.get()].into_iter().flatten().flatten()
    }

    /// The room for one call, as its body sees it, and where is noted what stood.
    pub(crate) fn programs(
        self: &Arc<Self>,
        maker: Maker,
        Tenant { agent, task, call }: Tenant<'_>,
        directories: &Directories,
        protected: &[String],
        permit: Permit,
        fence: Fence,
    ) -> (Arc<dyn Programs>, Ledger) {
        let ledger = Ledger::default();
        let spec = self.spec(maker, agent, directories, protected, permit.needs(), &fence);
        let owner = Owner { agent: agent.name.0.to_string(), task: task.map(str::to_owned) };
        let room = CallRoom {
            quarters: self.clone(),
            maker,
            owner,
            call: call.clone(),
            spec,
            fence,
            permit: Arc::new(permit),
            lease: Mutex::default(),
            ledger: ledger.clone(),
        };
        (Arc::new(room), ledger)
    }

    /// The room an agent gets for a tool with these needs. Where its profile is for reading, so is the room.
    pub(crate) fn spec(
        &self,
        maker: Maker,
        agent: &Agent,
        directories: &Directories,
        protected: &[String],
        needs: &Needs,
        fence: &Fence,
    ) -> RoomSpec {
        let scope = agent.constraints.file_system.value;
        let (ground, workspace) = (directories.ground(scope), directories.workspace.root());
        let profile = agent.profile.as_ref().map(|profile| &profile.value);
        let only_reads = profile.is_some_and(Profile::only_reads) || agent.constraints.read_only.is_some();
        let mode = match needs.files {
            Files::Write if !only_reads => WorkspaceMode::ReadWrite,
            Files::Write | Files::Read | Files::None => WorkspaceMode::ReadOnly,
        };
        let egress = match profile {
            Some(profile) if profile.stays_offline() => Egress::Deny,
            Some(_) | None => egress(&agent.constraints, self.gateway.settings(), &fence.barred),
        };
        let mut names = protected_in(ground, protected);
        if let Some(below) = workspace.strip_prefix(ground).ok().and_then(Path::to_str).filter(|it| !it.is_empty()) {
            names.extend(protected_in(workspace, protected).iter().map(|name| format!("{below}/{name}")));
        }
        let mut spec = match maker {
            Maker::Process => self.of_processes(),
            Maker::Docker => self.of_containers(),
        };
        spec.visible.extend(directories.shown(scope));
        spec.visible.sort();
        spec.visible.dedup_by(|inner, outer| inner.starts_with(outer));
        RoomSpec {
            workspace: Some(WorkspaceSpec { path: ground.to_owned(), mode, protected: names }),
            hidden: self.hidden.clone(),
            start: (ground != workspace).then(|| workspace.to_owned()),
            egress,
            ..spec
        }
    }

    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    pub(crate) fn hidden(&self) -> &[PathBuf] {
        &self.hidden
    }

    /// What all rooms have in common that are made of processes.
    pub(crate) fn of_processes(&self) -> RoomSpec {
        RoomSpec {
            visible: self.settings.shown(),
            path_prefixes: self.settings.path_prefixes.clone(),
            limits: self.settings.limits,
            tier: self.settings.tier,
            accepted_gaps: self.settings.accepted_gaps.clone(),
            ..RoomSpec::bare()
        }
    }

    /// What all containers have in common. Programs come with the image, not from this machine.
    fn of_containers(&self) -> RoomSpec {
        let ContainerSettings { memory_limit, pids_limit, tmpfs_size, .. } = self.containers;
        let limits =
            RoomLimits { memory: memory_limit, pids: pids_limit, scratch: tmpfs_size, ..RoomLimits::default() };
        RoomSpec { limits, tier: TierChoice::Best, ..RoomSpec::bare() }
    }

    /// The longest a program may run.
    fn timeout(&self, maker: Maker) -> Option<Duration> {
        match maker {
            Maker::Process => self.settings.timeout,
            Maker::Docker => Some(self.containers.timeout),
        }
    }

    pub(crate) fn rooms(&self, maker: Maker) -> Result<&Arc<Rooms>, Fault> {
        let rooms = match maker {
            Maker::Process => self.processes.get_or_init(|| self.open_processes()),
            Maker::Docker => self.docker.get_or_init(|| self.open_docker()),
        };
        rooms.as_ref().map_err(Clone::clone)
    }

    fn open_processes(&self) -> Result<Arc<Rooms>, Fault> {
        let backend = Arc::new(ProcessBackend::open(self.dir()?)?);
        Ok(self.begin(backend, self.settings.lifecycle))
    }

    fn open_docker(&self) -> Result<Arc<Rooms>, Fault> {
        let backend = Arc::new(DockerBackend::open(self.dir()?, docker_settings(&self.containers))?);
        reconcile(&backend);
        let ContainerSettings { lifecycle, warm_rooms, .. } = self.containers;
        let pool = Arc::new(Pool::new(backend, PoolSize { rooms: warm_rooms, idle: lifecycle.idle })?);
        Ok(self.begin(self.ahead.get_or_init(|| pool).clone(), lifecycle))
    }

    /// How containers that were made ahead do; none where no container was wanted yet.
    pub(crate) fn pooled(&self) -> Option<Pooled> {
        self.ahead.get().map(|pool| pool.pooled())
    }

    fn begin(&self, backend: Arc<dyn Backend>, lifecycle: Lifecycle) -> Arc<Rooms> {
        let rooms = Arc::new(Rooms::new(backend, lifecycle, Arc::new(Monotonic::default())));
        watch(&rooms, &self.terminals);
        rooms
    }

    fn dir(&self) -> Result<&Path, Fault> {
        self.dir.as_deref().ok_or_else(|| {
            Fault::refused(
                "no_room",
                "this runtime was opened without a place to note its rooms in",
                "Give `Setup::rooms` a directory.",
            )
        })
    }
}

impl Drop for Quarters {
    fn drop(&mut self) {
        let opened = [(Maker::Process, self.processes.take()), (Maker::Docker, self.docker.take())];
        let rooms = opened.into_iter().filter_map(|(maker, rooms)| Some((maker.word(), rooms?.ok()?)));
        close(rooms.collect(), FAREWELL);
    }
}

/// Closes the rooms of every backend at the same time, and says which have not closed in time.
fn close(backends: Vec<(&'static str, Arc<Rooms>)>, patience: Duration) {
    let (tell, told) = mpsc::channel();
    let mut left = Vec::new();
    for (backend, rooms) in backends {
        let (tell, closing) = (tell.clone(), Arc::clone(&rooms));
        let work = move || {
            closing.close_all();
            // Whoever asked may have given up.
            let _ = tell.send(backend);
        };
        match thread::Builder::new().name(format!("close-{backend}")).spawn(work) {
            Ok(_) => left.push(backend),
            Err(_) => rooms.close_all(),
        }
    }
    drop(tell);
    let until = Instant::now() + patience;
    while !left.is_empty() {
        match told.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(closed) => left.retain(|backend| *backend != closed),
            Err(_) => break,
        }
    }
    for backend in left {
        tracing::error!(backend, "rooms did not close; what is left of them is removed by the next runtime");
    }
}

/// How containers are made, as the backend takes it.
pub fn docker_settings(settings: &ContainerSettings) -> DockerSettings {
    let socket = settings.host.clone().unwrap_or_else(|| SOCKET.into());
    DockerSettings {
        memory_limit: settings.memory_limit,
        cpu_limit: settings.cpu_limit,
        pids_limit: settings.pids_limit,
        tmpfs_size: settings.tmpfs_size,
        auto_remove: settings.auto_remove,
        runtime: settings.runtime.clone(),
        dns_allowed: settings.dns_allowed,
        loopback_allowed: settings.loopback_allowed,
        sidecar_pids: settings.sidecar_pids_limit,
        sidecar_tmpfs: settings.sidecar_tmpfs_size,
        log_shipping: settings.log_shipping.shipping(),
        ..DockerSettings::new(socket, &settings.image, settings.worker.clone().unwrap_or_default())
    }
}

/// The names in a workspace that no program changes: what is executed by others later, and what the config protects
/// ([`Config::protected`](crate::config::Config::protected)).
pub fn protected_in(workspace: &Path, config: &[String]) -> Vec<String> {
    let inside = |path: &Path| path.strip_prefix(workspace).ok()?.to_str().map(str::to_owned);
    // An absolute name is a file of the runtime's or of the user's, and so is what it leads to. Where it lies elsewhere, rooms do
    // not see it or cannot write it.
    let named = config.iter().flat_map(|name| match Path::new(name) {
        path if path.is_absolute() => [inside(path), inside(&real(path))],
        _ => [Some(name.clone()), None],
    });
    let named = named.flatten();
    let names: BTreeSet<String> = PROTECTED.map(str::to_owned).into_iter().chain(named).collect();
    names.into_iter().filter(|name| !name.is_empty()).collect()
}

/// Paths that no room sees, as a room would come across them: a link on the way to them hides nothing.
pub fn hidden_from_rooms(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let paths: BTreeSet<PathBuf> = paths.into_iter().map(|path| real(&path)).collect();
    paths.into_iter().collect()
}

impl fmt::Debug for Quarters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quarters").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Closes what nobody has used for long enough, until the rooms are gone themselves.
fn watch(rooms: &Arc<Rooms>, terminals: &Arc<Terminals>) {
    let (rooms, terminals) = (Arc::downgrade(rooms), Arc::downgrade(terminals));
    let work = move || {
        loop {
            thread::sleep(TICK);
            let (Some(rooms), Some(terminals)) = (rooms.upgrade(), terminals.upgrade()) else { return };
            terminals.tick();
            rooms.tick();
        }
    };
    if let Err(error) = thread::Builder::new().name("rooms".into()).spawn(work) {
        tracing::warn!("idle rooms stay open: no thread to close them: {error}");
    }
}

/// Removes containers whose runtime has died, until the backend is gone itself. It has a thread of its own: a daemon may
/// take long to answer.
fn reconcile(backend: &Arc<DockerBackend>) {
    let backend: Weak<DockerBackend> = Arc::downgrade(backend);
    let work = move || {
        loop {
            thread::sleep(RECONCILE);
            let Some(backend) = backend.upgrade() else { return };
            match backend.reconcile() {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "containers of a runtime that had died were removed"),
                Err(error) => tracing::debug!(%error, "containers of dead runtimes stay until the daemon answers"),
            }
        }
    };
    if let Err(error) = thread::Builder::new().name("containers".into()).spawn(work) {
        tracing::warn!("containers of dead runtimes stay: no thread to remove them: {error}");
    }
}

/// Whom programs may talk to: the agent's list, and nobody where it has none. A host without a port is meant for the web.
/// They are found as the runtime itself finds them.
fn egress(constraints: &Constraints, settings: &EgressSettings, barred: &[String]) -> Egress {
    if constraints.network.value == NetworkMode::None || constraints.network_allowlist.is_empty() {
        return Egress::Deny;
    }
    let with_port = |entry: &str| match entry.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => vec![entry.to_owned()],
        _ => vec![format!("{entry}:443"), format!("{entry}:80")],
    };
    Egress::Allow(Opening {
        hosts: constraints.network_allowlist.iter().flat_map(|entry| with_port(&entry.value)).collect(),
        internal: settings.hostname_allowlist.clone(),
        barred: barred.to_vec(),
        name_servers: settings.name_servers.clone(),
        pinned: BTreeMap::new(),
    })
}

/// What the programs of one call left to be recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    receipt: Option<Receipt>,
    refused: Vec<String>,
}

impl Ledger {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, ran: &Ran) {
        let mut noted = self.noted();
        noted.receipt = Some(ran.receipt.clone());
        noted.refused.extend(ran.refused.iter().cloned());
    }

    /// The walls that stood, if anything ran, the gaps the operator accepted, and the containers it ran in.
    pub(crate) fn enforced(&self) -> Option<Vec<String>> {
        let noted = self.noted();
        let receipt = noted.receipt.as_ref()?;
        let walls = receipt.walls.iter().cloned();
        let gaps = receipt.gaps.iter().map(|gap| format!("gap:{gap}"));
        let container = receipt.container.iter().map(|id| format!("container:{id}"));
        let sidecar = receipt.sidecar.iter().map(|id| format!("sidecar:{id}"));
        Some(walls.chain(gaps).chain(container).chain(sidecar).collect())
    }

    /// The connections that were refused.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.noted().refused.clone()
    }
}

struct CallRoom {
    quarters: Arc<Quarters>,
    maker: Maker,
    owner: Owner,
    call: CallId,
    spec: RoomSpec,
    fence: Fence,
    permit: Arc<Permit>,
    /// The room that was used last, and what it is.
    lease: Mutex<Option<(RoomSpec, Arc<Lease>)>>,
    ledger: Ledger,
}

impl CallRoom {
    /// The room for the next job: the one before, unless there are other files to close by now.
    fn room(&self) -> Result<(RoomSpec, Arc<Lease>), Fault> {
        let spec = self.fence.closing(self.spec.clone())?;
        let mut held = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = held.as_ref().filter(|(known, _)| *known == spec) {
            return Ok(room.clone());
        }
        let lease = Arc::new(self.quarters.rooms(self.maker)?.lease(&self.owner, &spec)?);
        Ok(held.insert((spec, lease)).clone())
    }

    /// Ends a terminal that was opened when this call would have got another room.
    fn hold(&self, terminal: &str) -> Result<(), Fault> {
        let now = self.fence.closing(self.spec.clone())?;
        self.quarters.terminals.hold_to(&self.owner.agent, terminal, &now)
    }

    /// The room with a way out to these hosts. What a host is called, and every address it has, is judged before
    /// anything is started; the room's door then judges again, and dials nobody else.
    fn spec_reaching(&self, reach: &Reach) -> Result<RoomSpec, Fault> {
        let (needs, gateway) = (self.permit.needs(), &self.quarters.gateway);
        if needs.network != Network::Fenced {
            return Err(not_declared("the network", "needs.network"));
        }
        let settings = gateway.settings();
        let mut opening = Opening {
            hosts: reach.hosts.clone(),
            internal: settings.hostname_allowlist.clone(),
            barred: self.fence.barred.clone(),
            name_servers: settings.name_servers.clone(),
            pinned: BTreeMap::new(),
        };
        for target in &reach.hosts {
            self.permit.constraints().may_reach(target).map_err(|why| host_refused(&why))?;
            let found = Handle::current().block_on(gateway.addresses(target, &self.fence.barred))?;
            if settings.dns_rebinding_mitigation {
                let host = target.rsplit_once(':').map_or(target.as_str(), |(host, _)| host);
                opening.pinned.insert(host.to_owned(), found.iter().map(SocketAddr::ip).collect());
            }
        }
        let mut spec = self.fence.closing(RoomSpec { egress: Egress::Allow(opening), ..self.spec.clone() })?;
        spec.visible.extend(settings.ca_file.clone());
        Ok(spec)
    }

    /// The job with what it needs to prove who it is, and to know whom it talks to.
    fn equipped(&self, job: &Job, reach: &Reach) -> Result<Job, Fault> {
        let gateway = &self.quarters.gateway;
        let mut job = self.bounded(job);
        if let Some(file) = gateway.settings().ca_file.as_ref().and_then(|file| file.to_str()) {
            job.env.insert("SSL_CERT_FILE".into(), file.into());
            job.env.insert("SSL_CERT_DIR".into(), SYSTEM_ROOTS.into());
        }
        let Some(CredentialVariable { variable, connection }) = &reach.credential else { return Ok(job) };
        if !self.permit.needs().secrets {
            return Err(not_declared("credentials", "needs.secrets"));
        }
        let target = gateway.connections().git_target(connection)?;
        if reach.hosts != [target.as_str()] {
            let message = format!(
                "connection `{connection}` is for `{target}`, and the program would talk to `{}`",
                reach.hosts.join("`, `")
            );
            return Err(Fault::refused("connection_mismatch", message, "Use the connection of that host, or none."));
        }
        let client = gateway.client(&self.fence.barred)?;
        let line = Handle::current().block_on(gateway.connections().authorization_line(connection, &client))?;
        job.env.insert(variable.clone(), line.expose().to_owned());
        Ok(job)
    }

    /// The job with no more time than the operator gives any program. In a container it is told whose it is, as the
    /// container is.
    fn bounded(&self, job: &Job) -> Job {
        let mut job = job.clone();
        if self.maker == Maker::Docker {
            ids::mark(&mut job, &self.owner.agent, self.owner.task.as_deref(), &self.call.0);
        }
        let most = self.quarters.timeout(self.maker);
        job.limits.wall = most.map_or(job.limits.wall, |most| most.min(job.limits.wall));
        job
    }
}

fn not_declared(what: &str, key: &str) -> Fault {
    let message = format!("the tool reached for {what} it did not declare");
    Fault::refused("needs_not_declared", message, format!("Declare `{key}` in the tool's definition."))
}

impl Programs for CallRoom {
    fn run(&self, job: &Job, stop: &StopFlag) -> Result<Ran, Fault> {
        let io = Io { stop: &|| stop.is_raised(), heard: None, stdin: None, stdout: None };
        let (_, lease) = self.room()?;
        let ran = lease.run(&self.permit, &self.bounded(job), io)?;
        self.ledger.note(&ran);
        Ok(ran)
    }

    fn run_reaching(&self, job: &Job, reach: &Reach, stop: &StopFlag) -> Result<Ran, Fault> {
        let spec = self.spec_reaching(reach)?;
        let job = self.equipped(job, reach)?;
        let io = Io { stop: &|| stop.is_raised(), heard: None, stdin: None, stdout: None };
        // A room with a credential in it is nobody else's: other programs of the agent could look for it there.
        let mut owner = self.owner.clone();
        if let Some(credential) = &reach.credential {
            owner.agent = format!("{} through {}", owner.agent, credential.connection);
        }
        let mut ran = self.quarters.rooms(self.maker)?.lease(&owner, &spec)?.run(&self.permit, &job, io)?;
        // Before a tool cuts what was said: half a secret is not found.
        let broker = self.quarters.gateway.connections().broker();
        for stream in [&mut ran.stdout, &mut ran.stderr] {
            stream.text = broker.redact(&stream.text).into_owned();
        }
        self.ledger.note(&ran);
        Ok(ran)
    }

    fn open_terminal(&self, job: &Job, size: TerminalSize) -> Result<String, Fault> {
        let (room, job) = (self.room()?, self.bounded(job));
        let terminal = room.1.open_terminal(&self.permit, &job, size)?;
        let (name, receipt) = self.quarters.terminals.keep(&self.owner.agent, room, terminal, size, job.limits.wall)?;
        self.ledger.noted().receipt = Some(receipt);
        Ok(name)
    }

    fn type_into(&self, terminal: &str, bytes: &[u8]) -> Result<(), Fault> {
        self.hold(terminal)?;
        let receipt = self.quarters.terminals.type_into(&self.owner.agent, terminal, bytes)?;
        self.ledger.noted().receipt = Some(receipt);
        Ok(())
    }

    fn look_at(&self, terminal: &str, wait: Duration, stop: &StopFlag) -> Result<Seen, Fault> {
        self.hold(terminal)?;
        let (seen, receipt) = self.quarters.terminals.look_at(&self.owner.agent, terminal, wait, stop)?;
        self.ledger.noted().receipt = Some(receipt);
        Ok(seen)
    }

    fn close_terminal(&self, terminal: &str) -> Result<Ran, Fault> {
        let ran = self.quarters.terminals.close(&self.owner.agent, terminal)?;
        self.ledger.note(&ran);
        Ok(ran)
    }
}
