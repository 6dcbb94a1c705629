//! The process that becomes a job's program.
//!
//! Where there are no namespaces it is there before the program is known: it goes behind the last walls, waits for the
//! order, and then has little left to do. It works in the memory of its init, which stands still until the program runs
//! ([`sys::stand_aside`]), so what it finds and whatever goes wrong is simply there when the init goes on.

use std::{
    ffi::CString,
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::{Errno, fcntl_dupfd_cloexec},
    process::{DumpableBehavior, Resource, Signal, set_dumpable_behavior, set_parent_process_death_signal},
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
    thread::SecureComputingMode,
};

use super::{
    job::{self, limit_to},
    keeper::Room,
    sys::{self, Program},
    wire::{self, Facts, Failure, Ground, Order},
};

pub(super) const ENTER_DIRECTORY: &str = "enter the directory";
pub(super) const START_PROGRAM: &str = "start the program";
/// The step that fails when a protected name is not protected any more.
pub(crate) const PROTECTION_LOST: &str = "find every protected name protected";

/// An order, with what came with it.
pub(super) struct Taken {
    pub(super) order: Order,
    pub(super) status: OwnedFd,
    /// Its three streams (none with a terminal), then the ways into its cgroups.
    pub(super) fds: Vec<OwnedFd>,
}

impl Taken {
    /// Waits for one. `None` when the room is closed.
    pub(super) fn receive(keeper: &OwnedFd) -> Option<Self> {
        let (order, mut fds) = wire::receive::<Order>(keeper).ok()??;
        if fds.is_empty() {
            return None;
        }
        Some(Self { order, status: fds.remove(0), fds })
    }

    fn cgroups(&self) -> &[OwnedFd] {
        let streams = if self.order.terminal.is_some() { 0 } else { 3 };
        self.fds.get(streams..).unwrap_or_default()
    }
}

/// What became of an order: what stands around the process that became the program, or no such program.
pub(super) type Found = Result<Option<Facts>, Failure>;

/// The last walls, put up by a process around itself, and what it found then. `terminal` becomes the one that controls it.
pub(super) fn go_behind_walls(
    room: &Room,
    rules: &OwnedFd,
    turn: Option<&Turn>,
    terminal: Option<BorrowedFd<'_>>,
) -> Result<Facts, Failure> {
    const STEP: &str = "stand apart";
    match terminal {
        // A terminal wants a session of its own; without one the init's will do, which has none either.
        Some(terminal) => {
            rustix::process::setsid().map_err(Failure::at(STEP))?;
            rustix::process::ioctl_tiocsctty(terminal).map_err(Failure::at("take the terminal"))?;
        }
        None => rustix::process::setpgid(None, None).map_err(Failure::at(STEP))?,
    }
    sys::unblock_signals().map_err(Failure::at(STEP))?;
    // A program whose supervisor is killed has nobody left to end it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Failure::at(STEP))?;
    if let Some(turn) = turn {
        turn.spare_init().map_err(Failure::at("be the first to go"))?;
    }
    sys::restrict(rules.as_fd()).map_err(Failure::at("put up Landlock"))?;
    let facts = look(room);
    // What was put up is not believed but looked at, before there is anything to hold.
    if !is_walled(&facts) {
        return Err(Failure { step: "find every wall standing".into(), errno: libc::EPERM });
    }
    Ok(facts)
}

/// Whose turn it is where memory runs out. What a job runs goes first; its init and the keeper, which are in one group with
/// it, stay to tell of it.
///
/// What is closed to others does not own its entries in `/proc`, and may not write there what its turn is. So the init
/// opens its own entry while it can, and has a process begin while it says that it goes first itself: that is inherited.
/// Then it takes it back.
pub(super) struct Turn {
    entry: OwnedFd,
    of_init: Vec<u8>,
}

impl Turn {
    /// Of the calling process, which is closed to others after this. Before the filter, which lets nobody close themselves.
    pub(super) fn of_init() -> io::Result<Self> {
        const ENTRY: &str = "/proc/self/oom_score_adj";
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        let opened = rustix::fs::open(ENTRY, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let mut of_init = vec![0; 16];
        let entry = opened?;
        let read = rustix::io::read(&entry, &mut of_init)?;
        of_init.truncate(read);
        Ok(Self { entry, of_init })
    }

    /// Whoever is begun from here on goes first.
    pub(super) fn go_first(&self) -> io::Result<()> {
        self.say(b"1000")
    }

    /// The init stays; also said by the process that was begun, while the init stands still.
    pub(super) fn spare_init(&self) -> io::Result<()> {
        self.say(&self.of_init)
    }

    fn say(&self, turn: &[u8]) -> io::Result<()> {
        Ok(rustix::io::pwrite(&self.entry, turn, 0).map(drop)?)
    }
}

/// Goes through the motions with an order for nothing. A new process has the code and the memory of the old one, but the
/// kernel lays out each page when it is first used; a real order would wait for fifteen of them.
pub(super) fn rehearse() -> io::Result<()> {
    let (ours, theirs) = wire::pair()?;
    let order = Order {
        argv: vec!["true".into()],
        env: vec![("PATH".into(), "/usr/bin".into())],
        root: "/".into(),
        cwd: ".".into(),
        terminal: None,
        memory_held: false,
        pids_held: false,
    };
    wire::send(&ours, &order, &[ours.as_fd()])?;
    if let Some(taken) = Taken::receive(&theirs) {
        // Whether there is such a program does not matter.
        let _ = read(&taken.order);
    }
    Ok(())
}

/// Everything between an order and its program. `walls` is what stands around this process.
pub(super) fn prepare(
    room: &Room,
    taken: &Taken,
    walls: Result<Facts, Failure>,
    terminal: Option<BorrowedFd<'_>>,
) -> (Found, Option<Program>) {
    let prepared = walls.and_then(|walls| match try_prepare(room, taken, terminal)? {
        Some(program) => Ok((Some(Facts { cgroups: taken.cgroups().len(), ..walls }), Some(program))),
        None => Ok((None, None)),
    });
    match prepared {
        Ok((found, program)) => (Ok(found), program),
        Err(failure) => (Err(failure), None),
    }
}

/// Leaves this process with the program's streams and no other descriptor. `None`: there is no such program.
fn try_prepare(room: &Room, taken: &Taken, terminal: Option<BorrowedFd<'_>>) -> Result<Option<Program>, Failure> {
    let order = &taken.order;
    // From here on what is opened and closed is not the init's.
    sys::own_descriptors().map_err(Failure::at("stand apart"))?;
    if !job::is_protected(room) {
        return Err(Failure { step: PROTECTION_LOST.into(), errno: libc::ESTALE });
    }
    if room.ground == Ground::Namespaces && !order.pids_held {
        // Counted in the room's own user namespace; the keeper and the waiting inits are in it as well.
        limit_to(Resource::Nproc, u64::from(room.limits.pids) + 4)?;
    }
    let Some((cwd, program)) = read(order)? else { return Ok(None) };
    for way in taken.cgroups() {
        // It alone joins: whoever watches it must outlive it.
        rustix::io::write(way, b"0").map_err(Failure::at("join a cgroup"))?;
    }
    rustix::process::fchdir(&cwd).map_err(Failure::at(ENTER_DIRECTORY))?;
    drop(cwd);
    let streams = match (terminal, taken.fds.as_slice()) {
        (Some(terminal), _) => [terminal; 3],
        (None, [stdin, stdout, stderr, ..]) => [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()],
        (None, _) => return Err(Failure { step: "connect the streams".into(), errno: libc::EBADF }),
    };
    connect(streams).map_err(Failure::at("connect the streams"))?;
    sys::close_from(3).map_err(Failure::at("connect the streams"))?;
    Ok(Some(program))
}

/// What an order names: where to start, and what. `None`: there is no such program.
fn read(order: &Order) -> Result<Option<(OwnedFd, Program)>, Failure> {
    let cwd = open_cwd(order).map_err(Failure::at(ENTER_DIRECTORY))?;
    let Some(program) = find(order) else { return Ok(None) };
    let program = Program {
        path: CString::new(program).map_err(Failure::at("pass a path"))?,
        argv: words(order.argv.iter().cloned()).map_err(Failure::at("pass the arguments"))?,
        env: words(order.env.iter().map(|(name, value)| format!("{name}={value}")))
            .map_err(Failure::at("pass the environment"))?,
    };
    Ok(Some((cwd, program)))
}

/// The directory to start in, opened so that no link on the way leads out of the workspace.
fn open_cwd(order: &Order) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(order.root.as_str(), flags | OFlags::NOFOLLOW, Mode::empty())?;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(root, order.cwd.as_str(), flags, Mode::empty(), how)?)
}

/// The program's path, looked up as the room sees it.
fn find(order: &Order) -> Option<String> {
    let name = order.argv.first()?;
    let is_program =
        |path: &Path| fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        let path = Path::new(&order.root).join(&order.cwd).join(name);
        return is_program(&path).then(|| path.to_string_lossy().into_owned());
    }
    let path = order.env.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value.as_str())?;
    let found = path.split(':').map(|dir| Path::new(dir).join(name)).find(|path| is_program(path))?;
    Some(found.to_string_lossy().into_owned())
}

fn words(list: impl Iterator<Item = String>) -> io::Result<Vec<CString>> {
    list.map(|word| CString::new(word).map_err(io::Error::from)).collect()
}

/// Puts the streams at 0, 1 and 2.
fn connect(streams: [BorrowedFd<'_>; 3]) -> Result<(), Errno> {
    // First out of the way, so that none is overwritten before it is moved.
    let [stdin, stdout, stderr] = streams.map(|stream| fcntl_dupfd_cloexec(stream, 10));
    dup2_stdin(stdin?)?;
    dup2_stdout(stdout?)?;
    dup2_stderr(stderr?)
}

/// Reads back what stands around this process, by asking the kernel, not by remembering.
fn look(room: &Room) -> Facts {
    let (uids, gids) = sys::ids();
    // What the kernel does not tell is taken for the worst.
    let capabilities = rustix::thread::capabilities(None)
        .map_or([u64::MAX; 3], |found| [found.effective.bits(), found.permitted.bits(), found.inheritable.bits()]);
    let canary = rustix::fs::open(room.canary.as_str(), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    Facts {
        uids,
        gids,
        capabilities,
        no_new_privs: rustix::thread::no_new_privs() == Ok(true),
        seccomp: rustix::thread::secure_computing_mode() == Ok(SecureComputingMode::Filter),
        landlock: matches!(canary, Err(Errno::ACCESS)),
        // What the init tells, and what is joined later.
        namespaces: Vec::new(),
        cgroups: 0,
    }
}

/// Nobody in particular, no capabilities, no way to any, and both filters up.
fn is_walled(facts: &Facts) -> bool {
    !facts.uids.contains(&0)
        && !facts.gids.contains(&0)
        && facts.capabilities == [0; 3]
        && facts.no_new_privs
        && facts.seccomp
        && facts.landlock
}
