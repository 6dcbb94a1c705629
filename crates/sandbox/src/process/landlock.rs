//! Landlock rules for a room, put up by every job's process on itself. They are made once for the room, and again where a
//! job has something that no other job may have.

use std::{
    fs, io,
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::{
    keeper::CONTAINER_HOME,
    root::{DEVICES, ETC, HOME, SYSTEM},
    sys,
    wire::{Failure, Ground, Plan},
};
use crate::spec::WorkspaceMode;

/// The least version a room is made with: from here on truncating a file is a right of its own.
pub(super) const LEAST: u32 = 3;
/// The least version that can stand alone: from here on signals and abstract sockets stay in the room.
pub(super) const LEAST_ALONE: u32 = 6;

/// What may be done with a device.
const DEVICE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile});

/// What is about processes and machines in `/proc` and harms nobody.
const PROC: [&str; 8] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/proc/sys/vm/overcommit_memory",
];

/// The rule set for a room, and the version it is written in. With a terminal it is for the job that has it.
pub(super) fn rules(plan: &Plan, terminal: Option<BorrowedFd<'_>>) -> Result<(OwnedFd, u32), Failure> {
    let version = sys::landlock_abi().map_err(Failure::at("ask for Landlock"))?;
    let least = match plan.ground {
        // Its jobs share what would keep them apart elsewhere.
        Ground::Container => LEAST_ALONE,
        Ground::Namespaces | Ground::Landlock => LEAST,
    };
    let abi = match version {
        version if version < least => return Err(Failure { step: "ask for Landlock".into(), errno: libc::EOPNOTSUPP }),
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6 => ABI::V6,
        _ => ABI::V7,
    };
    // A link where the workspace was is not the workspace.
    let workspace = match &plan.spec.workspace {
        Some(workspace) => {
            let how = match plan.ground {
                Ground::Landlock => ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
                // In a tree of its own the links are the room's, and the workspace was looked at when it was mounted.
                Ground::Namespaces | Ground::Container => ResolveFlags::NO_MAGICLINKS,
            };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::openat2(CWD, &workspace.path, flags, Mode::empty(), how);
            let access = match workspace.mode {
                WorkspaceMode::ReadOnly => AccessFs::from_read(abi),
                WorkspaceMode::ReadWrite | WorkspaceMode::Overlay => writing(abi),
            };
            Some((opened.map_err(Failure::at("open the workspace"))?, access))
        }
        None => None,
    };
    let rules = write(plan, abi, workspace, terminal)
        .map_err(|error| Failure::at(format!("write Landlock rules: {error}"))(cause(&error)))?;
    rules.map(|fd| (fd, version)).ok_or_else(|| Failure { step: "write Landlock rules".into(), errno: libc::ENOSYS })
}

fn write(
    plan: &Plan,
    abi: ABI,
    workspace: Option<(OwnedFd, BitFlags<AccessFs>)>,
    terminal: Option<BorrowedFd<'_>>,
) -> Result<Option<OwnedFd>, RulesetError> {
    let all = AccessFs::from_all(abi);
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(all)?;
    if abi >= ABI::V6 {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket)?.scope(Scope::Signal)?;
    }
    let mut rules = ruleset.create()?;
    for (path, access) in grants(plan, abi) {
        // What is not there needs no rule; what cannot be opened gets none.
        let Ok(fd) = PathFd::new(&path) else { continue };
        let is_dir = path.is_dir();
        let access = if is_dir { access } else { access & AccessFs::from_file(abi) };
        if !access.is_empty() {
            rules = rules.add_rule(PathBeneath::new(fd, access))?;
        }
    }
    if let Some((dir, access)) = workspace {
        rules = rules.add_rule(PathBeneath::new(dir, access))?;
    }
    if let Some(terminal) = terminal {
        rules = rules.add_rule(PathBeneath::new(terminal, DEVICE))?;
    }
    Ok(rules.into())
}

/// Everything but making devices, which nobody in a room does, whoever asks.
fn writing(abi: ABI) -> BitFlags<AccessFs> {
    AccessFs::from_all(abi) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock})
}

/// Who may do what where. Everything else is refused, also where the file's own mode would allow it.
fn grants(plan: &Plan, abi: ABI) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let read = AccessFs::from_read(abi);
    let write = writing(abi);
    let mut grants: Vec<(PathBuf, BitFlags<AccessFs>)> = Vec::new();
    let mut grant = |path: &Path, access| grants.push((path.to_owned(), access));

    match plan.ground {
        Ground::Namespaces => {
            // Only what was put there is there, so what is there may be read. Rules go by inode: one on the root holds
            // for the `/proc` every job mounts for itself.
            grant(Path::new("/"), read);
            grant(Path::new("/dev"), write & !AccessFs::Execute);
            grant(Path::new("/tmp"), write);
            grant(Path::new(HOME), write);
        }
        Ground::Container => {
            // Everything but `/dev`, in which the terminals of other jobs are, is read; names are listed everywhere.
            // Whatever a link leads to is below another of these.
            grant(Path::new("/"), AccessFs::ReadDir.into());
            beside_devices().for_each(|path| grant(&path, read));
            DEVICES.iter().for_each(|path| grant(Path::new(path), DEVICE));
            grant(Path::new("/dev/shm"), write & !AccessFs::Execute);
            grant(Path::new("/tmp"), write);
            grant(&plan.private.join(CONTAINER_HOME), write);
        }
        Ground::Landlock => {
            DEVICES.iter().for_each(|path| grant(Path::new(path), DEVICE));
            SYSTEM.iter().for_each(|path| grant(Path::new(path), read));
            plan.spec.visible.iter().for_each(|path| grant(path, read));
            ETC.iter().for_each(|name| grant(&Path::new("/etc").join(name), read));
            PROC.iter().for_each(|path| grant(Path::new(path), AccessFs::ReadFile.into()));
            grant(&plan.private.join("tmp"), write);
            grant(&plan.private.join("home"), write);
        }
    }
    grants
}

/// What is in the root of a container, besides `/dev`.
fn beside_devices() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/").into_iter().flatten().flatten();
    let is_real = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| !kind.is_symlink());
    entries.filter(is_real).map(|entry| entry.path()).filter(|path| path != "/dev")
}

fn cause(error: &RulesetError) -> io::Error {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<io::Error>() {
            return io::Error::from_raw_os_error(found.raw_os_error().unwrap_or(libc::EIO));
        }
        source = error.source();
    }
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}
