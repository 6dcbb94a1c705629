//! All calls on the road: none is left there when the runtime ends.

use std::time::Duration;

use futures_util::future::BoxFuture;
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
    /// The call, which is known to be on the road until it has ended. Closing the road cancels it.
    pub(crate) fn joined<T: Send + 'static>(
        &self,
        mut call: BoxFuture<'static, T>,
        cancel: CancellationToken,
    ) -> impl Future<Output = T> + Send + 'static {
        let closed = self.closed.clone();
        self.calls.track_future(async move {
            tokio::select! {
                biased;
                ended = &mut call => return ended,
                () = closed.cancelled() => cancel.cancel(),
            }
            call.await
        })
    }

    /// Sends a call down the road by itself: it goes to its end also where nobody waits for it.
    pub(crate) fn send<F>(&self, call: F, cancel: CancellationToken) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        tokio::spawn(self.joined(Box::pin(call), cancel))
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
