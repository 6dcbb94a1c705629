//! A container, as the runtime holds it.

use std::{
    fmt, fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Instant, SystemTime},
};

use toolgate_contract::{Ending, Job, Ran, TerminalSize};
use toolgate_gate::Permit;

use super::{
    House,
    container::{Cover, PRIVATE, Role, Wanted, limits},
    covered::Covered,
    daemon::Started,
    egress::{self, WayOut},
    log::{About, Log},
    missing_inside, ready,
    sidecar::{Beside, Sidecar},
    too_weak,
};
use crate::{
    ids::{self, Ids},
    overlay::Changes,
    process::{
        bound::Bound,
        placeholder::Placeholders,
        room::{check_spec, room_id},
    },
    registry::{CONTAINER, RoomNote},
    room::{Io, Missing, Room, RoomError, Terminal},
    spec::{RoomSpec, Wall, WorkspaceMode},
    worker::{OWN_PIDS, WorkerRoom},
};

/// Whom a container runs as where the runtime is root.
const NOBODY: u32 = 65_532;

pub(super) struct DockerRoom {
    /// None while it is opened and once it is dropped.
    inside: Option<WorkerRoom>,
    /// None where the container may talk to nobody.
    way_out: Option<WayOut>,
    container: Option<String>,
    removed: AtomicBool,
    note: Mutex<Option<RoomNote>>,
    placeholders: Option<Placeholders>,
    covered: Covered,
    whose: Mutex<Ids>,
    jobs: AtomicU64,
    /// None before it runs, and where nobody wants to know what it says about itself.
    log: Option<Arc<Log>>,
    house: Arc<House>,
}

impl DockerRoom {
    pub(super) fn open(house: &Arc<House>, spec: &RoomSpec, owner: &str) -> Result<Self, RoomError> {
        check_spec(spec)?;
        check_possible(house, spec)?;
        let image = house.daemon.image(&house.settings.image)?;
        let placeholders = match &spec.workspace {
            Some(workspace) if workspace.mode == WorkspaceMode::ReadWrite => Some(Placeholders::put(workspace)?),
            _ => None,
        };
        let mut spec = spec.clone();
        if let (Some(workspace), Some(placeholders)) = (&mut spec.workspace, &placeholders) {
            workspace.protected.clone_from(&placeholders.names);
        }
        let id = room_id();
        let put = placeholders.as_ref().map(Placeholders::paths).unwrap_or_default();
        // Noted before there is a container: whatever exists is noted.
        let noted = house.registry.note(&id, owner, CONTAINER, &spec, put);
        let note = noted.map_err(RoomError::step("write down that a room is made"))?;
        let dir = house.registry.dir().join(&id);
        let covered = Covered::look(&spec);
        let mut covers = make_covers(&dir, &spec).map_err(RoomError::step("cover what is hidden"))?;
        if spec.egress.opening().is_some() {
            covers.push(egress::name_server(&dir).map_err(RoomError::step("name a name server"))?);
        }
        let whose = Ids::of(owner, house.registry.instance());
        let wanted = Wanted {
            settings: &house.settings,
            image,
            ids: ids(),
            deployment: house.registry.label(),
            instance: house.registry.instance(),
            owner,
            variables: whose.variables(),
            spec_hash: spec.digest().map_err(|error| RoomError::step("hash the room")(error.into()))?.to_string(),
            covers,
            spec: &spec,
        };
        let name = format!("toolgate-{}-{id}", house.registry.instance());
        let bound = wanted.bound().map_err(RoomError::step("find what is to be mounted"))?;
        let container = house.daemon.create(&name, wanted.body(), house.registry.dir())?;
        let beside = Beside {
            container: container.clone(),
            name: format!("{name}-sidecar"),
            image: wanted.image.clone(),
            labels: wanted.labels(Role::Sidecar),
            variables: whose.variables(),
            dir,
        };
        // From here on dropping it removes the container.
        let mut room = Self {
            inside: None,
            way_out: None,
            container: Some(container),
            removed: AtomicBool::new(false),
            note: Mutex::new(Some(note)),
            placeholders,
            covered,
            whose: Mutex::new(whose),
            jobs: AtomicU64::new(0),
            log: None,
            house: house.clone(),
        };
        room.begin(&spec, beside, bound)?;
        Ok(room)
    }

    /// Starts the container, gives it a way out where it is to have one, and has its worker make the room. A wall that
    /// does not stand in it closes it again.
    fn begin(&mut self, spec: &RoomSpec, beside: Beside, bound: Vec<Bound>) -> Result<(), RoomError> {
        let (log, ear) = self.house.settings.log_shipping.map(Log::new).unzip();
        let Started { input, output } = self.house.daemon.start(self.container.as_deref().unwrap_or_default(), ear)?;
        self.log = log;
        if let Some(opening) = spec.egress.opening() {
            self.way_out = Some(WayOut::open(&self.house, beside, opening)?);
        }
        let mut told = spec.clone();
        told.limits = limits(&self.house.settings, &spec.limits);
        // The container holds what it was allowed in all; a job gets what its own processes leave.
        told.limits.pids = told.limits.pids.saturating_sub(OWN_PIDS).max(1);
        let fence = egress::fence(&self.house.settings);
        let inside = WorkerRoom::open_behind(fence, bound, input, output, &told, Path::new(PRIVATE))?;
        let stands: Vec<Wall> = inside.stands().collect();
        let missing = Wall::ALL.into_iter().find(|wall| !stands.contains(wall) && !spec.accepted_gaps.contains(wall));
        match missing {
            Some(wall) => Err(too_weak(wall, missing_inside(wall))),
            None => {
                let sidecar = self.sidecar().map(|sidecar| sidecar.container().to_owned());
                self.inside = Some(inside.in_containers(self.container.clone(), sidecar));
                Ok(())
            }
        }
    }

    fn note(&self) -> MutexGuard<'_, Option<RoomNote>> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn whose(&self) -> MutexGuard<'_, Ids> {
        self.whose.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sidecar(&self) -> Option<&Sidecar> {
        self.way_out.as_ref().and_then(WayOut::sidecar)
    }

    /// The job as it is known in the log: it is told which instance of the runtime it belongs to.
    fn noted(&self, job: &Job) -> Job {
        let mut whose = self.whose();
        whose.follow(job);
        let mut job = job.clone();
        job.env.insert(ids::SESSION_ID.to_owned(), whose.session.clone());
        job
    }

    fn inside(&self) -> Result<&WorkerRoom, RoomError> {
        if !self.has_its_way_out() {
            return Err(RoomError::Lost("its way out is shut".into()));
        }
        if !self.covered.is_unchanged() {
            return Err(RoomError::Lost("what is hidden in it was replaced on the machine".into()));
        }
        self.inside.as_ref().ok_or_else(|| RoomError::Lost("it was closed".into()))
    }

    fn ran_out_of_memory(&self, since: SystemTime) -> bool {
        self.container.as_deref().is_some_and(|container| self.house.daemon.ran_out_of_memory(container, since))
    }

    /// A container whose way out was shut under it is another than the one that was asked for.
    fn has_its_way_out(&self) -> bool {
        self.way_out.as_ref().is_none_or(WayOut::is_open)
    }

    /// Removes the container, and first whoever keeps its way out. `false`: the daemon would not.
    fn remove(&self) -> bool {
        if self.removed.load(Ordering::Acquire) {
            return true;
        }
        let until = Instant::now() + self.log.as_ref().map(|log| log.patience()).unwrap_or_default();
        let shut = self.way_out.as_ref().is_none_or(|way_out| way_out.close(until));
        self.ship_logs(until);
        let removed = self.container.as_deref().is_none_or(|container| match self.house.daemon.remove(container) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, container, "a container was not removed; reconciling will find it");
                false
            }
        });
        self.removed.store(shut && removed, Ordering::Release);
        shut && removed
    }
}

impl DockerRoom {
    /// Tells what the containers said about themselves, once they have ended or it is that late.
    fn ship_logs(&self, until: Instant) {
        let (Some(log), Some(container)) = (&self.log, &self.container) else { return };
        log.await_end(until);
        let sidecar = self.sidecar();
        let whose = self.whose().clone();
        let about = |role| About {
            role,
            container,
            sidecar: sidecar.map(Sidecar::container),
            ids: &whose,
            jobs: self.jobs.load(Ordering::Relaxed),
        };
        log.ship(&about("room"));
        if let Some(log) = sidecar.and_then(Sidecar::log) {
            log.ship(&about("sidecar"));
        }
    }
}

impl Room for DockerRoom {
    fn run(&self, permit: &Permit, job: &Job, io: Io<'_>) -> Result<Ran, RoomError> {
        let inside = self.inside()?;
        let refused_before = self.way_out.as_ref().map_or(0, WayOut::refusals);
        let begun = SystemTime::now();
        let mut ran = inside.run(permit, &self.noted(job), io)?;
        self.jobs.fetch_add(1, Ordering::Relaxed);
        // What a job holds may outlast its program for a moment, in which the kernel takes the next best: the worker.
        if ran.ending == Ending::RoomLost && self.ran_out_of_memory(begun) {
            ran.ending = Ending::OomKilled;
        }
        if let Some(way_out) = &self.way_out {
            ran.refused = way_out.refused_since(refused_before);
        }
        Ok(ran)
    }

    fn open_terminal(&self, permit: &Permit, job: &Job, size: TerminalSize) -> Result<Box<dyn Terminal>, RoomError> {
        let terminal = self.inside()?.open_terminal(permit, &self.noted(job), size)?;
        self.jobs.fetch_add(1, Ordering::Relaxed);
        Ok(terminal)
    }

    fn changes(&self) -> io::Result<Option<Changes>> {
        Ok(None)
    }

    fn given_to(&self, owner: &str) {
        self.whose().given_to(owner);
        let noted = self.note().as_mut().map_or(Ok(()), |note| note.given_to(owner));
        if let Err(error) = noted {
            tracing::warn!(%error, "a room that was made ahead is listed as nobody's");
        }
    }

    fn is_alive(&self) -> bool {
        self.covered.is_unchanged() && self.has_its_way_out() && self.inside.as_ref().is_some_and(Room::is_alive)
    }

    fn close(&self) {
        if let Some(inside) = &self.inside {
            inside.close();
        }
        self.remove();
    }
}

impl Drop for DockerRoom {
    fn drop(&mut self) {
        self.inside = None;
        if !self.remove() {
            // The note and what is mounted stay with the container.
            self.note().take().into_iter().for_each(RoomNote::leave);
            self.placeholders.take().into_iter().for_each(Placeholders::leave);
        }
    }
}

impl fmt::Debug for DockerRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerRoom").field("container", &self.container).finish_non_exhaustive()
    }
}

/// What no container gives.
fn check_possible(house: &House, spec: &RoomSpec) -> Result<(), RoomError> {
    let refuse = |wall, why: String, remedy: &str| Err(too_weak(wall, Missing { why, remedy: remedy.into() }));
    if spec.workspace.as_ref().is_some_and(|workspace| workspace.mode == WorkspaceMode::Overlay) {
        return refuse(
            Wall::Files,
            "writes to the workspace of a container cannot go beside it".into(),
            "Use the workspace read-only, or use the backend `subprocess` for overlays.",
        );
    }
    ready::worker(&house.settings.worker)?;
    match &spec.workspace {
        Some(workspace) => ready::worker_outside(&house.settings.worker, &workspace.path),
        None => Ok(()),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The runtime's own ids, or nobody's.
fn ids() -> (u32, u32) {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if uid == 0 || gid == 0 { (NOBODY, NOBODY) } else { (uid, gid) }
}

/// Makes what covers hidden and closed paths. What is not there needs no cover.
fn make_covers(dir: &Path, spec: &RoomSpec) -> io::Result<Vec<Cover>> {
    if spec.hidden.is_empty() && spec.closed.is_empty() {
        return Ok(Vec::new());
    }
    fs::DirBuilder::new().mode(0o700).create(dir)?;
    let make = |name: &str, mode: u32| -> io::Result<(PathBuf, PathBuf)> {
        let (of_dir, of_file) = (dir.join(format!("{name}-dir")), dir.join(format!("{name}-file")));
        fs::DirBuilder::new().mode(mode).create(&of_dir)?;
        fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&of_file)?;
        Ok((of_dir, of_file))
    };
    let (empty, shut) = (make("empty", 0o555)?, make("shut", 0o000)?);
    // What lies in nothing that is shown is not there anyway.
    let is_shown = |path: &&PathBuf| spec.shows(path);
    let hidden = spec.hidden.iter().filter(is_shown).map(|path| (path, &empty));
    let closed = spec.closed.iter().filter(is_shown).map(|path| (path, &shut));
    let mut covers = Vec::new();
    for (path, (of_dir, of_file)) in hidden.chain(closed) {
        let with = match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => of_dir,
            Ok(found) if !found.is_symlink() => of_file,
            Ok(_) => return Err(io::Error::from_raw_os_error(libc::ELOOP)),
            // What was to be closed was there a moment ago, and may be back in another.
            Err(error) if is_absent(&error) && !spec.closed.contains(path) => continue,
            Err(error) => return Err(error),
        };
        covers.push(Cover { path: path.clone(), with: with.clone() });
    }
    Ok(covers)
}
