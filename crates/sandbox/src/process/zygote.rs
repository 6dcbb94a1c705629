//! The zygote: a small process that makes rooms.
//!
//! It is this very program, started once more under another name and caught before `main` (`sys::enter`). Forking it
//! costs the same however large the runtime has grown, and what it forks has never held a secret of the runtime.
//! It ends when the runtime does, and with it every room; then it sweeps up what a dead runtime left on the machine.
//!
//! The namespaces of a room take longer to make than anything in it, so the zygote always has one keeper waiting that
//! has made them already and has not been told yet what to keep.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, Mode, OFlags, ResolveFlags},
    mount::OpenTreeFlags,
    process::{Pid, Signal, WaitOptions, pidfd_send_signal, set_parent_process_death_signal, wait, waitpid},
};

use super::{
    keeper,
    seccomp::Profile,
    sys::{self, Forked},
    wire::{self, Assignment, Failure, Ground, Ids, Opened, Plan},
};
use crate::{
    registry,
    spec::{WorkspaceMode, WorkspaceSpec},
};

/// The namespaces of a room.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Starts a zygote and gives the socket that speaks to it. It ends when the socket is closed, and sweeps `data` then.
pub(super) fn start(data: &Path) -> io::Result<OwnedFd> {
    let (ours, theirs) = wire::pair()?;
    let mut child = Command::new("/proc/self/exe")
        .arg0(std::ffi::OsStr::from_bytes(sys::ZYGOTE_NAME.to_bytes()))
        .env_clear()
        .current_dir("/")
        // Its only descriptor that matters. Signals of a terminal are for the runtime alone.
        .stdin(theirs)
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()?;
    // Waited for from the side, so that it leaves no zombie whenever it ends.
    std::thread::Builder::new().name("zygote".into()).spawn(move || child.wait())?;
    wire::send(&ours, &data, &[])?;
    Ok(ours)
}

/// The zygote's whole life. Called before `main`, so it returns to nobody.
pub(super) fn run() -> ! {
    let socket = io::stdin();
    // Whatever goes wrong is told on a room's socket, or ends this process, which the runtime notices.
    let code = match serve(socket.as_fd()) {
        Ok(()) => 0,
        Err(_) => 1,
    };
    sys::exit_now(code)
}

fn serve(socket: BorrowedFd<'_>) -> io::Result<()> {
    sys::reset_signals()?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let Some((data, _)) = wire::receive::<PathBuf>(socket)? else { return Ok(()) };
    let mut zygote = Zygote {
        is_root: rustix::process::geteuid().is_root(),
        uids: Uids::default(),
        idmaps: IdMaps::new(),
        waiting: None,
        living: BTreeMap::new(),
    };
    // Worked out once, and inherited by everybody: behind the walls there is no way to ask the kernel for the last two.
    let _ = (Profile::Namespaces.program(), Profile::Landlock.program());
    let _ = (rustix::param::page_size(), rustix::param::clock_ticks_per_second());
    zygote.park();
    while let Some((plan, fds)) = wire::receive::<Plan>(socket)? {
        let Ok([room]) = <[OwnedFd; 1]>::try_from(fds) else { continue };
        zygote.reap();
        match zygote.make(&plan, &room) {
            Ok(keeper) => wire::send(socket, &(), &[keeper.as_fd()])?,
            Err(failure) => {
                // The room's socket may already be gone; then there is nobody to tell.
                let _ = wire::send(&room, &Opened::Failed(failure), &[]);
                wire::send(socket, &(), &[])?;
            }
        }
        drop(room);
        // The next room's namespaces wait until this room is likely to be at work: both want the same locks in the kernel.
        if !speaks_within(socket, PAUSE) {
            zygote.park();
        }
    }
    zygote.end(&data);
    Ok(())
}

/// How long a room takes to be made and to run something short.
const PAUSE: Duration = Duration::from_millis(3);

/// Is there something to read before this time is over?
fn speaks_within(socket: BorrowedFd<'_>, wait: Duration) -> bool {
    let mut fds = [PollFd::new(&socket, PollFlags::IN)];
    poll(&mut fds, Timespec::try_from(wait).ok().as_ref()).is_ok_and(|ready| ready > 0)
}

/// A keeper that waits for its room.
struct Waiting {
    pidfd: OwnedFd,
    ids: Ids,
    socket: OwnedFd,
}

struct Zygote {
    is_root: bool,
    uids: Uids,
    idmaps: IdMaps,
    waiting: Option<Result<Waiting, Failure>>,
    /// The keepers there are, with their uids.
    living: BTreeMap<i32, u32>,
}

/// User namespaces that show the owner of a directory as the ids of a room.
type IdMaps = BTreeMap<(u32, u32, Ids), OwnedFd>;

/// What to mount in a room that only the machine's root can take hold of; an ordinary user's keeper does it itself.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    pub(super) workspace: Option<OwnedFd>,
    /// The room's own directory, for an overlay.
    pub(super) private: Option<OwnedFd>,
    /// In the order of the spec.
    pub(super) visible: Vec<OwnedFd>,
}

impl Zygote {
    /// Makes one room, and gives a handle on its keeper.
    fn make(&mut self, plan: &Plan, room: &OwnedFd) -> Result<OwnedFd, Failure> {
        if plan.ground == Ground::Landlock {
            return self.fork_keeper(plan, room);
        }
        self.park();
        let waiting = match self.waiting.take() {
            Some(waiting) => waiting?,
            None => return Err(Failure { step: "make namespaces".into(), errno: libc::EAGAIN }),
        };
        let mounts = if self.is_root { self.take_hold(plan, waiting.ids)? } else { Mounts::default() };
        let assignment = Assignment {
            plan: plan.clone(),
            workspace: mounts.workspace.is_some(),
            private: mounts.private.is_some(),
            visible: !mounts.visible.is_empty(),
        };
        let fds: Vec<_> = [room]
            .into_iter()
            .chain(&mounts.workspace)
            .chain(&mounts.private)
            .chain(&mounts.visible)
            .map(AsFd::as_fd)
            .collect();
        wire::send(&waiting.socket, &assignment, &fds).map_err(Failure::at("tell the keeper"))?;
        Ok(waiting.pidfd)
    }

    /// Makes namespaces ahead, unless some are waiting.
    fn park(&mut self) {
        if matches!(self.waiting, None | Some(Err(_))) {
            self.waiting = Some(self.fork_waiting());
        }
    }

    fn fork_waiting(&mut self) -> Result<Waiting, Failure> {
        let ids = self.take_ids()?;
        let (ours, theirs) = wire::pair().map_err(Failure::at("make a socket"))?;
        let (go, gone) = pipe()?;
        match sys::fork_into(NAMESPACES).map_err(Failure::at("make namespaces"))? {
            Forked::Child => {
                drop((ours, gone));
                // It starts when its ids are mapped; if the zygote dies first, it reads the end and ends too.
                if rustix::io::read(&go, &mut [0]) != Ok(1) {
                    sys::exit_now(1);
                }
                drop(go);
                leave_the_zygote();
                keeper::wait_for_a_room(ids, &theirs, self.is_root)
            }
            Forked::Parent(pid, pidfd) => {
                if self.is_root {
                    write_maps(pid, (ids.uid, ids.uid), (ids.gid, ids.gid))
                        .inspect_err(|_| {
                            // Without its ids it must not run.
                            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
                        })
                        .map_err(Failure::at("map the room's ids"))?;
                }
                rustix::io::write(&gone, b"!").map_err(Failure::at("start the keeper"))?;
                self.living.insert(pid, ids.uid);
                Ok(Waiting { pidfd, ids, socket: ours })
            }
        }
    }

    fn fork_keeper(&mut self, plan: &Plan, room: &OwnedFd) -> Result<OwnedFd, Failure> {
        let ids = self.take_ids()?;
        if self.is_root {
            let own = |dir: &Path| std::os::unix::fs::chown(dir, Some(ids.uid), Some(ids.gid));
            let parts = ["", "tmp", "home", "canary"].map(|name| plan.private.join(name));
            parts.iter().try_for_each(|dir| own(dir)).map_err(Failure::at("give the room its directory"))?;
        }
        match sys::fork_into(0).map_err(Failure::at("start the keeper"))? {
            Forked::Child => {
                leave_the_zygote();
                keeper::keep_without_namespaces(plan, ids, room, self.is_root)
            }
            Forked::Parent(pid, pidfd) => {
                self.living.insert(pid, ids.uid);
                Ok(pidfd)
            }
        }
    }

    /// Notices keepers that have ended, and takes back their ids.
    fn reap(&mut self) {
        while let Ok(Some((pid, _))) = wait(WaitOptions::NOHANG) {
            self.uids.free.extend(self.living.remove(&pid.as_raw_nonzero().get()).filter(|_| self.is_root));
        }
    }

    /// The runtime is gone. Waits for the keepers, who see it too, and cleans up what nobody else will.
    fn end(&mut self, data: &Path) {
        self.waiting = None;
        for pid in self.living.keys().filter_map(|pid| Pid::from_raw(*pid)) {
            // Its own wish to end is not waited for: nobody is there to lose anything.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
        let _ = registry::sweep(data);
    }

    fn take_ids(&mut self) -> Result<Ids, Failure> {
        if !self.is_root {
            let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            return Ok(Ids { uid, gid });
        }
        let uid = self.uids.take().ok_or_else(|| Failure { step: "find an id".into(), errno: libc::EAGAIN })?;
        Ok(Ids { uid, gid: uid })
    }

    fn take_hold(&mut self, plan: &Plan, ids: Ids) -> Result<Mounts, Failure> {
        let spec = &plan.spec;
        let workspace = match &spec.workspace {
            Some(workspace) => Some(self.take_owned(&workspace.path, ids)?),
            None => None,
        };
        let is_overlay = |workspace: &WorkspaceSpec| workspace.mode == WorkspaceMode::Overlay;
        let private = match spec.workspace.as_ref().is_some_and(is_overlay) {
            true => Some(self.take_owned(&plan.private, ids)?),
            false => None,
        };
        let take = |path: &PathBuf| detach(CWD, path).map_err(Failure::at(format!("open `{}`", path.display())));
        Ok(Mounts { workspace, private, visible: spec.visible.iter().map(take).collect::<Result<_, _>>()? })
    }

    /// A directory with its owner shown as the room's.
    fn take_owned(&mut self, path: &Path, ids: Ids) -> Result<OwnedFd, Failure> {
        let mount = detach(CWD, path).map_err(Failure::at(format!("open `{}`", path.display())))?;
        let owner = rustix::fs::fstat(&mount).map_err(Failure::at(format!("look at `{}`", path.display())))?;
        if (owner.st_uid, owner.st_gid) != (ids.uid, ids.gid) {
            let step = "show the directory under the room's ids (its file system must support idmapped mounts)";
            let key = (owner.st_uid, owner.st_gid, ids);
            let map = match self.idmaps.entry(key) {
                Entry::Occupied(map) => map.into_mut(),
                Entry::Vacant(place) => place.insert(idmap(key).map_err(Failure::at(step))?),
            };
            sys::map_mount_ids(mount.as_fd(), map.as_fd()).map_err(Failure::at(step))?;
        }
        Ok(mount)
    }
}

/// Ids for rooms when the runtime is root: one for each room, far from anybody's, used again when a room is gone.
#[derive(Debug, Default)]
struct Uids {
    free: Vec<u32>,
    next: u32,
}

impl Uids {
    const MOST: u32 = 1_000;

    fn take(&mut self) -> Option<u32> {
        if let Some(uid) = self.free.pop() {
            return Some(uid);
        }
        if self.next == Self::MOST {
            return None;
        }
        self.next += 1;
        // A thousand for each process, between any user's and the largest there is.
        Some(1_000_000_000 + (std::process::id() % 1_000_000) * Self::MOST + self.next - 1)
    }
}

/// What a new process does first: it lets go of the socket to the runtime, which would be the way to every other room,
/// and ends with the zygote.
fn leave_the_zygote() {
    let _ = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()).and_then(rustix::stdio::dup2_stdin);
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(Failure::at("make a pipe"))
}

/// Maps one id inside to one outside, each.
fn write_maps(pid: i32, uid: (u32, u32), gid: (u32, u32)) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/uid_map"), format!("{} {} 1", uid.0, uid.1))?;
    fs::write(format!("/proc/{pid}/gid_map"), format!("{} {} 1", gid.0, gid.1))
}

/// A copy of a mount that is attached nowhere. The path was made canonical by whoever wrote the spec: a link in it now
/// was put there since.
pub(super) fn detach(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let here = rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how)?;
    detach_opened(&here)
}

pub(super) fn detach_opened(here: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(rustix::mount::open_tree(here, c"", flags | OpenTreeFlags::AT_EMPTY_PATH)?)
}

/// A user namespace that maps the owner of a directory to a room. It needs no process once it is held open.
fn idmap((owner, group, ids): (u32, u32, Ids)) -> io::Result<OwnedFd> {
    let (wait, held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match sys::fork_into(libc::CLONE_NEWUSER)? {
        Forked::Child => {
            drop(held);
            let _ = rustix::io::read(&wait, &mut [0]);
            sys::exit_now(0)
        }
        Forked::Parent(pid, _) => {
            write_maps(pid, (owner, ids.uid), (group, ids.gid))?;
            Ok(fs::File::open(format!("/proc/{pid}/ns/user"))?.into())
        }
    }
}
