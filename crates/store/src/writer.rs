//! The one thread that writes.
//!
//! It takes everything that is queued and commits it at once. It sleeps while there is no news: only entries it
//! could not write, and records without a checkpoint, make it wake up by itself.

use std::time::{Duration, Instant};

use crate::{
    StoreError,
    lock::Lock,
    log::Log,
    queue::{Job, Queue, Wake},
};

/// How long records may go without a checkpoint.
const SEAL_AFTER: Duration = Duration::from_secs(60);

/// How soon entries that could not be written are tried again when nobody calls.
const RETRY_AFTER: Duration = Duration::from_secs(1);

pub(crate) struct Writer {
    lock: Lock,
    log: Log,
    /// What could not be written yet.
    backlog: Vec<Job>,
    /// When to wake up without news.
    alarm: Option<Instant>,
}

impl Writer {
    pub(crate) fn new(lock: Lock, log: Log) -> Self {
        Self { lock, log, backlog: Vec::new(), alarm: None }
    }

    /// Writes until the queue is closed, then says whether everything was written.
    pub(crate) fn run(mut self, queue: &Queue) -> Result<(), StoreError> {
        let mut batch = Vec::new();
        loop {
            let wake = queue.take(&mut batch, self.alarm);
            self.backlog.append(&mut batch);
            let written = self.write();
            queue.settled(written.is_err());
            match wake {
                Wake::Closed => return written.and_then(|()| self.finish()),
                Wake::Alarm if written.is_ok() => self.seal(),
                Wake::Alarm | Wake::Jobs => {}
            }
        }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        if self.backlog.is_empty() {
            return Ok(());
        }
        let written = self.lock.hold().and_then(|held| self.log.append(&held, &self.backlog));
        match written {
            Ok(()) => {
                self.backlog.drain(..).for_each(|mut job| {
                    job.answer(Ok(()));
                });
                self.alarm.get_or_insert_with(|| Instant::now() + SEAL_AFTER);
                Ok(())
            }
            Err(error) => {
                let error = match error {
                    StoreError::Unwritable { .. } => error,
                    other => StoreError::unwritable(other),
                };
                tracing::error!(%error, entries = self.backlog.len(), "the log cannot be written");
                self.fail(&error);
                Err(error)
            }
        }
    }

    /// Tells everyone who waits, and keeps what must not be lost: entries nobody waits for any more because they
    /// were promised, and the ends of calls that took effect.
    fn fail(&mut self, error: &StoreError) {
        self.backlog.retain_mut(|job| !job.answer(Err(error.clone())) || job.after_effect);
        self.alarm = Some(Instant::now() + RETRY_AFTER);
    }

    fn seal(&mut self) {
        let sealed = self.lock.hold().and_then(|held| self.log.seal(&held));
        self.alarm = sealed.is_err().then(|| Instant::now() + SEAL_AFTER);
        if let Err(error) = sealed {
            tracing::error!(%error, "the log could not be sealed");
        }
    }

    fn finish(mut self) -> Result<(), StoreError> {
        let held = self.lock.hold()?;
        self.log.seal(&held)?;
        self.log.close(&held)
    }
}
