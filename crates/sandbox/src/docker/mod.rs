//! The Docker backend: a room is a container whose only program is our worker.
//!
//! The worker is mounted into the container and spoken to over the stream the daemon attaches to it before it starts. A
//! job is a message on that stream, not an `exec` of the daemon: it costs what a job in a process room costs, has the
//! same last walls around it, and can be ended alone. When the stream ends, for whatever reason, the worker ends, and
//! the container with it.
//!
//! What the daemon was asked for is not believed: the worker tells what it finds, and a wall that does not stand closes
//! the room before it has run anything.

mod container;
mod covered;
mod daemon;
mod egress;
mod image;
mod log;
mod podman;
mod ready;
mod room;
mod seccomp;
mod sidecar;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use toolgate_contract::{Ending, Files, Job, JobLimits, Needs};
use toolgate_gate::Permit;

use crate::{
    registry::Registry,
    room::{Backend, Io, Missing, Probed, Room, RoomError},
    spec::{RoomSpec, Wall},
};

use daemon::Daemon;
pub use image::{find_daemon, load_image};
pub use log::LogShipping;
pub use ready::Readiness;
use room::DockerRoom;

/// How containers are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerSettings {
    /// The daemon's socket.
    pub socket: PathBuf,
    /// The image, as the daemon knows it. It is never pulled.
    pub image: String,
    /// The worker: a program that needs nothing of the image.
    pub worker: PathBuf,
    /// Bytes of memory of one container, and no swap. A room's own limit may be lower.
    pub memory_limit: u64,
    /// How much of the machine's processors, in billionths of one.
    pub cpu_limit: u64,
    /// Processes and threads of one container. A room's own limit may be lower.
    pub pids_limit: u32,
    /// Bytes of each private directory, and never more than an eighth of the memory. A room's own limit may be lower.
    pub tmpfs_size: u64,
    /// The daemon removes a container as soon as it has ended.
    pub auto_remove: bool,
    /// The daemon's runtime, such as `runsc`; none is its default.
    pub runtime: Option<String>,
    /// A container that may talk to somebody has a name server. Without it no question about a name is answered in it:
    /// listed addresses and the CONNECT proxy, which looks names up outside, are what is left.
    pub dns_allowed: bool,
    /// Programs of a container that may talk to somebody may talk to each other over `127.0.0.1` and `::1`.
    pub loopback_allowed: bool,
    /// Who puts up the network of a container that may talk to somebody.
    pub furnisher: Furnisher,
    /// Bytes of memory of a sidecar, and no swap.
    pub sidecar_memory: u64,
    /// How much of the machine's processors a sidecar may use, in billionths of one.
    pub sidecar_cpu: u64,
    /// Processes and threads of a sidecar.
    pub sidecar_pids: u32,
    /// Bytes of the private directory of a sidecar.
    pub sidecar_tmpfs: u64,
    /// What becomes of what containers say about themselves; none is nothing.
    pub log_shipping: Option<LogShipping>,
}

/// Who puts up the network of a container that may talk to somebody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Furnisher {
    /// A child where the runtime is root, and a sidecar where it is not.
    #[default]
    ByRights,
    /// A second container that shares the network of the first.
    Sidecar,
    /// A process of the runtime's own that goes into the container's network. Only for root.
    Child,
}

/// Makes containers on this machine.
pub struct DockerBackend {
    house: Arc<House>,
}

/// What the rooms of one backend share. A room keeps it alive.
pub(crate) struct House {
    settings: DockerSettings,
    data: PathBuf,
    daemon: Daemon,
    registry: Registry,
}

impl DockerSettings {
    /// Containers as they are where nobody says otherwise: of this image on the daemon behind `socket`, with this worker.
    pub fn new(socket: impl Into<PathBuf>, image: impl Into<String>, worker: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
            image: image.into(),
            worker: worker.into(),
            memory_limit: 512 << 20,
            cpu_limit: 1_000_000_000,
            pids_limit: 64,
            tmpfs_size: 64 << 20,
            auto_remove: true,
            runtime: None,
            dns_allowed: true,
            loopback_allowed: true,
            furnisher: Furnisher::default(),
            sidecar_memory: 64 << 20,
            sidecar_cpu: 500_000_000,
            sidecar_pids: 32,
            sidecar_tmpfs: 8 << 20,
            log_shipping: Some(LogShipping::default()),
        }
    }
}

impl DockerBackend {
    /// Takes a place in the data directory `dir`, and removes containers of this deployment whose instance has died. The
    /// daemon need not be there yet: without it no room is opened.
    pub fn open(dir: &Path, settings: DockerSettings) -> Result<Self, RoomError> {
        let backend = Self::at(dir, settings)?;
        if let Err(error) = backend.reconcile() {
            tracing::debug!(%error, "containers of dead instances stay until the daemon answers");
        }
        Ok(backend)
    }

    /// Removes containers of the deployment in `dir` whose instance has died, and says how many.
    pub fn sweep(dir: &Path, settings: DockerSettings) -> Result<usize, RoomError> {
        Self::at(dir, settings)?.reconcile()
    }

    fn at(dir: &Path, settings: DockerSettings) -> Result<Self, RoomError> {
        let registry = Registry::open(dir).map_err(RoomError::step(format!("open `{}`", dir.display())))?;
        let daemon = Daemon::new(&settings.socket).map_err(RoomError::step("start a runtime for the daemon"))?;
        Ok(Self { house: Arc::new(House { settings, data: dir.to_owned(), daemon, registry }) })
    }

    /// Removes containers of this deployment whose instance has died, and says how many. Those of living instances and
    /// of other deployments are never touched.
    pub fn reconcile(&self) -> Result<usize, RoomError> {
        let House { data, daemon, registry, .. } = &*self.house;
        let mut removed = 0;
        for (container, instance) in daemon.containers_of(registry.label())? {
            let is_alive = crate::registry::is_alive(data, &instance)
                .map_err(RoomError::step("look whether an instance lives"))?;
            if instance == registry.instance() || is_alive {
                continue;
            }
            // One that will not go does not keep the others.
            match daemon.remove(&container) {
                Ok(()) => removed += 1,
                Err(error) => tracing::warn!(%error, container, "a container of a dead instance stays for now"),
            }
        }
        Ok(removed)
    }
}

impl Backend for DockerBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn probe(&self) -> Vec<Probed> {
        let tried = self.try_once();
        let told = |wall: Wall| match &tried {
            Ok(walls) => {
                let prefix = format!("{}:", wall.as_str());
                let by = walls.iter().find_map(|stood| stood.strip_prefix(&prefix)).map(str::to_owned);
                by.ok_or_else(|| missing_inside(wall))
            }
            Err(missing) => Err(missing.clone()),
        };
        Wall::ALL.into_iter().map(|wall| Probed { wall, found: told(wall) }).collect()
    }

    fn open(&self, spec: &RoomSpec, owner: &str) -> Result<Arc<dyn Room>, RoomError> {
        Ok(Arc::new(DockerRoom::open(&self.house, spec, owner)?))
    }
}

impl DockerBackend {
    /// Makes a container, runs something in it, and gives the walls that stood. The worker's own program is the only one
    /// that every image has; without a word to read it ends at once.
    fn try_once(&self) -> Result<Vec<String>, Missing> {
        let needs = Needs { files: Files::Write, exec: true, ..Needs::NOTHING };
        let job = Job {
            argv: vec![container::WORKER.into()],
            cwd: String::new(),
            env: Default::default(),
            stdin: Vec::new(),
            limits: JobLimits::default(),
        };
        let io = Io { stop: &|| false, heard: None, stdin: None, stdout: None };
        let ran = DockerRoom::open(&self.house, &RoomSpec::bare(), "probe")
            .and_then(|room| room.run(&Permit::of_operator(needs), &job, io))
            .map_err(explain)?;
        match ran.ending {
            Ending::Exited { .. } => Ok(ran.receipt.walls),
            other => Err(Missing { why: format!("a job ended with {other:?}"), remedy: DOCTOR.into() }),
        }
    }
}

const DOCTOR: &str = "Run `toolgate doctor` and look at the step that failed.";

fn explain(error: RoomError) -> Missing {
    let why = match &error {
        RoomError::Step { source, .. } => format!("{error}: {source}"),
        RoomError::TooWeak { why, .. } => why.clone(),
        _ => error.to_string(),
    };
    match error {
        RoomError::TooWeak { remedy, .. } => Missing { why, remedy },
        RoomError::NotReady(fault) => Missing { why, remedy: fault.remedy },
        _ => Missing { why, remedy: DOCTOR.into() },
    }
}

fn missing_inside(wall: Wall) -> Missing {
    Missing {
        why: format!("a container was made, and `{}` did not stand in it", wall.as_str()),
        remedy: "Use a daemon that limits memory and processes with control groups, on a kernel of 6.12 or later."
            .into(),
    }
}

/// As config spells it.
const NAME: &str = "docker";

fn too_weak(wall: Wall, missing: Missing) -> RoomError {
    RoomError::TooWeak { backend: NAME, wall, why: missing.why, remedy: missing.remedy }
}

impl fmt::Debug for DockerBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerBackend").finish_non_exhaustive()
    }
}
