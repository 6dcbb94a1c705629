//! What this machine can put up, found by doing it.

use std::{path::Path, sync::OnceLock};

use toolgate_contract::{Ending, Files, Job, JobLimits, Needs, Receipt};
use toolgate_gate::Permit;

use super::{House, receipt::protects, room::ProcessRoom};
use crate::{
    room::{Io, Missing, Probed, Room, RoomError},
    spec::{RoomSpec, Tier, TierChoice, Wall, WorkspaceMode},
};

/// What came of trying each tier, once.
#[derive(Debug, Default)]
pub(super) struct Tiers {
    namespaces: OnceLock<Result<Receipt, Missing>>,
    landlock: OnceLock<Result<Receipt, Missing>>,
}

/// The tier for a room, if one puts up every wall that is not an accepted gap.
pub(super) fn choose(house: &std::sync::Arc<House>, spec: &RoomSpec) -> Result<Tier, RoomError> {
    let tier = match spec.tier {
        TierChoice::Only(tier) => tier,
        TierChoice::Best if tried(house, Tier::Namespaces).is_ok() => Tier::Namespaces,
        TierChoice::Best => Tier::Landlock,
    };
    if let Err(missing) = tried(house, tier) {
        // The first tier's reason is the one to act on: it is the one that puts up all walls.
        let missing = match spec.tier {
            TierChoice::Best => tried(house, Tier::Namespaces).err().unwrap_or(missing),
            TierChoice::Only(_) => missing,
        };
        return Err(too_weak(Wall::Files, missing));
    }
    for (wall, missing) in lacks(tier, spec) {
        if !spec.accepted_gaps.contains(&wall) {
            let missing = match tried(house, Tier::Namespaces) {
                Err(namespaces) if spec.tier == TierChoice::Best => Missing {
                    why: format!("{}; and namespaces are not to be had: {}", missing.why, namespaces.why),
                    remedy: namespaces.remedy.clone(),
                },
                _ => missing,
            };
            return Err(too_weak(wall, &missing));
        }
    }
    Ok(tier)
}

fn too_weak(wall: Wall, missing: &Missing) -> RoomError {
    RoomError::TooWeak { backend: "process", wall, why: missing.why.clone(), remedy: missing.remedy.clone() }
}

/// What a tier cannot do for this room, however well it works.
fn lacks(tier: Tier, spec: &RoomSpec) -> Vec<(Wall, Missing)> {
    if tier == Tier::Namespaces {
        return Vec::new();
    }
    let mode = spec.workspace.as_ref().map(|workspace| workspace.mode);
    let mut lacks = Vec::new();
    let mut lack = |wall, why: &str, remedy: &str| {
        lacks.push((wall, Missing { why: why.into(), remedy: remedy.into() }));
    };
    if mode == Some(WorkspaceMode::Overlay) {
        lack(
            Wall::Files,
            "an overlay needs a mount namespace",
            "Use the workspace read-only, or allow user namespaces.",
        );
    }
    lack(
        Wall::Metadata,
        "Landlock does not keep a program from changing modes and times of files elsewhere that its user may change",
        "Accept the gap `metadata` in the config, or allow user namespaces.",
    );
    let shown: Vec<&Path> = spec
        .visible
        .iter()
        .map(AsRef::as_ref)
        .chain(spec.workspace.as_ref().map(|workspace| workspace.path.as_ref()))
        .collect();
    if spec.hidden.iter().any(|hidden| shown.iter().any(|shown| hidden.starts_with(shown))) {
        lack(
            Wall::Files,
            "Landlock cannot hide a path inside a directory that is shown",
            "Move the hidden path out of it, or allow user namespaces.",
        );
    }
    if !protects(spec, mode == Some(WorkspaceMode::ReadOnly)) {
        lack(
            Wall::ProtectedNames,
            "Landlock cannot except a name from a directory that may be written",
            "Use the workspace read-only, accept the gap `protected_names` in the config, or allow user namespaces.",
        );
    }
    if spec.egress.opening().is_some() {
        lack(
            Wall::Network,
            "a door to the network needs a network namespace",
            "Run it without network, or allow user namespaces.",
        );
    }
    lacks
}

/// Every wall, with what puts it up here.
pub(super) fn walls(house: &std::sync::Arc<House>) -> Vec<Probed> {
    let namespaces = tried(house, Tier::Namespaces);
    let landlock = tried(house, Tier::Landlock);
    Wall::ALL
        .into_iter()
        .map(|wall| {
            let by = |receipt: &Receipt| {
                let prefix = format!("{}:", wall.as_str());
                receipt.walls.iter().find_map(|stood| stood.strip_prefix(&prefix)).map(str::to_owned)
            };
            let found = match (namespaces, landlock) {
                (Ok(receipt), _) => by(receipt).ok_or_else(|| unexplained(wall)),
                (Err(missing), Ok(receipt)) => match wall {
                    Wall::ProtectedNames => Err(missing.clone()),
                    Wall::Files
                    | Wall::Metadata
                    | Wall::Processes
                    | Wall::Network
                    | Wall::Ipc
                    | Wall::Privileges
                    | Wall::Syscalls
                    | Wall::Memory
                    | Wall::Pids
                    | Wall::Cpu
                    | Wall::Disk => by(receipt).ok_or_else(|| missing.clone()),
                },
                (Err(missing), Err(_)) => Err(missing.clone()),
            };
            Probed { wall, found }
        })
        .collect()
}

fn unexplained(wall: Wall) -> Missing {
    Missing {
        why: format!("a room was made, and `{}` did not stand in it", wall.as_str()),
        remedy: "Report this as a bug.".into(),
    }
}

/// Tries a tier by running a program in it.
fn tried(house: &std::sync::Arc<House>, tier: Tier) -> Result<&Receipt, &Missing> {
    let slot = match tier {
        Tier::Namespaces => &house.tiers.namespaces,
        Tier::Landlock => &house.tiers.landlock,
    };
    slot.get_or_init(|| run_true(house, tier).map_err(|error| explain(tier, &error))).as_ref()
}

fn run_true(house: &std::sync::Arc<House>, tier: Tier) -> Result<Receipt, RoomError> {
    let room = ProcessRoom::open(house, &RoomSpec::bare(), tier, "probe")?;
    let needs = Needs { files: Files::Write, exec: true, ..Needs::NOTHING };
    let job = Job {
        argv: vec!["true".into()],
        cwd: String::new(),
        env: Default::default(),
        stdin: Vec::new(),
        limits: JobLimits::default(),
    };
    let ran =
        room.run(&Permit::of_operator(needs), &job, Io { stop: &|| false, heard: None, stdin: None, stdout: None })?;
    match ran.ending {
        Ending::Exited { code: 0 } => Ok(ran.receipt),
        other => Err(RoomError::Lost(format!("`true` ended with {other:?}"))),
    }
}

/// Why a tier does not work here, and what helps.
fn explain(tier: Tier, error: &RoomError) -> Missing {
    let (step, errno) = match error {
        RoomError::Step { step, source } => (step.as_str(), source.raw_os_error()),
        _ => ("", None),
    };
    let why = match error {
        RoomError::Step { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    let has = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim() == "1";
    let remedy = if step.contains("Landlock") {
        "Use a kernel of 6.2 or later with Landlock among its security modules (`lsm=landlock,...`).".into()
    } else if tier == Tier::Landlock {
        "Use a kernel of 6.12 or later with Landlock and seccomp.".into()
    } else if has("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") {
        let program = std::env::current_exe().map_or_else(|_| "toolgate".into(), |path| path.display().to_string());
        format!(
            "Allow user namespaces to this program with an AppArmor profile: write `profile toolgate {program} flags=(unconfined) {{ userns, }}` to /etc/apparmor.d/toolgate and run `apparmor_parser -r /etc/apparmor.d/toolgate`."
        )
    } else if errno == Some(libc::ENOSPC) || errno == Some(libc::EPERM) {
        "Allow user namespaces: `sysctl user.max_user_namespaces=10000` (on Debian also `kernel.unprivileged_userns_clone=1`); in a container, run it with a seccomp profile that permits `unshare`.".into()
    } else {
        "Run `toolgate doctor` and look at the step that failed.".into()
    };
    Missing { why, remedy }
}
