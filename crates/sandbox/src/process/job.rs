//! The init of one job: the process between the keeper and the program.
//!
//! It puts up what must stand around this job alone (its `/proc`, its cgroup, its limits), starts the program behind
//! the last walls, and stays to watch: it reaps, holds the job to limits no cgroup holds it to, and passes on the
//! runtime's word. When the program ends it ends everything the program left behind, and says so last.

use std::{
    collections::BTreeMap,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{
        DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, kill_process, set_dumpable_behavior,
        set_parent_process_death_signal, setrlimit, wait,
    },
    thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities},
};
use toolgate_contract::TerminalSize;

use super::{
    bound::Bound,
    keeper::Room,
    landlock,
    program::{self, START_PROGRAM, Taken, Turn},
    root, seccomp,
    sys::{self, Aside, Became},
    wire::{self, Breach, Facts, Failure, Ground, News, Order, Over, Word},
};
use crate::spec::RoomLimits;

/// How often limits are looked at that no cgroup holds.
const TICK: Duration = Duration::from_millis(50);

/// A job init's whole life. Its walls stand before there is an order; the keeper is told through `taken` when it has one,
/// and it ends with the job.
pub(super) fn wait_for_an_order(room: &Room, keeper: &OwnedFd, taken: &OwnedFd) -> ! {
    let take = || {
        let _ = rustix::io::write(taken, b"!");
    };
    let ready = match get_ready(room) {
        Ok(ready) => ready,
        Err(failure) => refuse(Taken::receive(keeper).inspect(|_| take()), failure),
    };
    let waited = match room.ground {
        // The next init is ready soon. It is begun once this program runs, so that it does not stand in its way.
        Ground::Landlock | Ground::Container => wait_behind_walls(room, &ready, keeper).inspect(|_| take()),
        // Here it takes as long as a short job, and is begun first.
        Ground::Namespaces => Taken::receive(keeper).inspect(|_| take()).map(|job| {
            let begun = begin(room, &ready, &job);
            (job, begun)
        }),
    };
    let Some((Taken { order, status, fds }, begun)) = waited else { sys::exit_now(0) };
    // The program has its own. While this process had them too, the streams would not end with it.
    drop(fds);
    let news = match &begun {
        Ok(Some(begun)) => match announce(begun, &ready, &status) {
            Ok(()) => News::Over(watch(room, &order, &status, begun.program, &ready.children)),
            Err(failure) => News::Failed(failure),
        },
        Ok(None) => News::NoProgram,
        Err(failure) => News::Failed(failure.clone()),
    };
    // The runtime may have closed the socket already; then nobody waits.
    let _ = wire::send(&status, &news, &[]);
    sys::exit_now(0)
}

/// Tells whoever gave the order, if there was one, what stands in its way.
fn refuse(job: Option<Taken>, failure: Failure) -> ! {
    if let Some(job) = job {
        let _ = wire::send(&job.status, &News::Failed(failure), &[]);
    }
    sys::exit_now(0)
}

/// What is there before an order.
struct Ready {
    /// The namespaces the job will be in.
    namespaces: Vec<(String, String)>,
    children: OwnedFd,
    /// Where memory is the container's, and not this job's.
    turn: Option<Turn>,
}

impl Ready {
    /// Runs an errand in another process that goes first where memory runs out.
    fn stand_aside<T>(&self, errand: impl FnOnce() -> (T, Option<sys::Program>)) -> io::Result<Aside<T>> {
        let Some(turn) = &self.turn else { return sys::stand_aside(errand) };
        turn.go_first()?;
        let aside = sys::stand_aside(errand);
        if aside.is_err() {
            // There was no process that could have.
            turn.spare_init()?;
        }
        aside
    }
}

/// A process that has become the program.
struct Begun {
    program: i32,
    facts: Facts,
    terminal: Option<OwnedFd>,
}

/// Has a process ready behind all walls that waits for an order and becomes its program. `None` when the room is closed.
fn wait_behind_walls(room: &Room, ready: &Ready, keeper: &OwnedFd) -> Option<(Taken, Result<Option<Begun>, Failure>)> {
    let waited = ready.stand_aside(|| {
        let walls = program::go_behind_walls(room, &room.landlock, ready.turn.as_ref(), None);
        // An order that was not rehearsed takes longer, and that is all.
        let _ = program::rehearse();
        let Some(job) = Taken::receive(keeper) else { return (None, None) };
        if job.order.terminal.is_some() {
            // Behind the walls there is no way to one.
            return (Some((job, Ok(None))), None);
        }
        let (found, program) = program::prepare(room, &job, walls, None);
        (Some((job, found)), program)
    });
    let Aside { pid, left, became } = match waited {
        Ok(aside) => aside,
        // There were too many processes at that moment. It is tried again when somebody wants one.
        Err(_) => {
            let job = Taken::receive(keeper)?;
            let begun = begin(room, ready, &job);
            return Some((job, begun));
        }
    };
    let (job, found) = left?;
    let begun = match job.order.terminal {
        None => begun(pid, found, became, None),
        Some(_) => begin(room, ready, &job),
    };
    Some((job, begun))
}

/// Has a process go behind all walls and become the program of this order.
fn begin(room: &Room, ready: &Ready, job: &Taken) -> Result<Option<Begun>, Failure> {
    let (master, slave) = job.order.terminal.map(open_terminal).transpose()?.unzip();
    let slave = slave.as_ref().map(AsFd::as_fd);
    let own_rules = match (room.ground, slave) {
        // The terminals of its neighbours are where its own is.
        (Ground::Container, Some(terminal)) => Some(landlock::rules(&room.plan, Some(terminal))?.0),
        _ => None,
    };
    let rules = own_rules.as_ref().unwrap_or(&room.landlock);
    let go_behind_walls = || program::go_behind_walls(room, rules, ready.turn.as_ref(), slave);
    let Aside { pid, left: found, became } = ready
        .stand_aside(|| program::prepare(room, job, go_behind_walls(), slave))
        .map_err(Failure::at("start a process"))?;
    begun(pid, found, became, master)
}

/// `None` when there is no such program.
fn begun(
    program: i32,
    found: program::Found,
    became: Became,
    terminal: Option<OwnedFd>,
) -> Result<Option<Begun>, Failure> {
    match (found?, became) {
        (Some(facts), Became::Program) => Ok(Some(Begun { program, facts, terminal })),
        (_, Became::Refused(errno)) => Err(Failure { step: START_PROGRAM.into(), errno }),
        (_, Became::Nothing) | (None, Became::Program) => Ok(None),
    }
}

/// Tells the runtime that the program runs, and behind what.
fn announce(begun: &Begun, ready: &Ready, status: &OwnedFd) -> Result<(), Failure> {
    let facts = Facts { namespaces: ready.namespaces.clone(), ..begun.facts.clone() };
    let terminal: Vec<_> = begun.terminal.iter().map(AsFd::as_fd).collect();
    wire::send(status, &News::Started(facts), &terminal).map_err(Failure::at("say that the program runs"))
}

/// Everything that is the same for every job of the room.
fn get_ready(room: &Room) -> Result<Ready, Failure> {
    sys::notice_children().map_err(Failure::at("notice children"))?;
    // Away from any terminal.
    rustix::process::setsid().map_err(Failure::at("start a session"))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Failure::at("follow the keeper"))?;
    limit(&room.limits)?;
    let namespaces = match room.ground {
        Ground::Namespaces => {
            set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Failure::at("close /proc/self"))?;
            root::mount_proc()?;
            root::mount_terminals()?;
            let namespaces = namespaces();
            give_up_rights(room.ground)?;
            namespaces
        }
        // There is no namespace to tell of: there is none, or the worker has told.
        Ground::Landlock | Ground::Container => {
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
                .map_err(Failure::at("adopt stray processes"))?;
            Vec::new()
        }
    };
    let turn = match room.ground {
        Ground::Container => {
            let turn = Turn::of_init().map_err(Failure::at("be the first to go"))?;
            give_up_rights(room.ground)?;
            Some(turn)
        }
        // A job has a group of its own there, or its keeper has given up the rights of all of them.
        Ground::Namespaces | Ground::Landlock => None,
    };
    let children = sys::child_signals().map_err(Failure::at("watch children"))?;
    Ok(Ready { namespaces, children, turn })
}

/// What this process and all it starts can do without, for good: capabilities, ways to gain any, and the system calls
/// the filter refuses.
pub(crate) fn give_up_rights(ground: Ground) -> Result<(), Failure> {
    give_up_privileges(ground)?;
    sys::filter_calls(filter_of(ground)).map_err(Failure::at("put up the system call filter"))
}

/// Capabilities, and ways to gain any.
pub(super) fn give_up_privileges(ground: Ground) -> Result<(), Failure> {
    drop_capabilities(ground)?;
    rustix::thread::set_no_new_privs(true).map_err(Failure::at("give up new privileges"))
}

/// The filter of a ground. Whoever asks before there are jobs has it ready for all of them.
pub(super) fn filter_of(ground: Ground) -> &'static [seccomp::Instruction] {
    let profile = match ground {
        Ground::Namespaces => seccomp::Profile::Namespaces,
        Ground::Landlock => seccomp::Profile::Landlock,
        Ground::Container => seccomp::Profile::Container,
    };
    profile.program()
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

fn drop_capabilities(ground: Ground) -> Result<(), Failure> {
    const STEP: &str = "drop capabilities";
    if ground == Ground::Namespaces {
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
pub(super) fn limit_to(resource: Resource, most: u64) -> Result<(), Failure> {
    let most = match rustix::process::getrlimit(resource).maximum {
        Some(already) => most.min(already),
        None => most,
    };
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
        .map_err(Failure::at(format!("limit {resource:?}")))
}

/// Are the protected names still on their mounts, and closed and hidden ones covered? Whoever replaces one on the machine
/// takes the mount away with it, and what is made there under a hidden name has no cover.
pub(super) fn is_protected(room: &Room) -> bool {
    let is_closed = match room.ground {
        Ground::Container => root::is_shut,
        Ground::Namespaces | Ground::Landlock => root::is_closed,
    };
    let is_hidden = match room.ground {
        Ground::Container => root::is_absent,
        Ground::Namespaces | Ground::Landlock => root::is_hidden,
    };
    room.protected.iter().all(|path| root::is_read_only(path))
        && room.closed.iter().all(|path| is_closed(path))
        && room.hidden.iter().all(|path| is_hidden(path))
        && room.covers.iter().all(Bound::holds)
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
pub(crate) fn namespaces() -> Vec<(String, String)> {
    ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]
        .into_iter()
        .filter_map(|name| {
            let link = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
            Some((name.to_owned(), link.to_string_lossy().into_owned()))
        })
        .collect()
}

/// Waits for the program's end and ends what it left behind.
fn watch(room: &Room, order: &Order, status: &OwnedFd, program: i32, children: &OwnedFd) -> Over {
    let mut ended: Option<WaitStatus> = None;
    let mut breach = None;
    let mut memory_peak = 0;
    let mut next_look = Instant::now() + TICK;
    let (mut free_before, mut shared_before) = (free_on(&order.root), shared_by_all());
    while ended.is_none() {
        let now = Instant::now();
        if now >= next_look {
            if !is_protected(room) {
                // Nothing of this room may go on: the runtime sees that its init is gone, and closes it.
                end_everything(room.ground, Signal::KILL);
                sys::exit_now(1);
            }
            let mut seen = Seen::now(room.ground);
            let free = free_on(&order.root);
            if seen.unwatched {
                // Then all that was taken since everything was last watched, of the disk and of memory without an owner,
                // counts as this job's. Both are others' too, and a program that is just being started, or is ending, cannot be
                // watched for a moment: what was taken before that, or can be watched again, is known by who took it.
                seen.written = seen.written.max(free_before.saturating_sub(free));
                seen.files = seen.files.max(shared_by_all().saturating_sub(shared_before));
            } else {
                (free_before, shared_before) = (free, shared_by_all());
            }
            memory_peak = memory_peak.max(seen.memory_at_most());
            breach = breach.or_else(|| seen.breach(&room.limits, order));
            if breach.is_some() {
                end_everything(room.ground, Signal::KILL);
            }
            next_look = now + TICK;
        }
        let wait = Timespec::try_from(next_look.saturating_duration_since(now)).ok();
        let mut fds = [PollFd::new(status, PollFlags::IN), PollFd::new(children, PollFlags::IN)];
        // An interrupted wait is looked at like any other.
        let _ = poll(&mut fds, wait.as_ref());
        let (spoken, changed) = (fds[0].revents(), fds[1].revents());
        if !spoken.is_empty() {
            obey(room.ground, status);
        }
        if !changed.is_empty() {
            ended = reap(program);
            if ended.is_none() {
                drain(children);
            }
        }
    }
    // Everything the program left behind is below this process, so no children means nothing is left.
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => {
                end_everything(room.ground, Signal::KILL);
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
fn obey(ground: Ground, status: &OwnedFd) {
    match wire::receive::<Word>(status) {
        Ok(Some((Word::Terminate, _))) => end_everything(ground, Signal::TERM),
        Ok(Some((Word::Kill, _))) => end_everything(ground, Signal::KILL),
        Ok(None) | Err(_) => {
            end_everything(ground, Signal::KILL);
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

fn end_everything(ground: Ground, signal: Signal) {
    match ground {
        // Everything in the pid namespace but this process. No such process is what is wanted.
        Ground::Namespaces => {
            let _ = sys::signal_all(signal.as_raw());
        }
        Ground::Landlock | Ground::Container => descendants().into_iter().for_each(|pid| {
            let _ = kill_process(pid, signal);
        }),
    }
}

/// Ends what came back to a keeper whose job init is gone.
pub(crate) fn end_descendants() {
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
    /// Files in memory that have no name, or only one in a private directory, and segments that nobody need have mapped.
    files: u64,
}

impl Seen {
    fn now(ground: Ground) -> Self {
        let pids: Vec<i32> = match ground {
            Ground::Landlock | Ground::Container => {
                descendants().into_iter().map(|pid| pid.as_raw_nonzero().get()).collect()
            }
            Ground::Namespaces => fs::read_dir("/proc")
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
        if ground == Ground::Namespaces {
            seen.files += used_by("/tmp") + used_by("/home") + segments();
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

/// Bytes in segments of System V, which stay when whoever made them has let go of them. All there are here are the job's: it
/// has a namespace of its own for them.
fn segments() -> u64 {
    in_segments(&fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default())
}

/// The sum of what is in memory and what is swapped out, the last two columns of the kernel's list.
fn in_segments(list: &str) -> u64 {
    let bytes =
        |line: &str| line.split_ascii_whitespace().rev().take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    list.lines().skip(1).map(bytes).fold(0, |sum, bytes: u64| sum.saturating_add(bytes))
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
