//! What a daemon mounts into a container is what it was meant to be.
//!
//! A daemon finds what it mounts by name, with all rights, and a program that may write in the workspace can make a name
//! lead elsewhere in that moment. So whoever asks for a mount says what it is, and the keeper looks before anything runs:
//! at every path there has to be a mount, and of this very file. If all are there, none of them is anywhere else.

use std::path::{Path, PathBuf};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx, StatxAttributes, StatxFlags, openat2, statx},
    io::{Errno, Result},
};
use serde::{Deserialize, Serialize};

use super::wire::Failure;

/// Something that is to be mounted at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bound {
    pub(super) path: PathBuf,
    device: (u32, u32),
    inode: u64,
}

impl Bound {
    /// What is at `source` now, to be mounted at `path`. In a path of ours links may lead on; in one that programs may have
    /// written to a link is an error.
    pub(crate) fn new(source: &Path, is_ours: bool, path: &Path) -> Result<Self> {
        let how = if is_ours { ResolveFlags::empty() } else { ResolveFlags::NO_SYMLINKS };
        Ok(Self::of(&look_at(source, how)?, path))
    }

    fn of(found: &Statx, path: &Path) -> Self {
        Self { path: path.to_owned(), device: (found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino }
    }

    /// Is it mounted where it belongs?
    pub(super) fn find(&self) -> std::result::Result<(), Failure> {
        let step = || format!("find `{}` mounted, which was replaced meanwhile", self.path.display());
        match self.is_mounted().map_err(Failure::at(step()))? {
            true => Ok(()),
            false => Err(Failure { step: step(), errno: libc::ESTALE }),
        }
    }

    /// Is it still there, or nothing at all? Whoever replaces a file on the machine takes what was mounted on it away.
    pub(super) fn holds(&self) -> bool {
        match self.is_mounted() {
            Ok(found) => found,
            Err(error) => matches!(error, Errno::NOENT | Errno::NOTDIR),
        }
    }

    fn is_mounted(&self) -> Result<bool> {
        match look_at(&self.path, ResolveFlags::NO_SYMLINKS) {
            Ok(found) => {
                Ok(Self::of(&found, &self.path) == *self && found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
            }
            Err(Errno::ACCESS) => Ok(is_shut_for_good(&self.path)),
            Err(error) => Err(error),
        }
    }
}

/// Is there a directory on the way that this user may not enter, and that is not theirs to open? Then what is below is out
/// of reach, whatever it is.
pub(super) fn is_shut_for_good(path: &Path) -> bool {
    let shut = path.ancestors().skip(1).find_map(|above| look_at(above, ResolveFlags::NO_SYMLINKS).ok());
    shut.is_some_and(|shut| shut.stx_uid != rustix::process::geteuid().as_raw())
}

fn look_at(path: &Path, how: ResolveFlags) -> Result<Statx> {
    let here = openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how)?;
    statx(&here, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn what_is_no_mount_or_another_is_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let (one, link) = (dir.path().join("one"), dir.path().join("link"));
        fs::create_dir(&one).unwrap();
        symlink(&one, &link).unwrap();
        let root = Bound::new(Path::new("/"), false, Path::new("/")).unwrap();
        assert!(root.find().is_ok(), "the root is a mount");
        let other = Bound::new(&one, false, Path::new("/")).unwrap();
        assert_eq!(other.find().unwrap_err().errno, libc::ESTALE, "another file");
        let unmounted = Bound::new(&one, false, &one).unwrap();
        assert_eq!(unmounted.find().unwrap_err().errno, libc::ESTALE, "itself, and no mount");
        assert_eq!(Bound::new(&link, false, &one), Err(Errno::LOOP));
        assert_eq!(Bound::new(&link, true, &one), Ok(unmounted.clone()));
        let replaced = Bound { path: link, ..unmounted };
        assert_eq!(replaced.find().unwrap_err().errno, libc::ELOOP, "a link where it was to be");
    }
}
