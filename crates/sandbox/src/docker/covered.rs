//! What was covered in a container, and whether the machine still has there what was covered.
//!
//! A cover lies on a file, not on a name: whoever replaces the file on the machine takes the cover away with it, and a name
//! that was not there when the container was made has none. A container of which that is true is not used again.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::spec::RoomSpec;

/// What was at every path that is hidden or closed in a container, before it was made.
#[derive(Debug)]
pub(super) struct Covered(Vec<(PathBuf, Option<Mark>)>);

/// Tells a file from any other, also from one that was given its number later.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    device: u64,
    inode: u64,
    made: Option<SystemTime>,
}

impl Covered {
    /// Looks at the machine. Before anything is covered: what is replaced meanwhile is noticed.
    pub(super) fn look(spec: &RoomSpec) -> Self {
        let paths = spec.hidden.iter().chain(&spec.closed).filter(|path| spec.shows(path));
        Self(paths.map(|path| (path.clone(), mark(path))).collect())
    }

    /// Is all of it what it was?
    pub(super) fn is_unchanged(&self) -> bool {
        self.0.iter().all(|(path, before)| mark(path) == *before)
    }
}

fn mark(path: &Path) -> Option<Mark> {
    let found = fs::symlink_metadata(path).ok()?;
    Some(Mark { device: found.dev(), inode: found.ino(), made: found.created().ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_under_the_same_name_is_noticed() {
        let check = |change: &dyn Fn(&Path), expected: bool| {
            let dir = tempfile::tempdir().unwrap();
            let path = |name: &str| dir.path().join(name);
            ["there", "shut", "other"].iter().for_each(|name| fs::write(path(name), *name).unwrap());
            let elsewhere = tempfile::tempdir().unwrap();
            let spec = RoomSpec {
                visible: vec![dir.path().to_owned()],
                hidden: vec![path("there"), path("absent"), elsewhere.path().join("absent")],
                closed: vec![path("shut")],
                ..RoomSpec::bare()
            };
            let covered = Covered::look(&spec);
            fs::write(elsewhere.path().join("absent"), "not shown").unwrap();
            change(dir.path());
            assert_eq!(covered.is_unchanged(), expected);
        };
        check(&|_| {}, true);
        check(&|dir| fs::write(dir.join("there"), "more").unwrap(), true);
        check(&|dir| fs::write(dir.join("beside"), "more").unwrap(), true);
        check(&|dir| fs::rename(dir.join("other"), dir.join("there")).unwrap(), false);
        check(&|dir| fs::rename(dir.join("other"), dir.join("shut")).unwrap(), false);
        check(&|dir| fs::rename(dir.join("other"), dir.join("absent")).unwrap(), false);
        check(&|dir| fs::remove_file(dir.join("there")).unwrap(), false);
    }
}
