//! One config as text: read once, hashed once.

use std::{
    fs::{File, Metadata},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use toolgate_contract::Digest;

use super::{error::ConfigError, load::MAX_BYTES};

/// The text of one file.
#[derive(Debug)]
pub(super) struct Text {
    /// The file, as errors name it.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) sha256: Digest,
}

/// What to do when the last part of the path is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// The person who named the file knows what it is.
    Follow,
    /// The same, and what is read belongs to root alone.
    OfRoot,
    /// The file comes with somebody's project: a link could show any file of this machine in an error message.
    Refuse,
}

impl Text {
    /// A text that is in memory already.
    pub(super) fn new(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            path: PathBuf::from(name),
            text: text.to_owned(),
            sha256: Digest::of(text.as_bytes()),
        }
    }

    /// Reads a file; none where there is no such file.
    pub(super) fn open(path: &Path, links: Links) -> Result<Option<Self>, ConfigError> {
        let name = path.display().to_string();
        let bytes = match read(path, links) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if links == Links::OfRoot => {
                let message = format!("the administrator's config cannot be used: {error}");
                let remedy = "Make it a file of root that everybody may read and nobody else may write.";
                return Err(ConfigError::whole(name, message, remedy));
            }
            Err(error) => {
                let remedy = "Name a regular file of at most one mebibyte that you may read.";
                return Err(ConfigError::whole(name, format!("the config cannot be read: {error}"), remedy));
            }
        };
        let sha256 = Digest::of(&bytes);
        let Ok(text) = String::from_utf8(bytes) else {
            return Err(ConfigError::whole(name, "the config is not UTF-8 text", "Save it as UTF-8."));
        };
        Ok(Some(Self { name, path: path.to_owned(), text, sha256 }))
    }

    /// Reads a file that nobody but root can have written; none where there is no such file.
    pub(super) fn open_of_root(path: &Path) -> Result<Option<Self>, ConfigError> {
        let Some(text) = Self::open(path, Links::OfRoot)? else { return Ok(None) };
        // Whoever can write the directory can put another file in its place.
        let about = text.dir().metadata();
        match about.map_err(|error| error.to_string()).and_then(|about| of_root(&about)) {
            Ok(()) => Ok(Some(text)),
            Err(why) => {
                let message = format!("the administrator's config may be somebody else's: of its directory, {why}");
                Err(ConfigError::whole(text.name, message, "Give the directory to root, and let nobody else write it."))
            }
        }
    }

    /// The directory paths in this file are relative to.
    pub(super) fn dir(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }
}

/// Can nobody but root have written this?
fn of_root(about: &Metadata) -> Result<(), String> {
    if about.uid() != 0 {
        return Err(format!("user {} owns it, and not root", about.uid()));
    }
    match about.mode() & 0o022 {
        0 => Ok(()),
        _ => Err(format!("its mode is {:03o}, so others can write to it", about.mode() & 0o777)),
    }
}

fn read(path: &Path, links: Links) -> io::Result<Vec<u8>> {
    // Without NONBLOCK, opening a named pipe would wait for somebody to write into it.
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP) if links == Links::Refuse => {
            return Err(io::Error::other("it is a symbolic link"));
        }
        Err(errno) => return Err(errno.into()),
    };
    let found = file.metadata()?;
    // A room that is open on this project keeps the name of a missing file taken with an empty directory.
    if found.is_dir() && std::fs::read_dir(path)?.next().is_none() {
        return Err(io::ErrorKind::NotFound.into());
    }
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if links == Links::OfRoot {
        of_root(&found).map_err(io::Error::other)?;
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}
