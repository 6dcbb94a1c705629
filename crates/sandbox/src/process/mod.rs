//! The process backend: rooms made of the kernel's own walls, without a helper program.
//!
//! Four kinds of processes, all of them this program. The *runtime* asks; the *zygote* (`zygote.rs`) is a small copy
//! of the program that makes rooms, so that a room costs the same however large the runtime is; a *keeper*
//! (`keeper.rs`) builds a room and stays in it; a *job init* (`job.rs`) puts up the last walls around one job, starts
//! it and sees that nothing of it is left. The runtime talks to keepers and job inits over sockets; when a socket
//! closes, whoever is on the other side ends everything below it. So rooms end with the runtime, however it ends.

pub(crate) mod bound;
pub(crate) mod cgroup;
pub(crate) mod door;
pub(crate) mod job;
pub(crate) mod keeper;
pub(crate) mod landlock;
pub(crate) mod net;
pub(crate) mod placeholder;
mod probe;
pub(crate) mod program;
pub(crate) mod receipt;
pub(crate) mod room;
mod root;
mod seccomp;
pub(crate) mod supervise;
pub(crate) mod sys;
pub(crate) mod terminal;
pub(crate) mod wire;
mod zygote;

use std::{
    fmt, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    registry::Registry,
    room::{Backend, Probed, Room, RoomError},
    spec::{RoomSpec, Tier},
};

use probe::Tiers;
use wire::Plan;

/// Makes rooms on this machine.
pub struct ProcessBackend {
    house: Arc<House>,
}

/// What the rooms of one backend share. A room keeps it alive.
pub(crate) struct House {
    zygote: Mutex<OwnedFd>,
    data: PathBuf,
    cgroups: cgroup::Cgroups,
    registry: Registry,
    tiers: Tiers,
}

impl ProcessBackend {
    /// Starts a zygote. `dir` is where notes about open rooms are kept, for those who clean up after a crash.
    pub fn open(dir: &Path) -> Result<Self, RoomError> {
        let opened = || RoomError::step(format!("open `{}`", dir.display()));
        let mut registry = Registry::open(dir).map_err(opened())?;
        let zygote = zygote::start(dir).map_err(RoomError::step("start the zygote"))?;
        let cgroups = cgroup::Cgroups::open(registry.label(), registry.instance());
        registry.uses_cgroups(cgroups.directories()).map_err(opened())?;
        let data = dir.to_owned();
        let house = House { zygote: Mutex::new(zygote), data, cgroups, registry, tiers: Tiers::default() };
        Ok(Self { house: Arc::new(house) })
    }
}

impl Backend for ProcessBackend {
    fn name(&self) -> &'static str {
        "process"
    }

    fn probe(&self) -> Vec<Probed> {
        probe::walls(&self.house)
    }

    fn open(&self, spec: &RoomSpec, owner: &str) -> Result<Arc<dyn Room>, RoomError> {
        let tier = probe::choose(&self.house, spec)?;
        Ok(Arc::new(room::ProcessRoom::open(&self.house, spec, tier, owner)?))
    }
}

impl fmt::Debug for ProcessBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessBackend").finish_non_exhaustive()
    }
}

impl House {
    /// Has the zygote make a room, and gives a handle on its keeper. None: it could not, and why is told on the room's
    /// socket. A zygote that somebody ended is replaced; its rooms ended with it.
    fn ask_zygote(&self, plan: &Plan, keepers_end: &OwnedFd) -> Result<Option<OwnedFd>, RoomError> {
        let mut zygote = self.zygote.lock().unwrap_or_else(PoisonError::into_inner);
        match ask(&zygote, plan, keepers_end) {
            Ok(keeper) => Ok(keeper),
            Err(_) => {
                *zygote = zygote::start(&self.data).map_err(RoomError::step("start the zygote"))?;
                ask(&zygote, plan, keepers_end)
                    .map_err(|error| RoomError::Lost(format!("the zygote does not answer: {error}")))
            }
        }
    }
}

fn ask(zygote: &OwnedFd, plan: &Plan, keepers_end: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    wire::send(zygote, plan, &[keepers_end.as_fd()])?;
    let (_, fds) = wire::receive::<()>(zygote)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(fds.into_iter().next())
}

/// Where a room keeps what it has on the machine. The data directory is shut to everybody but its owner, so the room of
/// a root runtime that works on the machine's own tree has its place elsewhere.
fn private_dir(registry: &Registry, id: &str, tier: Tier) -> std::io::Result<PathBuf> {
    if tier == Tier::Namespaces || !rustix::process::geteuid().is_root() {
        return Ok(registry.dir().join(id));
    }
    let dir = registry.walkable_dir();
    match std::fs::DirBuilder::new().mode(0o711).create(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(dir.join(id)),
    }
}
