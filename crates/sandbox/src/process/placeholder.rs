//! Protected names that are not there yet.
//!
//! A mount needs something to be mounted on, so a name that must not be created is made before the room is, and taken
//! away again when the room is gone. It is made as an empty directory, also where a file is meant: git does not see
//! empty directories, and nobody takes one for a config. Where a directory above it is missing too, that one is enough.
//!
//! Rooms on one workspace share them. What is mounted in one room can be removed from outside, and the mount goes with
//! it: a placeholder that one room took away would be missing in the others. So every room that needs one holds a lock
//! on it, and the last one takes it away. A placeholder is told from a directory of the user's by its time, which the
//! first change in it sets to another.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{
        AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid, chownat,
        flock, fstat, futimens, mkdirat, openat2, unlinkat,
    },
    io::Errno,
};

use crate::{
    room::RoomError,
    spec::{Wall, WorkspaceSpec},
};

/// When every placeholder was last changed, in seconds since 1970.
const MARK: i64 = 981_173_106;
/// How long another room may take to put or take its own.
const PATIENCE: Duration = Duration::from_secs(5);

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What a room needs of them. Dropping it takes away those that no other room needs and nobody has changed.
#[derive(Debug)]
pub(crate) struct Placeholders {
    workspace: OwnedFd,
    held: Vec<Held>,
    /// The names to protect: as they were asked for, or the part of them that exists.
    pub(crate) names: Vec<String>,
}

#[derive(Debug)]
struct Held {
    path: PathBuf,
    /// Locked, together with others.
    dir: OwnedFd,
}

impl Placeholders {
    pub(crate) fn put(workspace: &WorkspaceSpec) -> Result<Self, RoomError> {
        let root = open_workspace(&workspace.path).map_err(RoomError::step("open the workspace"))?;
        let turn = take_turn(&root).map_err(RoomError::step("wait for another room on the workspace"))?;
        let mut placeholders = Self { workspace: root, held: Vec::new(), names: Vec::new() };
        for name in &workspace.protected {
            match placeholders.keep(Path::new(name)) {
                Ok(kept) if placeholders.names.contains(&kept) => {}
                Ok(kept) => placeholders.names.push(kept),
                Err(error) => {
                    // What was put so far is taken away, which takes a turn of its own.
                    drop(turn);
                    return Err(refuse(name, &error));
                }
            }
        }
        Ok(placeholders)
    }

    /// The placeholders, relative to the workspace, for whoever cleans up after a crash.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.held.iter().map(|held| held.path.clone()).collect()
    }

    /// Leaves them where they are: the room would not go.
    pub(crate) fn leave(mut self) {
        self.held.clear();
    }

    /// Makes sure that there is something to protect, and says what.
    fn keep(&mut self, name: &Path) -> io::Result<String> {
        let mut at = PathBuf::new();
        for part in name.components() {
            at.push(part);
            match look(&self.workspace, &at) {
                Ok(stat) if is_marked(&stat) => {
                    self.hold(&at)?;
                    break;
                }
                Ok(_) => {}
                Err(Errno::NOENT) => {
                    self.make(&at)?;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        at.into_os_string().into_string().map_err(|_| io::ErrorKind::InvalidInput.into())
    }

    fn make(&mut self, path: &Path) -> io::Result<()> {
        mkdirat(&self.workspace, path, Mode::from_raw_mode(0o755))?;
        let dir = self.hold(path)?;
        // It belongs to whoever the workspace belongs to.
        let owner = fstat(&self.workspace)?;
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
            chownat(&self.workspace, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        let mark = Timespec { tv_sec: MARK, tv_nsec: 0 };
        Ok(futimens(&self.held[dir].dir, &Timestamps { last_access: mark, last_modification: mark })?)
    }

    /// Shares in a placeholder, and says which of those held it is.
    fn hold(&mut self, path: &Path) -> io::Result<usize> {
        if let Some(known) = self.held.iter().position(|held| held.path == path) {
            return Ok(known);
        }
        let dir = openat2(&self.workspace, path, DIRECTORY, Mode::empty(), BENEATH)?;
        flock(&dir, FlockOperation::NonBlockingLockShared)?;
        self.held.push(Held { path: path.to_owned(), dir });
        Ok(self.held.len() - 1)
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        if self.held.is_empty() {
            return;
        }
        // Without a turn they stay, and the next room on the workspace finds and takes them.
        let Ok(_turn) = take_turn(&self.workspace) else { return };
        for held in self.held.drain(..).rev() {
            take_away(&self.workspace, &held.path, &held.dir);
        }
    }
}

/// Takes away what a room that died has left. Says whether there was something.
pub(crate) fn sweep(workspace: &Path, path: &Path) -> io::Result<bool> {
    let root = match open_workspace(workspace) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        root => root?,
    };
    let _turn = take_turn(&root)?;
    match openat2(&root, path, DIRECTORY, Mode::empty(), BENEATH) {
        Ok(dir) => Ok(take_away(&root, path, &dir)),
        // Gone, or something else by now.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes a placeholder, unless another room needs it or somebody has put something into it. Only in turn.
fn take_away(workspace: &OwnedFd, path: &Path, dir: &OwnedFd) -> bool {
    // The last who asks to be alone is. One who is refused has let go of their share.
    let is_alone = flock(dir, FlockOperation::NonBlockingLockExclusive).is_ok();
    let found = fstat(dir);
    let is_it = |stat: Stat| {
        look(workspace, path).is_ok_and(|there| (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino))
    };
    is_alone
        && found.is_ok_and(|stat| is_marked(&stat) && is_it(stat))
        && unlinkat(workspace, path, AtFlags::REMOVEDIR).is_ok()
}

fn open_workspace(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat2(rustix::fs::CWD, path, DIRECTORY, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

/// Nobody else puts or takes placeholders in this workspace as long as the turn is held.
fn take_turn(workspace: &OwnedFd) -> io::Result<OwnedFd> {
    // A description of its own: the lock goes with it.
    let turn = openat2(workspace, ".", DIRECTORY, Mode::empty(), BENEATH)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match flock(&turn, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            locked => return Ok(locked.map(|()| turn)?),
        }
    }
}

fn look(workspace: &OwnedFd, path: &Path) -> Result<Stat, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stat = fstat(openat2(workspace, path, flags, Mode::empty(), BENEATH)?)?;
    // A link that is itself the last part is opened, not followed; it could be replaced all the same.
    if FileType::from_raw_mode(stat.st_mode).is_symlink() { Err(Errno::LOOP) } else { Ok(stat) }
}

fn is_marked(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_dir() && stat.st_mtime == MARK
}

fn refuse(name: &str, error: &io::Error) -> RoomError {
    RoomError::TooWeak {
        backend: "process",
        wall: Wall::ProtectedNames,
        why: format!("`{name}` cannot be protected: {error}"),
        remedy: "Make it a plain file or directory, without links on the way to it, or use the workspace read-only."
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::spec::WorkspaceMode;

    const NAMES: [&str; 4] = [".git/config", ".git/hooks", "there/not", "toolgate.yaml"];

    fn workspace() -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("there")).unwrap();
        dir
    }

    fn put(dir: &TempDir) -> Placeholders {
        let protected = NAMES.map(str::to_owned).to_vec();
        let path = dir.path().canonicalize().unwrap();
        Placeholders::put(&WorkspaceSpec { path, mode: WorkspaceMode::ReadWrite, protected }).unwrap()
    }

    /// Every directory in the workspace.
    fn dirs(dir: &TempDir) -> Vec<String> {
        let mut found = Vec::new();
        let mut left = vec![dir.path().to_owned()];
        while let Some(at) = left.pop() {
            for entry in fs::read_dir(at).unwrap() {
                let path = entry.unwrap().path();
                found.push(path.strip_prefix(dir.path()).unwrap().display().to_string());
                left.extend(path.is_dir().then_some(path));
            }
        }
        found.sort();
        found
    }

    const PUT: [&str; 4] = [".git", "there", "there/not", "toolgate.yaml"];

    #[test]
    fn what_is_missing_is_put_and_taken_away_again() {
        let dir = workspace();
        let placeholders = put(&dir);
        assert_eq!(placeholders.names, [".git", "there/not", "toolgate.yaml"]);
        assert_eq!(dirs(&dir), PUT);
        drop(placeholders);
        assert_eq!(dirs(&dir), ["there"]);
    }

    #[test]
    fn the_last_of_two_rooms_takes_them_away() {
        for first_ends_first in [true, false] {
            let dir = workspace();
            let (first, second) = (put(&dir), put(&dir));
            assert_eq!(second.names, first.names);
            let (leaves, stays) = if first_ends_first { (first, second) } else { (second, first) };
            drop(leaves);
            assert_eq!(dirs(&dir), PUT, "another room still needs them");
            drop(stays);
            assert_eq!(dirs(&dir), ["there"]);
        }
    }

    #[test]
    fn what_somebody_has_used_meanwhile_stays() {
        let dir = workspace();
        let placeholders = put(&dir);
        fs::write(dir.path().join(".git/HEAD"), "ref").unwrap();
        fs::write(dir.path().join("there/not/x"), "").unwrap();
        fs::remove_file(dir.path().join("there/not/x")).unwrap();
        drop(placeholders);
        assert_eq!(dirs(&dir), [".git", ".git/HEAD", "there", "there/not"]);
    }

    #[test]
    fn what_a_dead_room_left_is_taken_by_a_sweep_or_by_the_next_room() {
        let dir = workspace();
        let path = dir.path().canonicalize().unwrap();
        put(&dir).leave();
        assert_eq!(dirs(&dir), PUT);
        drop(put(&dir));
        assert_eq!(dirs(&dir), ["there"]);

        let left = put(&dir);
        let paths = left.paths();
        left.leave();
        let living = put(&dir);
        assert!(paths.iter().all(|put| !sweep(&path, put).unwrap()), "a living room needs them");
        assert_eq!(dirs(&dir), PUT);
        living.leave();
        assert!(paths.iter().all(|put| sweep(&path, put).unwrap()));
        assert!(!sweep(&path, Path::new("there")).unwrap(), "a directory of the user's");
        assert_eq!(dirs(&dir), ["there"]);
        assert!(!sweep(&path.join("gone"), Path::new(".git")).unwrap());
    }

    #[test]
    fn many_rooms_at_once_leave_nothing_and_never_miss_one() {
        let dir = workspace();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let placeholders = put(&dir);
                        let there = ["toolgate.yaml", ".git", "there/not"].map(|name| dir.path().join(name).is_dir());
                        assert_eq!(there, [true; 3]);
                        drop(placeholders);
                    }
                });
            }
        });
        assert_eq!(dirs(&dir), ["there"]);
    }
}
