//! A call whose caller wants to hear how far it is.

use std::{pin::pin, sync::Arc, time::Duration};

use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use toolgate_contract::{Call, Outcome};
use toolgate_runtime::{Runtime, Watch, tools::Progress};

/// Reports closer together than this are folded into the last of them.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes one call down the road and passes its progress on: always further than the last report, ten times a second at
/// most, and never after the answer.
pub(crate) async fn invoke(
    runtime: &Runtime,
    call: Call,
    context: &RequestContext<RoleServer>,
    token: ProgressToken,
    hold: Duration,
) -> Outcome {
    let (sender, mut reports) = watch::channel(None);
    let sink = move |progress| {
        sender.send_replace(Some(progress));
    };
    let watch = Watch { cancel: context.ct.clone(), progress: Some(Arc::new(sink)), hold, ..Watch::default() };
    let mut outcome = pin!(runtime.invoke(call, watch));
    let mut said = f64::NEG_INFINITY;
    let mut next = Instant::now();
    loop {
        tokio::select! {
            biased;
            outcome = &mut outcome => return outcome,
            Some(progress) = report(&mut reports, next) => {
                if progress.done.is_finite() && progress.done > said && !context.ct.is_cancelled() {
                    said = progress.done;
                    next = Instant::now() + PAUSE;
                    // The answer is not given before this is written. If it cannot be, there is nobody to tell.
                    let _ = context.peer.notify_progress(notification(token.clone(), progress)).await;
                }
            }
        }
    }
}

/// The latest report, not before `next`. None when there will be no more.
async fn report(reports: &mut watch::Receiver<Option<Progress>>, next: Instant) -> Option<Progress> {
    reports.changed().await.ok()?;
    sleep_until(next).await;
    reports.borrow_and_update().clone()
}

fn notification(token: ProgressToken, progress: Progress) -> ProgressNotificationParam {
    let mut notification = ProgressNotificationParam::new(token, progress.done);
    notification.total = progress.total.filter(|total| total.is_finite());
    notification.message = progress.message;
    notification
}
