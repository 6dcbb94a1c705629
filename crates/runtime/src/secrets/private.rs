//! Files of the data directory that are nobody else's.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{Mode, OFlags};
use zeroize::Zeroizing;

/// Longer than any change should take. A process that was stopped in the middle must not hang the others for good.
const PATIENCE: Duration = Duration::from_secs(10);

/// What others may not be able to do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposure {
    /// It is this user's alone.
    Nobody,
    /// Only this user can have written it.
    Readers,
    /// Its owner is this user or root, and its group may read it.
    Group,
}

/// Why a private file was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// There is none.
    Missing,
    /// Somebody else could have read or written it.
    Exposed(String),
    /// The system said no, or it is not what it should be.
    Failed(io::Error),
}

/// Reads a regular file of at most `most` bytes that nobody else can have meddled with.
pub(crate) fn read_private(path: &Path, exposure: Exposure, most: usize) -> Result<Zeroizing<Vec<u8>>, Unread> {
    // Without NONBLOCK, opening a named pipe would wait for somebody to write into it.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Err(Unread::Missing),
        Err(errno) => return Err(Unread::Failed(errno.into())),
    };
    let about = file.metadata().map_err(Unread::Failed)?;
    if !about.is_file() {
        return Err(Unread::Failed(io::Error::other("it is not a regular file")));
    }
    if let Some(why) = exposed(&about, exposure) {
        return Err(Unread::Exposed(why));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(most.min(usize::try_from(about.len()).unwrap_or(most)) + 1));
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(Unread::Failed)?;
    if bytes.len() > most {
        return Err(Unread::Failed(io::Error::other(format!("it has more than {most} bytes"))));
    }
    Ok(bytes)
}

/// Says how somebody else could have read or written a file, if they could.
fn exposed(about: &Metadata, exposure: Exposure) -> Option<String> {
    let (owner, us) = (about.uid(), rustix::process::geteuid().as_raw());
    let is_ours = owner == us || exposure == Exposure::Group && owner == 0;
    if !is_ours {
        return Some(format!("user {owner} owns it, and this is user {us}"));
    }
    let (closed, widest) = match exposure {
        Exposure::Nobody => (0o077, "600"),
        Exposure::Readers => (0o022, "644"),
        Exposure::Group => (0o027, "640"),
    };
    let mode = about.mode() & 0o777;
    (mode & closed != 0).then(|| format!("its mode is {mode:03o}, wider than {widest}"))
}

/// Puts a file of this user's alone in place: a reader sees the old one or the new one, also after a crash.
pub(crate) fn write_private(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    make_private(dir)?;
    let beside = dir.join(format!("{name}.{}.new", std::process::id()));
    // What is there under this name is a leftover, or a trap: it goes, and nothing is ever written through it.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, dir.join(name))
    });
    if written.is_err() {
        // The first error is the one worth telling.
        let _ = fs::remove_file(&beside);
    }
    written?;
    File::open(dir)?.sync_all()
}

/// Waits until nobody else holds this lock. It is held as long as the file is open.
pub(crate) fn lock(dir: &Path, name: &str) -> io::Result<File> {
    make_private(dir)?;
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.join(name))?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "another process has held the lock for 10 s"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Makes the data directory, if it is not there.
fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
