//! Protected names that are not there yet.
//!
//! A mount needs something to be mounted on, so a name that must not be created is made before the room is, and taken
//! away again when the room is gone. It is made as an empty directory, also where a file is meant: git does not see
//! empty directories, and nobody takes one for a config. Where a directory above it is missing too, that one is enough.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use crate::{
    room::RoomError,
    spec::{Wall, WorkspaceSpec},
};

/// What was put into a workspace. Dropping it takes away what is still as it was put there.
#[derive(Debug)]
pub(super) struct Placeholders {
    workspace: OwnedFd,
    put: Vec<Put>,
    /// The names to protect: as they were asked for, or the part of them that exists.
    pub(super) names: Vec<String>,
}

#[derive(Debug)]
struct Put {
    path: PathBuf,
    inode: u64,
}

impl Placeholders {
    pub(super) fn put(workspace: &WorkspaceSpec) -> Result<Self, RoomError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&workspace.path, flags, Mode::empty())
            .map_err(|error| RoomError::step("open the workspace")(error.into()))?;
        let mut placeholders = Self { workspace: root, put: Vec::new(), names: Vec::new() };
        for name in &workspace.protected {
            let kept = placeholders.keep(Path::new(name)).map_err(|error| refuse(name, &error))?;
            if !placeholders.names.contains(&kept) {
                placeholders.names.push(kept);
            }
        }
        Ok(placeholders)
    }

    /// Makes sure that there is something to protect, and says what.
    fn keep(&mut self, name: &Path) -> io::Result<String> {
        let mut at = PathBuf::new();
        for part in name.components() {
            at.push(part);
            match self.look(&at) {
                Ok(()) => {}
                Err(Errno::NOENT) => {
                    self.make(&at)?;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        at.into_os_string().into_string().map_err(|_| io::ErrorKind::InvalidInput.into())
    }

    fn look(&self, path: &Path) -> Result<(), Errno> {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat2(&self.workspace, path, flags, Mode::empty(), how)?;
        // A link that is itself the last part is opened, not followed; it could be replaced all the same.
        let is_link = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode).is_symlink();
        if is_link { Err(Errno::LOOP) } else { Ok(()) }
    }

    fn make(&mut self, path: &Path) -> io::Result<()> {
        rustix::fs::mkdirat(&self.workspace, path, Mode::from_raw_mode(0o755))?;
        // It belongs to whoever the workspace belongs to.
        let owner = rustix::fs::fstat(&self.workspace)?;
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = (rustix::fs::Uid::from_raw(owner.st_uid), rustix::fs::Gid::from_raw(owner.st_gid));
            rustix::fs::chownat(&self.workspace, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        let inode = rustix::fs::statat(&self.workspace, path, AtFlags::SYMLINK_NOFOLLOW)?.st_ino;
        self.put.push(Put { path: path.to_owned(), inode });
        Ok(())
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        for put in self.put.iter().rev() {
            let is_ours = rustix::fs::statat(&self.workspace, &put.path, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|found| found.st_ino == put.inode);
            if is_ours {
                // One that somebody has put something into is no longer a placeholder, and stays.
                let _ = rustix::fs::unlinkat(&self.workspace, &put.path, AtFlags::REMOVEDIR);
            }
        }
    }
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
