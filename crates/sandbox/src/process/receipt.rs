//! From what was found to what stood.

use std::{collections::BTreeMap, fs, sync::OnceLock};

use toolgate_contract::Receipt;

use super::{
    cgroup, landlock,
    wire::{Facts, Looked},
};
use crate::spec::{RoomSpec, Tier, Wall, WorkspaceMode};

/// The receipt for a job: what its own process found, not what was asked for.
pub(super) fn write(
    spec: &RoomSpec,
    tier: Tier,
    looked: &Looked,
    facts: &Facts,
    cgroup: Option<&cgroup::Lease>,
    door: bool,
) -> Receipt {
    let outside = own_namespaces();
    let apart = |name: &str| {
        let inside = facts.namespaces.iter().find(|(kind, _)| kind == name).map(|(_, id)| id);
        matches!((inside, outside.get(name)), (Some(inside), Some(outside)) if inside != outside)
    };
    let joined = cgroup.filter(|_| facts.cgroups > 0);
    let scoped = facts.landlock && looked.landlock >= landlock::LEAST_ALONE;
    let mut stood: Vec<(Wall, String)> = Vec::new();
    let mut stands = |wall, is_up: bool, by: String| {
        if is_up {
            stood.push((wall, by));
        }
    };
    let landlock = format!("landlock_{}", looked.landlock);
    match tier {
        Tier::Namespaces => {
            let own_root = apart("mnt") && apart("user") && looked.root_read_only && facts.landlock;
            stands(Wall::Files, own_root, format!("own_root+{landlock}"));
            stands(Wall::Metadata, own_root, "own_root".into());
            stands(Wall::ProtectedNames, own_root && looked.protected, "read_only_mounts".into());
            stands(Wall::Processes, apart("pid"), "pid_namespace".into());
            let network = if door { "net_namespace+door" } else { "net_namespace" };
            stands(Wall::Network, apart("net"), network.into());
            stands(Wall::Ipc, apart("ipc") && apart("net"), "ipc_namespace".into());
        }
        Tier::Landlock => {
            let read_only = spec.workspace.as_ref().is_none_or(|workspace| workspace.mode == WorkspaceMode::ReadOnly);
            stands(Wall::Files, facts.landlock, landlock.clone());
            stands(Wall::ProtectedNames, facts.landlock && protects(spec, read_only), landlock.clone());
            stands(Wall::Processes, scoped && facts.seccomp, format!("{landlock}+seccomp"));
            stands(Wall::Network, facts.seccomp && !door, "seccomp".into());
            stands(Wall::Ipc, scoped && facts.seccomp, format!("{landlock}+seccomp"));
        }
    }
    let nobody = !facts.uids.contains(&0) && facts.capabilities == [0; 3] && facts.no_new_privs;
    stands(Wall::Privileges, nobody, format!("uid_{}+no_capabilities+no_new_privs", facts.uids[0]));
    stands(Wall::Syscalls, facts.seccomp, "seccomp".into());
    stands(Wall::Memory, true, joined.and_then(cgroup::Lease::memory_by).unwrap_or("supervised").into());
    stands(Wall::Pids, true, joined.and_then(cgroup::Lease::pids_by).unwrap_or("supervised").into());
    stands(Wall::Cpu, true, "supervised".into());
    stands(Wall::Disk, true, "supervised".into());

    told(tier.as_str(), stood)
}

/// What stood as a receipt, with every other wall as a gap.
pub(crate) fn told(tier: &str, stood: Vec<(Wall, String)>) -> Receipt {
    let gaps = Wall::ALL
        .into_iter()
        .filter(|wall| !stood.iter().any(|(up, _)| up == wall))
        .map(|wall| wall.as_str().to_owned())
        .collect();
    Receipt {
        tier: tier.into(),
        walls: stood.into_iter().map(|(wall, by)| format!("{}:{by}", wall.as_str())).collect(),
        gaps,
        ..Receipt::default()
    }
}

/// Is every protected name out of reach where no mount can cover it?
pub(super) fn protects(spec: &RoomSpec, read_only: bool) -> bool {
    read_only || spec.workspace.as_ref().is_none_or(|workspace| workspace.protected.is_empty())
}

/// The namespaces of the runtime.
pub(crate) fn own_namespaces() -> &'static BTreeMap<String, String> {
    static OWN: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    OWN.get_or_init(|| {
        let entries = fs::read_dir("/proc/self/ns").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                Some((name, fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
            })
            .collect()
    })
}
