//! Who is alive among the programs that share a state.
//!
//! Each has a file in `instances/`, named by a random id, and holds it locked as long as it lives. The kernel lets go of
//! the lock when the program ends, however it ends, so a file that can be locked belongs to nobody. An id without a file
//! belongs to nobody either.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use toolgate_contract::InstanceId;

use crate::{keys::hex, lock::Held};

/// The directory's name.
pub(super) const INSTANCES: &str = "instances";

/// The programs that share a state.
#[derive(Debug, Clone)]
pub(super) struct Instances(PathBuf);

/// One of them: this. It counts as gone when it is dropped.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) id: InstanceId,
    path: PathBuf,
    /// Locked. Closed on exec, so a program started by this one does not keep it alive.
    _file: File,
}

impl Instances {
    pub(super) fn of(dir: &Path) -> Self {
        Self(dir.join(INSTANCES))
    }

    /// Becomes one of them, and removes what the dead left. The lock keeps others from taking the new file for one of
    /// the dead before it is locked.
    pub(super) fn enter(&self, _held: &Held<'_>) -> io::Result<Instance> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        self.sweep()?;
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let id = InstanceId(hex(&bytes));
        let path = self.file(&id);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.try_lock()?;
        Ok(Instance { id, path, _file: file })
    }

    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "lock") && !is_locked(&path)? {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// Does the program with this id still run?
    pub(super) fn is_alive(&self, id: &InstanceId) -> io::Result<bool> {
        is_locked(&self.file(id))
    }

    fn file(&self, id: &InstanceId) -> PathBuf {
        self.0.join(format!("{id}.lock"))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Should this fail, the next one to enter removes it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Does somebody hold this file? To look, it is locked for others to look too, so two who look do not take each other
/// for its owner.
fn is_locked(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// One that left by itself in the meantime has removed its file.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
