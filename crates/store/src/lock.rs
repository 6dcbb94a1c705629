//! One writer at a time, across processes.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::{StoreError, keys::open_private};

/// Longer than any commit should take. A process that was stopped while it held the lock must not hang the others
/// for good: they refuse calls instead.
const PATIENCE: Duration = Duration::from_secs(10);

/// `audit.lock`.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    file: File,
}

/// The lock is held as long as this lives.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a File);

impl Lock {
    pub(crate) fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("audit.lock");
        let file = open_private(&path).map_err(|error| StoreError::file(&path, error))?;
        Ok(Self { path, file })
    }

    /// Waits for the lock.
    pub(crate) fn hold(&self) -> Result<Held<'_>, StoreError> {
        let start = Instant::now();
        loop {
            match self.file.try_lock() {
                Ok(()) => return Ok(Held(&self.file)),
                Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => {
                    thread::sleep(Duration::from_micros(500));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::file(&self.path, "another process has held it for 10 s"));
                }
                Err(TryLockError::Error(error)) => return Err(StoreError::file(&self.path, error)),
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Should this fail, the lock is released with the file.
        let _ = self.0.unlock();
    }
}
