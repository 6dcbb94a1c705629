//! All calls on the road: none is left there when the runtime ends.

use std::{pin::pin, time::Duration};

use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long calls have to end once the road is closed. An effect under way gets five seconds to say what became of it.
const FAREWELL: Duration = Duration::from_secs(8);

/// The calls on the road.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    calls: TaskTracker,
    closed: CancellationToken,
}

impl Traffic {
    /// Sends a call down the road. It goes to its end also where nobody waits for it; closing the road cancels it.
    pub(crate) fn send<F>(&self, call: F, cancel: CancellationToken) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let closed = self.closed.clone();
        self.calls.spawn(async move {
            let mut call = pin!(call);
            tokio::select! {
                biased;
                ended = &mut call => return ended,
                () = closed.cancelled() => cancel.cancel(),
            }
            call.await
        })
    }

    /// Cancels every call, also those that come later, and waits until the ends of all are recorded. One that does not end
    /// in time is left to itself.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        self.calls.close();
        if tokio::time::timeout(FAREWELL, self.calls.wait()).await.is_err() {
            tracing::warn!(calls = self.calls.len(), "calls did not end in time");
        }
    }
}
