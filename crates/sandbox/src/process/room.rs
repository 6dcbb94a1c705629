//! A process room, as the runtime holds it.

use std::{
    fmt, fs,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::DirBuilderExt,
    },
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_setfl},
    net::sockopt::{Timeout, set_socket_timeout},
    pipe::{PipeFlags, pipe_with},
    process::{Signal, pidfd_send_signal},
};
use toolgate_contract::{Ending, Fault, Files, Job, Ran, TerminalSize};
use toolgate_gate::Permit;

use super::{
    House, cgroup,
    door::{self, Door},
    net::Fence,
    placeholder::Placeholders,
    private_dir, program, receipt,
    root::HOME,
    supervise::{self, Pipes, Running},
    terminal::ProcessTerminal,
    wire::{self, Facts, Looked, Opened, Order, Plan},
};
use crate::{
    env,
    overlay::Changes,
    registry::RoomNote,
    room::{Io, Room, RoomError, Terminal},
    spec::{Opening, RoomSpec, Tier, Wall, WorkspaceMode},
};

/// How long a step of making a room or starting a job may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// One room.
pub(super) struct ProcessRoom {
    house: Arc<House>,
    spec: RoomSpec,
    tier: Tier,
    looked: Looked,
    private: PathBuf,
    /// The runtime's end of the keeper's socket. Shut down, not closed, when the room ends: others may be using it.
    socket: OwnedFd,
    keeper: OwnedFd,
    door: Option<Door>,
    closed: AtomicBool,
    note: Option<RoomNote>,
    /// Given back to the workspace when the room is gone.
    placeholders: Option<Placeholders>,
}

/// A job that has been started.
pub(crate) struct Begun {
    pub(crate) status: OwnedFd,
    pub(crate) facts: Facts,
    pub(crate) fds: Vec<OwnedFd>,
    pub(crate) cgroup: Option<cgroup::Lease>,
    pub(crate) started: Instant,
}

impl ProcessRoom {
    pub(super) fn open(house: &Arc<House>, spec: &RoomSpec, tier: Tier, owner: &str) -> Result<Self, RoomError> {
        check_spec(spec)?;
        if tier == Tier::Landlock && !spec.closed.is_empty() {
            return Err(cannot_close(&spec.closed[0]));
        }
        let id = room_id();
        let private = private_dir(&house.registry, &id, tier).map_err(RoomError::step("find a place for the room"))?;
        let placeholders = match &spec.workspace {
            Some(workspace) if tier == Tier::Namespaces && workspace.mode == WorkspaceMode::ReadWrite => {
                Some(Placeholders::put(workspace)?)
            }
            _ => None,
        };
        let put = placeholders.as_ref().map(Placeholders::paths).unwrap_or_default();
        let mut note = house
            .registry
            .note(&id, owner, tier.as_str(), spec, put)
            .map_err(RoomError::step("write down that a room is made"))?;
        make_private(&private, spec, tier).map_err(RoomError::step("make the room's own directory"))?;
        let (socket, keepers_end) = wire::pair().map_err(RoomError::step("make a socket"))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))
            .map_err(|error| RoomError::step("make a socket")(error.into()))?;
        let fence = Fence::ORDINARY;
        let mut plan =
            Plan { spec: spec.clone(), ground: tier.into(), private: private.clone(), fence, bound: Vec::new() };
        if let (Some(workspace), Some(placeholders)) = (&mut plan.spec.workspace, &placeholders) {
            workspace.protected.clone_from(&placeholders.names);
        }
        let keeper = house.ask_zygote(&plan, &keepers_end)?;
        drop(keepers_end);
        let (looked, listeners) = match wire::receive(&socket).map_err(RoomError::step("hear from the keeper"))? {
            Some((Opened::Ready { looked }, fds)) => (looked, fds),
            Some((Opened::Failed(failure), _)) => return Err(supervise::failed(failure)),
            Some((Opened::Probed, _)) | None => return Err(RoomError::Lost("its keeper ended at once".into())),
        };
        let keeper = keeper.ok_or_else(|| RoomError::Lost("its keeper has no handle".into()))?;
        note.made(&keeper).map_err(RoomError::step("write down that a room is made"))?;
        let opening = spec.egress.opening();
        let door = opening.map(|opening| open_door(opening, listeners, &socket)).transpose()?;
        Ok(Self {
            house: house.clone(),
            spec: spec.clone(),
            tier,
            looked,
            private,
            socket,
            keeper,
            door,
            closed: AtomicBool::new(false),
            note: Some(note),
            placeholders,
        })
    }

    /// Starts a job on these streams, or on a terminal when there are none.
    fn begin(
        &self,
        job: &Job,
        secrets: env::Secrets,
        streams: &[OwnedFd],
        terminal: Option<TerminalSize>,
    ) -> Result<Begun, RoomError> {
        if !self.is_alive() {
            return Err(RoomError::Lost("it was closed".into()));
        }
        let limits = &self.spec.limits;
        let cgroup = self.house.cgroups.take(limits.memory, limits.pids);
        let cgroup = cgroup.map_err(RoomError::step("limit the job"))?;
        let ways = cgroup.procs();
        let (root, cwd) = starts_at(&self.spec, job, &self.home())?;
        let order = Order {
            argv: job.argv.clone(),
            env: self.environment(job, terminal.is_some(), secrets)?,
            root,
            cwd,
            terminal,
            memory_held: cgroup.memory_by().is_some(),
            pids_held: cgroup.pids_by().is_some(),
        };
        let (status, inits_end) = wire::pair().map_err(RoomError::step("make a socket"))?;
        set_socket_timeout(&status, Timeout::Recv, Some(PATIENCE))
            .map_err(|error| RoomError::step("make a socket")(error.into()))?;
        let started = Instant::now();
        let mut fds = vec![inits_end.as_fd()];
        fds.extend(streams.iter().map(AsFd::as_fd));
        fds.extend(ways.iter().map(AsFd::as_fd));
        wire::send(&self.socket, &order, &fds).map_err(|error| match error.raw_os_error() {
            Some(libc::E2BIG) => too_large(),
            _ => RoomError::Lost(format!("its keeper does not answer: {error}")),
        })?;
        drop(inits_end);
        // The order is on its way, and there is nothing to do until it is answered.
        self.house.cgroups.make_ahead(limits.memory, limits.pids);
        let started_as = supervise::started(&status, job.argv.first().map_or("", String::as_str));
        if matches!(&started_as, Err(RoomError::Step { step, .. }) if step == program::PROTECTION_LOST) {
            self.close();
            return Err(RoomError::Lost(
                "a protected or hidden name was replaced on the machine while it was open".into(),
            ));
        }
        let (facts, fds) = started_as?;
        Ok(Begun { status, facts, fds, cgroup: Some(cgroup), started })
    }

    pub(super) fn receipt(&self, begun: &Begun) -> toolgate_contract::Receipt {
        receipt::write(&self.spec, self.tier, &self.looked, &begun.facts, begun.cgroup.as_ref(), self.door.is_some())
    }

    fn environment(
        &self,
        job: &Job,
        on_terminal: bool,
        secrets: env::Secrets,
    ) -> Result<Vec<(String, String)>, RoomError> {
        let (home, tmp) = match self.tier {
            Tier::Namespaces => (HOME.to_owned(), "/tmp".to_owned()),
            Tier::Landlock => {
                let text = |name: &str| self.private.join(name).to_string_lossy().into_owned();
                (text("home"), text("tmp"))
            }
        };
        let term = if on_terminal { env::Term::Xterm } else { env::Term::Dumb };
        let base = env::Base { home: &home, tmp: &tmp, user: "agent", term, secrets };
        let mut env = env::build(&self.spec.path_prefixes, &job.env, &base).map_err(RoomError::BadJob)?;
        if self.door.is_some() {
            env.extend(door::proxy_variables());
        }
        Ok(env)
    }

    /// Where a job without a workspace starts.
    fn home(&self) -> PathBuf {
        match self.tier {
            Tier::Namespaces => PathBuf::from(HOME),
            Tier::Landlock => self.private.join("home"),
        }
    }

    /// Are all processes of this room gone? Waits a moment for it.
    fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.keeper, PollFlags::IN)];
        let wait = Timespec::try_from(Duration::from_secs(5)).ok();
        poll(&mut fds, wait.as_ref()).is_ok_and(|ready| ready > 0)
    }
}

impl Room for ProcessRoom {
    fn run(&self, permit: &Permit, job: &Job, mut io: Io<'_>) -> Result<Ran, RoomError> {
        check_job(permit, job, &self.spec)?;
        let make = |error: rustix::io::Errno| RoomError::step("make a pipe")(error.into());
        let (stdin, feed) = match io.stdin.take() {
            Some(given) => (given, None),
            None => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(make)?;
                (read, Some(write))
            }
        };
        let (stdout, their_stdout) = match io.stdout.take() {
            Some(given) => (None, given),
            None => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(make)?;
                (Some(read), write)
            }
        };
        let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC).map_err(make)?;
        for ours in feed.iter().chain(&stdout).chain([&stderr]) {
            // A new pipe has no other flag that could be set.
            fcntl_setfl(ours, OFlags::NONBLOCK).map_err(make)?;
        }
        let refused_before = self.door.as_ref().map_or(0, Door::refusals);
        let begun = self.begin(job, env::Secrets::of(permit), &[stdin, their_stdout, their_stderr], None)?;
        let receipt = self.receipt(&begun);
        let running = Running {
            job,
            status: begun.status,
            pipes: Pipes { stdin: feed, stdout, stderr },
            cgroup: begun.cgroup,
            started: begun.started,
        };
        let supervise::Seen { mut ran, is_empty } = supervise::run(running, io, receipt);
        if let Some(door) = &self.door {
            ran.refused = door.refused_since(refused_before);
        }
        if !is_empty && (self.tier == Tier::Landlock || ran.ending == Ending::RoomLost) {
            // Its init did not say that everything is gone, and without a pid namespace nothing else does.
            self.close();
        }
        Ok(ran)
    }

    fn open_terminal(&self, permit: &Permit, job: &Job, size: TerminalSize) -> Result<Box<dyn Terminal>, RoomError> {
        check_job(permit, job, &self.spec)?;
        let begun = self.begin(job, env::Secrets::of(permit), &[], Some(size))?;
        let receipt = self.receipt(&begun);
        Ok(Box::new(ProcessTerminal::new(begun, receipt, job.limits)?))
    }

    fn changes(&self) -> std::io::Result<Option<Changes>> {
        match &self.spec.workspace {
            Some(workspace) if workspace.mode == WorkspaceMode::Overlay => {
                Changes::read(&self.private.join("upper"), &workspace.path).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn is_alive(&self) -> bool {
        let mut fds = [PollFd::new(&self.keeper, PollFlags::IN)];
        let now = Timespec::try_from(Duration::ZERO).ok();
        // A handle on a process becomes readable when the process has ended.
        !self.closed.load(Ordering::Acquire) && poll(&mut fds, now.as_ref()) == Ok(0)
    }

    fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        // The keeper reads the end, and ends; so does everything in its namespaces.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        if self.tier == Tier::Namespaces {
            let _ = pidfd_send_signal(&self.keeper, Signal::KILL);
        }
    }
}

impl Drop for ProcessRoom {
    fn drop(&mut self) {
        self.close();
        if !self.is_gone() {
            // Its ids are not used again and its note stays, so that a sweep finds it.
            tracing::error!("a room's keeper did not end; `toolgate sandbox sweep` will find it");
            self.note.take().into_iter().for_each(RoomNote::leave);
            self.placeholders.take().into_iter().for_each(Placeholders::leave);
            return;
        }
        self.placeholders = None;
        // What lies with the notes goes with the note, whatever modes the kernel or a job gave it.
        if !self.private.starts_with(self.house.registry.dir())
            && self.private.exists()
            && let Err(error) = fs::remove_dir_all(&self.private)
        {
            tracing::warn!("the room's own directory stays: {error}");
        }
        // Before the house: whoever leaves last finds no note any more.
        self.note = None;
    }
}

impl fmt::Debug for ProcessRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessRoom").field("tier", &self.tier).finish_non_exhaustive()
    }
}

pub(crate) fn room_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("room-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn bad(code: &'static str, message: &'static str, remedy: &'static str) -> RoomError {
    RoomError::BadJob(Fault::failed(code, message, remedy))
}

pub(crate) fn too_large() -> RoomError {
    bad(
        "job_too_large",
        "the command and its environment are too long",
        "Pass long text on standard input or in a file.",
    )
}

/// Is this something a room can be made of?
pub(crate) fn check_spec(spec: &RoomSpec) -> Result<(), RoomError> {
    let is_plain =
        |path: &Path| path.is_absolute() && path.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    if !spec.closed.iter().all(|path| is_plain(path)) {
        return Err(bad("bad_closed_path", "a closed path is not a whole path", "Name whole paths without `..`."));
    }
    let Some(workspace) = &spec.workspace else { return Ok(()) };
    let path = &workspace.path;
    if spec.start.as_ref().is_some_and(|start| !is_plain(start) || !start.starts_with(path)) {
        return Err(start_outside());
    }
    // A workspace above or inside what the room is furnished with would be seen instead of it.
    const TAKEN: [&str; 10] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys", "/run"];
    let is_taken = path.parent().is_none()
        || ["/tmp", "/home", "/var"].iter().any(|dir| path == Path::new(dir))
        || TAKEN.iter().any(|dir| path.starts_with(dir));
    if !is_plain(path) || is_taken {
        return Err(bad(
            "bad_workspace",
            "this directory cannot be a room's workspace",
            "Use a directory of a project, such as one in a home directory.",
        ));
    }
    let is_relative = |name: &String| {
        !name.is_empty() && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
    };
    if !workspace.protected.iter().all(is_relative) {
        return Err(bad(
            "bad_protected_name",
            "a protected name is not a path inside the workspace",
            "Name paths relative to the workspace.",
        ));
    }
    Ok(())
}

/// Where a job starts: a directory of the room, and the job's own beneath it.
pub(crate) fn starts_at(spec: &RoomSpec, job: &Job, home: &Path) -> Result<(String, String), RoomError> {
    let root = match (&spec.start, &spec.workspace) {
        _ if Path::new(&job.cwd).is_absolute() => return elsewhere(spec, job),
        (Some(start), _) => start.clone(),
        (None, Some(workspace)) => workspace.path.clone(),
        (None, None) => home.to_owned(),
    };
    Ok((utf_8(root)?, cwd(&job.cwd)?))
}

/// Where the job starts. A path that leads out of the workspace is refused before anything runs; a link that does is
/// found when the directory is opened.
fn cwd(text: &str) -> Result<String, RoomError> {
    let is_part = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(text).components().all(is_part) || text.contains('\0') {
        return Err(start_outside());
    }
    Ok(if text.is_empty() { ".".to_owned() } else { text.to_owned() })
}

/// A whole path lies in the workspace of the room, or in a directory that is seen in it besides.
fn elsewhere(spec: &RoomSpec, job: &Job) -> Result<(String, String), RoomError> {
    let roots = spec.workspace.iter().map(|workspace| &workspace.path).chain(&spec.visible);
    let below = |root: &PathBuf| Some((root.clone(), Path::new(&job.cwd).strip_prefix(root).ok()?.to_str()?));
    let (root, rest) = roots.filter_map(below).min_by_key(|(_, rest)| rest.len()).ok_or_else(start_outside)?;
    Ok((utf_8(root)?, cwd(rest)?))
}

fn start_outside() -> RoomError {
    bad(
        "path_outside_workspace",
        "the directory to start in is not inside the workspace",
        "Name a directory relative to the workspace, without `..`.",
    )
}

fn utf_8(path: PathBuf) -> Result<String, RoomError> {
    let text = path.into_os_string().into_string();
    text.map_err(|_| bad("bad_workspace", "the path of the workspace is not UTF-8", "Use a workspace whose path is."))
}

fn cannot_close(path: &Path) -> RoomError {
    RoomError::TooWeak {
        backend: "process",
        wall: Wall::Files,
        why: format!("Landlock cannot close `{}` in a directory that is shown", path.display()),
        remedy: "Allow user namespaces, or move the file out of the directory.".into(),
    }
}

/// Is this something the permit covers and a room can run?
pub(crate) fn check_job(permit: &Permit, job: &Job, spec: &RoomSpec) -> Result<(), RoomError> {
    let needs = permit.needs();
    if !needs.exec {
        return Err(RoomError::BadJob(Fault::refused(
            "needs_not_declared",
            "the permit is not for running programs",
            "Declare `needs.exec` in the tool's definition.",
        )));
    }
    let writes = spec.workspace.as_ref().is_some_and(|workspace| workspace.mode == WorkspaceMode::ReadWrite);
    if writes && needs.files != Files::Write {
        return Err(RoomError::BadJob(Fault::refused(
            "needs_not_declared",
            "the permit is not for writing files, and the room's workspace can be written",
            "Declare `needs.files` in the tool's definition, or open the room read-only.",
        )));
    }
    if job.argv.first().is_none_or(String::is_empty) || job.argv.iter().any(|word| word.contains('\0')) {
        return Err(bad(
            "bad_command",
            "a command is at least one word, and no word holds a zero byte",
            "Name a program.",
        ));
    }
    Ok(())
}

/// The directory a room has on the machine, if it needs one: for its files where it has no tree of its own, and for
/// what an overlay takes in.
fn make_private(dir: &Path, spec: &RoomSpec, tier: Tier) -> std::io::Result<()> {
    let overlay = spec.workspace.as_ref().is_some_and(|workspace| workspace.mode == WorkspaceMode::Overlay);
    let names: &[&str] = match tier {
        Tier::Landlock => &["", "tmp", "home"],
        Tier::Namespaces if overlay => &["", "upper", "work"],
        Tier::Namespaces => return Ok(()),
    };
    for name in names {
        let path = if name.is_empty() { dir.to_owned() } else { dir.join(name) };
        fs::DirBuilder::new().mode(0o700).create(&path)?;
    }
    if tier == Tier::Landlock {
        fs::write(dir.join("canary"), "")?;
    }
    Ok(())
}

/// Serves the room's door, and has the keeper try it before anybody else does.
fn open_door(opening: &Opening, listeners: Vec<OwnedFd>, keeper: &OwnedFd) -> Result<Door, RoomError> {
    let door = Door::serve(opening, listeners)?;
    wire::send(keeper, &(), &[]).map_err(RoomError::step("tell the keeper that the door is served"))?;
    match wire::receive(keeper).map_err(RoomError::step("hear from the keeper"))? {
        Some((Opened::Probed, _)) => Ok(door),
        Some((Opened::Failed(failure), _)) => Err(supervise::failed(failure)),
        Some((Opened::Ready { .. }, _)) | None => Err(RoomError::Lost("its keeper ended at the door".into())),
    }
}
