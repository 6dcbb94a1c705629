//! Word of a call that takes its time and says nothing itself.
//!
//! Programs, requests and most other tools do not know how far they are. Whoever waits for one is told once a second that it
//! is at work, and for how long: many clients take a call for dead that is silent.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep_until};
use toolgate_tools::{Hands, Progress, ProgressSink};

use crate::catalog::Entry;

/// How long a tool may say nothing.
const SILENCE: Duration = Duration::from_secs(1);

/// Speaks for a tool until it speaks itself.
pub(crate) struct Pulse(Option<Beat>);

struct Beat {
    sink: ProgressSink,
    spoke: Arc<AtomicBool>,
}

impl Pulse {
    /// Listens to what the tool reports. A tool of another server has somebody to speak for it, and another idea of how far
    /// it is.
    pub(crate) fn take(entry: &Entry, hands: &mut Hands) -> Self {
        let Some(sink) = hands.progress.take_if(|_| entry.origin.is_none()) else { return Self(None) };
        let spoke = Arc::new(AtomicBool::new(false));
        let (reports, speaks) = (sink.clone(), spoke.clone());
        hands.progress = Some(Arc::new(move |progress| {
            speaks.store(true, Ordering::Relaxed);
            reports(progress);
        }));
        Self(Some(Beat { sink, spoke }))
    }

    /// Says that the call is at work, for as long as it is awaited.
    pub(crate) async fn beat(&self) -> Infallible {
        let Some(Beat { sink, spoke }) = &self.0 else { return pending().await };
        let started = Instant::now();
        for second in 1_u32.. {
            sleep_until(started + SILENCE * second).await;
            if spoke.load(Ordering::Relaxed) {
                break;
            }
            sink(Progress { done: f64::from(second), total: None, message: Some(format!("at work for {second} s")) });
        }
        pending().await
    }
}
