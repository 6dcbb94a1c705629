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
    /// Why the last attempt to write failed.
    failure: Option<StoreError>,
    /// When to wake up without news.
    alarm: Option<Instant>,
}

impl Writer {
    pub(crate) fn new(lock: Lock, log: Log) -> Self {
        Self { lock, log, backlog: Vec::new(), failure: None, alarm: None }
    }

    /// Writes until the queue is closed, then says whether everything was written.
    pub(crate) fn run(mut self, queue: &Queue) -> Result<(), StoreError> {
        let mut batch = Vec::new();
        loop {
            let wake = queue.take(&mut batch, self.alarm);
            self.backlog.append(&mut batch);
            if !self.backlog.is_empty() {
                self.write();
                queue.settled(self.failure.is_some());
            } else if wake == Wake::Alarm {
                self.seal();
            }
            if wake == Wake::Closed {
                return self.finish();
            }
        }
    }

    fn write(&mut self) {
        match self.lock.hold().and_then(|held| self.log.append(&held, &self.backlog)) {
            Ok(()) => {
                for mut job in self.backlog.drain(..) {
                    job.answer(Ok(()));
                }
                if self.failure.take().is_some() || self.alarm.is_none() {
                    self.alarm = Some(Instant::now() + SEAL_AFTER);
                }
            }
            Err(error) => self.fail(match error {
                StoreError::Unwritable { .. } => error,
                other => StoreError::unwritable(other),
            }),
        }
    }

    /// Tells everyone who waits, and keeps what must not be lost: entries nobody waits for because they were
    /// promised, and the ends of calls that took effect.
    fn fail(&mut self, error: StoreError) {
        tracing::error!(%error, entries = self.backlog.len(), "the log cannot be written");
        self.backlog.retain_mut(|job| !job.answer(Err(error.clone())) || job.after_effect);
        self.alarm = (!self.backlog.is_empty()).then(|| Instant::now() + RETRY_AFTER);
        self.failure = Some(error);
    }

    fn seal(&mut self) {
        let sealed = self.lock.hold().and_then(|held| self.log.seal(&held));
        self.alarm = sealed.is_err().then(|| Instant::now() + SEAL_AFTER);
        if let Err(error) = sealed {
            tracing::error!(%error, "the log could not be sealed");
        }
    }

    fn finish(mut self) -> Result<(), StoreError> {
        if let (Some(error), false) = (self.failure, self.backlog.is_empty()) {
            return Err(error);
        }
        let held = self.lock.hold()?;
        self.log.seal(&held)?;
        self.log.close(&held)
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc, thread};

    use super::*;
    use crate::{Reader, draft::Draft, head::HeadFile, keys::Keys, queue::Wait};

    fn writer(dir: &Path) -> Writer {
        let lock = Lock::open(dir).unwrap();
        let held = lock.hold().unwrap();
        let keys = Keys::make(&held, dir).unwrap();
        HeadFile::make(&held, dir, &keys.signing).unwrap();
        let head = HeadFile::open(&held, dir, keys.signing.verifier()).unwrap();
        let log = Log::open(&held, dir, head, keys.signing).unwrap();
        drop(held);
        Writer::new(lock, log)
    }

    fn kinds(dir: &Path) -> Vec<String> {
        let lines = Reader::open(dir).unwrap().tail(100).unwrap();
        lines.iter().map(|line| line.body["kind"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn records_are_sealed_when_their_time_has_come() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Arc::new(Queue::new());
        let writer = Writer { alarm: Some(Instant::now()), ..writer(dir.path()) };
        let thread = thread::spawn({
            let queue = Arc::clone(&queue);
            move || writer.run(&queue)
        });
        while kinds(dir.path()) != ["opened", "checkpoint"] {
            thread::sleep(Duration::from_millis(1));
        }
        queue.close();
        thread.join().unwrap().unwrap();
        assert_eq!(kinds(dir.path()), ["opened", "checkpoint"]);
    }

    #[tokio::test]
    async fn news_set_the_alarm_and_a_seal_clears_it() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::new();
        let mut writer = writer(dir.path());
        let job = Job::new(Draft::opened(0, "key"), None, false);
        queue.submit(job, Wait::Queued).await.unwrap();
        assert_eq!(queue.take(&mut writer.backlog, None), Wake::Jobs);
        writer.write();
        assert!(writer.alarm.is_some());
        writer.seal();
        assert_eq!(writer.alarm, None);
    }
}
