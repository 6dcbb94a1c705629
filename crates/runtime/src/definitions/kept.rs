//! `definitions.json`: the definitions a person has pinned, and those that are held back until one does.
//!
//! It is a file of the data directory, which no tool and no room can write. The whole definitions are in it, because a
//! hash alone could not say what changed, and because the person who looks sits at another process.

use std::{
    collections::BTreeMap,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

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
    pub(super) definition: Definition,
    /// The stable word for why it is held back.
    pub(super) why: String,
    /// What a person should know before they agree.
    pub(super) told: Vec<String>,
    pub(super) at: String,
}

/// Where it is kept; nowhere for a runtime without a data directory.
#[derive(Debug, Clone)]
pub(super) struct Place(pub(super) Option<PathBuf>);

/// Tells one state of the file from another: it is never written in place.
pub(super) type Stamp = Option<(u64, u64, i64, i64)>;

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
            return change(&mut Kept::default()).map(|answer| (answer, None));
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
        let about = self.0.as_ref()?.join(FILE).symlink_metadata().ok()?;
        Some((about.dev(), about.ino(), about.mtime(), about.mtime_nsec()))
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
