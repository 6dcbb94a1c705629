//! What is heard of a call while it is under way: how far it is, and remarks of the server whose tool it is.
//!
//! The first handful of reports pass at once, then ten a second: what comes faster is folded into the last of them. None
//! comes after the answer, and each is further than the one before.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::model::{CustomNotification, ProgressNotificationParam, ProgressToken, ServerNotification};
use serde_json::json;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use toolgate_runtime::tools::{Listener, Progress, ProgressSink, Remark, Weight};

use crate::visit::Visit;

/// Reports that pass at once, and how long it takes until one more may.
const AT_ONCE: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);
/// Remarks that wait to be told. There is a bound on how many come at all; who does not take them misses some.
const UNTOLD: usize = 100;

/// What one call says, whoever listens at the moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reports(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    untold: Mutex<Untold>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Untold {
    steps: VecDeque<Progress>,
    remarks: VecDeque<Remark>,
}

impl Reports {
    /// Where a call reports to.
    pub(crate) fn sink(&self) -> ProgressSink {
        let reports = self.clone();
        Arc::new(move |progress| {
            let mut untold = reports.untold();
            if untold.steps.len() >= AT_ONCE as usize {
                untold.steps.pop_front();
            }
            untold.steps.push_back(progress);
            drop(untold);
            reports.0.more.notify_one();
        })
    }

    /// Where a call makes remarks, for who hears them from this weight on.
    pub(crate) fn listener(&self, least: Weight) -> Listener {
        let reports = self.clone();
        let hear = move |remark| {
            let mut untold = reports.untold();
            if untold.remarks.len() < UNTOLD {
                untold.remarks.push_back(remark);
            }
            drop(untold);
            reports.0.more.notify_one();
        };
        Listener { least, hear: Arc::new(hear) }
    }

    /// What the call says it is at. Of what it said since the last time only the last counts.
    pub(crate) async fn message(&self) -> String {
        loop {
            let said = {
                let mut untold = self.untold();
                untold.remarks.clear();
                untold.steps.drain(..).rev().find_map(|step| step.message)
            };
            match said {
                Some(message) => return message,
                None => self.0.more.notified().await,
            }
        }
    }

    fn untold(&self) -> MutexGuard<'_, Untold> {
        self.0.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that hears of a call.
pub(crate) struct Hearing<'a> {
    visit: &'a Visit,
    token: Option<ProgressToken>,
    said: f64,
    bucket: Bucket,
}

/// Something there is to tell.
#[derive(Debug, PartialEq)]
pub(crate) enum Due {
    Step(Progress),
    Remark(Remark),
}

impl<'a> Hearing<'a> {
    pub(crate) fn of(visit: &'a Visit) -> Self {
        let token = visit.progress_token();
        Self { visit, token, said: f64::NEG_INFINITY, bucket: Bucket::full(Instant::now()) }
    }

    /// What is to be told next, when it is time for it. Nothing is lost when the future is dropped.
    pub(crate) async fn due(&mut self, reports: &Reports) -> Due {
        loop {
            match self.now(reports, Instant::now()) {
                Ok(due) => return due,
                Err(Some(later)) => tokio::select! {
                    () = sleep_until(later) => {}
                    () = reports.0.more.notified() => {}
                },
                Err(None) => reports.0.more.notified().await,
            }
        }
    }

    /// What is to be told now, or when to look again where it is too early.
    fn now(&mut self, reports: &Reports, now: Instant) -> Result<Due, Option<Instant>> {
        let mut untold = reports.untold();
        if let Some(remark) = untold.remarks.pop_front() {
            return Ok(Due::Remark(remark));
        }
        if self.token.is_none() {
            untold.steps.clear();
        }
        if untold.steps.is_empty() {
            return Err(None);
        }
        match self.bucket.take(now) {
            Taken::One => {}
            // Whoever had to wait is told where it is now, and not where it was.
            Taken::Last => {
                let passed = untold.steps.len() - 1;
                untold.steps.drain(..passed);
            }
            Taken::None(later) => return Err(Some(later)),
        }
        untold.steps.pop_front().map(Due::Step).ok_or(None)
    }

    /// Tells it. When it returns it is written, or there is nobody to tell.
    pub(crate) async fn tell(&mut self, due: Due) {
        let Some(peer) = self.visit.peer() else { return };
        let cancel = self.visit.cancel.clone();
        let told = async {
            match (due, &self.token) {
                (Due::Step(progress), Some(token)) if progress.done.is_finite() && progress.done > self.said => {
                    self.said = progress.done;
                    let _ = peer.notify_progress(notification(token.clone(), progress)).await;
                }
                (Due::Step(_), _) => {}
                (Due::Remark(remark), _) => {
                    let _ = peer.send_notification(said(remark)).await;
                }
            }
        };
        // Where nobody wants the answer any more, nobody is told on the way to it.
        let _ = cancel.run_until_cancelled(told).await;
    }

    /// Tells what is left when the call has ended: its answer comes after it.
    pub(crate) async fn rest(&mut self, reports: &Reports) {
        while let Ok(due) = self.now(reports, Instant::now()) {
            self.tell(due).await;
        }
    }
}

/// How many reports may pass.
#[derive(Debug)]
struct Bucket {
    left: u32,
    /// When there is one more.
    next: Instant,
}

#[derive(Debug, PartialEq)]
enum Taken {
    One,
    /// It was the last, so somebody has to wait.
    Last,
    None(Instant),
}

impl Bucket {
    fn full(now: Instant) -> Self {
        Self { left: AT_ONCE, next: now + PAUSE }
    }

    fn take(&mut self, now: Instant) -> Taken {
        while self.left < AT_ONCE && self.next <= now {
            self.left += 1;
            self.next += PAUSE;
        }
        if self.left == AT_ONCE {
            self.next = now + PAUSE;
        }
        match self.left {
            0 => Taken::None(self.next),
            left => {
                self.left -= 1;
                if left == 1 { Taken::Last } else { Taken::One }
            }
        }
    }
}

fn notification(token: ProgressToken, progress: Progress) -> ProgressNotificationParam {
    let mut notification = ProgressNotificationParam::new(token, progress.done);
    notification.total = progress.total.filter(|total| total.is_finite());
    notification.message = progress.message;
    notification
}

/// A remark as the protocol has it. The SDK has a type for it that it is about to drop.
fn said(remark: Remark) -> ServerNotification {
    let Remark { weight, logger, data } = remark;
    let mut params = json!({ "level": weight, "data": data });
    if let Some(logger) = logger {
        params["logger"] = json!(logger);
    }
    ServerNotification::CustomNotification(CustomNotification::new("notifications/message", Some(params)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handful_passes_at_once_and_ten_a_second_after_that() {
        let start = Instant::now();
        let mut bucket = Bucket::full(start);
        let mut taken = |at: Duration| (0..100).filter(|_| !matches!(bucket.take(start + at), Taken::None(_))).count();
        assert_eq!(taken(Duration::ZERO), 10);
        assert_eq!(taken(Duration::from_millis(99)), 0);
        assert_eq!(taken(Duration::from_millis(100)), 1);
        assert_eq!(taken(Duration::from_millis(400)), 3);
        assert_eq!(taken(Duration::from_secs(60)), 10);
    }
}
