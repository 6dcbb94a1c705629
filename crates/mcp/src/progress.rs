//! How far a call is, for whoever wants to hear it.

use std::{sync::Arc, time::Duration};

use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use toolgate_runtime::tools::{Progress, ProgressSink};

/// Reports closer together than this are folded into the last of them.
const PAUSE: Duration = Duration::from_millis(100);

/// The reports of one call, whoever listens at the moment.
#[derive(Debug)]
pub(crate) struct Reports {
    latest: watch::Receiver<Option<Progress>>,
    /// There is one that nobody was told.
    untold: bool,
}

/// Where a call reports to, and where that is read.
pub(crate) fn reports() -> (ProgressSink, Reports) {
    let (sender, latest) = watch::channel(None);
    let sink = move |progress| {
        sender.send_replace(Some(progress));
    };
    (Arc::new(sink), Reports { latest, untold: false })
}

/// A request that hears of the reports: each further than the last, ten times a second at most.
pub(crate) struct Hearing<'a> {
    context: &'a RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    said: f64,
    next: Instant,
}

impl<'a> Hearing<'a> {
    pub(crate) fn of(context: &'a RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self { context, token, said: f64::NEG_INFINITY, next: Instant::now() }
    }

    /// The latest report, when it is time for one. None when there will be no more, or when nobody wants them. Nothing is lost
    /// when the future is dropped.
    pub(crate) async fn due(&self, reports: &mut Reports) -> Option<Progress> {
        self.token.as_ref()?;
        if !reports.untold {
            reports.latest.changed().await.ok()?;
            reports.untold = true;
        }
        sleep_until(self.next).await;
        reports.untold = false;
        reports.latest.borrow_and_update().clone()
    }

    /// Tells it. When it returns it is written, or there is nobody to tell.
    pub(crate) async fn tell(&mut self, progress: Progress) {
        let Some(token) = &self.token else { return };
        if progress.done.is_finite() && progress.done > self.said && !self.context.ct.is_cancelled() {
            self.said = progress.done;
            self.next = Instant::now() + PAUSE;
            let _ = self.context.peer.notify_progress(notification(token.clone(), progress)).await;
        }
    }
}

fn notification(token: ProgressToken, progress: Progress) -> ProgressNotificationParam {
    let mut notification = ProgressNotificationParam::new(token, progress.done);
    notification.total = progress.total.filter(|total| total.is_finite());
    notification.message = progress.message;
    notification
}
