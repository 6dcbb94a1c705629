//! The room's own file tree.
//!
//! Everything that is not put here is not there: deny by absence, not by mask. The tree is a small tmpfs; the system's
//! programs and libraries are read-only views of the machine's, `/etc` holds little more than names, `/tmp` and the
//! home are the room's own, `/proc` is mounted for each job in the job's pid namespace.

use std::{
    collections::BTreeSet,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags},
    io::Errno,
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags, mount, mount_change, move_mount, unmount,
    },
};

use super::{
    bound::is_shut_for_good,
    net::RESOLVER,
    sys,
    wire::{Failure, Ids, Plan},
    zygote::{Mounts, detach, detach_opened},
};
use crate::spec::{RoomSpec, WorkspaceMode, WorkspaceSpec};

/// Where the room's user lives.
pub(super) const HOME: &str = "/home/agent";
/// A file that its mode and its mount would let a job write, and only Landlock does not.
pub(super) const CANARY: &str = "/home/.canary";

/// Directories with programs and libraries. Where the machine has links (`/bin -> usr/bin`), so has the room.
pub(super) const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// What programs read in `/etc`. No passwords, no keys, no host configuration.
pub(super) const ETC: [&str; 20] = [
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "fonts",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "localtime",
    "magic",
    "mime.types",
    "perl",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "protocols",
    "python3",
    "python3.11",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
];

pub(super) const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What nobody in a room reaches in `/proc`: directories first, then files. What only the machine's root may open
/// (`kcore`, `kmsg`, `timer_list`) is shut already, as nobody in a room is that.
const PROC_DIRS: [&str; 4] = ["/proc/sys", "/proc/irq", "/proc/bus", "/proc/scsi"];
const PROC_FILES: [&str; 4] = ["/proc/sysrq-trigger", "/proc/kcore", "/proc/keys", "/proc/key-users"];
const PROC_FLAGS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);
const EMPTY_DIR: &str = "/.nothing";
const EMPTY_FILE: &str = "/.empty";
/// What covers a path that is closed. Nobody in a room may open them, so whoever tries is told that it is not permitted:
/// a file that seemed empty could be taken for an empty one.
const SHUT_DIR: &str = "/.shut";
const SHUT_FILE: &str = "/.closed";

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const READ_WRITE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// The machine's tree, kept in sight until a room is known.
pub(super) struct OldRoot(OwnedFd);

const OLD_ROOT: &str = "/.old";

/// Builds what every room has, and moves into it.
pub(super) fn prepare(ids: Ids) -> Result<OldRoot, Failure> {
    // Mounts made here stay here. Those made on the machine meanwhile are still seen in the old root.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(Failure::at("keep mounts to the room"))?;
    let etc = ETC.iter().map(|name| format!("/etc/{name}"));
    let system = present(SYSTEM.iter().map(|path| (*path).to_owned()).chain(etc).map(PathBuf::from))?;
    let devices = present(DEVICES.iter().map(PathBuf::from))?;
    let old = enter_new_root()?;
    furnish(ids).map_err(Failure::at("furnish the room"))?;
    for (path, mount) in &system {
        attach(mount, path, READ_ONLY, Kind::of(mount)?)?;
    }
    for (path, mount) in &devices {
        // A device on a mount without devices is none.
        attach(mount, path, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC, Kind::File)?;
    }
    Ok(old)
}

/// Adds what this room has, lets go of the machine's tree, and closes the root. Says whether every protected name is
/// read-only.
pub(super) fn finish(plan: &Plan, old: &OldRoot, held: Mounts) -> Result<bool, Failure> {
    let spec = &plan.spec;
    if spec.egress.opening().is_some() {
        fs::write("/etc/resolv.conf", RESOLVER).map_err(Failure::at("name a name server"))?;
    }
    let sources = Sources::take(plan, old, held)?;
    unmount(OLD_ROOT, UnmountFlags::DETACH).map_err(Failure::at("let go of the machine's tree"))?;
    fs::remove_dir(OLD_ROOT).map_err(Failure::at("let go of the machine's tree"))?;
    scratch("/tmp", spec.limits.scratch, "1777")?;
    scratch("/home", spec.limits.scratch, "755")?;
    make_dir(Path::new(HOME)).map_err(Failure::at("make a home"))?;
    fs::write(CANARY, "").map_err(Failure::at("make a home"))?;
    for (path, mount) in &sources.visible {
        attach(mount, path, READ_ONLY, Kind::of(mount)?)?;
    }
    let mut protected = true;
    if let (Some(workspace), Some(mount)) = (&spec.workspace, &sources.workspace) {
        protected = put_workspace(workspace, mount, sources.private.as_ref(), spec)?;
    }
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(Failure::at("open /"))?;
    sys::set_mount_attributes(root.as_fd(), READ_ONLY, false).map_err(Failure::at("make the root read-only"))?;
    // Only now: a cover is a view of the root, and takes over that it is read-only.
    for path in &spec.hidden {
        hide(path).map_err(Failure::at(format!("hide `{}`", path.display())))?;
    }
    for path in &spec.closed {
        close(path).map_err(Failure::at(format!("close `{}`", path.display())))?;
    }
    Ok(protected)
}

/// Is this path covered with what nobody can open, or nothing at all?
pub(super) fn is_closed(path: &Path) -> bool {
    is_covered_with([SHUT_FILE, SHUT_DIR], path)
}

/// Is this path covered with nothing, or nothing at all?
pub(super) fn is_hidden(path: &Path) -> bool {
    is_covered_with([EMPTY_FILE, EMPTY_DIR], path)
}

fn is_covered_with(covers: [&str; 2], path: &Path) -> bool {
    let look = |path: &Path| rustix::fs::lstat(path).map(|stat| (stat.st_dev, stat.st_ino));
    match look(path) {
        Ok(found) => covers.map(|cover| look(Path::new(cover))).contains(&Ok(found)),
        Err(error) => is_out_of_reach(error, path),
    }
}

/// Is there nothing at this path?
pub(super) fn is_absent(path: &Path) -> bool {
    rustix::fs::lstat(path).err().is_some_and(|error| is_out_of_reach(error, path))
}

/// Whoever looked for this path was told this: is there nothing that a job could reach?
fn is_out_of_reach(error: Errno, path: &Path) -> bool {
    match error {
        Errno::NOENT | Errno::NOTDIR => true,
        Errno::ACCESS => is_shut_for_good(path),
        _ => false,
    }
}

/// Is this path covered by what nobody can open, or nothing at all? In a container the cover is a file of the machine
/// without any permission, on a read-only mount.
pub(super) fn is_shut(path: &Path) -> bool {
    match rustix::fs::lstat(path) {
        Ok(found) => found.st_mode & 0o777 == 0 && is_read_only(path),
        Err(Errno::NOENT | Errno::NOTDIR) => true,
        Err(_) => false,
    }
}

/// Is this path on a read-only mount?
pub(super) fn is_read_only(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// `/proc` for the pid namespace of the calling process, without what is not about processes or can change the machine.
pub(super) fn mount_proc() -> Result<(), Failure> {
    mount(c"proc", c"/proc", c"proc", PROC_FLAGS, None).map_err(Failure::at("mount /proc"))?;
    for (covers, cover) in [(&PROC_DIRS[..], EMPTY_DIR), (&PROC_FILES[..], EMPTY_FILE)] {
        for path in covers {
            match rustix::mount::mount_bind(cover, *path) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(Failure::at(format!("cover {path}"))(error)),
            }
        }
    }
    Ok(())
}

/// Terminals that no other job sees.
pub(super) fn mount_terminals() -> Result<(), Failure> {
    let options = c"newinstance,ptmxmode=0666,mode=620";
    mount(c"devpts", c"/dev/pts", c"devpts", MountFlags::NOSUID | MountFlags::NOEXEC, Some(options))
        .map_err(Failure::at("mount /dev/pts"))
}

/// The views of the machine's tree that this room has and others have not.
struct Sources {
    visible: Vec<(PathBuf, OwnedFd)>,
    workspace: Option<OwnedFd>,
    /// The room's own directory on the machine, for an overlay.
    private: Option<OwnedFd>,
}

impl Sources {
    /// Those the zygote took hold of, else by the keeper's own rights.
    fn take(plan: &Plan, old: &OldRoot, held: Mounts) -> Result<Self, Failure> {
        let spec = &plan.spec;
        let open = |path: &Path| {
            let below = path.strip_prefix("/").unwrap_or(path);
            detach(&old.0, below).map_err(Failure::at(format!("open `{}`", path.display())))
        };
        let workspace = match (&spec.workspace, held.workspace) {
            (Some(workspace), None) => Some(open(&workspace.path)?),
            (_, held) => held,
        };
        let is_overlay = spec.workspace.as_ref().is_some_and(|workspace| workspace.mode == WorkspaceMode::Overlay);
        let private = match held.private {
            None if is_overlay => Some(open(&plan.private)?),
            held => held,
        };
        let visible = match held.visible.is_empty() {
            true => spec.visible.iter().map(|path| open(path)).collect::<Result<_, _>>()?,
            false => held.visible,
        };
        Ok(Self { visible: spec.visible.iter().cloned().zip(visible).collect(), workspace, private })
    }
}

/// Views of those that exist. A link stays a link: it is made anew in the room, and what it leads to is there or not.
fn present(paths: impl Iterator<Item = PathBuf>) -> Result<Vec<(PathBuf, OwnedFd)>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(&path, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => continue,
            opened => opened.map_err(Failure::at(format!("open `{}`", path.display())))?,
        };
        let is_link = rustix::fs::fstat(&opened).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink());
        let view = if is_link {
            opened
        } else {
            detach_opened(&opened).map_err(Failure::at(format!("view `{}`", path.display())))?
        };
        found.push((path, view));
    }
    Ok(found)
}

/// A tmpfs as the new root, with the old one in it until the room is finished.
fn enter_new_root() -> Result<OldRoot, Failure> {
    const STEP: &str = "enter the room's root";
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount(c"room", c"/tmp", c"tmpfs", flags, Some(c"size=4m,nr_inodes=4096,mode=755")).map_err(Failure::at(STEP))?;
    rustix::process::chdir("/tmp").map_err(Failure::at(STEP))?;
    // The kernel lets nobody mount a /proc who cannot see one already, so it is made while the machine's is in sight.
    // This one is the keeper's; every job covers it with its own.
    for dir in ["proc", ".old"] {
        fs::create_dir(dir).map_err(Failure::at(STEP))?;
    }
    mount(c"proc", c"proc", c"proc", PROC_FLAGS, None).map_err(Failure::at("mount /proc"))?;
    rustix::process::pivot_root(".", ".old").map_err(Failure::at(STEP))?;
    rustix::process::chdir("/").map_err(Failure::at(STEP))?;
    let old = rustix::fs::open(OLD_ROOT, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(Failure::at(STEP))?;
    Ok(OldRoot(old))
}

/// The directories and the few files that are the room's own.
fn furnish(Ids { uid, gid }: Ids) -> io::Result<()> {
    for dir in ["/dev", "/dev/pts", "/etc", "/home", "/run", "/tmp", "/var", EMPTY_DIR] {
        fs::create_dir(dir)?;
    }
    fs::DirBuilder::new().mode(0o000).create(SHUT_DIR)?;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o000).open(SHUT_FILE)?;
    for (path, text) in [
        (EMPTY_FILE, String::new()),
        ("/etc/passwd", format!("agent:x:{uid}:{gid}:agent:{HOME}:/bin/bash\n")),
        ("/etc/group", format!("agent:x:{gid}:\n")),
        ("/etc/hosts", "127.0.0.1 localhost room\n".into()),
        ("/etc/hostname", "room\n".into()),
        ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".into()),
        ("/etc/resolv.conf", String::new()),
        ("/etc/shells", "/bin/sh\n/bin/bash\n".into()),
    ] {
        fs::write(path, text)?;
    }
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/shm", "/tmp"),
        ("/var/tmp", "/tmp"),
        ("/etc/mtab", "/proc/self/mounts"),
    ] {
        symlink(target, link)?;
    }
    Ok(())
}

fn scratch(at: &str, bytes: u64, mode: &str) -> Result<(), Failure> {
    // A file a page, and some for directories.
    let inodes = (bytes / 4096).clamp(1024, 1 << 20);
    let options = std::ffi::CString::new(format!("size={bytes},nr_inodes={inodes},mode={mode}"))
        .map_err(|error| Failure::at(at)(io::Error::from(error)))?;
    mount(c"scratch", at, c"tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(options.as_c_str()))
        .map_err(Failure::at(format!("make {at}")))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dir,
    File,
    Link,
}

impl Kind {
    fn of(mount: &OwnedFd) -> Result<Self, Failure> {
        let stat = rustix::fs::fstat(mount).map_err(Failure::at("look at a mount"))?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Self::Dir,
            FileType::Symlink => Self::Link,
            _ => Self::File,
        })
    }
}

/// Puts a view at a path of the room, with these attributes.
fn attach(mount: &OwnedFd, at: &Path, attributes: u64, kind: Kind) -> Result<(), Failure> {
    let step = || format!("put `{}` into the room", at.display());
    if kind == Kind::Link {
        let target = rustix::fs::readlinkat(mount, c"", Vec::new()).map_err(Failure::at(step()))?;
        make_dir(at.parent().unwrap_or(Path::new("/"))).map_err(Failure::at(step()))?;
        let target = target.to_string_lossy().into_owned();
        return match symlink(target, at) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(Failure::at(step())(error)),
            _ => Ok(()),
        };
    }
    sys::set_mount_attributes(mount.as_fd(), attributes, true).map_err(Failure::at(step()))?;
    make_place(at, kind).map_err(Failure::at(step()))?;
    move_mount(mount, c"", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(Failure::at(step()))
}

/// Something to mount on: an empty directory or file, unless there is one.
fn make_place(at: &Path, kind: Kind) -> io::Result<()> {
    match kind {
        Kind::Dir => make_dir(at),
        Kind::File | Kind::Link => {
            make_dir(at.parent().unwrap_or(Path::new("/")))?;
            match fs::File::create_new(at) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(()),
            }
        }
    }
}

fn make_dir(at: &Path) -> io::Result<()> {
    fs::create_dir_all(at)
}

/// The workspace at its own path. Says whether every protected name is on a read-only mount.
fn put_workspace(
    workspace: &WorkspaceSpec,
    mount: &OwnedFd,
    private: Option<&OwnedFd>,
    spec: &RoomSpec,
) -> Result<bool, Failure> {
    let at = &workspace.path;
    match workspace.mode {
        WorkspaceMode::ReadOnly => attach(mount, at, READ_ONLY, Kind::Dir).map(|()| true),
        WorkspaceMode::ReadWrite => {
            attach(mount, at, READ_WRITE, Kind::Dir)?;
            protect(workspace, spec)
        }
        WorkspaceMode::Overlay => {
            attach(mount, at, READ_ONLY, Kind::Dir)?;
            let private = private.ok_or_else(|| Failure { step: "open the overlay".into(), errno: libc::ENOENT })?;
            overlay(at, private).map(|()| true)
        }
    }
}

/// Writes go to a directory of the room's own on the machine, where somebody looks at them later.
fn overlay(at: &Path, private: &OwnedFd) -> Result<(), Failure> {
    const STEP: &str = "lay the overlay over the workspace";
    const BESIDE: &str = "/.overlay";
    attach(private, Path::new(BESIDE), READ_WRITE, Kind::Dir)?;
    let context =
        rustix::mount::fsopen("overlay", rustix::mount::FsOpenFlags::FSOPEN_CLOEXEC).map_err(Failure::at(STEP))?;
    let set = |key: &str, value: &Path| {
        rustix::mount::fsconfig_set_string(context.as_fd(), key, value).map_err(Failure::at(format!("{STEP}: {key}")))
    };
    set("lowerdir", at)?;
    set("upperdir", &Path::new(BESIDE).join("upper"))?;
    set("workdir", &Path::new(BESIDE).join("work"))?;
    rustix::mount::fsconfig_set_flag(context.as_fd(), "userxattr").map_err(Failure::at(STEP))?;
    rustix::mount::fsconfig_create(context.as_fd()).map_err(Failure::at(STEP))?;
    let laid = rustix::mount::fsmount(
        context.as_fd(),
        rustix::mount::FsMountFlags::FSMOUNT_CLOEXEC,
        rustix::mount::MountAttrFlags::MOUNT_ATTR_NOSUID | rustix::mount::MountAttrFlags::MOUNT_ATTR_NODEV,
    )
    .map_err(Failure::at(STEP))?;
    move_mount(&laid, c"", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(Failure::at(STEP))?;
    // The room sees the sum, never the parts.
    unmount(BESIDE, UnmountFlags::DETACH).map_err(Failure::at(STEP))
}

/// Puts every protected name on a read-only mount of its own: it cannot be written, removed or moved. A directory above
/// it becomes a mount too, writable as it was: what is mounted on cannot be renamed away. Names that are not there were
/// made by the runtime before (`placeholder`). What is closed or hidden is covered later; the directories above it stay where they
/// are all the same, or it would be found under another name tomorrow.
fn protect(workspace: &WorkspaceSpec, spec: &RoomSpec) -> Result<bool, Failure> {
    let root = rustix::fs::open(&workspace.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(Failure::at("open the workspace in the room"))?;
    let names = || workspace.protected.iter().map(Path::new);
    let hidden = spec.hidden.iter().filter(|path| path.symlink_metadata().is_ok());
    let covered = spec.closed.iter().chain(hidden).filter_map(|path| path.strip_prefix(&workspace.path).ok());
    let above: BTreeSet<&Path> = names()
        .chain(covered)
        .flat_map(|name| name.ancestors().skip(1))
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    // In the order of their paths a directory comes before what is in it.
    for (path, attributes) in
        above.into_iter().map(|path| (path, READ_WRITE)).chain(names().map(|name| (name, READ_ONLY)))
    {
        pin(&root, path, attributes).map_err(Failure::at(format!("protect `{}`", path.display())))?;
    }
    Ok(names().all(|name| is_read_only(&workspace.path.join(name))))
}

/// Mounts a path of the workspace over itself.
fn pin(root: &OwnedFd, path: &Path, attributes: u64) -> io::Result<()> {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let here = rustix::fs::openat2(root, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), how)?;
    let view = detach_opened(&here)?;
    sys::set_mount_attributes(view.as_fd(), attributes, true)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(&view, c"", &here, c"", flags)?)
}

/// Covers a path with nothing, if it is in the room at all.
fn hide(path: &Path) -> io::Result<()> {
    cover(path, EMPTY_DIR, EMPTY_FILE)
}

/// Covers a path with what nobody can open, if it is in the room at all.
fn close(path: &Path) -> io::Result<()> {
    cover(path, SHUT_DIR, SHUT_FILE)
}

fn cover(path: &Path, dir: &str, file: &str) -> io::Result<()> {
    let clean = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    match fs::symlink_metadata(path) {
        Ok(found) if clean && found.is_dir() => Ok(rustix::mount::mount_bind(dir, path)?),
        Ok(found) if clean && !found.is_symlink() => Ok(rustix::mount::mount_bind(file, path)?),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::ELOOP)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
        Err(error) => Err(error),
    }
}
