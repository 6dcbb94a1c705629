//! The keeper: the first process of a room, alone in it between jobs.
//!
//! It builds the room, then forks one job init for every order. It never runs anything itself, and what a job runs
//! cannot see it: every job has a pid namespace of its own. Where there are no namespaces it is whom stray processes
//! come back to, and it ends them.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    fs::{Gid, Uid},
    process::{DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

use super::{
    job, landlock, net, root, seccomp,
    sys::{self, Forked},
    wire::{self, Failure, Looked, News, Opened, Order, Plan},
    zygote::Mounts,
};
use crate::spec::{Egress, Tier};

/// What every job of a room needs.
pub(super) struct Room {
    pub(super) tier: Tier,
    pub(super) landlock: OwnedFd,
    pub(super) canary: String,
    pub(super) filter: Vec<libc::sock_filter>,
}

/// A keeper's whole life.
pub(super) fn run(plan: &Plan, socket: &OwnedFd, mounts: Mounts, is_root: bool) -> ! {
    match open(plan, socket, mounts, is_root) {
        Ok(room) => serve(&room, socket),
        Err(failure) => {
            // If the runtime is gone there is nobody to tell.
            let _ = wire::send(socket, &Opened::Failed(failure), &[]);
            sys::exit_now(1)
        }
    }
}

fn open(plan: &Plan, socket: &OwnedFd, mounts: Mounts, is_root: bool) -> Result<Room, Failure> {
    become_nobody(plan, is_root)?;
    // Killed with the zygote. After the ids: changing them would forget it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Failure::at("follow the zygote"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Failure::at("close /proc/self"))?;
    let mut listeners = Vec::new();
    let mut looked = Looked::default();
    let canary = match plan.tier {
        Tier::Namespaces => {
            listeners = net_of(plan)?;
            rustix::system::sethostname(b"room").map_err(Failure::at("name the room"))?;
            looked.protected = root::build(plan, mounts)?;
            looked.root_read_only = root::is_read_only("/".as_ref());
            root::CANARY.to_owned()
        }
        Tier::Landlock => {
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
                .map_err(Failure::at("adopt stray processes"))?;
            plan.private.join("canary").to_string_lossy().into_owned()
        }
    };
    let (landlock, version) = landlock::rules(plan)?;
    looked.landlock = version;
    let fds: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    wire::send(socket, &Opened::Ready { looked }, &fds).map_err(Failure::at("say that the room is ready"))?;
    let filter = seccomp::filter(match plan.tier {
        Tier::Namespaces => seccomp::Profile::Namespaces,
        Tier::Landlock => seccomp::Profile::Landlock,
    });
    Ok(Room { tier: plan.tier, landlock, canary, filter })
}

/// From here on this process is the room's user, and on the machine nobody in particular.
fn become_nobody(plan: &Plan, is_root: bool) -> Result<(), Failure> {
    const STEP: &str = "take on the room's ids";
    let (uid, gid) = (Uid::from_raw(plan.uid), Gid::from_raw(plan.gid));
    if is_root {
        set_thread_groups(&[]).map_err(Failure::at(STEP))?;
        set_thread_res_gid(Some(gid), Some(gid), Some(gid)).map_err(Failure::at(STEP))?;
        set_thread_res_uid(Some(uid), Some(uid), Some(uid)).map_err(Failure::at(STEP))?;
    } else if plan.tier == Tier::Namespaces {
        // One id, mapped to itself, is all that an ordinary user may map.
        std::fs::write("/proc/self/setgroups", "deny").map_err(Failure::at(STEP))?;
        std::fs::write("/proc/self/uid_map", format!("{0} {0} 1", plan.uid)).map_err(Failure::at(STEP))?;
        std::fs::write("/proc/self/gid_map", format!("{0} {0} 1", plan.gid)).map_err(Failure::at(STEP))?;
    }
    Ok(())
}

/// The room's network: its own loopback, and listeners for the one door out if there is one.
fn net_of(plan: &Plan) -> Result<Vec<OwnedFd>, Failure> {
    match &plan.spec.egress {
        Egress::Allow(rules) if !rules.is_empty() => net::with_door().map_err(Failure::at("fence the network")),
        Egress::Allow(_) | Egress::Deny => {
            net::alone().map(|()| Vec::new()).map_err(Failure::at("bring up the loopback"))
        }
    }
}

fn serve(room: &Room, socket: &OwnedFd) -> ! {
    let _ = sys::ignore_children();
    while let Ok(Some((order, fds))) = wire::receive::<Order>(socket) {
        let mut fds = fds.into_iter();
        let Some(status) = fds.next() else { continue };
        let namespaces = match room.tier {
            Tier::Namespaces => libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC,
            Tier::Landlock => 0,
        };
        match sys::fork_into(namespaces) {
            Ok(Forked::Child) => job::run(room, &order, &status, fds.collect()),
            Ok(Forked::Parent(..)) => {}
            Err(error) => {
                let failure = Failure::at("make a place for the job")(error);
                // Whoever asked may be gone.
                let _ = wire::send(&status, &News::Failed(failure), &[]);
            }
        }
    }
    // The runtime has closed the room, or is gone. In a pid namespace everything ends with this process.
    if room.tier == Tier::Landlock {
        job::end_descendants();
    }
    sys::exit_now(0)
}
