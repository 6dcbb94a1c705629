//! The way out of a container: somebody furnishes its network, and the runtime serves the door in it.
//!
//! The container has no device but its loopback, with or without a door. Whoever furnishes it binds the door's sockets
//! there and hands them over; what goes through them is judged, looked up and dialled here, where nobody in the container
//! has a say.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::{
    net::sockopt::{Timeout, set_socket_timeout},
    thread::{CapabilitySet, capabilities},
};

use super::{
    DockerSettings, Furnisher, House,
    container::Cover,
    daemon::Daemon,
    sidecar::{Beside, Sidecar},
    too_weak,
};
use crate::{
    process::{
        door::Door,
        net::{Fence, RESOLVER},
        wire::{self, Failure},
    },
    room::{Missing, RoomError},
    spec::{Opening, Wall},
    worker,
};

/// How long furnishing may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// A door in a container's network, and whoever keeps it open.
#[derive(Debug)]
pub(super) struct WayOut {
    door: Shared,
    sidecar: Option<Sidecar>,
}

/// None once it is shut.
pub(super) type Shared = Arc<Mutex<Option<Door>>>;

impl WayOut {
    /// Has the network of a container that runs furnished, and serves its door.
    pub(super) fn open(house: &Arc<House>, beside: Beside, opening: &Opening) -> Result<Self, RoomError> {
        let fence = fence(&house.settings);
        if !takes_a_sidecar(house.settings.furnisher) {
            let sockets = furnish_from_here(house, &beside.container, fence)?;
            return Ok(Self { door: serve(opening, sockets)?, sidecar: None });
        }
        let (mut sidecar, sockets) = Sidecar::start(house, beside, fence)?;
        let door = serve(opening, sockets)?;
        sidecar.ends_with_it(door.clone())?;
        Ok(Self { door, sidecar: Some(sidecar) })
    }

    /// Does the door still lead to anybody?
    pub(super) fn is_open(&self) -> bool {
        lock(&self.door).is_some()
    }

    /// How many were refused so far.
    pub(super) fn refusals(&self) -> usize {
        lock(&self.door).as_ref().map_or(0, Door::refusals)
    }

    /// Who was refused since there were this many.
    pub(super) fn refused_since(&self, before: usize) -> Vec<String> {
        lock(&self.door).as_ref().map(|door| door.refused_since(before)).unwrap_or_default()
    }

    /// Whoever keeps the door, where it is a container.
    pub(super) fn sidecar(&self) -> Option<&Sidecar> {
        self.sidecar.as_ref()
    }

    /// Shuts the door, with every connection through it, and removes whoever kept it, once its log has ended or it is that
    /// late. `false`: the daemon would not.
    pub(super) fn close(&self, until: Instant) -> bool {
        shut(&self.door);
        self.sidecar.as_ref().is_none_or(|sidecar| sidecar.remove(until))
    }
}

pub(super) fn fence(settings: &DockerSettings) -> Fence {
    Fence { names: settings.dns_allowed, loopback: settings.loopback_allowed }
}

/// What says in the container whom to ask about names, whatever its image says. Made in the room's own directory.
pub(super) fn name_server(dir: &Path) -> io::Result<Cover> {
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let with = dir.join("resolv.conf");
    fs::write(&with, RESOLVER)?;
    fs::set_permissions(&with, fs::Permissions::from_mode(0o444))?;
    Ok(Cover { path: "/etc/resolv.conf".into(), with })
}

pub(super) fn shut(door: &Shared) {
    drop(lock(door).take());
}

fn lock(door: &Shared) -> MutexGuard<'_, Option<Door>> {
    door.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(opening: &Opening, sockets: Vec<OwnedFd>) -> Result<Shared, RoomError> {
    Ok(Arc::new(Mutex::new(Some(Door::serve(opening, sockets)?))))
}

/// Going into somebody's network and changing it takes these two rights.
fn takes_a_sidecar(furnisher: Furnisher) -> bool {
    const RIGHTS: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::NET_ADMIN);
    match furnisher {
        Furnisher::ByRights => !capabilities(None).is_ok_and(|held| held.effective.contains(RIGHTS)),
        Furnisher::Sidecar => true,
        Furnisher::Child => false,
    }
}

/// Has a process of this machine go into the container's network. It ends as soon as that is furnished.
fn furnish_from_here(house: &House, container: &str, fence: Fence) -> Result<Vec<OwnedFd>, RoomError> {
    let network = network_of(&house.daemon, container)?;
    let (control, theirs) = wire::pair().map_err(RoomError::step("make a socket"))?;
    let mut worker = Command::new(&house.settings.worker)
        .arg(worker::WITHIN)
        .env_clear()
        .current_dir("/")
        .stdin(theirs)
        .stdout(network)
        .stderr(Stdio::null())
        .spawn()
        .map_err(RoomError::step("start a worker"))?;
    let furnished = order(&control, fence);
    // Whatever it has answered, it has nothing left to do.
    let _ = worker.kill();
    let _ = worker.wait();
    furnished
}

/// The network of a container. A number of a process says little: it may be used again, and mean another where the
/// daemon counts otherwise. So the process has to be in the container's own control group, and to be its first one still
/// once its network is held.
fn network_of(daemon: &Daemon, container: &str) -> Result<OwnedFd, RoomError> {
    const STEP: &str = "find the container's network";
    let pid = daemon.process_of(container)?;
    let network = File::open(format!("/proc/{pid}/ns/net")).map_err(RoomError::step(STEP))?;
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).map_err(RoomError::step(STEP))?;
    let inode = network.metadata().map_err(RoomError::step(STEP))?.ino();
    let own = fs::metadata("/proc/self/ns/net").map_err(RoomError::step(STEP))?.ino();
    if !groups.contains(container) || daemon.process_of(container)? != pid || inode == own {
        return Err(RoomError::step(STEP)(io::Error::other("the daemon names a process that is not the container's")));
    }
    Ok(network.into())
}

/// Has whoever is behind `control` furnish the network it is in, and gives the sockets of the door.
pub(super) fn order(control: &OwnedFd, fence: Fence) -> Result<Vec<OwnedFd>, RoomError> {
    const STEP: &str = "hear from whoever furnishes the network";
    set_socket_timeout(control, Timeout::Recv, Some(PATIENCE))
        .map_err(|error| RoomError::step("make a socket")(error.into()))?;
    wire::send(control, &fence, &[]).map_err(RoomError::step("have the network furnished"))?;
    let answer = wire::receive::<Result<(), Failure>>(control).map_err(RoomError::step(STEP))?;
    match answer {
        Some((Ok(()), sockets)) => Ok(sockets),
        Some((Err(failure), _)) => Err(too_weak(Wall::Network, unfurnished(&failure))),
        None => Err(RoomError::Lost("whoever was to furnish its network ended".into())),
    }
}

fn unfurnished(failure: &Failure) -> Missing {
    let error = io::Error::from_raw_os_error(failure.errno);
    Missing {
        why: format!("the network of the container was not furnished: could not {}: {error}", failure.step),
        remedy: "Use a kernel with `nf_tables`, `nft_redir`, `nft_reject` and `nft_ct`, and a daemon whose containers \
                 with `network none` have a loopback and no other device."
            .into(),
    }
}
