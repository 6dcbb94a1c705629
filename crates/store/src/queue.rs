//! What waits to be written.
//!
//! Callers push, one writer takes all there is. A push wakes the writer only when it is the first since the last
//! take or when somebody waits for it: a stream of reads costs one wake-up per batch. Of those who wait, the first is kept a
//! moment where others came with them the last time: a commit costs little more for many than for one. Room is counted in
//! kilobytes, so that neither many small entries nor a few large ones fill the memory; a caller without room waits for it.

use std::{
    mem,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, oneshot};

use crate::{StoreError, draft::Draft};

/// How long an entry nobody waits for may wait for others to share its commit.
const GATHER: Duration = Duration::from_millis(20);

/// How long one that somebody waits for waits for as many as came together the last time.
const COMPANY: Duration = Duration::from_micros(500);

/// Kilobytes that may be queued.
const ROOM: u32 = 32 * 1024;

/// One entry to write.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) draft: Draft,
    /// The raw result, encrypted.
    pub(crate) sealed: Option<Vec<u8>>,
    /// It is the end of a call that took effect.
    pub(crate) after_effect: bool,
    ack: Option<oneshot::Sender<Result<(), StoreError>>>,
}

impl Job {
    pub(crate) fn new(draft: Draft, sealed: Option<Vec<u8>>, after_effect: bool) -> Self {
        Self { draft, sealed, after_effect, ack: None }
    }

    /// Tells whoever waits. True if somebody was told now.
    pub(crate) fn answer(&mut self, result: Result<(), StoreError>) -> bool {
        // A caller that went away needs no answer; what it asked for is written all the same.
        self.ack.take().map(|ack| ack.send(result)).is_some()
    }

    fn room(&self) -> u32 {
        let bytes = self.draft.len() + self.sealed.as_ref().map_or(0, Vec::len);
        u32::try_from(bytes / 1024 + 1).unwrap_or(ROOM).min(ROOM)
    }
}

/// Does the caller wait until its entry is durable?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Durable,
    Queued,
}

/// Why the writer wakes up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// There are jobs.
    Jobs,
    /// The time it asked for has come.
    Alarm,
    /// No more jobs will come than those taken now.
    Closed,
}

#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    news: Condvar,
    room: Semaphore,
}

#[derive(Debug)]
struct State {
    jobs: Vec<Job>,
    first_at: Instant,
    /// How many wait, and since when one does.
    waiting: usize,
    waits_since: Instant,
    /// How many waited together lately.
    together: usize,
    /// There is no room for more.
    hurry: bool,
    /// The last attempt to write failed.
    failing: bool,
    closed: bool,
}

impl State {
    /// How long the jobs may still wait for others; none where they are due.
    fn left(&self) -> Option<Duration> {
        let until = match self.waiting {
            _ if self.hurry || self.closed => return None,
            0 => self.first_at + GATHER,
            waiting if waiting < self.together => self.waits_since + COMPANY,
            _ => return None,
        };
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}

impl Queue {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let state = State {
            jobs: Vec::new(),
            first_at: now,
            waiting: 0,
            waits_since: now,
            together: 0,
            hurry: false,
            failing: false,
            closed: false,
        };
        Self { state: Mutex::new(state), news: Condvar::new(), room: Semaphore::new(ROOM as usize) }
    }

    /// Queues a job, and waits for it if asked to or if the last attempt to write failed.
    pub(crate) async fn submit(&self, job: Job, wait: Wait) -> Result<(), StoreError> {
        let room = job.room();
        let permit = match self.room.try_acquire_many(room) {
            Ok(permit) => permit,
            Err(_) => {
                self.hurry();
                self.room.acquire_many(room).await.map_err(|_| closed())?
            }
        };
        permit.forget();
        match self.push(job, wait)? {
            Some(answer) => answer.await.unwrap_or_else(|_| Err(closed())),
            None => Ok(()),
        }
    }

    fn push(&self, mut job: Job, wait: Wait) -> Result<Option<oneshot::Receiver<Result<(), StoreError>>>, StoreError> {
        let mut state = self.lock();
        if state.closed {
            return Err(closed());
        }
        let first = state.jobs.is_empty();
        if first {
            state.first_at = Instant::now();
        }
        let waits = wait == Wait::Durable || state.failing;
        let answer = waits.then(|| {
            let (ack, answer) = oneshot::channel();
            job.ack = Some(ack);
            answer
        });
        if waits {
            state.waiting += 1;
            if state.waiting == 1 {
                state.waits_since = Instant::now();
            }
        }
        state.jobs.push(job);
        let is_news = first || waits && (state.waiting == 1 || state.waiting == state.together);
        drop(state);
        if is_news {
            self.news.notify_one();
        }
        Ok(answer)
    }

    fn hurry(&self) {
        self.lock().hurry = true;
        self.news.notify_one();
    }

    /// Waits for jobs, or until `alarm`, and takes all there are.
    pub(crate) fn take(&self, batch: &mut Vec<Job>, alarm: Option<Instant>) -> Wake {
        let mut state = self.lock();
        while state.jobs.is_empty() && !state.closed {
            state = match alarm {
                None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(alarm) => match alarm.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => self.wait(state, left),
                    _ => return Wake::Alarm,
                },
            };
        }
        while let Some(left) = state.left() {
            state = self.wait(state, left);
        }
        mem::swap(&mut state.jobs, batch);
        state.hurry = false;
        state.together = state.waiting.max(state.together / 2);
        state.waiting = 0;
        let wake = if state.closed { Wake::Closed } else { Wake::Jobs };
        drop(state);
        // Callers fill the queue while the writer writes, so up to twice the room is in memory.
        self.room.add_permits(batch.iter().map(|job| job.room() as usize).sum());
        wake
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, left: Duration) -> MutexGuard<'a, State> {
        self.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
    }

    /// The writer is done with what it took.
    pub(crate) fn settled(&self, failing: bool) {
        self.lock().failing = failing;
    }

    /// No more jobs.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
        self.room.close();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn closed() -> StoreError {
    StoreError::unwritable("the store is closed")
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::future::{join_all, poll_immediate};

    use super::*;

    fn job(bytes: usize) -> Job {
        Job::new(Draft::opened(0, "key"), Some(vec![0; bytes]), false)
    }

    #[tokio::test]
    async fn a_caller_without_room_waits_until_there_is_some() {
        let queue = Queue::new();
        queue.submit(job(ROOM as usize * 1024 - 10_000), Wait::Queued).await.unwrap();
        let mut second = pin!(queue.submit(job(20_000), Wait::Queued));
        assert_eq!(poll_immediate(&mut second).await, None);
        let mut batch = Vec::new();
        assert_eq!(queue.take(&mut batch, None), Wake::Jobs);
        assert_eq!(batch.len(), 1);
        second.await.unwrap();
    }

    #[tokio::test]
    async fn one_job_larger_than_all_room_gets_it_all() {
        let queue = Queue::new();
        queue.submit(job(ROOM as usize * 2048), Wait::Queued).await.unwrap();
        assert_eq!(poll_immediate(pin!(queue.submit(job(1), Wait::Queued))).await, None);
    }

    #[tokio::test]
    async fn a_caller_that_waits_hears_how_it_went() {
        let queue = Queue::new();
        let mut waiting = pin!(queue.submit(job(1), Wait::Durable));
        assert_eq!(poll_immediate(&mut waiting).await, None);
        let mut batch = Vec::new();
        assert_eq!(queue.take(&mut batch, None), Wake::Jobs);
        assert!(batch[0].answer(Err(closed())));
        assert_eq!(waiting.await, Err(closed()));
    }

    #[tokio::test]
    async fn while_writing_fails_everyone_waits() {
        let queue = Queue::new();
        queue.settled(true);
        assert_eq!(poll_immediate(pin!(queue.submit(job(1), Wait::Queued))).await, None);
        queue.settled(false);
        assert_eq!(queue.submit(job(1), Wait::Queued).await, Ok(()));
    }

    #[tokio::test]
    async fn a_writer_that_is_gone_leaves_nobody_waiting() {
        let queue = Queue::new();
        let mut waiting = pin!(queue.submit(job(1), Wait::Durable));
        assert_eq!(poll_immediate(&mut waiting).await, None);
        queue.close();
        let mut batch = Vec::new();
        assert_eq!(queue.take(&mut batch, None), Wake::Closed);
        drop(batch);
        assert_eq!(waiting.await, Err(closed()));
        assert_eq!(queue.submit(job(1), Wait::Queued).await, Err(closed()));
    }

    /// What the writer takes when so many wait, and how long that took.
    async fn taken(queue: &Queue, waiting: usize) -> (usize, Duration) {
        let (mut batch, since) = (Vec::new(), Instant::now());
        let submitted = (0..waiting).map(|_| queue.submit(job(1), Wait::Durable));
        let _ = poll_immediate(&mut join_all(submitted)).await;
        assert_eq!(queue.take(&mut batch, None), Wake::Jobs);
        (batch.len(), since.elapsed())
    }

    #[tokio::test]
    async fn the_first_of_many_is_kept_a_moment_for_the_others_and_a_lone_one_is_not() {
        let queue = Queue::new();
        assert_eq!(taken(&queue, 4).await.0, 4);
        let (alone, kept) = taken(&queue, 1).await;
        assert_eq!(alone, 1);
        assert!(kept >= COMPANY, "three came with it the last time: {kept:?}");
        // Who has seen nobody else for a while does not wait for them.
        for _ in 0..2 {
            taken(&queue, 1).await;
        }
        assert_eq!(queue.lock().together, 1);
        // When all who came together are there nobody else is waited for.
        taken(&queue, 4).await;
        let submitted = (0..4).map(|_| queue.submit(job(1), Wait::Durable));
        let _ = poll_immediate(&mut join_all(submitted)).await;
        assert_eq!(queue.lock().left(), None);
    }

    #[test]
    fn without_news_only_the_alarm_wakes_the_writer() {
        assert_eq!(Queue::new().take(&mut Vec::new(), Some(Instant::now())), Wake::Alarm);
    }
}
