//! The init of one job: the process between the keeper and the program.
//!
//! It puts up what must stand around this job alone (its `/proc`, its cgroup, its limits), starts the program behind
//! the last walls, and stays to watch: it reaps, holds the job to limits no cgroup holds it to, and passes on the
//! runtime's word. When the program ends it ends everything the program left behind, and says so last.

use std::{
    collections::BTreeMap,
    ffi::CString,
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags, ResolveFlags},
    process::{
        DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, kill_process, set_dumpable_behavior,
        set_parent_process_death_signal, setrlimit, wait,
    },
    thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities},
};
use toolgate_contract::TerminalSize;

use super::{
    keeper::Room,
    root, seccomp,
    sys::{self, Launch},
    wire::{self, Breach, Facts, Failure, News, Order, Over, Word},
};
use crate::spec::{RoomLimits, Tier};

/// How often limits are looked at that no cgroup holds.
const TICK: Duration = Duration::from_millis(50);

/// A job init's whole life. It puts up its walls before there is an order, tells the keeper when it has taken one, and
/// ends with the job.
pub(super) fn wait_for_an_order(room: &Room, keeper: &OwnedFd, taken: &OwnedFd) -> ! {
    let walls = put_up_walls(room);
    let Ok(Some((order, fds))) = wire::receive::<Order>(keeper) else { sys::exit_now(0) };
    let _ = rustix::io::write(taken, b"!");
    let mut fds = fds.into_iter();
    let Some(status) = fds.next() else { sys::exit_now(1) };
    let news = match walls.and_then(|namespaces| start(room, &order, namespaces, &status, fds)) {
        Ok(Some(job)) => News::Over(watch(room, &order, &status, job)),
        Ok(None) => News::NoProgram,
        Err(failure) => News::Failed(failure),
    };
    // The runtime may have closed the socket already; then nobody waits.
    let _ = wire::send(&status, &news, &[]);
    sys::exit_now(0)
}

/// Everything that is the same for every job of the room. Gives the namespaces the job will be in.
fn put_up_walls(room: &Room) -> Result<Vec<(String, String)>, Failure> {
    sys::notice_children().map_err(Failure::at("notice children"))?;
    // Away from any terminal.
    rustix::process::setsid().map_err(Failure::at("start a session"))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Failure::at("follow the keeper"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Failure::at("close /proc/self"))?;
    if room.tier == Tier::Namespaces {
        root::mount_proc()?;
        root::mount_terminals()?;
    } else {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(Failure::at("adopt stray processes"))?;
    }
    let namespaces = namespaces();
    drop_capabilities(room.tier)?;
    limit(&room.limits)?;
    rustix::thread::set_no_new_privs(true).map_err(Failure::at("give up new privileges"))?;
    // This process needs nothing the filter refuses, and what it starts inherits it.
    let profile = match room.tier {
        Tier::Namespaces => seccomp::Profile::Namespaces,
        Tier::Landlock => seccomp::Profile::Landlock,
    };
    sys::filter_calls(profile.program()).map_err(Failure::at("put up the system call filter"))?;
    Ok(namespaces)
}

struct Started {
    program: i32,
    children: OwnedFd,
}

fn start(
    room: &Room,
    order: &Order,
    namespaces: Vec<(String, String)>,
    status: &OwnedFd,
    mut fds: impl Iterator<Item = OwnedFd>,
) -> Result<Option<Started>, Failure> {
    if !is_protected(room) {
        return Err(Failure { step: PROTECTION_LOST.into(), errno: libc::ESTALE });
    }
    let terminal = order.terminal.map(open_terminal).transpose()?;
    let streams: Vec<OwnedFd> = if terminal.is_some() { Vec::new() } else { fds.by_ref().take(3).collect() };
    let cgroups: Vec<OwnedFd> = fds.collect();
    if room.tier == Tier::Namespaces && !order.pids_held {
        // Counted in the room's own user namespace; the keeper and the waiting inits are in it as well.
        limit_to(Resource::Nproc, u64::from(room.limits.pids) + 4)?;
    }
    let cwd = open_cwd(order).map_err(Failure::at(sys::ENTER_DIRECTORY))?;
    let Some(program) = find(order) else { return Ok(None) };
    let words = |list: &mut dyn Iterator<Item = String>| {
        list.map(|word| CString::new(word).map_err(io::Error::from)).collect::<Result<Vec<_>, _>>()
    };
    let argv = words(&mut order.argv.iter().cloned()).map_err(Failure::at("pass the arguments"))?;
    let env = words(&mut order.env.iter().map(|(name, value)| format!("{name}={value}")))
        .map_err(Failure::at("pass the environment"))?;
    let path = |text: &str| CString::new(text).map_err(io::Error::from).map_err(Failure::at("pass a path"));
    let stdio: [BorrowedFd<'_>; 3] = match (&terminal, streams.as_slice()) {
        (Some((_, slave)), _) => [slave.as_fd(); 3],
        (None, [stdin, stdout, stderr]) => [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()],
        (None, _) => return Err(Failure { step: "connect the streams".into(), errno: libc::EBADF }),
    };
    let children = sys::child_signals().map_err(Failure::at("watch children"))?;
    let (pid, found) = sys::launch(&Launch {
        program: &path(&program)?,
        argv: &argv,
        env: &env,
        cwd: cwd.as_fd(),
        cgroups: &cgroups,
        stdio,
        terminal: terminal.is_some(),
        landlock: room.landlock.as_fd(),
        canary: &path(&room.canary)?,
    })
    .map_err(Failure::at("start a process"))?;
    if found.failed != 0 {
        let step = sys::LAUNCH_STEPS.get(found.failed as usize).copied().unwrap_or(sys::START_PROGRAM);
        return Err(Failure { step: step.into(), errno: found.errno });
    }
    let facts = Facts {
        uids: found.uids,
        gids: found.gids,
        capabilities: found.capabilities,
        no_new_privs: found.no_new_privs == 1,
        seccomp: found.seccomp == 2,
        landlock: found.canary == libc::EACCES,
        namespaces,
        cgroups: cgroups.len(),
    };
    let master: Vec<_> = terminal.iter().map(|(master, _)| master.as_fd()).collect();
    wire::send(status, &News::Started(facts), &master).map_err(Failure::at("say that the program runs"))?;
    Ok(Some(Started { program: pid, children }))
}

/// No program this process starts gets a capability from its file. Takes a right that an ordinary user does not have;
/// to them, giving up new privileges means the same.
pub(super) fn forget_capabilities() -> Result<(), Failure> {
    for capability in CapabilitySet::all().iter() {
        // One this kernel does not know is not there to be dropped.
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(Failure::at("drop capabilities")(error)),
        }
    }
    Ok(())
}

fn drop_capabilities(tier: Tier) -> Result<(), Failure> {
    const STEP: &str = "drop capabilities";
    if tier == Tier::Namespaces {
        forget_capabilities()?;
    }
    clear_ambient_capability_set().map_err(Failure::at(STEP))?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(Failure::at(STEP))
}

fn limit(limits: &RoomLimits) -> Result<(), Failure> {
    // At the first of the two a program is told; at the second it is killed, and looks like any other that was.
    let seconds = limits.cpu.as_secs().max(1);
    setrlimit(Resource::Cpu, Rlimit { current: Some(seconds), maximum: Some(seconds + 2) })
        .map_err(Failure::at("limit processor time"))?;
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Fsize, limits.disk),
        (Resource::Nofile, limits.open_files),
        (Resource::Memlock, 8 << 20),
        (Resource::Msgqueue, 0),
        (Resource::Sigpending, 4_096),
        (Resource::Stack, 64 << 20),
    ] {
        limit_to(resource, most)?;
    }
    Ok(())
}

/// Lowers a limit, for good.
fn limit_to(resource: Resource, most: u64) -> Result<(), Failure> {
    let most = match rustix::process::getrlimit(resource).maximum {
        Some(already) => most.min(already),
        None => most,
    };
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
        .map_err(Failure::at(format!("limit {resource:?}")))
}

/// The step that fails when a protected name is not protected any more.
pub(super) const PROTECTION_LOST: &str = "find every protected name protected";

/// Are the protected names still on their mounts? Whoever replaces one on the machine takes the mount away with it.
fn is_protected(room: &Room) -> bool {
    room.protected.iter().all(|path| root::is_read_only(path))
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

/// A terminal of the room's own: the machine's are not seen in it.
fn open_terminal(size: TerminalSize) -> Result<(OwnedFd, OwnedFd), Failure> {
    const STEP: &str = "open a terminal";
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY | rustix::pty::OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).map_err(Failure::at(STEP))?;
    rustix::pty::unlockpt(&master).map_err(Failure::at(STEP))?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).map_err(Failure::at(STEP))?;
    let size = rustix::termios::Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, size).map_err(Failure::at(STEP))?;
    Ok((master, slave))
}

/// The namespaces of this process, which the program shares.
fn namespaces() -> Vec<(String, String)> {
    ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]
        .into_iter()
        .filter_map(|name| {
            let link = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
            Some((name.to_owned(), link.to_string_lossy().into_owned()))
        })
        .collect()
}

/// Waits for the program's end and ends what it left behind.
fn watch(room: &Room, order: &Order, status: &OwnedFd, job: Started) -> Over {
    let mut ended: Option<WaitStatus> = None;
    let mut breach = None;
    let mut memory_peak = 0;
    let mut next_look = Instant::now() + TICK;
    let (free_before, shared_before) = (free_on(&order.root), shared_by_all());
    while ended.is_none() {
        let now = Instant::now();
        if now >= next_look {
            if !is_protected(room) {
                // Nothing of this room may go on: the runtime sees that its init is gone, and closes it.
                end_everything(room.tier, Signal::KILL);
                sys::exit_now(1);
            }
            let mut seen = Seen::now(room.tier);
            if seen.unwatched {
                // Then all that was taken meanwhile, of the disk and of memory without an owner, counts as this job's.
                seen.written = seen.written.max(free_before.saturating_sub(free_on(&order.root)));
                seen.files = seen.files.max(shared_by_all().saturating_sub(shared_before));
            }
            memory_peak = memory_peak.max(seen.memory_at_most());
            breach = breach.or_else(|| seen.breach(&room.limits, order));
            if breach.is_some() {
                end_everything(room.tier, Signal::KILL);
            }
            next_look = now + TICK;
        }
        let wait = Timespec::try_from(next_look.saturating_duration_since(now)).ok();
        let mut fds = [PollFd::new(status, PollFlags::IN), PollFd::new(&job.children, PollFlags::IN)];
        // An interrupted wait is looked at like any other.
        let _ = poll(&mut fds, wait.as_ref());
        let (spoken, changed) = (fds[0].revents(), fds[1].revents());
        if !spoken.is_empty() {
            obey(room.tier, status);
        }
        if !changed.is_empty() {
            drain(&job.children);
            ended = reap(job.program);
        }
    }
    // Everything the program left behind is below this process, so no children means nothing is left.
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => {
                end_everything(room.tier, Signal::KILL);
                let _ = wait(WaitOptions::empty());
            }
            Err(_) => break,
        }
    }
    let used = sys::usage_of_children().map_or(0, |usage| usage.cpu_ms);
    Over {
        code: ended.and_then(WaitStatus::exit_status),
        signal: ended.and_then(WaitStatus::terminating_signal),
        breach,
        cpu_ms: used,
        memory_peak,
    }
}

/// Does what the runtime says. No word any more means that nobody waits: everything ends.
fn obey(tier: Tier, status: &OwnedFd) {
    match wire::receive::<Word>(status) {
        Ok(Some((Word::Terminate, _))) => end_everything(tier, Signal::TERM),
        Ok(Some((Word::Kill, _))) => end_everything(tier, Signal::KILL),
        Ok(None) | Err(_) => {
            end_everything(tier, Signal::KILL);
            sys::exit_now(1)
        }
    }
}

fn drain(signals: &OwnedFd) {
    let mut buffer = [0; 1024];
    while rustix::io::read(signals, &mut buffer).is_ok_and(|read| read > 0) {}
}

/// Waits for everything that has ended, and gives the program's status if it is among them.
fn reap(program: i32) -> Option<WaitStatus> {
    let mut ended = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid.as_raw_nonzero().get() == program {
            ended = Some(status);
        }
    }
    ended
}

fn end_everything(tier: Tier, signal: Signal) {
    match tier {
        // Everything in the pid namespace but this process. No such process is what is wanted.
        Tier::Namespaces => {
            let _ = sys::signal_all(signal.as_raw());
        }
        Tier::Landlock => descendants().into_iter().for_each(|pid| {
            let _ = kill_process(pid, signal);
        }),
    }
}

/// Ends what came back to a keeper whose job init is gone.
pub(super) fn end_descendants() {
    // Bounded: each round ends a generation, and a room holds only so many processes.
    for _ in 0..1_000 {
        let left = descendants();
        if left.is_empty() {
            return;
        }
        left.into_iter().for_each(|pid| {
            let _ = kill_process(pid, Signal::KILL);
        });
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// All processes below this one, parents first.
fn descendants() -> Vec<Pid> {
    let mut found = Vec::new();
    let mut left = vec![std::process::id().cast_signed()];
    while let Some(parent) = left.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{parent}/task")) else { continue };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for pid in children.split_ascii_whitespace().filter_map(|word| word.parse().ok()) {
                left.push(pid);
                found.extend(Pid::from_raw(pid));
            }
        }
    }
    found
}

/// What a job holds at one moment.
#[derive(Debug, Default)]
struct Seen {
    pids: Vec<i32>,
    threads: u64,
    cpu_ms: u64,
    written: u64,
    /// There is a process that does not show what it writes and holds.
    unwatched: bool,
    /// Pages of single processes, and pages that several may hold, counted once for each of them.
    own: u64,
    shared: u64,
    /// Files in memory that have no name, or only one in a private directory.
    files: u64,
}

impl Seen {
    fn now(tier: Tier) -> Self {
        let pids: Vec<i32> = match tier {
            Tier::Landlock => descendants().into_iter().map(|pid| pid.as_raw_nonzero().get()).collect(),
            Tier::Namespaces => fs::read_dir("/proc")
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .filter(|pid| *pid != 1)
                .collect(),
        };
        let mut seen = Self::default();
        if let Ok(dead) = sys::usage_of_children() {
            seen.cpu_ms = dead.cpu_ms;
            seen.written = dead.written;
        }
        pids.iter().for_each(|pid| seen.add(*pid));
        seen.files = nameless(&pids);
        if tier == Tier::Namespaces {
            seen.files += used_by("/tmp") + used_by("/home");
        }
        Self { pids, ..seen }
    }

    /// Adds one process. One that has just gone is counted among the dead next time.
    fn add(&mut self, pid: i32) {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return };
        // The name may hold anything, also parentheses; what follows the last one are numbers.
        let Some((_, rest)) = stat.rsplit_once(')') else { return };
        let fields: Vec<u64> = rest.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        // Its own time, and that of children it has waited for itself.
        self.cpu_ms += (14..=17).map(field).sum::<u64>() * 1_000 / ticks;
        self.threads += field(20);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        self.own += kibibytes(&status, "RssAnon:");
        self.shared += kibibytes(&status, "RssShmem:");
        match fs::read_to_string(format!("/proc/{pid}/io")) {
            Ok(io) => {
                let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok());
                self.written += written.unwrap_or(0);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.unwatched = true,
            Err(_) => {}
        }
    }

    /// Bytes of memory, at most: shared pages are counted for everybody who has them.
    fn memory_at_most(&self) -> u64 {
        self.own + self.shared.max(self.files)
    }

    /// Bytes of memory with each page counted once. Takes the kernel a walk through all of them.
    fn memory(&self) -> u64 {
        let (mut own, mut shared) = (0, 0);
        for pid in &self.pids {
            // A program that may not be read shows its sums only, with what it shares.
            let (list, of_one, of_several) = match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
                Ok(parts) => (parts, "Pss_Anon:", "Pss_Shmem:"),
                Err(_) => {
                    (fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default(), "RssAnon:", "RssShmem:")
                }
            };
            own += kibibytes(&list, of_one);
            shared += kibibytes(&list, of_several);
        }
        // A file in memory that is mapped is in both sums.
        own + shared.max(self.files)
    }

    fn breach(&self, limits: &RoomLimits, order: &Order) -> Option<Breach> {
        if u128::from(self.cpu_ms) > limits.cpu.as_millis() {
            Some(Breach::Cpu)
        } else if !order.memory_held && self.memory_at_most() > limits.memory && self.memory() > limits.memory {
            Some(Breach::Memory)
        } else if !order.pids_held && self.threads >= u64::from(limits.pids) {
            Some(Breach::Pids)
        } else if self.written > limits.disk {
            Some(Breach::Disk)
        } else {
            None
        }
    }
}

/// The number behind a name in one of the kernel's lists, in bytes.
fn kibibytes(list: &str, name: &str) -> u64 {
    let number = list.lines().find_map(|line| line.strip_prefix(name)?.split_ascii_whitespace().next()?.parse().ok());
    number.unwrap_or(0_u64) * 1024
}

/// Bytes in files that exist only as long as somebody has them open, each file once.
fn nameless(pids: &[i32]) -> u64 {
    /// Descriptors that are looked at; who has more has them for something else.
    const MOST: usize = 4_096;
    let mut found = BTreeMap::new();
    let dirs = pids.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok());
    for fd in dirs.flatten().flatten().take(MOST) {
        let is_in_memory = fs::read_link(fd.path()).is_ok_and(|link| link.to_string_lossy().starts_with("/memfd:"));
        if is_in_memory && let Ok(file) = fs::metadata(fd.path()) {
            found.insert((file.dev(), file.ino()), file.blocks() * 512);
        }
    }
    found.values().sum()
}

/// Bytes in files in memory, of everybody on the machine.
fn shared_by_all() -> u64 {
    kibibytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "Shmem:")
}

/// Bytes free on the file system of a directory.
fn free_on(dir: &str) -> u64 {
    rustix::fs::statvfs(dir).map_or(0, |found| found.f_bfree * found.f_frsize)
}

/// Bytes in use on the file system of a directory.
fn used_by(dir: &str) -> u64 {
    rustix::fs::statvfs(dir).map_or(0, |found| (found.f_blocks - found.f_bfree) * found.f_frsize)
}
