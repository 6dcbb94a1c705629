//! From what a worker and its jobs found to what stood.

use toolgate_contract::Receipt;

use super::inside::Inside;
use crate::{
    process::{
        receipt::{own_namespaces, told},
        wire::{Facts, Looked},
    },
    registry::CONTAINER,
    spec::{RoomSpec, Wall},
};

/// Processes of a container that are no job's: its first one, the worker, the keeper, and inits.
pub(crate) const OWN_PIDS: u32 = 8;

/// The walls that stand around all jobs of a container, and what puts them up.
pub(super) fn around_all(spec: &RoomSpec, looked: &Looked, inside: &Inside) -> Vec<(Wall, String)> {
    let limits = &spec.limits;
    let apart = |name: &str| {
        let found = inside.namespaces.iter().find(|(kind, _)| kind == name).map(|(_, id)| id);
        matches!((found, own_namespaces().get(name)), (Some(found), Some(own)) if found != own)
    };
    let own_root = apart("mnt") && looked.root_read_only;
    // A limit that is higher than the one that was asked for is none.
    let holds = |found: Option<u64>, most: u64| found.is_some_and(|found| found <= most);
    // The keeper has tried the door, and has found it shut to strangers.
    let network = if spec.egress.opening().is_some() { "net_namespace+door" } else { "net_namespace" };
    let landlock = format!("landlock_{}", looked.landlock);
    [
        (Wall::Files, own_root, format!("own_root+{landlock}")),
        (Wall::Metadata, own_root, "own_root".to_owned()),
        (Wall::ProtectedNames, own_root && looked.protected, "read_only_mounts".into()),
        (Wall::Processes, apart("pid"), format!("pid_namespace+{landlock}")),
        (Wall::Network, apart("net") && inside.interfaces.iter().all(|name| name == "lo"), network.into()),
        (Wall::Ipc, apart("ipc") && apart("net"), "ipc_namespace".into()),
        (Wall::Memory, holds(inside.memory, limits.memory), "cgroup".into()),
        (Wall::Pids, holds(inside.pids, u64::from(limits.pids + OWN_PIDS)), "cgroup".into()),
    ]
    .into_iter()
    .filter_map(|(wall, stands, by)| stands.then_some((wall, by)))
    .collect()
}

/// The receipt for one job.
pub(super) fn write(around: &[(Wall, String)], facts: &Facts) -> Receipt {
    let nobody = !facts.uids.contains(&0) && facts.capabilities == [0; 3] && facts.no_new_privs;
    // What is counted for a job without a control group of its own is counted by its init.
    let of_job = [
        (Wall::Privileges, nobody, format!("uid_{}+no_capabilities+no_new_privs", facts.uids[0])),
        (Wall::Syscalls, facts.seccomp, "seccomp".to_owned()),
        (Wall::Cpu, true, "supervised".into()),
        (Wall::Disk, true, "supervised".into()),
    ];
    let mut stood: Vec<_> = around.iter().filter(|(wall, _)| *wall != Wall::Files || facts.landlock).cloned().collect();
    stood.extend(of_job.into_iter().filter_map(|(wall, stands, by)| stands.then_some((wall, by))));
    stood.sort_by_key(|(wall, _)| *wall);
    told(CONTAINER, stood)
}
