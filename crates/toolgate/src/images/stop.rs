//! A person who wants to stop: whatever is at work ends, cleans up, and says so.

use std::{
    fs::File,
    io::{self, Read},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};
use toolgate_contract::Fault;

use crate::{problem::Problem, setup};

/// Hears the signals that ask to end, for as long as one of its clones is held.
#[derive(Clone)]
pub(crate) struct Stop(Arc<Heard>);

struct Heard {
    wish: Arc<Wish>,
    executor: Option<Runtime>,
}

#[derive(Default)]
struct Wish {
    asked: AtomicBool,
    /// The processes that are at work for us.
    group: Mutex<Option<Pid>>,
}

impl Stop {
    pub(crate) fn listen() -> Result<Self, Problem> {
        let (executor, wish) = (setup::executor()?, Arc::new(Wish::default()));
        let entered = executor.enter();
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()] {
            let (mut heard, wish) = (signal(kind)?, wish.clone());
            executor.spawn(async move {
                while heard.recv().await.is_some() {
                    wish.ask();
                }
            });
        }
        drop(entered);
        Ok(Self(Arc::new(Heard { wish, executor: Some(executor) })))
    }

    pub(super) fn asked(&self) -> bool {
        self.0.wish.asked.load(Ordering::Acquire)
    }

    /// An error once a person wants to stop.
    pub(super) fn check(&self) -> io::Result<()> {
        // No `Interrupted`, which readers and writers take for a reason to try again.
        if self.asked() { Err(io::Error::other("a person wants to stop")) } else { Ok(()) }
    }

    /// A fault once a person wants to stop.
    pub(crate) fn or_go_on(&self) -> Result<(), Fault> {
        if self.asked() { Err(stopped()) } else { Ok(()) }
    }

    /// From now on these processes are told to end too; none forgets them.
    pub(super) fn tell(&self, group: Option<Pid>) {
        *self.0.wish.group.lock().unwrap_or_else(PoisonError::into_inner) = group;
        if self.asked() {
            self.0.wish.end_group();
        }
    }
}

impl Wish {
    fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.end_group();
    }

    fn end_group(&self) {
        if let Some(group) = *self.group.lock().unwrap_or_else(PoisonError::into_inner) {
            // Those that have ended already are what was wanted.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
}

/// A file that ends with an error once a person wants to stop.
pub(super) struct Watched {
    pub(super) file: File,
    pub(super) stop: Stop,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check()?;
        self.file.read(buffer)
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        if let Some(executor) = self.executor.take() {
            executor.shutdown_timeout(Duration::ZERO);
        }
    }
}

pub(super) fn stopped() -> Fault {
    Fault::failed("image_stopped", "the image was not made: it was stopped", "Build it again.")
}
