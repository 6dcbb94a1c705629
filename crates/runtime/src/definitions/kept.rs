//! `definitions.json`: the definitions a person has pinned, and those that are held back until one does.
//!
//! It is a file of the data directory, which no tool and no room can write. The whole definitions are in it, because a
//! hash alone could not say what changed, and because the person who looks sits at another process.

use std::{
    collections::BTreeMap,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{Mode, OFlags, Stat, fstat, lstat, open};
use serde::{Deserialize, Serialize};
use toolgate_contract::{Digest, Fault};
use toolgate_guard::definition::Definition;

use crate::secrets::{Exposure, Unread, lock, read_private, write_private};

const FILE: &str = "definitions.json";
const LOCK: &str = "definitions.lock";
/// More than any set of servers should have to say.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// What is kept, by origin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    pub(super) origins: BTreeMap<String, KeptOrigin>,
}

/// The tools of one origin, by the second half of their names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptOrigin {
    /// Something of it was pinned once: from then on nothing of it is a first sight.
    pub(super) settled: bool,
    pub(super) tools: BTreeMap<String, KeptTool>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptTool {
    pub(super) pinned: Option<Pin>,
    pub(super) held: Option<Seen>,
}

/// What a person agreed to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    pub(super) hash: Digest,
    pub(super) identity: String,
    pub(super) definition: Definition,
    pub(super) by: String,
    pub(super) at: String,
}

/// What was seen last and is not pinned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seen {
    pub(super) hash: Digest,
    pub(super) identity: String,
    /// None where it is too large to be kept.
    pub(super) definition: Option<Definition>,
    /// The stable word for why it is held back.
    pub(super) why: String,
    /// Why nobody can pin it, in one sentence; none where a person can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) barred: Option<String>,
    /// What a person should know before they agree.
    pub(super) told: Vec<String>,
    pub(super) at: String,
}

/// Where it is kept; nowhere for a runtime without a data directory.
#[derive(Debug, Clone)]
pub(super) struct Place(pub(super) Option<PathBuf>);

/// The file as it was at one moment; nothing where it was not there.
#[derive(Debug, Default)]
pub(crate) struct Stamp(Option<Held>);

/// A file that is held open, so that every call can see for little whether it is still the one.
#[derive(Debug)]
struct Held {
    file: OwnedFd,
    /// How often it has a name, and when it was last changed: whoever replaces a file, removes it, renames it or writes into
    /// it changes one of them.
    about: (u64, i64, i64),
    /// Which one it is, and when it was last seen in its place. There are file systems that tell whoever holds a file
    /// nothing of what became of it.
    name: (u64, u64),
    seen: Instant,
}

/// How often the place itself is looked at.
const GLANCE: Duration = Duration::from_millis(1);

impl Stamp {
    fn of(path: &Path) -> Self {
        let opened = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        Self(opened.ok().and_then(Held::of))
    }
}

impl Held {
    fn of(file: OwnedFd) -> Option<Self> {
        let stat = fstat(&file).ok()?;
        Some(Self { file, about: about(&stat), name: name(&stat), seen: Instant::now() })
    }

    fn is_untouched(&self) -> bool {
        fstat(&self.file).is_ok_and(|stat| about(&stat) == self.about)
    }

    fn is_in_place(&self, path: &Path) -> bool {
        lstat(path).is_ok_and(|stat| name(&stat) == self.name)
    }
}

#[expect(clippy::unnecessary_cast, reason = "its fields have other types on other machines")]
fn about(stat: &Stat) -> (u64, i64, i64) {
    (stat.st_nlink as u64, stat.st_ctime as i64, stat.st_ctime_nsec as i64)
}

#[expect(clippy::unnecessary_cast, reason = "its fields have other types on other machines")]
fn name(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

impl Place {
    pub(super) fn read(&self) -> Result<Kept, Fault> {
        match &self.0 {
            Some(dir) => read(dir),
            None => Ok(Kept::default()),
        }
    }

    /// One change at a time, written as a whole or not at all. A change that fails, or changes nothing, writes nothing.
    /// With the answer comes what the file was then.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Kept) -> Result<T, Fault>) -> Result<(T, Stamp), Fault> {
        let Some(dir) = &self.0 else {
            return change(&mut Kept::default()).map(|answer| (answer, Stamp::default()));
        };
        let _held = lock(dir, LOCK).map_err(|error| unwritable(dir, &error))?;
        let before = read(dir)?;
        let mut kept = before.clone();
        let answer = change(&mut kept)?;
        if kept != before {
            let bytes = serde_json::to_vec_pretty(&kept).map_err(|error| unwritable(dir, &error.into()))?;
            if bytes.len() > MOST_BYTES {
                return Err(unwritable(dir, &io::Error::other(format!("it would have {} bytes", bytes.len()))));
            }
            write_private(dir, FILE, &bytes).map_err(|error| unwritable(dir, &error))?;
        }
        Ok((answer, self.stamp()))
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.0.as_ref().map(|dir| Stamp::of(&dir.join(FILE))).unwrap_or_default()
    }

    /// Is the file still what it was?
    pub(super) fn is_still(&self, stamp: &mut Stamp) -> bool {
        let Some(dir) = &self.0 else { return true };
        let Some(held) = &mut stamp.0 else { return dir.join(FILE).symlink_metadata().is_err() };
        if held.seen.elapsed() >= GLANCE {
            if !held.is_in_place(&dir.join(FILE)) {
                return false;
            }
            held.seen = Instant::now();
        }
        held.is_untouched()
    }
}

fn read(dir: &Path) -> Result<Kept, Fault> {
    let place = dir.join(FILE);
    let bytes = match read_private(&place, Exposure::Readers, MOST_BYTES) {
        Ok(bytes) => bytes,
        Err(Unread::Missing) => return Ok(Kept::default()),
        Err(Unread::Exposed(why)) => return Err(unusable(&place, &format!("may be somebody else's: {why}"))),
        Err(Unread::Failed(error)) => return Err(unusable(&place, &format!("cannot be read: {error}"))),
    };
    serde_json::from_slice(&bytes).map_err(|error| unusable(&place, &format!("cannot be read: {error}")))
}

/// A list that cannot be trusted pins nothing.
fn unusable(place: &Path, why: &str) -> Fault {
    Fault::refused(
        "pins_unusable",
        format!("the list of pinned definitions `{}` {why}", place.display()),
        "Read it, then make it yours alone with `chown` and `chmod 600`; or remove it and pin your tools again.",
    )
}

fn unwritable(dir: &Path, error: &io::Error) -> Fault {
    Fault::failed(
        "pins_unwritable",
        format!("the list of pinned definitions in `{}` cannot be written: {error}", dir.display()),
        "Make the data directory writable for you, and try again.",
    )
}

#[cfg(test)]
mod tests {
    use std::{fs, thread::sleep, time::Duration};

    use super::*;

    #[test]
    fn whatever_is_done_to_the_file_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (place, path, other) =
            (Place(Some(dir.path().to_owned())), dir.path().join(FILE), dir.path().join("other"));
        let add = |name: &str| {
            let added = place.change(|kept| {
                kept.origins.insert(name.to_owned(), KeptOrigin::default());
                Ok(())
            });
            added.unwrap().1
        };
        // What whoever holds it sees, and what is seen in its place.
        let check = |what: &str, change: &dyn Fn(), in_place: bool| {
            let mut stamp = add(what);
            let seen = |stamp: &Stamp| stamp.0.as_ref().map(|held| (held.is_untouched(), held.is_in_place(&path)));
            assert_eq!((seen(&stamp), place.is_still(&mut stamp)), (Some((true, true)), true), "before: {what}");
            // Some file systems count time in ticks.
            sleep(Duration::from_millis(20));
            change();
            assert_eq!((seen(&stamp), place.is_still(&mut stamp)), (Some((false, in_place)), false), "{what}");
        };
        check("replaced", &|| drop(add("by somebody")), false);
        check("written into", &|| fs::write(&path, b"{\"origins\":{}}").unwrap(), true);
        check("renamed", &|| fs::rename(&path, &other).unwrap(), false);
        let link = || {
            fs::rename(&path, &other).unwrap();
            std::os::unix::fs::symlink(&other, &path).unwrap();
        };
        check("a link to it", &link, false);
        fs::remove_file(&path).unwrap();
        check("removed", &|| fs::remove_file(&path).unwrap(), false);

        // One that nobody touched, where another one stands by now: seen a little later.
        add("there");
        fs::write(&other, b"{}").unwrap();
        let mut elsewhere = Stamp::of(&other);
        sleep(GLANCE);
        assert!(!place.is_still(&mut elsewhere) && !place.is_still(&mut elsewhere));
        fs::remove_file(&path).unwrap();

        let mut nothing = Stamp::of(&path);
        assert!(place.is_still(&mut nothing));
        add("made");
        assert!(!place.is_still(&mut nothing));
        assert!(Place(None).is_still(&mut Stamp::default()));
    }
}
