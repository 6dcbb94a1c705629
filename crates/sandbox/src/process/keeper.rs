//! The keeper: the first process of a room, alone in it between jobs.
//!
//! It builds the room, then forks one job init for every order. It never runs anything itself, and what a job runs
//! cannot see it: every job has a pid namespace of its own. Where there are no namespaces it is whom stray processes
//! come back to, and it ends them.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Gid, Uid},
    process::{DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

use super::{
    bound::Bound,
    job, landlock, net,
    root::{self, OldRoot},
    sys::{self, Forked},
    wire::{self, Assignment, Failure, Ground, Ids, Looked, Opened, Plan},
    zygote::Mounts,
};
use crate::spec::{RoomLimits, WorkspaceMode, WorkspaceSpec};

/// What is in the private directory of a container: the home of its jobs, and a file nobody may write.
pub(crate) const CONTAINER_HOME: &str = "agent";
pub(crate) const CANARY: &str = ".canary";

/// What every job of a room needs.
pub(super) struct Room {
    pub(super) ground: Ground,
    pub(super) limits: RoomLimits,
    pub(super) landlock: OwnedFd,
    pub(super) canary: String,
    /// Paths that are to be on read-only mounts of their own.
    pub(super) protected: Vec<PathBuf>,
    /// Paths that are to be covered.
    pub(super) closed: Vec<PathBuf>,
    /// Paths that are to be covered with nothing by the room itself, or not to be there.
    pub(super) hidden: Vec<PathBuf>,
    /// What somebody else covered such paths with.
    pub(super) covers: Vec<Bound>,
    /// What it was made by.
    pub(super) plan: Plan,
}

/// The life of a keeper with namespaces: makes what every room has, waits to be told which room, and keeps it.
pub(super) fn wait_for_a_room(ids: Ids, zygote: &OwnedFd, is_root: bool) -> ! {
    let prepared = prepare(ids, is_root);
    let Ok(Some((assignment, fds))) = wire::receive::<Assignment>(zygote) else { sys::exit_now(0) };
    let mut fds = fds.into_iter();
    let Some(socket) = fds.next() else { sys::exit_now(1) };
    let held = Mounts {
        workspace: assignment.workspace.then(|| fds.next()).flatten(),
        private: assignment.private.then(|| fds.next()).flatten(),
        visible: if assignment.visible { fds.collect() } else { Vec::new() },
    };
    let opened = prepared.and_then(|old| open(&assignment.plan, &socket, &old, held));
    keep(opened, &socket)
}

/// The life of a keeper without namespaces.
pub(super) fn keep_without_namespaces(plan: &Plan, ids: Ids, socket: &OwnedFd, is_root: bool) -> ! {
    let forgotten = if is_root { job::forget_capabilities() } else { Ok(()) };
    let opened = forgotten.and_then(|()| become_nobody(ids, is_root)).and_then(|()| {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(Failure::at("adopt stray processes"))?;
        // A keeper that mounts nothing needs no more rights than its jobs: it gives them up once, for all of them.
        job::give_up_rights(Ground::Landlock)?;
        let canary = plan.private.join("canary").to_string_lossy().into_owned();
        ready(plan, socket, Looked::default(), &[], canary)
    });
    keep(opened, socket)
}

/// The life of a keeper in a container. Whoever made the container gave it its user and its tree.
pub(crate) fn keep_in_container(plan: &Plan, socket: &OwnedFd) -> ! {
    let opened = follow_the_worker().and_then(|()| {
        plan.bound.iter().try_for_each(Bound::find)?;
        // Somebody else has furnished the network, and the runtime serves its door. It is tried from here, because here
        // is where the jobs will be.
        if plan.spec.egress.opening().is_some() {
            find_the_door_shut(plan)?;
        }
        let protected = match &plan.spec.workspace {
            Some(WorkspaceSpec { path, mode: WorkspaceMode::ReadWrite, protected }) => {
                protected.iter().all(|name| root::is_read_only(&path.join(name)))
            }
            Some(workspace) => root::is_read_only(&workspace.path),
            None => true,
        };
        let looked = Looked { protected, root_read_only: root::is_read_only("/".as_ref()), landlock: 0 };
        let canary = plan.private.join(CANARY).to_string_lossy().into_owned();
        ready(plan, socket, looked, &[], canary)
    });
    keep(opened, socket)
}

fn follow_the_worker() -> Result<(), Failure> {
    sys::reset_signals().map_err(Failure::at("start afresh"))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Failure::at("follow the worker"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Failure::at("close /proc/self"))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(Failure::at("adopt stray processes"))?;
    // Each of its inits puts up the filter around itself, after the last that the filter would not let it do.
    let _ = job::filter_of(Ground::Container);
    job::give_up_privileges(Ground::Container)
}

fn keep(opened: Result<Room, Failure>, socket: &OwnedFd) -> ! {
    match opened {
        Ok(room) => serve(&room, socket),
        Err(failure) => {
            // If the runtime is gone there is nobody to tell.
            let _ = wire::send(socket, &Opened::Failed(failure), &[]);
            sys::exit_now(1)
        }
    }
}

fn prepare(ids: Ids, is_root: bool) -> Result<OldRoot, Failure> {
    const STEP: &str = "take on the room's ids";
    if !is_root {
        // One id, mapped to itself, is all that an ordinary user may map.
        std::fs::write("/proc/self/setgroups", "deny").map_err(Failure::at(STEP))?;
        std::fs::write("/proc/self/uid_map", format!("{0} {0} 1", ids.uid)).map_err(Failure::at(STEP))?;
        std::fs::write("/proc/self/gid_map", format!("{0} {0} 1", ids.gid)).map_err(Failure::at(STEP))?;
    }
    become_nobody(ids, is_root)?;
    rustix::system::sethostname(b"room").map_err(Failure::at("name the room"))?;
    net::alone().map_err(Failure::at("bring up the loopback"))?;
    root::prepare(ids)
}

/// From here on this process is the room's user, and on the machine nobody in particular.
fn become_nobody(ids: Ids, is_root: bool) -> Result<(), Failure> {
    const STEP: &str = "take on the room's ids";
    if is_root {
        let (uid, gid) = (Uid::from_raw(ids.uid), Gid::from_raw(ids.gid));
        set_thread_groups(&[]).map_err(Failure::at(STEP))?;
        set_thread_res_gid(Some(gid), Some(gid), Some(gid)).map_err(Failure::at(STEP))?;
        set_thread_res_uid(Some(uid), Some(uid), Some(uid)).map_err(Failure::at(STEP))?;
    }
    // Killed with the zygote. After the ids: changing them makes the kernel forget it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Failure::at("follow the zygote"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Failure::at("close /proc/self"))
}

fn open(plan: &Plan, socket: &OwnedFd, old: &OldRoot, held: Mounts) -> Result<Room, Failure> {
    let listeners = match plan.spec.egress.opening() {
        Some(_) => net::with_door(plan.fence).map_err(Failure::at("fence the network"))?,
        None => Vec::new(),
    };
    let protected = root::finish(plan, old, held)?;
    let looked = Looked { protected, root_read_only: root::is_read_only("/".as_ref()), landlock: 0 };
    let room = ready(plan, socket, looked, &listeners, root::CANARY.to_owned())?;
    if !listeners.is_empty() {
        drop(listeners);
        // The runtime says when the door is served.
        wire::receive::<()>(socket).map_err(Failure::at("wait for the door"))?;
        find_the_door_shut(plan)?;
        wire::send(socket, &Opened::Probed, &[]).map_err(Failure::at("say that the door holds"))?;
    }
    Ok(room)
}

/// Nobody runs anything in a room before its door has refused somebody.
fn find_the_door_shut(plan: &Plan) -> Result<(), Failure> {
    net::probe(plan.fence, Duration::from_secs(5)).map_err(Failure::at("find the door shut to strangers"))
}

fn ready(
    plan: &Plan,
    socket: &OwnedFd,
    looked: Looked,
    listeners: &[OwnedFd],
    canary: String,
) -> Result<Room, Failure> {
    let (landlock, version) = landlock::rules(plan, None)?;
    let fds: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    let looked = Looked { landlock: version, ..looked };
    wire::send(socket, &Opened::Ready { looked }, &fds).map_err(Failure::at("say that the room is ready"))?;
    let protected = match &plan.spec.workspace {
        Some(workspace) if plan.ground != Ground::Landlock && workspace.mode == WorkspaceMode::ReadWrite => {
            workspace.protected.iter().map(|name| workspace.path.join(name)).collect()
        }
        _ => Vec::new(),
    };
    let closed = plan.spec.closed.clone();
    let covers: Vec<Bound> =
        plan.bound.iter().filter(|bound| plan.spec.hidden.contains(&bound.path)).cloned().collect();
    let hidden = match plan.ground {
        Ground::Namespaces => plan.spec.hidden.clone(),
        Ground::Container => {
            let is_bare = |path: &&PathBuf| plan.spec.shows(path) && !covers.iter().any(|cover| cover.path == **path);
            plan.spec.hidden.iter().filter(is_bare).cloned().collect()
        }
        // Nothing that is hidden lies in what is shown.
        Ground::Landlock => Vec::new(),
    };
    let (ground, limits, plan) = (plan.ground, plan.spec.limits, plan.clone());
    Ok(Room { ground, limits, landlock, canary, protected, closed, hidden, covers, plan })
}

/// When an init is tried again that could not be started.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Has one job init waiting for an order at all times, so that an order finds its walls already up.
fn serve(room: &Room, socket: &OwnedFd) -> ! {
    let _ = sys::ignore_children();
    let namespaces = match room.ground {
        Ground::Namespaces => libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC,
        Ground::Landlock | Ground::Container => 0,
    };
    if let Ok((taken, take)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) {
        loop {
            let again = match sys::fork_into(namespaces) {
                Ok(Forked::Child) => job::wait_for_an_order(room, socket, &take),
                Ok(Forked::Parent(..)) => None,
                // Too many processes, or too little memory, at this moment. Nobody waits for an order, so nobody takes one.
                Err(_) => Some(&AGAIN),
            };
            // The socket has only its end to tell here: orders are read by whoever waits for one.
            let mut fds = [PollFd::new(&taken, PollFlags::IN), PollFd::new(socket, PollFlags::empty())];
            let _ = poll(&mut fds, again);
            if fds[1].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
                break;
            }
            if again.is_none() {
                let _ = rustix::io::read(&taken, &mut [0]);
            }
        }
    }
    // The runtime has closed the room, or is gone. In a pid namespace everything ends with this process.
    if room.ground != Ground::Namespaces {
        job::end_descendants();
    }
    sys::exit_now(0)
}
