//! The zygote: a small process that makes rooms.
//!
//! It is this very program, started once more under another name and caught before `main` (`sys::enter`). Forking it
//! costs the same however large the runtime has grown, and what it forks has never held a secret of the runtime.
//! It ends when the runtime does, and with it every room.

use std::{
    collections::BTreeMap,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    mount::OpenTreeFlags,
    process::{Signal, set_parent_process_death_signal},
};

use super::{
    keeper,
    sys::{self, Forked},
    wire::{self, Failure, Opened, Plan},
};
use crate::spec::{Tier, WorkspaceMode, WorkspaceSpec};

/// The namespaces of a room.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Starts a zygote and gives the socket that speaks to it. It ends when the socket is closed.
pub(super) fn start(dir: &Path) -> io::Result<OwnedFd> {
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
    Ok(ours)
}

/// What to mount in a room that only the machine's root can take hold of; an ordinary user's keeper does it itself.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    pub(super) workspace: Option<OwnedFd>,
    /// In the order of the spec.
    pub(super) visible: Vec<OwnedFd>,
    /// The room's own directory, for an overlay.
    pub(super) private: Option<OwnedFd>,
}

/// The zygote's whole life. Called before `main`, so it returns to nobody.
pub(super) fn run() -> ! {
    let socket = std::io::stdin();
    // Whatever goes wrong here is told on the room's socket or ends this process, which the runtime notices.
    let code = match serve(socket.as_fd()) {
        Ok(()) => 0,
        Err(_) => 1,
    };
    sys::exit_now(code)
}

fn serve(socket: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
    sys::reset_signals()?;
    // Rooms are waited for by nobody here: the runtime sees their sockets close.
    sys::ignore_children()?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let mut idmaps = BTreeMap::new();
    while let Some((plan, fds)) = wire::receive::<Plan>(socket)? {
        let Ok([room]) = <[OwnedFd; 1]>::try_from(fds) else { continue };
        match make(&plan, &room, &mut idmaps) {
            Ok(pidfd) => wire::send(socket, &true, &[pidfd.as_fd()])?,
            Err(failure) => {
                // The room's socket may already be gone; then there is nobody to tell.
                let _ = wire::send(&room, &Opened::Failed(failure), &[]);
                wire::send(socket, &false, &[])?;
            }
        }
    }
    Ok(())
}

type IdMaps = BTreeMap<(u32, u32, u32, u32), OwnedFd>;

/// Makes one room, and gives a handle on its keeper.
fn make(plan: &Plan, room: &OwnedFd, idmaps: &mut IdMaps) -> Result<OwnedFd, Failure> {
    let is_root = rustix::process::geteuid().is_root();
    let mounts = match plan.tier {
        Tier::Namespaces if is_root => take_hold(plan, idmaps)?,
        Tier::Namespaces | Tier::Landlock => Mounts::default(),
    };
    let (go, gone) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(Failure::at("make a pipe"))?;
    let namespaces = if plan.tier == Tier::Namespaces { NAMESPACES } else { 0 };
    match sys::fork_into(namespaces).map_err(Failure::at("make namespaces"))? {
        Forked::Child => {
            drop(gone);
            // The keeper starts when its ids are mapped; if this process dies first, it reads the end and ends too.
            let mut byte = [0];
            if rustix::io::read(&go, &mut byte) != Ok(1) {
                sys::exit_now(1);
            }
            drop(go);
            // A keeper's standard input would be the way to every other room.
            let _ = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty())
                .and_then(|null| rustix::stdio::dup2_stdin(null));
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            keeper::run(plan, room, mounts, is_root)
        }
        Forked::Parent(pid, pidfd) => {
            if plan.tier == Tier::Namespaces && is_root {
                write_maps(pid, plan.uid, plan.gid)
                    .inspect_err(|_| {
                        // Without its ids it must not run.
                        let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
                    })
                    .map_err(Failure::at("map the room's ids"))?;
            }
            rustix::io::write(&gone, b"!").map_err(Failure::at("start the keeper"))?;
            Ok(pidfd)
        }
    }
}

fn write_maps(pid: i32, uid: u32, gid: u32) -> io::Result<()> {
    // The same number on both sides, never 0.
    fs::write(format!("/proc/{pid}/uid_map"), format!("{uid} {uid} 1"))?;
    fs::write(format!("/proc/{pid}/gid_map"), format!("{gid} {gid} 1"))
}

fn take_hold(plan: &Plan, idmaps: &mut IdMaps) -> Result<Mounts, Failure> {
    let spec = &plan.spec;
    let workspace = match &spec.workspace {
        Some(workspace) => Some(take_owned(plan, &workspace.path, idmaps)?),
        None => None,
    };
    let is_overlay = |workspace: &WorkspaceSpec| workspace.mode == WorkspaceMode::Overlay;
    let private = match spec.workspace.as_ref().is_some_and(is_overlay) {
        true => Some(take_owned(plan, &plan.private, idmaps)?),
        false => None,
    };
    let visible = spec
        .visible
        .iter()
        .map(|path| detach(path).map_err(Failure::at(format!("open `{}`", path.display()))))
        .collect::<Result<_, _>>()?;
    Ok(Mounts { workspace, visible, private })
}

/// A directory with its owner shown as the room's.
fn take_owned(plan: &Plan, path: &Path, idmaps: &mut IdMaps) -> Result<OwnedFd, Failure> {
    let mount = detach(path).map_err(Failure::at(format!("open `{}`", path.display())))?;
    let owner = rustix::fs::fstat(&mount).map_err(Failure::at(format!("look at `{}`", path.display())))?;
    let key = (owner.st_uid, owner.st_gid, plan.uid, plan.gid);
    if (owner.st_uid, owner.st_gid) != (plan.uid, plan.gid) {
        let step = "show the directory under the room's ids (its file system must support idmapped mounts)";
        if !idmaps.contains_key(&key) {
            idmaps.insert(key, idmap(key).map_err(Failure::at(step))?);
        }
        if let Some(ids) = idmaps.get(&key) {
            sys::map_mount_ids(mount.as_fd(), ids.as_fd()).map_err(Failure::at(step))?;
        }
    }
    Ok(mount)
}

/// A copy of a mount that is attached nowhere. The path was made canonical by whoever wrote the spec: a link in it now
/// was put there since.
pub(super) fn detach(path: &Path) -> io::Result<OwnedFd> {
    let here = rustix::fs::openat2(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )?;
    detach_opened(&here)
}

pub(super) fn detach_opened(here: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(rustix::mount::open_tree(here, c"", flags | OpenTreeFlags::AT_EMPTY_PATH)?)
}

/// A user namespace that maps the owner of a workspace to the room. It needs no process once it is held open.
fn idmap((owner, group, uid, gid): (u32, u32, u32, u32)) -> io::Result<OwnedFd> {
    let (wait, _held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match sys::fork_into(libc::CLONE_NEWUSER)? {
        Forked::Child => {
            drop(_held);
            let _ = rustix::io::read(&wait, &mut [0]);
            sys::exit_now(0)
        }
        Forked::Parent(pid, _) => {
            fs::write(format!("/proc/{pid}/uid_map"), format!("{owner} {uid} 1"))?;
            fs::write(format!("/proc/{pid}/gid_map"), format!("{group} {gid} 1"))?;
            Ok(fs::File::open(format!("/proc/{pid}/ns/user"))?.into())
        }
    }
}
