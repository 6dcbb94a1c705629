//! What the machine tells a command while its room is at work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};

use crate::{problem::Problem, setup};

/// Signals that were caught, for as long as this is held.
pub(super) struct Signals {
    caught: Arc<Caught>,
    /// Held, not used: its threads do the listening.
    _executor: Executor,
}

#[derive(Default)]
struct Caught {
    /// The number of the one that asks to end; 0 for none.
    ends: AtomicU8,
    resized: AtomicBool,
}

struct Executor(Option<Runtime>);

impl Drop for Executor {
    fn drop(&mut self) {
        if let Some(executor) = self.0.take() {
            executor.shutdown_timeout(Duration::ZERO);
        }
    }
}

impl Signals {
    pub(super) fn listen() -> Result<Self, Problem> {
        let executor = setup::executor()?;
        let caught = Arc::new(Caught::default());
        let _entered = executor.enter();
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()] {
            let (mut heard, caught) = (signal(kind)?, caught.clone());
            let number = u8::try_from(kind.as_raw_value()).unwrap_or(u8::MAX);
            executor.spawn(async move {
                while heard.recv().await.is_some() {
                    caught.ends.store(number, Ordering::Release);
                }
            });
        }
        let (mut heard, resizes) = (signal(SignalKind::window_change())?, caught.clone());
        executor.spawn(async move {
            while heard.recv().await.is_some() {
                resizes.resized.store(true, Ordering::Release);
            }
        });
        drop(_entered);
        Ok(Self { caught, _executor: Executor(Some(executor)) })
    }

    /// The signal that asks to end, if one came.
    pub(super) fn ends(&self) -> Option<u8> {
        Some(self.caught.ends.load(Ordering::Acquire)).filter(|number| *number != 0)
    }

    /// Has the terminal another size since this was last asked?
    pub(super) fn take_resized(&self) -> bool {
        self.caught.resized.swap(false, Ordering::AcqRel)
    }
}
